"""A disk that fails once, at any point that is asked for: a shim between Python and the system.

`python -m tests.faults` lets every write, fsync, rename, removal and creation of each scenario fail in each way, and
prints how many points there are and what was found afterwards.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

KINDS = ("killed", "disk full", "input/output error")
KILLED = 137
CALLS = ("fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "chmod")


class Shim:
    """Counts what reaches the disk; the operation number `at` goes wrong."""

    def __init__(self, at: int = -1, kind: str = "killed") -> None:
        self.at, self.kind, self.seen = at, kind, list[str]()

    def point(self, name: str, half: Callable[[], Any] = lambda: None) -> None:
        self.seen.append(name)
        if len(self.seen) - 1 != self.at:
            return
        if self.kind != "input/output error":
            half()
        if self.kind == "killed":
            os._exit(KILLED)
        code = errno.ENOSPC if self.kind == "disk full" else errno.EIO
        raise OSError(code, os.strerror(code))

    @contextmanager
    def between(self) -> Iterator[None]:
        """Everything of this process goes through it."""
        real_open, shim = io.open, self

        class Raw(io.FileIO):
            def write(self, data: Any, /) -> int:
                view = memoryview(data).cast("B")
                shim.point("write", lambda: io.FileIO.write(self, view[: len(view) // 2]))
                return io.FileIO.write(self, view)

        def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if not set("wax+") & set(mode):
                return real_open(file, mode, *rest, **named)
            if not isinstance(file, int):
                shim.point("open")
            raw = Raw(file, mode.replace("b", "").replace("t", ""))
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding=named.get("encoding"))

        def counted(name: str) -> Any:
            real = getattr(os, name)

            def call(*arguments: Any, **named: Any) -> Any:
                shim.point(name)
                return real(*arguments, **named)

            return call

        with patch.object(io, "open", opened), patch.object(builtins, "open", opened):
            patches = [patch.object(os, name, counted(name)) for name in CALLS]
            for one in patches:
                one.start()
            try:
                yield
            finally:
                for one in patches:
                    one.stop()


@dataclass(frozen=True)
class Scenario:
    """Something that replaces files.

    Args:
        prepare: fills a folder with the older files, and a stranger's.
        act: replaces them.
        mend: what the next run begins with.
    """

    prepare: Callable[[Path], Any]
    act: Callable[[Path], Any]
    mend: Callable[[Path], Any]


@dataclass
class Report:
    points: int = 0
    runs: int = 0
    found: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


Contents = dict[str, bytes]


def contents(folder: Path) -> Contents:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def visible(files: Contents) -> Contents:
    return {name: data for name, data in files.items() if not any(part[0] == "." for part in Path(name).parts)}


def inject_everywhere(scenario: Scenario) -> Report:
    """Every point in every way: afterwards the folder holds the old files or the new ones, whole and nothing else."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        before, after = _contents_of(scenario, root / "before", False), _contents_of(scenario, root / "after", True)
        assert before != after
        report, work = Report(points=_count(scenario, root / "count")), root / "work"
        for kind in KINDS:
            for at in range(report.points):
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir()
                scenario.prepare(work)
                status = _in_child(lambda at=at, kind=kind: scenario.act(work), Shim(at, kind))  # type: ignore[misc]
                report.runs += 1
                where = f"{kind} at point {at}"
                left = contents(work)
                report.faults += [f"{where}: {fault}" for fault in _mixed(visible(left), before, after)]
                if status == 0 and left != after:
                    report.faults.append(f"{where}: said to be done, but the folder is not the new one")
                if status == 1 and left not in (before, after):
                    report.faults.append(f"{where}: refused, but left {sorted(set(left) ^ set(before))}")
                scenario.mend(work)
                whole = contents(work)
                if whole not in (before, after):
                    report.faults.append(f"{where}: after the next run {sorted(whole)}")
                result = "new" if whole == after else "old"
                said = {0: "done", 1: "refused"}.get(status, "killed")
                report.found[f"{said}, {result}"] = report.found.get(f"{said}, {result}", 0) + 1
        return report


def _mixed(left: Contents, before: Contents, after: Contents) -> list[str]:
    """Files of two runs side by side, or of neither."""
    old = {name for name, data in left.items() if before.get(name) == data and after.get(name) != data}
    new = {name for name, data in left.items() if after.get(name) == data and before.get(name) != data}
    neither = {name for name, data in left.items() if data not in (before.get(name), after.get(name))}
    lost = {name for name, data in before.items() if after.get(name) == data and left.get(name) != data}
    faults = [f"mixed {sorted(old)} and {sorted(new)}"] if old and new else []
    faults += [f"half a file: {sorted(neither)}"] if neither else []
    return faults + ([f"a stranger's file is lost: {sorted(lost)}"] if lost else [])


def _contents_of(scenario: Scenario, folder: Path, acted: bool) -> Contents:
    folder.mkdir()
    scenario.prepare(folder)
    if acted:
        scenario.act(folder)
    return contents(folder)


def _count(scenario: Scenario, folder: Path) -> int:
    folder.mkdir()
    scenario.prepare(folder)
    shim = Shim()
    with shim.between():
        scenario.act(folder)
    return len(shim.seen)


def _in_child(act: Callable[[], Any], shim: Shim) -> int:
    """0 done, 1 refused with an error of the system, 137 killed."""
    child = os.fork()
    if child == 0:
        try:
            with shim.between():
                act()
            os._exit(0)
        except OSError:
            os._exit(1)
        except BaseException as error:
            print(type(error), error, file=sys.stderr, flush=True)
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1, KILLED), f"exit status {status}"
    return status


def main() -> None:
    from tests.fault_scenarios import SCENARIOS

    print(f"{'scenario':30} points  kinds  runs  faults  found")
    for name, scenario in SCENARIOS.items():
        report = inject_everywhere(scenario)
        found = ", ".join(f"{what}: {count}" for what, count in sorted(report.found.items()))
        print(f"{name:30} {report.points:6} {len(KINDS):6} {report.runs:5} {len(report.faults):7}  {found}")
        for fault in report.faults[:20]:
            print("   ", fault)


if __name__ == "__main__":
    main()
