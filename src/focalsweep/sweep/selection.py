"""Which frames of a long stack depth is found with: those closer in focus than blur can tell add only work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.sweep.working_size import LARGEST_BLUR_PX
from focalsweep.types import Camera, FocalStack, Lens, RelativeLens, StageLens
from focalsweep.validation import as_setting

SHORT = 12  # frames of a stack that is used whole, but for those that are focused alike
LEAST_STEP_PX = 2.0  # by so much the blur of neighbours has to differ, at the size that is worked at
ALIKE_PX = 0.5  # and in a short stack
MARGIN = 1.25  # of the span of focus, over which planes lie, has the largest blur


def frames_for_depth(stack: FocalStack) -> list[int]:
    """The places of the frames that depth is found with, in order; the first and the last frame are among them.

    Pixels are not looked at. Frames of a short stack whose metadata has ranges may lie apart, however near they seem;
    all are used. Frames that differ in aperture are all used, and so are those of a stage: heights are
    wanted to a part of its step. Where nothing is known of the lens the blur may be the widest there is.
    """
    everything = list(range(stack.frame_count))
    camera = stack.camera
    apertures_differ = isinstance(camera, Camera) and as_setting("", camera.f_number).ndim > 0
    short = stack.frame_count <= SHORT
    only_ranges = any(near != far for near, far in stack.record.focus_ranges)
    if apertures_differ or isinstance(camera, StageLens) or (short and (only_ranges or stack.frame_count < 3)):
        return everything
    focus = 1 / stack.focus_distances.detach()
    slope = blur_slope_px(stack.focus_distances, camera, stack.magnification).mean()
    span = float(focus.max() - focus.min())
    widest_px = math.inf if isinstance(camera, RelativeLens) else float(slope) * span
    worked_at_px = min(widest_px, LARGEST_BLUR_PX / MARGIN)
    least_px = ALIKE_PX if short else LEAST_STEP_PX
    least_step = least_px / max(worked_at_px, least_px) * span
    order = focus.argsort(descending=True, stable=True).tolist()
    chosen = [order[0]]
    for index in order[1:-1]:
        if focus[chosen[-1]] - focus[index] >= least_step and focus[index] - focus[order[-1]] >= least_step / 2:
            chosen.append(index)
    return sorted({*chosen, order[-1], everything[0], everything[-1]})


def with_frames(stack: FocalStack, chosen: Sequence[int]) -> FocalStack:
    """The stack of these frames alone; its record still tells of all of them."""
    index = list(chosen)
    if index == list(range(stack.frame_count)):
        return stack
    magnification = as_setting("magnification", stack.magnification)
    ranges = stack.record.focus_ranges
    return FocalStack(
        images=stack.images[index],
        focus_distances=stack.focus_distances[index],
        camera=_of_frames(stack.camera, index),
        magnification=magnification[index] if magnification.ndim else stack.magnification,
        principal_point=stack.principal_point,
        record=replace(stack.record, focus_ranges=tuple(ranges[i] for i in index) if ranges else ()),
    )


def _of_frames(lens: Lens, index: list[int]) -> Lens:
    tensors = {name: value for name, value in vars(lens).items() if isinstance(value, torch.Tensor)}
    changed: dict[str, Any] = {name: value[index] for name, value in tensors.items() if value.ndim}
    return replace(lens, **changed) if changed else lens


def spread_between(
    stack: FocalStack,  # of all frames, near to far
    chosen: Sequence[int],
    distances: Sequence[float],  # metres, of the chosen frames, as they were refined
) -> list[float]:  # metres, of all frames
    """Focus distances of all frames, where those of the chosen ones were refined: others lie evenly between them.

    Each stays in the range that its metadata leaves; exact distances stay as they are.
    """
    places, inverse = torch.tensor(list(chosen), dtype=torch.float64), 1 / torch.tensor(distances, dtype=torch.float64)
    found = dict(zip(chosen, distances, strict=True))
    every: list[float] = []
    for index, (given, (near, far)) in enumerate(
        zip(stack.focus_distances.tolist(), stack.record.focus_ranges, strict=True)
    ):
        if index in found or near == far:
            every.append(found.get(index, given))
            continue
        after = min(int(torch.searchsorted(places, index)), len(chosen) - 1)
        share = (index - places[after - 1]) / (places[after] - places[after - 1])
        even = float(torch.lerp(inverse[after - 1], inverse[after], share))
        every.append(min(max(1 / even if even > 0 else torch.inf, near), far))
    return every
