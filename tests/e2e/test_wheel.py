"""The wheel as a stranger gets it: without this checkout, without the research package, from another folder.

With FOCALSWEEP_EMPTY_VENV set (`make wheel`) it is installed by pip into a new, empty virtual environment, with what it
depends on: some minutes, and a network. Otherwise the interpreter is started without its `site` (-S), so that it sees
the wheel and what it depends on, and nothing of the environment that the tests run in.
"""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import focalsweep as fs
from focalsweep.version import commit
from tests.e2e.running import write_small_stack

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"focalsweep|_editable_impl", re.IGNORECASE)
EMPTY_VENV = "FOCALSWEEP_EMPTY_VENV"
LARGEST_WHEEL_MB = 36  # the paper's network is 28.8 of it
pytestmark = pytest.mark.slow

Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Python:
    """Runs Python with the wheel and its dependencies alone, in a folder of its own."""
    place = tmp_path_factory.mktemp("place")
    program, environment = in_an_empty_venv(wheel, place) if os.environ.get(EMPTY_VENV) else beside(wheel, place)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*program, *map(str, arguments)]
        return subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)

    where = run("-c", "import focalsweep, pathlib; print(pathlib.Path(focalsweep.__file__).parents[1])")
    assert Path(where.stdout.strip()).is_relative_to(place), where
    return run


def in_an_empty_venv(wheel: Path, place: Path) -> tuple[list[str], dict[str, str]]:
    """Installed by pip as the README says, torch by its exact version first: an open range would pull a CUDA build."""
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    python = place / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    constraints = ROOT / "constraints.txt"
    (torch,) = (line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    for what in ([torch], ["-c", constraints, wheel]):
        subprocess.run([*install, *what], check=True, env=environment, cwd=place)
    return [str(python)], environment


def beside(wheel: Path, place: Path) -> tuple[list[str], dict[str, str]]:
    """Unpacked, with links to what this environment has of others."""
    installed, others = place / "installed", place / "dependencies"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    others.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not OURS.search(path.name):
            (others / path.name).symlink_to(path)
    environment = os.environ | {"PYTHONPATH": f"{installed}{os.pathsep}{others}", "OMP_NUM_THREADS": "1"}
    return [sys.executable, "-S"], environment


def test_it_has_the_product_and_no_research(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    rooms = {name.split("/")[1] for name in names if name.startswith("focalsweep/")}
    there = {path.name for path in (ROOT / "src/focalsweep").iterdir() if not path.name.startswith("__py")}
    assert rooms == there | ({"commit.txt"} if commit() else set())
    assert not [name for name in names if re.search("research|protocols|training|rivals|datasets|synthesis", name)]
    size_mb = wheel.stat().st_size / 1e6
    print(f"the wheel has {size_mb:.1f} MB")
    assert size_mb < LARGEST_WHEEL_MB


def test_demo_and_photos(python: Python, tmp_path: Path) -> None:
    shots = write_small_stack(tmp_path / "shots")
    done = python("-m", "focalsweep.cli.main", "demo", "-o", tmp_path / "demo", "--device", "cpu")
    assert done.returncode == 0 and "median error" in done.stdout, done
    print(done.stdout.splitlines()[-1])
    photos = Path(os.environ.get("FOCALSWEEP_REAL_STACKS", shots.parent)) / "pixel6pro_room"
    for folder in (shots, *([photos] if photos.is_dir() else [])):
        out = tmp_path / f"{folder.name}_out"
        done = python("-m", "focalsweep.cli.main", "depth", folder, "-o", out, "--device", "cpu")
        assert done.returncode == 0, done
        print(done.stderr.strip())
        with np.load(out / "depth.npz") as saved:
            assert np.isfinite(saved["depth"]).all()
    done = python("-m", "focalsweep.cli.main", "--version")
    known = f" ({commit()})" if commit() else ""
    assert done.stdout == f"focalsweep {fs.__version__}{known}\n", done
    done = python("-m", "focalsweep.cli.main", "--help")
    assert "depth" in done.stdout and "evaluate" not in done.stdout and "train" not in done.stdout


def test_snippets_of_the_readme(python: Python, tmp_path: Path) -> None:
    """All of them, one after the other, with `shots/` and `frames` as a reader would have them."""
    write_small_stack(tmp_path / "shots")
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(snippets) >= 2
    before = f"import os, warnings; os.chdir({str(tmp_path)!r}); warnings.simplefilter('error')\n"
    frames = 'import numpy; frames = numpy.random.default_rng(0).random((3, 3, 48, 64), dtype="float32")\n'
    script = tmp_path / "snippets.py"
    script.write_text(before + frames + "".join(snippets) + "print(result.unit, tuple(volume.shape))")
    done = python(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["m", "(64,", "48,", "64)"]
    assert (tmp_path / "out" / "depth.npz").is_file()
