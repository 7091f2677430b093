"""The same file twice in one stack, under whatever names: refused before any pixel is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from focalsweep.errors import InputError
from focalsweep.photos.sources import Frame, read_frames

SAMPLE_BYTES = 2**16  # of the middle of a file, which differs between photos of one size
BLOCK_BYTES = 2**20


def refuse_copies(frames: Sequence[Frame]) -> None:
    """Raises where two of the files are the same, byte for byte."""
    by_size: dict[int, list[Frame]] = defaultdict(list)
    for frame in frames:
        if frame.page is None:
            by_size[frame.path.stat().st_size].append(frame)
    for size, alike in by_size.items():
        if len(alike) < 2:
            continue
        by_sample: dict[bytes, list[Frame]] = defaultdict(list)
        for frame in alike:
            by_sample[_sample(frame.path, size)].append(frame)
        for group in by_sample.values():
            for number, frame in enumerate(group):
                for earlier in group[:number]:
                    if _same(earlier.path, frame.path):
                        for _ in read_frames([earlier]):  # what is no photo at all is told first
                            pass
                        raise InputError(
                            "{first} and {second} are the same photo, byte for byte",
                            field="images", rule="one photo for each focus distance", value=frame.name,
                            first=earlier.name, second=frame.name, remedy="leave one of them out",
                        )  # fmt: skip


def _sample(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, (size - SAMPLE_BYTES) // 2))
        return file.read(SAMPLE_BYTES)


def _same(first: Path, second: Path) -> bool:
    with first.open("rb") as one, second.open("rb") as other:
        while block := one.read(BLOCK_BYTES):
            if block != other.read(BLOCK_BYTES):
                return False
    return True
