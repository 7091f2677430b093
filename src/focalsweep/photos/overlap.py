"""What registered frames share: the part of the picture that all of them cover, and their exposure.

Transforms here are 3 x 3, from pixels (column, row, 1) of the reference to pixels of a frame.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from focalsweep.errors import InputError
from focalsweep.photos.registration import Array, Transform, gray_of, normal_coordinates

LEAST_AREA_PX = 16
OTHERWISE = 'use a tripod, or {align="none"}'
INTERPOLATION_PX = 1  # frames are not used closer to their border than this when they are resampled
EXPOSURE_PX = 128  # exposure is compared on pictures of this size, where defocus hardly counts


def corner_motion(transform: Transform, size: tuple[int, int]) -> float:
    height, width = size
    corners = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]], dtype=np.float64)
    return float(np.hypot(*(_mapped(transform, corners) - corners).T).max())


def _mapped(transform: Transform, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points, N 2 (column, row), through a transform."""
    x, y, w = transform @ np.column_stack([points, np.ones(len(points))]).T
    return np.column_stack([x / w, y / w])


def common_area(transforms: Transform, size: tuple[int, int]) -> tuple[slice, slice]:
    """The upright rectangle of the reference that every moved frame covers.

    Each side is put where the frames' borders cross the rectangle's own edges; the borders are almost upright, so a
    few rounds settle it.
    """
    height, width = size
    left, top, right, bottom = 0.0, 0.0, width - 1.0, height - 1.0
    m = INTERPOLATION_PX
    corners = np.array([[m, m], [width - 1 - m, m], [width - 1 - m, height - 1 - m], [m, height - 1 - m]], np.float64)
    quads = [_mapped(np.linalg.inv(transform), corners) for transform in transforms]
    for _ in range(10):
        across, down = (left, right), (top, bottom)
        sides = np.array([_sides(quad, across, down) for quad in quads]).reshape(-1, 4)
        left, top = max([0.0, *sides[:, 0]]), max([0.0, *sides[:, 1]])
        right, bottom = min([width - 1.0, *sides[:, 2]]), min([height - 1.0, *sides[:, 3]])
    rows = slice(math.ceil(top - 1e-6), math.floor(bottom + 1e-6) + 1)
    columns = slice(math.ceil(left - 1e-6), math.floor(right + 1e-6) + 1)
    if min(rows.stop - rows.start, columns.stop - columns.start) < LEAST_AREA_PX:
        raise InputError("the frames share too little of the view to be registered", field="align", remedy=OTHERWISE)
    return rows, columns


def _sides(
    quad: NDArray[np.float64], across: tuple[float, float], down: tuple[float, float]
) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the part of a quadrilateral that holds over the given columns and rows."""
    top_left, top_right, bottom_right, bottom_left = quad

    def column(start: NDArray[np.float64], end: NDArray[np.float64]) -> list[float]:
        return [start[0] + (row - start[1]) * (end[0] - start[0]) / (end[1] - start[1]) for row in down]

    def row(start: NDArray[np.float64], end: NDArray[np.float64]) -> list[float]:
        return [start[1] + (x - start[0]) * (end[1] - start[1]) / (end[0] - start[0]) for x in across]

    return (
        max(column(top_left, bottom_left)),
        max(row(top_left, top_right)),
        min(column(top_right, bottom_right)),
        min(row(bottom_left, bottom_right)),
    )


def exposure(frame: Array) -> Array:
    """A small gray picture in linear light; blown-out pixels are NaN, and so is every pixel they were averaged into."""
    import cv2

    gray = np.array(gray_of(frame))  # a copy: that of a gray picture is the picture
    for channel in range(frame.shape[-1]):
        gray[frame[..., channel] > 0.98] = np.nan
    scale = min(1.0, EXPOSURE_PX / max(gray.shape))
    size = (max(1, round(gray.shape[1] * scale)), max(1, round(gray.shape[0] * scale)))
    return np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA), np.float32)


def gain(reference: Array, frame: Array, transform: Transform, size: tuple[int, int]) -> float:
    """How much brighter the frame is: the median ratio of what both show."""
    import cv2

    level = (reference.shape[0], reference.shape[1])
    to_full = np.linalg.inv(normal_coordinates(size)) @ normal_coordinates(size, level)
    pixels = np.linalg.inv(to_full) @ transform @ to_full
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    warped = cv2.warpPerspective(frame, pixels, (level[1], level[0]), flags=flags, borderValue=float("nan"))
    both = np.isfinite(reference) & np.isfinite(warped) & (reference > 0.005) & (warped > 0.005)
    if both.sum() < 16:
        return 1.0
    return float(np.median(warped[both] / reference[both]))
