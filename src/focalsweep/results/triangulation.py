"""Triangles over a grid, few where it is flat and many where it is not, without a crack between them.

Right triangles, each halved at the middle of its longest side where the grid bends there (Evans, Kirkpatrick and
Townsend, "Right-triangulated irregular networks", 2001). A point that one triangle needs its neighbour gets as well,
because the error of a point counts for all points that must be there before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]
Faces = npt.NDArray[np.int64]
Place = tuple[slice, slice]
OwnError = Callable[[Place, Any, Any, float], Any]
"""Of points in the middle of sides so many cells long, and the values at both ends: what is lost without them."""


def grid_size(length: int, cells: int, tile: int) -> int:
    """Points along a side of about so many cells: a whole number of tiles."""
    return max(1, round(min(cells, length) / tile)) * tile + 1


def point_errors(values: Values, own: OwnError, tile: int, forced: npt.NDArray[np.bool_] | None = None) -> Values:
    """What is lost at each point by leaving it out, or out of what it holds up; both sides are whole tiles and 1.

    Args:
        values: R C.
        own: of one point alone.
        tile: cells, a power of two: the side of the largest triangles.
        forced: points that must stay.
    """
    errors = np.zeros(values.shape, np.float32)
    if forced is not None:
        errors[forced] = np.inf
    step = 1
    while step < tile:
        two = 2 * step
        across, down = errors[0::two, step::two], errors[step::two, 0::two]
        ends = values[0::two, 0:-1:two], values[0::two, two::two]
        np.maximum(across, own(np.s_[0::two, step::two], *ends, two), out=across)
        ends = values[0:-1:two, 0::two], values[two::two, 0::two]
        np.maximum(down, own(np.s_[step::two, 0::two], *ends, two), out=down)
        if step > 1:
            centres = errors[step // 2 :: step, step // 2 :: step]
            pairs = np.maximum(centres[:, 0::2], centres[:, 1::2])
            np.maximum(across[1:], pairs[1::2], out=across[1:])
            np.maximum(across[:-1], pairs[0::2], out=across[:-1])
            pairs = np.maximum(centres[0::2], centres[1::2])
            np.maximum(down[:, 1:], pairs[:, 1::2], out=down[:, 1:])
            np.maximum(down[:, :-1], pairs[:, 0::2], out=down[:, :-1])
        corners = values[0::two, 0::two]
        centre = errors[step::two, step::two]
        falling = _falls(centre.shape)
        first = np.where(falling, corners[:-1, :-1], corners[:-1, 1:])
        last = np.where(falling, corners[1:, 1:], corners[1:, :-1])
        np.maximum(centre, own(np.s_[step::two, step::two], first, last, two * 2**0.5), out=centre)
        for side in (across[:-1], across[1:], down[:, :-1], down[:, 1:]):
            np.maximum(centre, side, out=centre)
        step = two
    return errors


def triangles(errors: Values, tile: int, tolerance: float, most: int) -> Faces:  # M 3
    """Indices into the flat grid, counter-clockwise as one sees it with rows downwards.

    Points whose error is above the tolerance are there, or the worst that `most` triangles have room for.
    """
    first, last, apex = _roots(errors.shape, tile)
    room = max(0, (most - len(first)) // 2)
    flat = errors.ravel()
    if room < np.count_nonzero(flat > tolerance):
        tolerance = max(tolerance, float(np.partition(flat, len(flat) - 1 - room)[len(flat) - 1 - room]))
    done = []
    for _ in range(2 * (tile.bit_length() - 1)):
        middle = (first + last) // 2
        split = flat[middle] > tolerance
        done.append(np.stack([first[~split], last[~split], apex[~split]], -1))
        first, last, apex, middle = first[split], last[split], apex[split], middle[split]
        first, last, apex = (
            np.concatenate([apex, last]),
            np.concatenate([first, apex]),
            np.concatenate([middle, middle]),
        )
    done.append(np.stack([first, last, apex], -1))
    return np.concatenate(done)


def border(shape: tuple[int, ...], faces: Faces) -> npt.NDArray[np.int64]:
    """The points of the triangles along the grid's edge, once around, in the sense of the triangles."""
    rows, columns = shape
    used = np.zeros(rows * columns, bool)
    used[faces] = True
    index = np.arange(rows * columns).reshape(rows, columns)
    around = np.concatenate([index[:-1, 0], index[-1, :-1], index[:0:-1, -1], index[0, :0:-1]])
    return np.asarray(around[used[around]])


def _falls(shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Whether the long side of a cell's triangles runs from its upper left corner to the lower right."""
    return np.asarray(np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 2 == 0)


def _roots(shape: tuple[int, ...], tile: int) -> tuple[Faces, Faces, Faces]:
    """Two triangles a tile: both ends of the long side, and the corner across."""
    index = np.arange(shape[0] * shape[1]).reshape(shape)[::tile, ::tile]
    top_left, top_right, low_left, low_right = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    falls = _falls(top_left.shape)
    first = [low_right[falls], top_left[falls], low_left[~falls], top_right[~falls]]
    last = [top_left[falls], low_right[falls], top_right[~falls], low_left[~falls]]
    apex = [low_left[falls], top_right[falls], top_left[~falls], low_right[~falls]]
    return np.concatenate(first), np.concatenate(last), np.concatenate(apex)
