"""Photos in, metres out: alignment, what the frames say of lens and range, depth at the working size, full size.

Pictures are read one at a time, several times over: memory holds the frames at the working size and a few pictures at
full size, never the whole stack at full size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from focalsweep.memory import MemoryBound, give_freed_memory_back, resident_bytes
from focalsweep.photos.alignment import Alignment
from focalsweep.photos.reading import Photos
from focalsweep.photos.values import Value
from focalsweep.pipeline import GLANCE_PX, LEAST_REDUCTION, METHODS, StageProgress, at_full_size, estimate_as_it_is
from focalsweep.results.result import DepthResult
from focalsweep.sweep.calibration import find_range, measure_blur, refine_focus
from focalsweep.sweep.colour import in_strongest_colour
from focalsweep.sweep.full_size import blend_frames, working_scale
from focalsweep.sweep.volume import Progress, sweep_coc_px
from focalsweep.types import DepthGrid, FocalStack
from focalsweep.validation import as_setting

Stage = Callable[[str, float], None]
"""Called with the name of the stage at hand and the share of it that is done."""

BEYOND_LENS = 1.02  # focal lengths: no lens is focused nearer, whatever a range says
WIDEST_BLUR = 4.0  # of the picture's longer side


def depth_from_photos(
    photos: Photos,
    method: str = "sweep",
    *,
    planes: DepthGrid | None = None,
    refine: bool = True,
    memory: int | None = None,
    device: torch.device | str = "cpu",
    stage: Stage | None = None,
) -> tuple[DepthResult, FocalStack]:
    """Depth at the full size of the photos, and the stack that it was worked out on.

    Args:
        photos: as `open_photos` gives them.
        method: see `estimate_depth`.
        planes: the depths to look at; by default those in sight.
        refine: look for the focus distances inside the intervals that coarse metadata leaves.
        memory: bytes that the whole process may take on a CPU, the sweep and the network on a GPU. Tiles and, if need
            be, the working size are made smaller to keep it; photos that cannot be worked on within it are told.
        device: where to work.
        stage: called as the work goes on.
    """
    if method not in METHODS:
        raise ValueError(f"no method is called {method!r}: it is one of {', '.join(METHODS)}")
    say = stage or (lambda name, share: None)
    say("aligning", 0.0)
    photos, alignment = photos.measured(lambda share: say("aligning", share))
    _check_blur(photos, planes, alignment)
    settings: dict[str, Any] = {}
    say("looking", 0.0)
    with torch.no_grad():
        glance, channels = _glance(photos, alignment, device, lambda share: say("looking", 0.8 * share))
        if photos.relative:
            photos, glance, settings["blur"] = _with_measured_blur(photos, glance)
        elif refine:
            photos, glance, settings["refined"] = _with_refined_focus(photos, glance, say)
        source = "the caller"
        if planes is None:
            planes, source = find_range(glance, extend=not photos.relative)
    rows, columns = (part.stop - part.start for part in alignment.area)
    scale = working_scale(_lens_of(photos), planes, (rows, columns))
    scale = 1.0 if scale > LEAST_REDUCTION else scale
    bound = None
    if memory is not None and torch.device(device).type == "cpu":
        bound, photos = _bounded(memory, photos, (rows, columns), channels)
        scale = min(scale, math.sqrt(bound.working_pixels / (rows * columns)))
    say("reading", 0.0)
    stack = photos.stack(alignment, scale, lambda share: say("reading", share))
    if bound:
        give_freed_memory_back()
        memory = bound.workspace(stack.size[0] * stack.size[1])
    say("sweeping", 0.0)
    result = estimate_as_it_is(
        stack.to(device=device),
        method,
        planes,
        source,
        blend=True,
        memory=memory,
        progress=StageProgress(say),
    )
    if scale < 1:
        say("full size", 0.0)
        frames = map(torch.from_numpy, photos.pixels(alignment, lambda share: say("full size", 0.5 * share)))
        sharp = blend_frames(frames, stack.focus_distances, torch.from_numpy(result.depth))
        result = at_full_size(result, sharp, photos.camera, lambda share: say("full size", 0.5 + 0.5 * share))
    record = {**result.record, **_record(photos, alignment, settings), "relative": photos.relative}
    return replace(result, record=record), stack


def _bounded(memory: int, photos: Photos, size: tuple[int, int], channels: int) -> tuple[MemoryBound, Photos]:
    """The bound shared out for these photos; a note where it cannot be kept."""
    give_freed_memory_back()
    bound = MemoryBound(memory, resident_bytes(), size, channels, len(photos.frames), torch.get_num_threads())
    if memory >= bound.least:
        return bound, photos
    note = (
        f"a memory bound of {memory / 1e9:.2g} GB cannot be kept: photos of {size[1]} x {size[0]} px take at least "
        f"{bound.least / 1e9:.2g} GB (--memory)"
    )
    return bound, replace(photos, notes=[*photos.notes, note])


def _glance(
    photos: Photos, alignment: Alignment, device: torch.device | str, progress: Progress
) -> tuple[FocalStack, int]:
    """A small copy of the stack in one channel, and how many the photos have."""
    rows, columns = alignment.area
    longer = max(rows.stop - rows.start, columns.stop - columns.start)
    stack = photos.stack(alignment, min(1.0, GLANCE_PX / longer), progress)
    return in_strongest_colour(stack.to(device=device).as_batch()), stack.images.shape[1]


def _lens_of(photos: Photos) -> FocalStack:
    """A stack of the full-size camera without pixels, to ask the lens model about."""
    frames = len(photos.frames)
    magnification = torch.tensor(photos.magnification, dtype=torch.float64)
    focus = torch.tensor(photos.focus_distances, dtype=torch.float64)
    return FocalStack(torch.zeros(frames, 1, 2, 2), focus, photos.camera, magnification)


def _check_blur(photos: Photos, planes: DepthGrid | None, alignment: Alignment) -> None:
    """A blur far wider than the picture is a setting in the wrong unit, and would take hours to sweep."""
    lens = _lens_of(photos)
    blur_px = float(sweep_coc_px(lens.as_batch(), planes or DepthGrid.around(lens)).abs().max())
    longer = max(part.stop - part.start for part in alignment.area)
    if blur_px > WIDEST_BLUR * longer:
        raise ValueError(
            f"{photos.frames[0].path.parent}: by these settings photos of {longer} px have a blur of {blur_px:.0f} px: "
            "check focal length, f-number, pixel pitch, focus distances and --near"
        )


def _with_measured_blur(photos: Photos, glance: FocalStack) -> tuple[Photos, FocalStack, dict[str, float]]:
    """A stack of unknown lens, with the blur that its frames show."""
    factor = measure_blur(glance)
    camera = photos.camera.resized(factor)
    found = FocalStack(glance.images, glance.focus_distances, glance.camera.resized(factor), glance.magnification)
    return replace(photos, camera=camera), found, {"times_assumed": factor}


def _with_refined_focus(photos: Photos, glance: FocalStack, say: Stage) -> tuple[Photos, FocalStack, Any]:
    """Where the metadata has only ranges: the distances inside them that explain the frames best."""
    known = photos.settings.focus_distances
    if not any(value is not None and value.only_range for value in known):
        return photos, glance, None
    # Distances from the sensor and from the lens differ by nearly the same length across a narrow range.
    intervals = [
        _inverse_interval(value, distance, as_setting("focal_length", photos.camera.focal_length).item())
        for value, distance in zip(known, photos.focus_distances, strict=True)
    ]
    before = photos.focus_distances
    after = refine_focus(glance, intervals, progress=lambda share: say("refining focus", share))
    photos = replace(photos, focus_distances=after)
    focus = torch.tensor([after], dtype=torch.float64)
    moved = [{"file": name, "from": a, "to": b} for name, a, b in zip(photos.names, before, after, strict=True)]
    return photos, FocalStack(glance.images, focus, glance.camera, glance.magnification), moved


def _inverse_interval(value: Value | None, distance: float, focal_length: float) -> tuple[float, float]:
    """The inverse distances from the lens that a frame's range allows; a point where the metadata is exact."""
    if value is None or not value.only_range or value.value <= 0:
        return 1 / distance, 1 / distance
    offset = distance - value.value if value.value < float("inf") else 0.0
    near, far = min(distance, max(value.low + offset, BEYOND_LENS * focal_length)), value.high + offset
    return 1 / far, 1 / near


