"""Whole runs of `depth` and `batch` on a disk that fails once.

`python -m tests.whole_runs [depth|batch] [EVERY]` tries every point in each way, or each so many; it takes an hour.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from focalsweep.cli.main import main as command_line
from focalsweep.results.folder import faults_of
from tests.e2e.running import write_small_stack
from tests.faults import KINDS, Shim

STACKS = ("a", "b", "c")
RESULT = {"depth.npz", "depth_mm.png", "depth.png", "all_in_focus.png", "run.json"}
STRANGER = "notes.txt"
DEPTH = ("--method", "argmin:planes=16", "--device", "cpu", "--no-sheet", "--quiet")


@dataclass
class Whole:
    points: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def run(arguments: Sequence[str | Path], shim: Shim | None = None) -> tuple[int, list[str]]:
    """The command line in a process of its own: its exit status, and what it did to the disk until then."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 70
        try:
            with open(os.devnull, "w") as nothing:  # noqa: PTH123
                for number in (1, 2):
                    os.dup2(nothing.fileno(), number)
            shim = shim or Shim()
            with patch.object(sys, "argv", ["focalsweep", *map(str, arguments)]), shim.between():
                command_line()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 70
        finally:
            os.write(writing, json.dumps(shim.seen if shim else []).encode())
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        seen = said.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(seen) if seen else []


def whole_results(out: Path) -> list[str]:
    """What is wrong with a result in a folder that a stranger's file lies in; nothing where there is none."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if not names - {STRANGER}:
        return []
    faults = faults_of(out)
    faults += [f"{out} holds {sorted(names)}"] if names - {STRANGER} != RESULT else []
    return faults


def depth_once(root: Path, shim: Shim | None = None) -> tuple[int, list[str]]:
    return run(["depth", root / "scans" / "a", "-o", root / "out", *DEPTH], shim)


def batch_once(root: Path, shim: Shim | None = None) -> tuple[int, list[str]]:
    return run(["batch", root / "scans", "-o", root / "out", "--resume", *DEPTH], shim)


def faults_of_depth(root: Path) -> list[str]:
    out = root / "out"
    lost = [] if (out / STRANGER).read_text() == "mine" else ["a stranger's file is lost"]
    return lost + whole_results(out)


def faults_of_batch(root: Path) -> list[str]:
    """Each stack has one whole result and one line; nothing else is there."""
    out = root / "out"
    with (out / "results.csv").open(newline="") as file:
        rows = [(row["stack"], row["status"]) for row in csv.DictReader(file)]
    faults = [] if sorted(name for name, _ in rows) == list(STACKS) else [f"results.csv has {rows}"]
    faults += [f"{name} was not done" for name, status in rows if status not in ("done", "kept", "resumed", "skipped")]
    names = {path.name for path in out.iterdir()} - {"results.csv", "results.parquet", STRANGER}
    faults += [f"left: {sorted(names)}"] if names != set(STACKS) else []
    return faults + [fault for name in STACKS for fault in whole_results(out / name) or _missing(out / name)]


def _missing(folder: Path) -> list[str]:
    return [] if folder.is_dir() else [f"{folder.name} is missing"]


Once = Callable[[Path, Shim | None], tuple[int, list[str]]]
COMMANDS: dict[str, tuple[Once, Callable[[Path], list[str]]]] = {
    "depth": (depth_once, faults_of_depth), "batch": (batch_once, faults_of_batch),
}  # fmt: skip


def prepare(root: Path, stacks: Sequence[str] = STACKS) -> None:
    for name in stacks:
        write_small_stack(root / "scans" / name)
    (root / "out").mkdir()
    (root / "out" / STRANGER).write_text("mine")


def inject(command: str, every: int = 1, *, in_turn: bool = False) -> Whole:
    """Faults at every point (or each so many): afterwards the same command must leave what it always leaves.

    `in_turn`: one of the kinds at each point, not all of them.
    """
    once, faults = COMMANDS[command]
    found = Whole()
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name) / "count")
        status, seen = once(Path(name) / "count", None)
        assert status == 0 and not faults(Path(name) / "count")
        found.points = len(seen)
        for number, at in enumerate(range(0, found.points, every)):
            for kind in KINDS[number % 3 : number % 3 + 1] if in_turn else KINDS:
                root = Path(name) / f"{kind}{at}"
                prepare(root)
                if command == "depth" and at % 2:  # over an older result, or into a new folder
                    once(root, None)
                status, _ = once(root, Shim(at, kind))
                where = f"{kind} at point {at} ({seen[at]})"
                left = faults_of_depth(root) if command == "depth" and not (root / "out/.focalsweep").exists() else []
                again, _ = once(root, None)
                after = faults(root)
                found.faults += [f"{where}: {fault}" for fault in [*left, *after]]
                found.faults += [f"{where}: then exit status {again}"] if again else []
                hidden = [path.name for path in (root / "out").rglob(".*")]
                found.faults += [f"{where}: left {hidden}"] if hidden else []
                found.runs[{0: "done", 137: "killed"}.get(status, "told")] += 1
    return found


def main() -> None:
    commands = sys.argv[1:2] or list(COMMANDS)
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print("command  points  kinds  runs  faults  found")
    for command in commands:
        found = inject(command, every)
        told = ", ".join(f"{what}: {count}" for what, count in sorted(found.runs.items()))
        print(
            f"{command:7} {found.points:7} {len(KINDS):6} {found.runs.total():5} {len(found.faults):7}  {told}",
            flush=True,
        )
        for fault in found.faults[:20]:
            print("   ", fault, flush=True)


if __name__ == "__main__":
    main()
