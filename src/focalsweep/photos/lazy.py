"""Frames as a sequence of pictures that are read when they are asked for: memory holds one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalsweep.photos.frames import reduced
from focalsweep.photos.registration import reduced_for_registration
from focalsweep.photos.sources import Frame, read_frames
from focalsweep.progress import Progress


@dataclass(eq=False)
class Copies:
    """Small copies of chosen frames, kept while all of them are read for something else.

    Args:
        chosen: their places in the stack.
        choose_scale: from the size of the photos, H W.
        scale: of the copies, once one is kept.
        pixels: by place; reduced ones in half precision, which is finer than 8 bits of sRGB.
    """

    chosen: Sequence[int]
    choose_scale: Callable[[tuple[int, int]], float]
    scale: float = 0.0
    pixels: dict[int, NDArray[np.floating[Any]]] = field(default_factory=dict)

    def keep(self, index: int, pixels: NDArray[np.float32], *, exactly: bool) -> None:
        """A copy of this frame, if it is a chosen one; `exactly` in the precision that it has."""
        if index in self.pixels or index not in self.chosen:
            return
        self.scale = self.scale or self.choose_scale((pixels.shape[0], pixels.shape[1]))
        copy = reduced(pixels, self.scale)
        self.pixels[index] = copy if exactly or self.scale == 1 else copy.astype(np.float16)

    def renumbered(self, kept: Sequence[int]) -> Copies:
        """Those of a stack that has the kept frames only."""
        pixels = {place: self.pixels[index] for place, index in enumerate(kept) if index in self.pixels}
        return Copies(list(pixels), self.choose_scale, self.scale, pixels)


class LazyPictures(Sequence[NDArray[np.float32]]):
    """Each frame in turn, H W C, no larger than registration needs; going back reads from the start again."""

    def __init__(self, frames: list[Frame], progress: Progress | None = None, copies: Copies | None = None) -> None:
        self._frames = frames
        self._progress = progress
        self._copies = copies
        self._next = read_frames(frames)
        self._position = 0
        self._first: NDArray[np.float32] | None = None
        self._size = (0, 0)
        self._largest = 1.0
        self._floats = False

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def size(self) -> tuple[int, int]:
        """H, W of the photos."""
        if not self._position:
            self._first = self._read()
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if index == 0 and self._first is not None:
            return self._first
        self._first = None
        if index != self._position:
            self._next, self._position = read_frames(self._frames), 0
            while self._position < index:
                next(self._next)
                self._position += 1
        return self._read()

    def _read(self) -> NDArray[np.float32]:
        picture = next(self._next)
        self._size = (picture.pixels.shape[0], picture.pixels.shape[1])
        self._floats = self._floats or picture.transfer.endswith("(float)")
        if self._floats:
            self._largest = max(self._largest, picture.largest)
        if self._copies:
            self._copies.keep(self._position, picture.pixels, exactly=self._floats)
        self._position += 1
        if self._progress:
            self._progress("aligning", self._position / len(self))
        return reduced_for_registration(picture.pixels)

    def read_all(self) -> None:
        """What is not read yet, for the copies."""
        while self._position < len(self):
            self._read()

    def white(self) -> float:
        """The largest value of all frames where they are stored as floats and it passes 1; 1 for others."""
        if self._floats:
            self.read_all()
        return self._largest
