"""What a tile of a picture can see: it needs few rays where its blur is small, and tries only solids in reach."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep_research.synthesis.scenes import CARD, ELLIPSOID, EMPTY, SHEET, Scenes

TILE = (8, 16)  # rows, columns
MOST_SOLIDS = 63  # a bit each


def tile_count(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // TILE[0]), -(-size[1] // TILE[1])


def largest_blur_px(
    depth: Tensor,  # B H W, through a pinhole
    diameter_px: Tensor,  # B: focal_px times the aperture, the blur a dioptre
    inverse_focus: Tensor,  # B F
) -> Tensor:  # B F rows columns
    """The widest blur of what is in sight in a tile or next to it."""
    height, width = depth.shape[-2:]
    rows, columns = tile_count((height, width))
    spare = (0, columns * TILE[1] - width, 0, rows * TILE[0] - height)
    inverse = functional.pad((1 / depth)[:, None], spare, mode="replicate")
    ends = []
    for sign in (1, -1):
        tiles = functional.max_pool2d(sign * inverse, TILE)
        ends.append(sign * functional.max_pool2d(tiles, (5, 3), stride=1, padding=(2, 1)))
    focus = inverse_focus[:, :, None, None]
    return diameter_px[:, None, None, None] * torch.maximum((ends[0] - focus).abs(), (ends[1] - focus).abs())


def widest_sample(samples: Tensor) -> Tensor:
    """How far samples of the lens (S 4) reach, at least 1: a polygon with the disk's variance has corners beyond it."""
    widest: Tensor = samples[:, :2].norm(dim=1).amax().clamp_min(1)
    return widest


def solids_in_reach(
    scenes: Scenes,
    focal_px: Tensor,  # B
    aperture: Tensor,  # B: the diameter that holds every sample of the lens
    inverse_focus: Tensor,  # B F
    size: tuple[int, int],
    centre_px: Tensor | None = None,  # B 2: where the optical axis is, x and y; the middle by default
    spare_px: Tensor | None = None,  # B F: how far frames are moved
) -> Tensor:  # B F rows columns, int64
    """Bit i says that some ray of the tile may meet solid i: its bounding ball, projected, blurred, meets the tile.

    A ray through lens point l and pixel direction x is at z x + l (1 - u z) at depth z, so it passes a ball of radius
    r around c only if |x - c / z| <= r / z + A / 2 |1/z - u| for a depth z that the ball has.
    """
    kind, centre = scenes.kind, scenes.centre
    count = kind.shape[1]
    if count > MOST_SOLIDS:
        raise ValueError(f"a scene has at most {MOST_SOLIDS} solids, but {count} are given")
    half = torch.where((kind == CARD)[..., None], scenes.extent * scenes.extent.new_tensor([1, 1, 0]), scenes.half)
    radius = torch.where(kind == ELLIPSOID, half.amax(-1), half.norm(dim=-1))  # B P
    depth = centre[..., 2]
    near, far = depth - radius, depth + radius
    everywhere = (kind == SHEET) | (near < 0.05 * depth)
    near = near.clamp_min(1e-6)
    off_axis = centre[..., :2].norm(dim=-1)
    focus, wide = inverse_focus[:, :, None], aperture[:, None, None]  # B F 1
    blur = wide / 2 * torch.maximum((1 / near[:, None] - focus).abs(), (1 / far[:, None] - focus).abs())  # B F P
    # The ball's middle moves in the picture with the depth that it is looked at.
    drift = off_axis * torch.maximum(1 / near - 1 / depth, 1 / depth - 1 / far)
    reach_px = focal_px[:, None, None] * ((radius / near + drift)[:, None] + blur)
    if centre_px is None:
        centre_px = centre.new_tensor([size[1] / 2, size[0] / 2]).expand(len(kind), 2)
    if spare_px is not None:
        reach_px = reach_px + spare_px[:, :, None]
    x, y = (centre[..., i] / depth * focal_px[:, None] + centre_px[:, i, None] for i in (0, 1))  # B P, px
    rows, columns = tile_count(size)
    middle_y = (torch.arange(rows, device=x.device) + 0.5) * TILE[0]
    middle_x = (torch.arange(columns, device=x.device) + 0.5) * TILE[1]
    # Distance from the tile's rectangle, widened by the half pixel that samples are spread over.
    off_y = ((middle_y - y[..., None]).abs() - TILE[0] / 2 - 0.5).clamp_min(0)  # B P rows
    off_x = ((middle_x - x[..., None]).abs() - TILE[1] / 2 - 0.5).clamp_min(0)
    distance = torch.hypot(off_y[..., :, None], off_x[..., None, :])  # B P rows columns
    met = (distance[:, None] <= reach_px[..., None, None]) | everywhere[:, None, :, None, None]
    met &= (kind != EMPTY)[:, None, :, None, None]
    bits = 1 << torch.arange(count, dtype=torch.int64, device=x.device)
    mask: Tensor = (met * bits[:, None, None]).sum(2, dtype=torch.int64)
    return mask
