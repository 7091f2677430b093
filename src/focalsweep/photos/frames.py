"""The frames of one stack at full size, one at a time: from files, or from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from focalsweep.progress import Progress
from focalsweep.types import FocalStack

Array = NDArray[np.float32]

Matters = Callable[[int], NDArray[np.bool_]]
"""The number of a frame -> where in the picture it matters, h w."""


class Small(NamedTuple):
    """A picture H W C, made small by exactly `scale`."""

    pixels: Array
    scale: float


class Frames(Protocol):
    """Registered frames, near to far in the order of the settings."""

    @property
    def settings(self) -> FocalStack:
        """The stack that they make, with everything but its pixels."""

    @property
    def size(self) -> tuple[int, int]:
        """H, W."""

    def pictures(self, progress: Progress | None = None, matters: Matters | None = None) -> Iterator[Array]:
        """H W C in linear light, one at a time; each call begins anew.

        Where a frame does not matter, by its number, it may be interpolated more simply.
        """

    def small(self, scale: float, chosen: Sequence[int], progress: Progress | None = None) -> Iterator[Small]:
        """The chosen frames, each made small, but not below `scale`; for what does not need them at full size."""


@dataclass(frozen=True, eq=False)
class FramesInMemory:
    """Those of an unbatched stack."""

    stack: FocalStack

    @property
    def settings(self) -> FocalStack:
        empty = torch.zeros(self.stack.frame_count, 1, 1, 1)
        return replace(self.stack, images=empty, principal_point=self._principal_point)

    @property
    def size(self) -> tuple[int, int]:
        return self.stack.size

    @property
    def _principal_point(self) -> tuple[float, float]:
        height, width = self.stack.size
        return self.stack.principal_point or (width / 2, height / 2)

    def pictures(self, progress: Progress | None = None, matters: Matters | None = None) -> Iterator[Array]:
        count = self.stack.frame_count
        for number, image in enumerate(self.stack.images.detach()):
            yield np.ascontiguousarray(image.movedim(0, -1).float().cpu().numpy())
            if progress:
                progress("reading", (number + 1) / count)

    def small(self, scale: float, chosen: Sequence[int], progress: Progress | None = None) -> Iterator[Small]:
        for number, index in enumerate(chosen):
            image = self.stack.images[index].detach()
            yield Small(np.ascontiguousarray(image.movedim(0, -1).float().cpu().numpy()), 1.0)
            if progress:
                progress("reading", (number + 1) / len(chosen))


def read_stack(
    frames: Frames,
    scale: float = 1.0,
    settings: FocalStack | None = None,
    progress: Progress | None = None,
    chosen: Sequence[int] | None = None,
) -> FocalStack:
    """The frames in memory, all or the chosen ones, resampled by `scale`; `settings`, theirs, in place of their own."""
    settings = settings or frames.settings
    if isinstance(frames, FramesInMemory) and scale == 1 and chosen is None:  # they stay on their device
        return replace(settings, images=frames.stack.images)
    images = torch.empty(0)
    chosen = range(settings.frame_count) if chosen is None else chosen
    for number, small in enumerate(frames.small(scale, chosen, progress)):  # each into its place: none is held twice
        image = torch.from_numpy(resized(small.pixels, scale / small.scale)).movedim(-1, 0)
        del small  # before the next one is read
        if number == 0:
            images = torch.empty((settings.frame_count, *image.shape))
        images[number] = image
    if scale == 1:
        return replace(settings, images=images)
    return replace(settings.with_resized(images, scale))  # checked anew


def reduced(pixels: Array, scale: float) -> Array:
    """Averaged over areas to exactly `scale` of its size, below 1: quick, for pictures that are resampled again."""
    import cv2

    if scale == 1:
        return pixels
    small = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32).reshape(*small.shape[:2], -1)


def fitted(pixels: Array, size: tuple[int, ...]) -> Array:
    """Averaged over areas to H W `size`, which is no larger."""
    import cv2

    small = cv2.resize(pixels, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.float32).reshape(*size, -1)


def resized(pixels: Array, scale: float) -> Array:
    """Resampled by exactly `scale` (below 1: averaged over areas), H W C."""
    if scale == 1:
        return pixels
    image = torch.from_numpy(pixels).movedim(-1, 0)[None]
    small = torch.nn.functional.interpolate(
        image, scale_factor=scale, mode="bilinear", antialias=scale < 1, align_corners=False
    )
    return np.ascontiguousarray(small[0].movedim(0, -1).numpy())