def told(value: Value | None) -> dict[str, Any] | None:
    """A value with its source and interval, for people and JSON."""
    return None if value is None else {"value": value.value, "source": value.source, "range": [value.low, value.high]}


def _record(photos: Photos, alignment: Alignment, measured: dict[str, Any]) -> dict[str, Any]:
    """Every setting with where it came from, for run.json."""
    settings = photos.settings
    return {
        "settings": {name: told(getattr(settings, name)) for name in ("focal_length", "f_number", "pixel_pitch")}
        | {"focus_reference": {"value": settings.focus_reference, "source": settings.reference_source}},
        "frames": [
            {
                "file": frame.name,
                "focus_distance": told(value),
                "focus_distance_from_lens": distance,
                "magnification": magnification,
                "motion_px": float(motion),
                "exposure": float(gain),
            }
            for frame, value, distance, magnification, motion, gain in zip(
                photos.frames,
                settings.focus_distances,
                photos.focus_distances,
                photos.magnification,
                alignment.motion_px,
                alignment.gains,
                strict=True,
            )
        ],
        "area": {
            "rows": [alignment.area[0].start, alignment.area[0].stop],
            "columns": [alignment.area[1].start, alignment.area[1].stop],
        },
        "measured": {name: value for name, value in measured.items() if value is not None},
        "warnings": photos.notes,
    }
