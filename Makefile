# Each target sets up what it needs: a virtual environment in .venv, then the job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint wheel fuzz bench clean

demo: $(VENV)/.ready  ## depth, error bar and sharp picture of the bundled stack, into out/demo
	$(BIN)/focalsweep demo -o out/demo

test: $(VENV)/.ready lint  ## lint, types, tests
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(VENV)/.ready  ## the product's wheel, built, and tried in a new environment that has nothing else
	FOCALSWEEP_EMPTY_VENV=1 $(BIN)/python -m pytest -s tests/e2e/test_wheel.py

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.ready  ## what strangers may send, FUZZ_SECONDS for each of nine targets; crashes go to fuzz/crashes
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'atheris>=3'
	$(BIN)/python -m fuzz.run $(FUZZ_SECONDS)

bench: $(VENV)/.ready  ## speed against the scikit-image pipeline and the bare transforms
	$(BIN)/focalsweep bench speed

# torch is installed by its exact version first: an open range would pull a CUDA build.
$(VENV)/.ready: pyproject.toml research/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "focalsweep needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]' -e research
	touch $@

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache
