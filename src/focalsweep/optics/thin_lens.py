"""The thin lens: how large the blur of a point is, and back (paper, Eq. 1).

    coc_px = |d - d_f| / d * f^2 / (N (d_f - f)) / pixel_pitch

is linear in inverse depth, so everything here works with inverse distances and infinity is an ordinary value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from focalsweep.errors import InputError
from focalsweep.types import Lens, RelativeLens, Setting
from focalsweep.validation import as_setting


def blur_slope_px(focus_distance: Setting, camera: Lens, magnification: Setting = 1.0) -> Tensor:
    """Blur diameter in pixels for each dioptre away from the plane in focus: s f^2 / (N p (1 - f / d_f)).

    All arguments broadcast. `magnification` s is what alignment magnified the frame by.
    """
    if isinstance(camera, RelativeLens):
        grown = as_setting("magnification", magnification) * as_setting("slope_px", camera.slope_px)
        return grown * torch.ones_like(as_setting("focus_distance", focus_distance))
    f = as_setting("focal_length", camera.focal_length)
    f_number = as_setting("f_number", camera.f_number)
    pitch = as_setting("pixel_pitch", camera.pixel_pitch)
    focus = as_setting("focus_distance", focus_distance)
    return as_setting("magnification", magnification) * f**2 / (f_number * pitch * (1 - f / focus))


def signed_coc_px(depth: Any, focus_distance: Setting, camera: Lens, magnification: Setting = 1.0) -> Tensor:
    """Circle of confusion with a sign: positive beyond the plane in focus, negative before it. See `coc_px`."""
    slope = blur_slope_px(focus_distance, camera, magnification)
    inverse_focus = 1 / as_setting("focus_distance", focus_distance)
    if isinstance(depth, Tensor) and depth.is_floating_point():
        return slope.to(depth) * (inverse_focus.to(depth) - 1 / depth)
    return slope * (inverse_focus - 1 / as_setting("depth", depth))


def coc_px(depth: Any, focus_distance: Setting, camera: Lens, magnification: Setting = 1.0) -> Tensor:
    """Diameter in pixels of the blur of a point (paper, Eq. 1); everything broadcasts.

    Args:
        depth: metres from the lens; infinity is allowed. A tensor keeps its device and precision.
        focus_distance: metres from the lens to the plane in focus; infinity is allowed.
        camera: the lens and the sensor, or a `RelativeLens`.
        magnification: what alignment magnified the frame by; the blur grew with it.
    """
    return signed_coc_px(depth, focus_distance, camera, magnification).abs()


def depth_from_coc(signed_coc_px: Any, focus_distance: Setting, camera: Lens, magnification: Setting = 1.0) -> Tensor:
    """The depth in metres with this blur: the inverse of `signed_coc_px`.

    A blur larger than that of a point at infinity has no depth beyond the focus: it gives infinity.
    """
    slope = blur_slope_px(focus_distance, camera, magnification)
    inverse_focus = 1 / as_setting("focus_distance", focus_distance)
    coc = as_setting("signed_coc_px", signed_coc_px)
    return 1 / (inverse_focus - coc / slope).clamp_min(0)


def lens_distance(sensor_distance: Setting, focal_length: Setting) -> Tensor:
    """Focus distance from the lens, given the one from the sensor (as cameras say it): (D + sqrt(D^2 - 4 D f)) / 2."""
    total = as_setting("sensor_distance", sensor_distance)
    f = as_setting("focal_length", focal_length)
    if bool((total < 4 * f).any()):
        raise InputError(
            "no lens of {focal:g} m can focus {value:g} m from its sensor: the least is {rule} "
            "(is the distance measured from the lens?)",
            field="focus_distances", rule="four focal lengths", value=total.min().item(), focal=f.max().item(),
        )  # fmt: skip
    # D (1 + sqrt(1 - 4 f / D)) / 2 is the same and keeps infinity.
    return total * (1 + torch.sqrt(1 - 4 * f / total)) / 2


def sensor_distance(lens_distance: Setting, focal_length: Setting) -> Tensor:
    """Focus distance from the sensor, given the one from the lens: d_f^2 / (d_f - f)."""
    focus = as_setting("lens_distance", lens_distance)
    return focus / (1 - as_setting("focal_length", focal_length) / focus)


def image_distance(focus_distance: Setting, focal_length: Setting) -> Tensor:
    """Metres from the lens to the sensor when the lens is focused there: f d_f / (d_f - f); everything broadcasts.

    Times the magnification s of a registered frame it is what projects the scene onto the pictures, the same for all.
    """
    f = as_setting("focal_length", focal_length)
    return f / (1 - f / as_setting("focus_distance", focus_distance))
