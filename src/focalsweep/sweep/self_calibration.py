"""Settings as the photos have them: the growth of blur, the scale of focus distances, and what both leave open.

Frames show the product of two things: how fast blur grows with inverse depth, and how far apart in inverse depth they
are focused. Half the growth and twice the distance apart look the same. So of the two only the one is found that is not
firm: the growth of blur where distances are exact, their scale where the camera is said to be right, both in the ratio
of their uncertainties where metadata gives ranges. What stays open is in the error bar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from focalsweep.errors import InputError, Sentence, SettingName, joined
from focalsweep.lenses import StageLens
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.sweep.fit import Fit
from focalsweep.types import Camera, DepthPrediction, FocalStack
from focalsweep.validation import as_setting

MODES = ("auto", "blur", "focus", "off")
OF_AMOUNT = ("f_number", "pixel_pitch", "focal_length", "equivalent", "reference", "stage", "unit")
"""Mistakes that leave the frames in their order: without another, the amount of blur is as it was measured."""
MODEL_ERROR = 0.02  # of the logarithm of blur, beside that of measuring: blur is no perfect disk
SURE = 2.0  # standard errors; settings that differ by less are kept
FARTHEST = math.log(1.7)  # what no aperture and no distance scale is off by
APERTURE = 0.15  # standard deviation of the logarithm of blur over that of the f-number, of real lenses
STEPS = 5
LEAST_TOLD = 0.005
OPEN = 0.5  # of what the photos differ by from exact settings: distances may be at fault as well as the aperture


@dataclass(frozen=True)
class Calibration:
    """How the settings are changed, and how sure that is.

    Args:
        blur: times the told growth of blur with inverse depth.
        focus: times the told focus distances.
        blur_error: one standard error of the logarithm of `blur`.
        scale_error: one standard error of the logarithm of all distances at once.
    """

    blur: float = 1.0
    focus: float = 1.0
    blur_error: float = 0.0
    scale_error: float = 0.0

    def apply(self, stack: FocalStack) -> FocalStack:
        """The stack with these settings: another aperture explains another blur and leaves the view as it is."""
        if self.blur == self.focus == 1.0:
            return stack
        distances, camera = stack.focus_distances * self.focus, stack.camera
        if isinstance(camera, Camera):
            camera = camera._unchecked(f_number=camera.f_number / self.blur)
        else:
            camera = replace(camera, slope_px=camera.slope_px * self.blur)
        return stack._unchecked(focus_distances=distances, camera=camera)

    def widened(self, prediction: DepthPrediction, stack: FocalStack) -> DepthPrediction:
        """With what the settings leave open in the error bar.

        The depth of a plane in focus is told by its focus distance alone; away from it by the growth of blur as well.
        """
        if self.blur_error == self.scale_error == 0.0:
            return prediction
        inverse = 1 / prediction.depth
        focus = 1 / stack.as_batch().focus_distances.to(inverse)
        away = (inverse[:, None] - focus[..., None, None]).abs().amin(1)
        by_blur = prediction.depth.square() * away * self.blur_error
        by_scale = prediction.depth * self.scale_error
        std = (prediction.std.square() + by_blur.square() + by_scale.square()).sqrt()
        return replace(prediction, std=torch.where(prediction.depth.isfinite(), std, prediction.std))

    def sentence(self) -> Sentence | None:
        """What was changed, in one line; None where nothing was."""
        changes: list[str] = []
        if abs(self.focus - 1.0) > LEAST_TOLD:
            changes.append(Sentence("{focus_distances} {times:.2f} times as far", times=self.focus))
        if abs(self.blur - 1.0) > LEAST_TOLD:
            changes.append(f"the blur {self.blur:.2f} times as wide")
        if not changes:
            return None
        keep = SettingName('calibrate="off"')
        words = "calibrated on the photos: {changes} as the settings say ({keep} takes them at their word)"
        return Sentence(words, changes=joined(changes), keep=keep)

    def to_json(self, stack: FocalStack) -> dict[str, Any]:
        """For run.json, of a calibrated stack."""
        record: dict[str, Any] = {"blur_times": self.blur, "focus_times": self.focus}
        if isinstance(stack.camera, Camera):
            record["effective_f_number"] = as_setting("f_number", stack.camera.f_number).tolist()
        return record | {"blur_error": self.blur_error, "scale_error": self.scale_error}


def check_mode(mode: str) -> str:
    if mode not in MODES:
        raise InputError(
            "{calibrate} must be {rule}, but is {value!r}", field="calibrate", rule=" or ".join(MODES), value=mode
        )
    return mode


def self_calibration(stack: FocalStack, fit: Fit, mode: str = "auto") -> Calibration:
    """What the fit of a stack says of its settings."""
    blamed = fit.causes[0].name if fit.causes else ""
    if mode == "off" or fit.blur is None or fit.blur_error is None or fit.fits is None:
        return Calibration()
    if not (fit.fits or blamed in OF_AMOUNT) or not fit.bracketed:
        return Calibration()
    off, error = math.log(fit.blur), math.hypot(fit.blur_error, MODEL_ERROR)
    if abs(off) > FARTHEST:
        return Calibration()
    if isinstance(stack.camera, StageLens):  # the steps of a stage are firm
        return Calibration(fit.blur if abs(off) > SURE * error else 1.0, 1.0, error)
    spread = _spread_of_ranges(stack)
    share, left = _shares(spread, mode)
    if abs(off) <= SURE * error:
        return Calibration(1.0, 1.0, error, left)
    focus = _scale_for(stack, math.exp(share * off))
    if spread:
        focus = _within_ranges(stack, focus)
    scale_error = OPEN * abs(off) if mode == "auto" and not spread else left
    return Calibration(
        blur=fit.blur if focus == 1.0 else fit.blur / _times_the_blur(stack, focus),
        focus=focus,
        blur_error=error,
        scale_error=math.hypot(scale_error, share * error),
    )


def _shares(spread: float, mode: str) -> tuple[float, float]:
    """How much of what the blur is off by the distances take; and what their scale is still off by."""
    if mode == "blur":
        return 0.0, 0.0
    if mode == "focus":  # an offset that all distances share is never seen
        return 1.0, spread
    both = math.hypot(spread, APERTURE)
    return (spread / both) ** 2, spread * APERTURE / both


def _spread_of_ranges(stack: FocalStack) -> float:
    """Standard deviation of the logarithm of a scale that all focus distances share, by the ranges that are known."""
    widths = [
        math.log(min(far, 1e3 * near) / near) for near, far in stack.record.focus_ranges if 0 < near < far < math.inf
    ]
    return sum(widths) / len(stack.record.focus_ranges) / math.sqrt(12) if widths else 0.0


def _scale_for(stack: FocalStack, blur: float) -> float:
    """The factor on all focus distances that gives `blur` times the blur: about one over it."""
    factor = 1 / blur
    for _ in range(STEPS if blur != 1.0 else 0):
        factor *= _times_the_blur(stack, factor) / blur
    return factor


def _times_the_blur(stack: FocalStack, factor: float) -> float:
    """Between the focus distances, with so many times their length."""

    def span_px(distances: Tensor) -> Tensor:
        slope = blur_slope_px(distances, stack.camera, as_setting("magnification", stack.magnification)).mean()
        return slope * (1 / distances.amin() - 1 / distances.amax())

    distances = stack.focus_distances
    return float(span_px(distances * factor) / span_px(distances))


def _within_ranges(stack: FocalStack, factor: float) -> float:
    """The factor on all focus distances, as far as their ranges let them go, on average."""
    shares = []
    for distance, (near, far) in zip(
        stack.as_batch().focus_distances[0].tolist(), stack.record.focus_ranges, strict=True
    ):
        if math.isfinite(distance) and near < far:
            shares.append(math.log(min(max(distance * factor, near), far) / distance))
    return math.exp(sum(shares) / len(shares)) if shares else 1.0
