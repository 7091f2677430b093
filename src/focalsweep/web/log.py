"""The log of a page that strangers may flood: so many lines a minute, each of bounded length."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

LINES_A_MINUTE = 60
LONGEST_LINE = 300


class BoundedLog(io.TextIOBase):
    """In front of a stream: what is too much is counted and left out."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._lock = threading.Lock()
        self._left, self._minute, self._hidden = LINES_A_MINUTE, clock(), 0
        self._part = ""

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._part = (self._part + text).split("\n")
            self._part = self._part[: 2 * LONGEST_LINE]
            for line in lines:
                self._write_line(line)
        return len(text)

    def _write_line(self, line: str) -> None:
        if self._clock() - self._minute >= 60:
            if self._hidden:
                self._stream.write(f"focalsweep: {self._hidden} more lines like these were left out\n")
            self._left, self._minute, self._hidden = LINES_A_MINUTE, self._clock(), 0
        if self._left == 0:
            self._hidden += 1
            return
        self._left -= 1
        shown = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."
        self._stream.write(f"{shown}\n")

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


@contextlib.contextmanager
def bounded_errors() -> Iterator[None]:
    """What this process writes to its standard error; it must come before whoever keeps that stream."""
    before = sys.stderr
    sys.stderr = BoundedLog(before)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before
