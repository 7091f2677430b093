"""The inverse of the sweep: a sharp picture with its depth, focused anew wherever one likes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from focalsweep.errors import InputError
from focalsweep.lenses import StageLens
from focalsweep.optics.thin_lens import blur_slope_px, image_distance
from focalsweep.results.layered import render_layered
from focalsweep.results.result import Array, DepthResult
from focalsweep.types import Camera, Lens, RelativeLens
from focalsweep.validation import as_setting

SLICES = (8, 32)  # at least and at most: one for each pixel of blur, which is linear in inverse depth
NEARLY_INFINITE = 1e-4  # of the nearest inverse depth
WIDEST_BLUR = 0.5  # of the picture's shorter side: beyond it nothing is left to see
FOCUS_RANGE = (0.005, 0.995)  # of all pixels, from the farthest: what a share of the way runs over


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


def refocus_result(
    result: DepthResult,
    at: float | None = None,
    *,
    share: float | None = None,
    f_number: float | None = None,
    widen: float = 1.0,
    tilt: float = 0.0,
    size_px: int | None = None,
) -> Array:  # H W C
    """The sharp picture of a result, as its lens would have taken it at another focus, aperture and tilt.

    Args:
        at: metres from the lens in focus; of a stage the height; without a unit as the result counts depth.
        share: instead of `at`: of the way from the nearest (0) to the farthest (1) in sight, even in blur.
        f_number: of the aperture; None is the photos'. Needs a camera.
        widen: how many times as wide the aperture is, of any lens.
        tilt: of the plane in focus, as a tilted lens has it: 1 leans it back, from the farthest at the upper edge to
            the nearest at the lower one, as a ground plane is seen; -1 forward, which makes streets look like toys.
        size_px: the longer side of the picture; None keeps it.
    """
    if result.depth.ndim != 2:
        raise ValueError("refocus takes one stack's result: give the results of a batch one by one")
    if (at is None) == (share is None):
        raise InputError("a focus is needed: a distance or a share of the way, one of them", field="at", value=at)
    if not (widen > 0 and math.isfinite(widen)):
        raise InputError("{widen} must be above 0, but is {value:g}", field="widen", value=widen)
    inverse, lens = sweep_relief(result)
    lens = _with_aperture(lens, f_number, widen)
    near, far = nearest_and_farthest(inverse)
    focus = near + (far - near) * share if share is not None else float(_as_inverse(result, at or 0.0))
    if tilt:
        height = inverse.shape[0]
        rows = ((np.arange(height, dtype=np.float32) + 0.5) / height - 0.5)[:, None]
        inverse = inverse - np.float32(tilt * (near - far)) * rows
    scale = 1.0 if size_px is None else min(1.0, size_px / max(inverse.shape))
    sharp, inverse = shrunk(np.clip(result.all_in_focus, 0, None), scale), shrunk(inverse, scale, sharply=True)
    # Blur depends on differences of inverse depth alone: they are moved to where the renderer tells its slices apart.
    ends = min(float(inverse.min()), focus), max(float(inverse.max()), focus)
    moved = max(ends[1] - ends[0], 1e-6 * abs(ends[1]), 1e-12) - ends[0]
    picture = refocus(
        torch.from_numpy(np.ascontiguousarray(sharp)).movedim(-1, 0),
        torch.from_numpy(1 / (inverse.astype(np.float64) + moved)),
        RelativeLens(_slope_px(lens, result, focus) * scale),
        1 / (focus + moved),
    )
    return np.ascontiguousarray(picture.movedim(0, -1).float().numpy())


def sweep_relief(result: DepthResult) -> tuple[Array, Lens]:
    """Inverse depth H W as a sweep counts it, without gaps (they count as the farthest), and the lens of the result."""
    lens = result.camera
    depth = result.depth.astype(np.float64)
    if isinstance(lens, StageLens):
        inverse = 1 + (depth - lens.origin) / lens.height_unit
    else:
        with np.errstate(divide="ignore"):
            inverse = np.where(depth > 0, 1 / depth, np.nan)
    known = np.isfinite(inverse)
    if not known.any():
        raise ValueError("no pixel has a depth: there is nothing to refocus by")
    return np.where(known, inverse, inverse[known].min()).astype(np.float32), lens


def nearest_and_farthest(inverse: Array) -> tuple[float, float]:
    """Inverse depths."""
    far, near = np.quantile(inverse, FOCUS_RANGE).tolist()
    return near, far


def shrunk(values: Array, scale: float, sharply: bool = False) -> Array:
    """A picture or, `sharply`, a map whose edges stay edges, `scale` times as large."""
    import cv2

    if scale >= 1:
        return values
    size = (max(1, round(values.shape[1] * scale)), max(1, round(values.shape[0] * scale)))
    small = cv2.resize(values, size, interpolation=cv2.INTER_NEAREST if sharply else cv2.INTER_AREA)
    return np.asarray(small, np.float32).reshape(size[1], size[0], *values.shape[2:])


def _as_inverse(result: DepthResult, at: float) -> float:
    if isinstance(result.camera, StageLens):
        return 1 + (at - result.camera.origin) / result.camera.height_unit
    if not at > 0:
        raise InputError("{at} must be above 0, but is {value:g}", field="at", value=at)
    return 1 / at


def _with_aperture(lens: Lens, f_number: float | None, widen: float) -> Lens:
    if isinstance(lens, Camera):
        used = as_setting("f_number", lens.f_number).detach().median().item() if f_number is None else f_number
        single = {
            name: as_setting(name, getattr(lens, name)).detach().median().item()
            for name in ("focal_length", "pixel_pitch")
        }
        return Camera(single["focal_length"], used / widen, single["pixel_pitch"])
    if f_number is not None:
        raise InputError(
            "{f_number} needs a camera whose settings are known",
            field="f_number",
            value=f_number,
            remedy="give {widen}",
        )
    return replace(lens, slope_px=lens.slope_px * widen)


def _slope_px(lens: Lens, result: DepthResult, focus: float) -> float:
    """The blur's growth in pixels of the result, magnified as its picture was."""
    at = torch.tensor(1 / max(focus, 1e-9), dtype=torch.float64)
    magnification = torch.ones((), dtype=torch.float64)
    if isinstance(lens, Camera) and result.projection_distance is not None:
        magnification = result.projection_distance / image_distance(at, lens.focal_length)
    return float(blur_slope_px(at, lens, magnification))
