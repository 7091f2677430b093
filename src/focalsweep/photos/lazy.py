"""Frames as a sequence of pictures that are read when they are asked for: memory holds one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalsweep.photos.sources import Frame, read_frames
from focalsweep.progress import Progress


class LazyPictures(Sequence[NDArray[np.float32]]):
    """Pixels H W C of each frame, in turn; going back reads from the start again."""

    def __init__(self, frames: list[Frame], progress: Progress | None = None) -> None:
        self._frames = frames
        self._progress = progress
        self._next = read_frames(frames)
        self._position = 0
        self._largest = 1.0
        self._floats = False
        self.size = (0, 0)  # H, W, once one is read

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: Any) -> Any:
        if index != self._position:
            self._next, self._position = read_frames(self._frames), 0
            while self._position < index:
                next(self._next)
                self._position += 1
        picture = next(self._next)
        self._position += 1
        self.size = (picture.pixels.shape[0], picture.pixels.shape[1])
        if self._progress:
            self._progress("aligning", self._position / len(self))
        self._floats = self._floats or picture.transfer.endswith("(float)")
        if self._floats:
            self._largest = max(self._largest, picture.largest)
        return picture.pixels

    def white(self) -> float:
        """The largest value of all frames where they are stored as floats and it passes 1; 1 for others."""
        while self._floats and self._position < len(self):
            self[self._position]
        return self._largest
