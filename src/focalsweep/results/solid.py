"""A surface as a body to print: a relief on a plate, closed all around.

Seen from the front it looks like the photo. Where the scene has perspective its depth is drawn out in inverse depth,
as sculptors of reliefs do: proportions are true at the middle depth, and a landscape still fits on a plate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from focalsweep.results.result import Array
from focalsweep.results.surface import Surface

LONGER_SIDE_MM = 100.0
PLATE_MM = 2.0  # below the lowest place
HIGHEST_MM = 30.0  # above it
OUTLIERS = (0.001, 0.999)  # heights beyond these are cut off


@dataclass(frozen=True, eq=False)
class Solid:
    """A closed body in millimetres: x right, y up, z out of the picture, standing on z = 0."""

    points: Array  # N 3
    faces: npt.NDArray[np.uint32]  # M 3, counter-clockwise from outside
    squeezed: float  # heights are so many times lower than true; 1 is true


def solid_of(surface: Surface, size: tuple[int, int]) -> Solid:
    """Of a closed surface of a picture H W."""
    if not len(surface.border):
        raise ValueError("only a closed surface makes a body")
    space, relief = surface.space, surface.relief.astype(np.float64)
    low, high = np.quantile(relief, OUTLIERS)
    middle = (low + high) / 2
    mm = LONGER_SIDE_MM / max(size)  # a pixel
    heights = (np.clip(relief, low, high) - low) * float(space.pixels(middle)) * mm
    squeezed = max(1.0, float(heights.max()) / HIGHEST_MM)
    front = np.stack(
        [surface.across * mm, (size[0] - surface.down) * mm, heights / squeezed + PLATE_MM], -1
    )  # fmt: skip
    around = surface.border.astype(np.int64)
    back = front[around] * [1, 1, 0]
    centre = np.array([[size[1] * mm / 2, size[0] * mm / 2, 0]])
    number = len(front) + np.arange(len(around))
    after, below = np.roll(around, -1), np.roll(number, -1)
    walls = [np.stack([around, number, below], -1), np.stack([around, below, after], -1)]
    plate = np.stack([np.full_like(number, len(front) + len(around)), below, number], -1)
    faces = np.concatenate([surface.faces.astype(np.int64), *walls, plate])
    points = np.concatenate([front, back, centre]).astype(np.float32)
    return Solid(points, faces.astype(np.uint32), squeezed)
