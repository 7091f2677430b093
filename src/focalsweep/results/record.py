"""What run.json tells of a result beside its files: settings with their sources, and the line of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from focalsweep.optics.thin_lens import image_distance
from focalsweep.results.result import DepthResult
from focalsweep.types import Camera, FocalStack
from focalsweep.validation import as_setting


def summary_of(result: DepthResult, frames: int) -> dict[str, Any]:
    """A stack in a line of a table; metres stay empty where there are none."""
    height, width = result.depth.shape
    known = result.depth[np.isfinite(result.depth)] if result.unit == "m" else np.empty(0)
    near, median, far = np.quantile(known, [0.005, 0.5, 0.995]).tolist() if known.size else (None, None, None)
    size = {"frames": frames, "width": width, "height": height, "unit": result.unit}
    return size | {"near_m": near, "median_m": median, "far_m": far}


def known_of(settings: FocalStack, measured: dict[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    """Every setting with where it came from, for run.json."""
    known: dict[str, Any] = {"measured": measured, "warnings": list(warnings)}
    record = settings.record
    if record.settings:
        known["settings"] = record.settings
    if record.made_with:
        known["made_with"] = record.made_with
    if record.frames:
        magnification = as_setting("magnification", settings.magnification).expand(settings.frame_count).tolist()
        from_lens = settings.focus_distances.tolist()
        known["frames"] = [
            {**frame, "focus_distance_from_lens": distance, "magnification": by}
            for frame, distance, by in zip(record.frames, from_lens, magnification, strict=True)
        ]
    if record.area:
        rows, columns = record.area
        known["area"] = {"rows": [rows.start, rows.stop], "columns": [columns.start, columns.stop]}
    return known


def projection_distance(stack: FocalStack) -> float | None:
    """The image distance that registered frames share (see focalsweep.results.geometry): the median over them."""
    if not isinstance(stack.camera, Camera):
        return None
    distances = image_distance(stack.focus_distances, stack.camera.focal_length)
    return (as_setting("magnification", stack.magnification) * distances).detach().median().item()
