"""The sharp picture from beside: pairs for stereo, anaglyphs, views that rock to and fro.

Every pixel moves sideways by its parallax, which is linear in inverse depth (in height for a stage). What is nearer
hides what is farther; what comes out from behind it nobody has seen, and is filled with what lies beside it, farther
back.
"""

from __future__ import annotations

import math

import numpy as np

from focalsweep.results.refocus import nearest_and_farthest, shrunk, sweep_relief
from focalsweep.results.result import Array, DepthResult
from focalsweep.results.surface import sharpened_edges

PARALLAX = 0.03  # of the picture's width between the eyes, from the nearest to the farthest: comfortable
LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def parallax_px(result: DepthResult, size_px: int | None = None, amount: float = PARALLAX) -> tuple[Array, Array]:
    """The sharp picture (H W C) and the parallax of its pixels between two eyes, about 0 in the middle of the range."""
    inverse, _ = sweep_relief(result)
    scale = 1.0 if size_px is None else min(1.0, size_px / max(inverse.shape))
    sharp = shrunk(np.clip(result.all_in_focus, 0, None), scale)
    inverse = sharpened_edges(shrunk(inverse, scale, sharply=True))
    near, far = nearest_and_farthest(inverse)
    share = (inverse - (near + far) / 2) / max(near - far, 1e-12)
    return sharp, np.asarray(np.clip(share, -0.75, 0.75) * amount * sharp.shape[1], np.float32)


def view(sharp: Array, parallax: Array, eye: float) -> Array:  # H W C
    """The picture from `eye` times the distance of two eyes to the right of its own place (left: negative)."""
    import cv2

    height, width = parallax.shape
    moves = -eye * parallax  # what is near moves against the eye
    columns = np.arange(width, dtype=np.float32)[None]
    source = np.full((height, width), np.nan, np.float32)
    for whole in sorted(range(math.floor(moves.min()), math.ceil(moves.max()) + 1), key=lambda m: -np.sign(eye) * m):
        # Farthest first, so that what is nearer comes over it; a place between two pixels is that of the nearer one.
        target = np.arange(width) - whole
        inside = (target >= 0) & (target < width)
        here = np.abs(moves[:, target[inside]] - whole) <= 0.75
        place = np.broadcast_to(columns[:, inside], here.shape) - moves[:, target[inside]]
        source[:, inside] = np.where(here, place, source[:, inside])
    source = _filled_from_behind(source, parallax)
    rows = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None], source.shape)
    picture = cv2.remap(
        sharp, source, np.ascontiguousarray(rows), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )  # fmt: skip
    return np.asarray(picture, np.float32).reshape(sharp.shape)


def stereo_pair(result: DepthResult, size_px: int | None = None, amount: float = PARALLAX) -> tuple[Array, Array]:
    """What the left eye sees and what the right one does, H W C each."""
    sharp, parallax = parallax_px(result, size_px, amount)
    return view(sharp, parallax, -0.5), view(sharp, parallax, 0.5)


def anaglyph(left: Array, right: Array) -> Array:  # H W 3
    """For glasses with red before the left eye: its brightness in red, the right one's green and blue."""
    left, right = (np.repeat(eye, 3 // eye.shape[-1], -1) for eye in (left, right))
    return np.concatenate([(left @ LUMA)[..., None], right[..., 1:]], -1).astype(np.float32)


def _filled_from_behind(source: Array, nearness: Array) -> Array:
    """Gaps of each row take the neighbour that lies farther back, and go on from there."""
    height, width = source.shape
    column = np.arange(width)
    known = np.isfinite(source)
    before = np.maximum.accumulate(np.where(known, column, -1), axis=1)
    after = np.minimum.accumulate(np.where(known, column, width)[:, ::-1], axis=1)[:, ::-1]
    row = np.arange(height)[:, None]
    from_before = np.where(before >= 0, source[row, np.clip(before, 0, None)], np.nan)
    from_after = np.where(after < width, source[row, np.clip(after, None, width - 1)], np.nan)

    def behind(place: Array) -> Array:
        at = np.clip(np.nan_to_num(np.rint(place)), 0, width - 1).astype(np.intp)
        return np.where(np.isfinite(place), nearness[row, at], np.inf)

    far_before, far_after = behind(from_before), behind(from_after)
    # What goes on behind the edge is mirrored at it: a stripe of one colour would be seen.
    left = from_before - (column - before)
    right = from_after + (after - column)
    filled = np.where(far_before <= far_after, left, right)
    return np.where(known, source, np.clip(np.nan_to_num(filled), 0, width - 1)).astype(np.float32)
