"""TIFF blocks, the container of EXIF, maker notes and most RAW files: directories of tagged values.

Files come from anywhere, so nothing in them is trusted: an offset or a count that leaves the block ends that entry,
a directory is entered once, and the work is bounded. Nothing here raises on bad bytes, and no value is copied that
does not lie in the file.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Buffer = bytes | mmap.mmap
MAGIC = (0x2A, 0x55, 0x4F52, 0x5352)  # TIFF; Panasonic RW2; Olympus ORF, two kinds
FORMATS = {1: "B", 2: "c", 3: "H", 4: "I", 5: "II", 6: "b", 7: "c", 8: "h", 9: "i", 10: "ii", 11: "f", 12: "d", 13: "I"}
LARGEST_VALUE = 1 << 16  # bytes; no tag that is read here is longer
MOST_ENTRIES = 512  # in one directory
LONGEST_TEXT = 80


@dataclass(frozen=True)
class Entry:
    """One tagged value: where it lies in the block, not yet read."""

    tag: int
    kind: int
    count: int
    at: int  # from the start of the block
    size: int  # bytes


@dataclass(frozen=True)
class Block:
    """A stretch of a file with one byte order; all offsets count from `start`."""

    data: Buffer
    start: int
    size: int
    order: str  # "<" little endian, ">" big endian

    def numbers(self, form: str, at: int) -> tuple[Any, ...]:
        """Unpack at an offset; empty where the block is too short."""
        if at < 0 or at + struct.calcsize("=" + form) > self.size:
            return ()
        return struct.unpack_from(self.order + form, self.data, self.start + at)

    def bytes(self, at: int, size: int) -> bytes:
        """As many of `size` bytes as the block has there, and never more than any tag needs."""
        if at < 0 or at >= self.size:
            return b""
        size = max(0, min(size, self.size - at, LARGEST_VALUE))
        return bytes(self.data[self.start + at : self.start + at + size])

    def inner(self, at: int, size: int, order: str | None = None) -> Block:
        """A block within this one, with its own origin."""
        at = min(max(at, 0), self.size)
        return Block(self.data, self.start + at, max(0, min(size, self.size - at)), order or self.order)

    def directory(self, offset: int, moved_by: int = 0) -> Iterator[Entry]:
        """The entries of the directory at an offset that lie within the block, moved since its offsets were written."""
        for count in self.numbers("H", offset):
            for number in range(min(count, MOST_ENTRIES)):
                at = offset + 2 + 12 * number
                entry = self.numbers("HHI", at)
                if not entry:
                    return
                tag, kind, length = entry
                if kind not in FORMATS:
                    continue
                size = length * struct.calcsize("=" + FORMATS[kind])
                where = at + 8 if size <= 4 else next(iter(self.numbers("I", at + 8)), -1) + moved_by
                if length and 0 <= where <= self.size - size:
                    yield Entry(tag, kind, length, where, size)

    def following(self, offset: int) -> int:
        """Where the next directory of the chain lies; 0 for none."""
        count = next(iter(self.numbers("H", offset)), 0)
        return next(iter(self.numbers("I", offset + 2 + 12 * count)), 0)

    def value(self, entry: Entry) -> Any:
        """The entry as text, bytes, a number, or a tuple of numbers; None for what has no value.

        A rational with the denominator 0 is infinite, 0/0 (unknown) is None.
        """
        if entry.size > LARGEST_VALUE:
            return None
        if entry.kind == 2:
            return plain_text(self.bytes(entry.at, entry.size))
        if entry.kind == 7:
            return self.bytes(entry.at, entry.size)
        form = FORMATS[entry.kind]
        values = self.numbers(f"{entry.count * len(form)}{form[0]}", entry.at)
        if len(form) == 2:
            values = tuple(ratio(*pair) for pair in zip(values[::2], values[1::2], strict=True))
        if not values or any(isinstance(value, float) and math.isnan(value) for value in values):
            return None
        return values[0] if entry.count == 1 else values


def tiff_block(data: Buffer, start: int, size: int) -> tuple[Block, int] | None:
    """The block that begins with a TIFF header, and the offset of its first directory."""
    order = {b"II": "<", b"MM": ">"}.get(bytes(data[start : start + 2]))
    if order is None:
        return None
    block = Block(data, start, max(0, min(size, len(data) - start)), order)
    header = block.numbers("HI", 2)
    return (block, header[1]) if header and header[0] in MAGIC else None


def ratio(numerator: float, denominator: float) -> float:
    """Not a number for 0/0."""
    if denominator:
        return numerator / denominator
    return math.copysign(math.inf, numerator) if numerator else math.nan


def plain_text(raw: bytes) -> str:
    """Text up to its first zero byte, on one line, printable: it will be shown and written into files."""
    text = raw.split(b"\0")[0].decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * LONGEST_TEXT]).split())[:LONGEST_TEXT]
