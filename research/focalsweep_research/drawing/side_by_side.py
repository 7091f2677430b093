"""Depth and error bars of several methods on many stacks: a row for each stack, on a scale of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from focalsweep.results.contact_sheet import (
    BAR_HEIGHT,
    CAPTION_SIZE,
    DESIGN_WIDTH_PX,
    FAINT_INK,
    GAP,
    INK,
    LINE,
    MARGIN,
    TEXT_SIZE,
    TICK,
    Sheet,
    display_pixels,
    fit_within,
    lay_scale,
)
from focalsweep.results.figures import Pixels, coloured, depth_pixels, depth_ticks, inverse_depth_range
from focalsweep.results.result import Array
from focalsweep.sweep.frames import focused_picture
from focalsweep.sweep.volume import plane_position
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.metrics.flatness import inverse_bars

LARGEST_BAR = 0.1  # of the range of depth that the colours of error bars span
MOST_PX = 640  # of a map's longer side
OUTLINE = (255, 255, 255)


@dataclass(frozen=True, eq=False)
class StackMaps:
    """One stack, small enough to keep many.

    Args:
        name: of the stack.
        sharp: H W 3, 8-bit sRGB, with the outlines of what was marked.
        depths, bars: by method, H W: depth, and the standard deviation of inverse depth.
        relative: depth has no unit.
    """

    name: str
    sharp: Pixels
    depths: Mapping[str, Array]
    bars: Mapping[str, Array]
    relative: bool

    @classmethod
    def of(
        cls,
        name: str,
        stack: FocalStack,
        planes: DepthGrid,
        answers: Mapping[str, DepthPrediction],
        regions: Mapping[str, Tensor],
    ) -> StackMaps:
        """Answers are batches of one; the first makes the sharp picture."""
        step = -(-max(stack.size) // MOST_PX)
        part = (slice(None, None, step), slice(None, None, step))
        first = next(iter(answers.values())).depth.float()
        plane = plane_position(1 / first, planes.as_batch(1).to(first)).round().long().clamp(0, planes.count - 1)
        light = focused_picture(stack.to("cpu").as_batch(), planes, plane)[0].movedim(0, -1)
        sharp = _outlined(display_pixels(light.float().numpy()), regions, step)[part]
        bars = {key: inverse_bars(one.depth[0], one.std[0])[1].float().numpy()[part] for key, one in answers.items()}
        depths = {key: one.depth[0].float().numpy()[part] for key, one in answers.items()}
        return cls(name, np.ascontiguousarray(sharp), depths, bars, stack.unit is None)


def _outlined(pixels: Pixels, regions: Mapping[str, Tensor], width_px: int) -> Pixels:
    import cv2

    pixels = pixels.copy()
    for mask in regions.values():
        outlines, _ = cv2.findContours(mask.numpy().astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(pixels, outlines, -1, OUTLINE, 2 * width_px)
    return pixels


def side_by_side(stacks: Sequence[StackMaps], width_px: int = DESIGN_WIDTH_PX) -> bytes:
    """A PNG: the picture sharp all over, every method's depth, then every method's error bar, dark where it is sure.

    Depth runs from near, warm, to far, cold, in equal steps of inverse depth, over the range that most methods give;
    error bars, of inverse depth, are shares of that range.
    """
    import matplotlib

    colours, sure = matplotlib.colormaps["turbo_r"], matplotlib.colormaps["magma"]
    methods = list(dict.fromkeys(method for maps in stacks for method in maps.depths))
    captions = ["Sharp all over", *methods, *(f"error bar, {method}" for method in methods)]
    sheet = Sheet(width_px)
    cell = (DESIGN_WIDTH_PX - 2 * MARGIN - (len(captions) - 1) * GAP) / len(captions)
    lefts = [MARGIN + number * (cell + GAP) for number in range(len(captions))]
    y: float = MARGIN
    for left, caption in zip(lefts, captions, strict=True):
        sheet.text((left, y), caption, CAPTION_SIZE if len(captions) < 6 else TEXT_SIZE, INK)
    y += 1.5 * CAPTION_SIZE
    for maps in stacks:
        y = sheet.text((MARGIN, y), maps.name, TEXT_SIZE, FAINT_INK) + 4
        near, far = np.median([inverse_depth_range(depth) for depth in maps.depths.values()], axis=0).tolist()
        width, height = fit_within(maps.sharp.shape, cell, DESIGN_WIDTH_PX)
        largest = LARGEST_BAR * (near - far)
        pixels = {0: maps.sharp}
        for number, method in enumerate(methods, start=1):
            if method in maps.depths:  # others do not read such a stack
                pixels[number] = depth_pixels(maps.depths[method], near, far, colours)
                pixels[number + len(methods)] = coloured(maps.bars[method] / largest, sure)
        for number, one in pixels.items():
            box = (lefts[number], y, lefts[number] + width, y + height)
            sheet.picture(one, box, smooth=number == 0)
        y += height + 6
        ticks = [(0.0, "near"), (1.0, "far")] if maps.relative else depth_ticks(near, far)
        lay_scale(sheet, colours, ticks, (lefts[1], y, lefts[1] + cell, y + BAR_HEIGHT))
        words = [(0.0, "0"), (1.0, f"{100 * LARGEST_BAR:g} % of the range")]
        bar_left = lefts[1 + len(methods)]
        lay_scale(sheet, sure, words, (bar_left, y, bar_left + cell, y + BAR_HEIGHT))
        y += BAR_HEIGHT + TICK + 3 + LINE + GAP
    return sheet.png(y + MARGIN)
