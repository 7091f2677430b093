"""What the photos say of their settings, before depth is found with them: order, focus, blur, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from focalsweep.errors import InputError, Sentence
from focalsweep.progress import Progress
from focalsweep.results.result import DepthResult
from focalsweep.sweep.calibration import measure_aperture, measure_blur, refine_focus
from focalsweep.sweep.fit import Fit, check_fit
from focalsweep.sweep.focus_order import find_direction
from focalsweep.sweep.known_distance import KnownDistance, rescaled_grid, rescaling
from focalsweep.sweep.selection import spread_between
from focalsweep.sweep.self_calibration import Calibration, self_calibration
from focalsweep.types import FocalStack, RelativeLens, StageLens


@dataclass(frozen=True)
class Trust:
    """How far settings are trusted, and what is known beside them: see `estimate_depth`."""

    refine: bool
    calibrate: str
    strict: bool
    known_distance: KnownDistance | None


@dataclass(frozen=True, eq=False)
class Settled:
    """What depth is found with.

    Args:
        settings, preview: as the photos have them.
        fit: of what was told.
        calibration: what was changed, and what it leaves open.
        measured: for run.json.
        warnings: what the user should know of it.
    """

    settings: FocalStack
    preview: FocalStack
    fit: Fit
    calibration: Calibration
    measured: dict[str, Any]
    warnings: tuple[str, ...]


def settle(
    settings: FocalStack,
    preview: FocalStack,
    chosen: Sequence[int],
    size: tuple[int, int],
    trust: Trust,
    progress: Progress,
) -> Settled:
    """The settings of photos of this size, by the preview of the chosen frames."""
    settings, preview, turned = _turned(settings, preview)
    settings, preview, measured = _measured(settings, chosen, preview, trust, progress)
    names = [settings.record.frames[i]["file"] for i in chosen] if settings.record.frames else []
    fit = _checked(preview, size, names, trust, progress)
    calibration = self_calibration(preview, fit, trust.calibrate)
    if trust.known_distance:
        calibration = replace(calibration, scale_error=0.0)
    settings, preview = calibration.apply(settings), calibration.apply(preview)
    noted = [fit.sentence if fit.fits is False else None, calibration.sentence(), turned]
    return Settled(
        settings=settings,
        preview=preview,
        fit=fit,
        calibration=calibration,
        measured={**measured, "calibration": calibration.to_json(settings)},
        warnings=tuple(sentence for sentence in noted if sentence),
    )


def rescaled(result: DepthResult, settings: FocalStack, known: KnownDistance) -> tuple[DepthResult, dict[str, Any]]:
    """A result whose depth at the known point is what was measured there."""
    by = rescaling(known, result.depth, result.std, result.confidence, settings)
    depth, std = by.depth_and_std(result.depth, result.std)
    told = {"metres": known.metres, "pixel": [known.column, known.row], "offset": by.offset, "factor": by.factor}
    planes = rescaled_grid(result.planes, by)
    focus = by.inverse_depths(1 / torch.tensor(result.record["focus_distances"], dtype=torch.float64))
    record = {**result.record, "focus_distances": (1 / focus).tolist()}
    record["planes"] = {**record["planes"], "near": planes.depths[0].item(), "far": planes.depths[-1].item()}
    camera = settings.metric_camera
    camera = camera._unchecked(f_number=camera.f_number * by.factor)  # blur grows as much faster
    return replace(result, depth=depth, std=std, planes=planes, camera=camera, record=record), told


def _checked(preview: FocalStack, size: tuple[int, int], names: Sequence[str], trust: Trust, progress: Progress) -> Fit:
    """Whether the settings explain the photos; an error where they do not and must."""
    progress("looking", 0.9)
    fit = check_fit(preview, max(preview.size) / max(size), names)
    if trust.strict and fit.fits is False:
        raise InputError(fit.sentence.within(place_of(preview)), field="strict", value=fit.explained)
    return fit


def _measured(
    settings: FocalStack, chosen: Sequence[int], preview: FocalStack, trust: Trust, progress: Progress
) -> tuple[FocalStack, FocalStack, dict[str, Any]]:
    """What the frames say of lens and focus, where nobody else does: settings, preview with them, for the record."""
    camera = settings.camera
    if isinstance(camera, StageLens) and not camera.measure_blur:
        return settings, preview, {}
    if isinstance(camera, StageLens) and isinstance(preview.camera, StageLens) and camera.pixel_size:
        aperture = measure_aperture(preview)
        if aperture:
            changed = replace(preview, camera=preview.camera.with_aperture(aperture))
            settings = replace(settings, camera=camera.with_aperture(aperture))
            return settings, changed, {"blur": {"numerical_aperture": aperture}}
    if isinstance(camera, RelativeLens):
        factor = measure_blur(preview)
        lens = camera.resized(factor)
        changed = replace(preview, camera=preview.camera.resized(factor))
        return replace(settings, camera=lens), changed, {"blur": {"times_assumed": factor}}
    ranges = settings.record.focus_ranges
    if not trust.refine or all(near == far for near, far in ranges):
        return settings, preview, {}
    before = settings.focus_distances.tolist()
    intervals = [(1 / far, 1 / near) for near, far in (ranges[i] for i in chosen)]
    refined = refine_focus(preview, intervals, progress=progress)
    after = spread_between(settings, chosen, refined)
    focus = torch.tensor(after, dtype=torch.float64)
    names = [frame["file"] for frame in settings.record.frames]
    moved = [{"file": name, "from": a, "to": b} for name, a, b in zip(names, before, after, strict=True)]
    changed = replace(preview, focus_distances=focus[None, list(chosen)])
    return replace(settings, focus_distances=focus), changed, {"refined": moved}


def _turned(settings: FocalStack, preview: FocalStack) -> tuple[FocalStack, FocalStack, Sentence | None]:
    """Frames that nobody said the order of, near to far or far to near as the photos look."""
    if settings.record.settings.get("order", {}).get("value") != "auto":
        return settings, preview, None
    direction = find_direction(preview)
    if direction.near_to_far is False:
        settings = settings._unchecked(focus_distances=settings.focus_distances.flip(0))
        preview = preview._unchecked(focus_distances=preview.focus_distances.flip(1))
    return settings, preview, direction.sentence


def place_of(settings: FocalStack) -> str:
    """The folder of the photos, before a sentence about them."""
    return f"{settings.record.made_of}: " if settings.record.made_of else ""
