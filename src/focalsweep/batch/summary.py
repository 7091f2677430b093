"""What a batch says: a line for every stack in results.csv (and results.parquet), and how it goes on meanwhile."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

from focalsweep.batch.one_stack import Row
from focalsweep.batch.stores import MARKER, Store

COLUMNS: dict[str, Callable[[str], Any]] = {
    "stack": str, "status": str, "frames": int, "width": int, "height": int,
    "unit": str, "near_m": float, "median_m": float, "far_m": float, "seconds": float, "message": str,
}  # fmt: skip
WRITE_EVERY = 10.0  # seconds at least, and less often where writing is slow
SAY_EVERY = 1.0  # seconds


class Summary:
    """Every stack once: those that have a result already, then each as its row comes in.

    Args:
        names: all stacks, in the order of the lines.
        results: the store that the files go to.
        kept: those of `names` that are left out because they are done; their figures come from the files of the
            earlier run.
        say: for people, a line at a time.
        note: the same for failures and for what they should know of a result.
    """

    def __init__(
        self,
        names: list[str],
        results: Store,
        kept: set[str],
        say: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self._names, self._results, self._say, self._note = names, results, say, note
        earlier = read_rows(results) if kept else {}
        self._rows = {name: _kept(name, earlier, results) for name in names if name in kept}
        self._todo = len(names) - len(self._rows)
        self._done = self.failed = 0
        self._began = self._said = self._written = time.monotonic()
        self._pause = WRITE_EVERY

    def add(self, row: Row) -> None:
        """A stack is finished, well or not."""
        name = row["stack"]
        if name in self._rows:
            return  # a worker that was given up for lost came in after all
        self._rows[name] = row
        self._done += 1
        for note in row.get("warnings", ()):
            self._note(f"{name}: {note}")
        if row["status"] == "failed":
            self.failed += 1
            self._note(f"{name}: {row['message']}")
        now = time.monotonic()
        if now - self._said >= SAY_EVERY or self._done in (1, self._todo):
            self._said = now
            self._say(self._line(row, now - self._began))
        if now - self._written >= self._pause:
            self.write()
            self._written = time.monotonic()
            self._pause = max(WRITE_EVERY, 20 * (self._written - now))

    def _line(self, row: Row, seconds: float) -> str:
        rate = self._done / max(seconds, 1e-9)
        left = (self._todo - self._done) / rate
        failed = f", {self.failed} failed" if self.failed else ""
        place = len(self._names) - self._todo + self._done
        return (
            f"{place} of {len(self._names)}: {row['stack']} {row['status']}; "
            f"{rate:.3g} stacks a second, {_duration(left)} left{failed}"
        )

    def write(self) -> None:
        """Both files with the lines that there are so far."""
        rows = [self._rows[name] for name in self._names if name in self._rows]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(COLUMNS), extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self._results.write("results.csv", text.getvalue().encode())
        if find_spec("pyarrow"):
            self._results.write("results.parquet", _parquet(rows))


def read_rows(results: Store) -> dict[str, Row]:
    """The lines of an earlier run by stack."""
    content = results.read("results.csv") or b""
    rows: Iterable[dict[str, str]] = csv.DictReader(io.StringIO(content.decode(), newline=""))
    return {
        row["stack"]: {name: kind(row[name]) for name, kind in COLUMNS.items() if row.get(name)}
        for row in rows
        if row.get("stack")
    }


def _kept(name: str, earlier: dict[str, Row], results: Store) -> Row:
    """The line of a result that is there; from its own record where the earlier run ended before it wrote the line."""
    row = earlier.get(name, {})
    if row.get("status") not in ("done", "kept"):
        record = json.loads(results.read(f"{name}/{MARKER}") or b"{}")
        row = record.get("summary", {})
    return row | {"stack": name, "status": "kept"}


def _parquet(rows: list[Row]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])  # type: ignore[index]
    table = pyarrow.Table.from_pylist([{name: row.get(name) for name in COLUMNS} for row in rows], schema)
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


def _duration(seconds: float) -> str:
    """How long, for people: 40 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
