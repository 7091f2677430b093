"""One point whose distance is measured sets the scale of a depth map.

Where frames are focused at several distances it scales all lengths: the blur then grows as much faster as the distances
shrink, and the frames look the same. Where all have one focus (photos of two apertures) it says how fast blur grows.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalsweep.errors import InputError
from focalsweep.types import Camera, DepthGrid, FocalStack

Array = npt.NDArray[Any]
WINDOW = 200  # of the picture's longer side: half the window that is read around the point
LEAST_CONFIDENCE = 0.3
LEAST_SHARE = 0.2  # of the window's pixels, that must be so sure


@dataclass(frozen=True)
class KnownDistance:
    """Metres from the lens at a pixel, counted from the upper left corner of the sharp picture."""

    metres: float
    column: float
    row: float


@dataclass(frozen=True)
class Rescaling:
    """New inverse depth = offset + factor * inverse depth; and one standard error of the logarithm of `factor`."""

    offset: float
    factor: float
    error: float

    def depth_and_std(self, depth: Array, std: Array) -> tuple[Array, Array]:
        """Metres."""
        inverse = 1 / depth.astype(np.float64)
        moved = np.maximum(self.offset + self.factor * inverse, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth_m = 1 / moved
            own = std * np.square(depth_m * inverse) * self.factor
            wide = np.hypot(own, np.square(depth_m) * self.factor * np.abs(inverse - self._fixed) * self.error)
        wide = np.where(np.isfinite(depth_m), wide, std)
        return depth_m.astype(np.float32), wide.astype(np.float32)

    def inverse_depths(self, planes: Tensor) -> Tensor:
        """Of planes, or of focus."""
        return self.offset + self.factor * planes

    @property
    def _fixed(self) -> float:
        """The inverse depth that stays: that of the one focus, or infinity's."""
        return self.offset / (1 - self.factor) if self.factor != 1 else 0.0


def read_known_distance(text: str | None) -> KnownDistance | None:
    """Of "0.50@320,240"."""
    if text is None:
        return None
    number = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*"
    found = re.fullmatch(f"{number}@{number},{number}", text)
    if found is None or float(found[1]) <= 0:
        raise InputError(
            "{known_distance} must be {rule}, but is {value!r}",
            field="known_distance", rule="metres and a pixel, 0.50@320,240", value=text,
        )  # fmt: skip
    return KnownDistance(*map(float, found.groups()))


def check_known_distance(stack: FocalStack) -> None:
    """Raises where no scale can be set."""
    if stack.batched or not isinstance(stack.camera, Camera):
        what = "a batch of stacks" if stack.batched else "a stack without focus distances in metres"
        raise InputError(
            "{known_distance} sets the scale of metres, and this is {what}",
            field="known_distance", what=what, remedy="leave it out, or give {focus_distances}",
        )  # fmt: skip


def rescaling(known: KnownDistance, depth: Array, std: Array, confidence: Array, stack: FocalStack) -> Rescaling:
    """What brings the depth at the point to what was measured there."""
    height, width = depth.shape
    row, column = int(known.row), int(known.column)
    if not (0 <= row < height and 0 <= column < width):
        raise InputError(
            "{known_distance} is at {column}, {row}, but the sharp picture has {width} x {height} px",
            field="known_distance", value=known, column=column, row=row, width=width, height=height,
            remedy="give a pixel of all_in_focus.png, from its upper left corner",
        )  # fmt: skip
    reach = max(2, round(max(height, width) / WINDOW))
    near = (slice(max(row - reach, 0), row + reach + 1), slice(max(column - reach, 0), column + reach + 1))
    sure = (confidence[near] > LEAST_CONFIDENCE) & np.isfinite(depth[near])
    if sure.mean() < LEAST_SHARE:
        raise InputError(
            "the depth at {column}, {row} is not sure enough to set the scale by",
            field="known_distance", value=known, column=column, row=row, remedy="measure a point with texture",
        )  # fmt: skip
    inverse = 1 / float(np.median(depth[near][sure]))
    error = float(np.median((std[near] / depth[near])[sure]))
    focus = 1 / stack.focus_distances.detach()
    if float(focus.max()) > float(focus.min()):
        return Rescaling(0.0, 1 / (known.metres * inverse), error)
    one = float(focus.max())
    if (1 / known.metres - one) * (inverse - one) <= 0:
        raise InputError(
            "{known_distance} lies on the other side of the focus than the depth there, {depth:.3g} m",
            field="known_distance", value=known, depth=1 / inverse,
            remedy="measure a point well before or well behind the focus",
        )  # fmt: skip
    factor = (1 / known.metres - one) / (inverse - one)
    return Rescaling(one * (1 - factor), factor, error * inverse / max(abs(inverse - one), 1e-9))


def is_far_off(rescaled: Rescaling) -> bool:
    """Whether the settings and the measured distance disagree by more than settings are ever off."""
    return abs(math.log(rescaled.factor)) > math.log(1.5)


def rescaled_grid(planes: DepthGrid, by: Rescaling) -> DepthGrid:
    """No plane lies beyond infinity."""
    moved = by.inverse_depths(planes.inverse_depths)
    beyond = int((moved <= 0).sum())
    return DepthGrid(torch.cat([moved[: len(moved) - beyond], moved.new_zeros(min(beyond, 1))]))
