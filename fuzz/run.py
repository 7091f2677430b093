"""Fuzz targets with atheris, one after the other: `python -m fuzz.run SECONDS [TARGET ...]` (`make fuzz`).

What crashes is kept in fuzz/crashes/TARGET, where `tests/unit/test_fuzz.py` finds it; what was learned stays in
out/fuzz. atheris comes with `pip install 'focalsweep[fuzz]'`, for Linux and macOS.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
LEARNED = Path("out") / "fuzz"
MEMORY_MB, LONGEST_INPUT, SECONDS_AN_INPUT = 1024, 20_000, 20


def fuzz_one(target: str, options: list[str]) -> None:
    """In this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["focalsweep.photos", "focalsweep.web", "tifffile", "python_multipart"]):
        from fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *options], TARGETS[target])
    atheris.Fuzz()


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--one":
        fuzz_one(sys.argv[2], sys.argv[3:])
        return
    from fuzz import seeds
    from fuzz.targets import TARGETS

    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    seeds.write(LEARNED)
    print("target             seconds  executions  covered  crashes  peak MB", flush=True)
    crashed = 0
    for target in sys.argv[2:] or TARGETS:
        place = HERE / "crashes" / target
        place.mkdir(parents=True, exist_ok=True)
        before = set(place.iterdir())
        options = [f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", f"-timeout={SECONDS_AN_INPUT}"]
        options += [f"-max_len={LONGEST_INPUT}", f"-artifact_prefix={place}/", "-print_final_stats=1"]
        command = [sys.executable, "-m", "fuzz.run", "--one", target, *options, str(LEARNED / target)]
        began = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        found = len(set(place.iterdir()) - before)
        crashed += found
        (LEARNED / f"{target}.log").write_text(done.stdout)
        told = [
            _last(r"number_of_executed_units: (\d+)", done.stdout), _last(r"cov: (\d+)", done.stdout), str(found),
            _last(r"peak_rss_mb: (\d+)", done.stdout),
        ]  # fmt: skip
        print(
            f"{target:17} {time.monotonic() - began:8.0f} {told[0]:>11} {told[1]:>8} {told[2]:>8} {told[3]:>8}",
            flush=True,
        )
        if not before and not found:
            place.rmdir()
    sys.exit(1 if crashed else 0)


def _last(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    return found[-1] if found else "?"


if __name__ == "__main__":
    main()
