"""The inverse of the sweep: a sharp picture with its depth, focused anew wherever one likes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from focalsweep.optics.thin_lens import blur_slope_px, image_distance
from focalsweep.results.layered import render_layered
from focalsweep.types import Camera, Lens

SLICES = (8, 32)  # at least and at most: one for each pixel of blur, which is linear in inverse depth
NEARLY_INFINITE = 1e-4  # of the nearest inverse depth
WIDEST_BLUR = 0.5  # of the picture's shorter side: beyond it nothing is left to see


def refocus(
    image: Tensor,  # C H W, linear light
    depth: Tensor,  # H W
    camera: Lens,
    focus_distance: float,
    *,
    projection_distance: float | None = None,
    slices: int | None = None,
) -> Tensor:  # C H W
    """The picture as the lens would have taken it at another focus distance; occlusion counts.

    Args:
        image: sharp all over.
        depth: metres from the lens; infinity is allowed, a pixel without a depth counts as the farthest.
        camera: of this picture, one number a field; of a `RelativeLens` depth and focus distance have no unit.
        focus_distance: metres from the lens, beyond the focal length; infinity is allowed.
        projection_distance: metres from the lens to the plane that the picture was taken in (see
            `DepthResult.projection_distance`); the blur is magnified as the picture was. None: as at that focus.
        slices: depths that are told apart, over the range of the picture; None: as many as the blur asks for.
    """
    if slices is not None and slices < 2:
        raise ValueError(f"slices must be at least 2, but is {slices}")
    known = depth > 0  # false for NaN too
    if not bool(known.any()):
        raise ValueError("no pixel has a depth: there is nothing to refocus by")
    at = torch.tensor(focus_distance, dtype=torch.float64)
    inverse = torch.where(known, 1 / depth.double(), torch.zeros((), dtype=torch.float64))
    floor = NEARLY_INFINITE * max(float(inverse.max()), float(1 / at))  # the renderer wants finite depths
    if floor == 0:
        return image.clone()  # all of it at infinity, and in focus
    farthest, nearest = inverse[known].min().clamp_min(floor), inverse.max().clamp_min(floor)
    magnification = torch.ones((), dtype=torch.float64)
    if projection_distance is not None and isinstance(camera, Camera):
        magnification = projection_distance / image_distance(at, camera.focal_length)
    slope_px = float(blur_slope_px(at, camera, magnification))
    if slices is None:
        slices = min(max(math.ceil(slope_px * float(nearest - farthest)), SLICES[0]), SLICES[1])
    step = ((nearest - farthest) / (slices - 1)).clamp_min(1e-12)
    inverse = nearest - ((nearest - inverse.clamp_min(float(farthest))) / step).round() * step
    reach = WIDEST_BLUR * min(depth.shape) / slope_px
    inverse = inverse.clamp(float(1 / at - reach), float(1 / at + reach)).clamp_min(floor)
    levels = 1 / inverse
    # Depths are on a few levels already: slices thinner than the gaps between them keep every level apart.
    thickness = float(levels.min()) / slices**2
    frames = render_layered(
        image, levels, camera, [focus_distance], slice_thickness=thickness, magnification=magnification.item()
    )
    return frames[0]
