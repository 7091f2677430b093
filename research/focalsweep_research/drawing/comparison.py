"""Depth maps of several methods side by side, for the documents: one scale of depth and one of error for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
    TITLE_SIZE,
    Sheet,
    display_pixels,
    fit_within,
    lay_scale,
)
from focalsweep.results.figures import Pixels, coloured, depth_pixels, depth_ticks, inverse_depth_range
from focalsweep.results.result import Array

ROUND_ERRORS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ENOUGH = 0.95  # the share of errors that the scale spans


@dataclass(frozen=True)
class Scene:
    """One row of a comparison.

    Args:
        frames: by caption, H W C in linear light: as many as are worth showing.
        depths: by method, H W, metres.
        truth: H W, metres, where there is one.
    """

    frames: Mapping[str, Array]
    depths: Mapping[str, Array]
    truth: Array | None = None

    def __post_init__(self) -> None:
        maps = {**self.frames, **self.depths, **({} if self.truth is None else {"truth": self.truth})}
        sizes = {name: map_.shape[:2] for name, map_ in maps.items()}
        if not self.depths or not self.frames or len(set(sizes.values())) != 1:
            raise ValueError(f"a scene needs frames and depths of one size, but has {sizes}")

    def errors(self, method: str) -> Array | None:
        """|depth - truth| / truth; no number where the truth is not known."""
        if self.truth is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.abs(self.depths[method] - self.truth) / self.truth
        return np.where(np.isfinite(self.truth) & (self.truth > 0), error, np.nan).astype(np.float32)


@dataclass(frozen=True)
class _Scales:
    """What all maps share."""

    near: float
    far: float
    largest_error: float
    depth: Any = field(repr=False)
    error: Any = field(repr=False)


def comparison(
    scenes: Sequence[Scene],
    *,
    title: str = "",
    largest_error: float | None = None,
    width_px: int = DESIGN_WIDTH_PX,
    relative: bool = False,
) -> bytes:
    """A PNG: a row for each scene with its frames, the truth and every method's depth; below these their errors.

    Depth runs from near, warm, to far, cold, equal steps of colour for equal steps of 1/depth; its range is that of the
    truth. Where no scene has one it is what most methods say, the median of their ends: one that is far off does not
    take the others' colours. Errors are relative to the truth, their mean below each.

    Args:
        scenes: of the same frames' captions and methods.
        title: the first line.
        largest_error: the end of the scale of errors, 0.1 for 10 %; a round number that spans 95 % of them by default.
        width_px: of the picture; text grows with it. Wider where a word of a caption needs it.
        relative: depth has no unit, so that the scale says near and far.
    """
    columns = {(tuple(scene.frames), tuple(scene.depths), scene.truth is None) for scene in scenes}
    if len(columns) != 1:
        raise ValueError(
            f"a comparison needs scenes that agree in frames, methods and truth, but has {len(columns)} kinds"
        )
    scales = _scales(scenes, largest_error)
    first = scenes[0]
    captions = [*first.frames, *([] if first.truth is None else ["Truth"]), *first.depths]
    sheet = Sheet(width_px)
    between = 2 * MARGIN + (len(captions) - 1) * GAP
    cell = max(
        (DESIGN_WIDTH_PX - between) / len(captions), _widest(sheet, captions, with_errors=first.truth is not None)
    )
    sheet.widen(between + len(captions) * cell)
    lefts = [MARGIN + number * (cell + GAP) for number in range(len(captions))]
    y: float = MARGIN
    if title:
        y = sheet.text((MARGIN, y), title, TITLE_SIZE, INK) + GAP
    headings = [_lines(sheet, caption, cell) for caption in captions]
    deepest = max(len(lines) for lines in headings)
    for left, lines in zip(lefts, headings, strict=True):
        for number, line in enumerate(lines, deepest - len(lines)):
            sheet.text((left, y + number * 1.25 * CAPTION_SIZE), line, CAPTION_SIZE, INK)
    y += deepest * 1.25 * CAPTION_SIZE + 6
    for scene in scenes:
        y = _lay_scene(sheet, scene, scales, lefts, cell, y) + GAP
    bottom = _lay_scales(sheet, scales, y + GAP, with_errors=first.truth is not None, relative=relative)
    return sheet.png(bottom + MARGIN)


def _widest(sheet: Sheet, captions: Sequence[str], with_errors: bool) -> float:
    """What a column needs: its longest word, and its error."""
    words = [sheet.text_width(word, CAPTION_SIZE) for caption in captions for word in caption.split()]
    return max([*words, sheet.text_width(_absrel(0.0), TEXT_SIZE) if with_errors else 0.0])


def _absrel(value: float) -> str:
    return f"AbsRel {value:.4f}"


def _lines(sheet: Sheet, caption: str, width: float) -> list[str]:
    """A caption broken between words where it is wider than its column."""
    lines: list[str] = []
    for word in caption.split():
        if lines and sheet.text_width(f"{lines[-1]} {word}", CAPTION_SIZE) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _scales(scenes: Sequence[Scene], largest_error: float | None) -> _Scales:
    import matplotlib

    truths = [scene.truth.ravel() for scene in scenes if scene.truth is not None]
    shown = [truths] if truths else [[scene.depths[name].ravel() for scene in scenes] for name in scenes[0].depths]
    near, far = np.median([inverse_depth_range(np.concatenate(depths)) for depths in shown], axis=0).tolist()
    if largest_error is None:
        errors = [error for scene in scenes for m in scene.depths if (error := scene.errors(m)) is not None]
        every = np.concatenate([error[np.isfinite(error)] for error in errors] or [np.zeros(1, np.float32)])
        spanned = float(np.quantile(every, ENOUGH)) if every.size else 0.0
        largest_error = next((size for size in ROUND_ERRORS if size >= spanned), ROUND_ERRORS[-1])
    return _Scales(near, far, largest_error, matplotlib.colormaps["turbo_r"], matplotlib.colormaps["inferno"])


def _lay_scene(sheet: Sheet, scene: Scene, scales: _Scales, lefts: list[float], cell: float, top: float) -> float:
    """Frames and depths in a row, errors in another; returns the y below them."""
    maps: list[Pixels] = [display_pixels(frame) for frame in scene.frames.values()]
    depths = [*([] if scene.truth is None else [scene.truth]), *scene.depths.values()]
    maps += [depth_pixels(depth, scales.near, scales.far, scales.depth) for depth in depths]
    width, height = fit_within(maps[0].shape, cell, DESIGN_WIDTH_PX)
    for number, (left, pixels) in enumerate(zip(lefts, maps, strict=True)):
        sheet.picture(pixels, (left, top, left + width, top + height), smooth=number < len(scene.frames))
    y = top + height
    for left, method in zip(lefts[-len(scene.depths) :], scene.depths, strict=True):
        error = scene.errors(method)
        if error is None:
            continue
        place = (left, top + height + 6, left + width, top + 2 * height + 6)
        sheet.picture(coloured(error / scales.largest_error, scales.error), place, smooth=False)
        known = error[~np.isnan(error)]
        words = _absrel(float(known.mean())) if known.size else "no truth"
        y = sheet.text((left + width / 2, place[3] + 4), words, TEXT_SIZE, FAINT_INK, "ma")
    return y


def _lay_scales(sheet: Sheet, scales: _Scales, top: float, with_errors: bool, relative: bool) -> float:
    half = (DESIGN_WIDTH_PX - 2 * MARGIN - 2 * GAP) / 2
    end = scales.largest_error
    depths = [(0.0, "near"), (1.0, "far")] if relative else depth_ticks(scales.near, scales.far)
    bars = [("Depth", scales.depth, depths)]
    if with_errors:
        ticks = [(0.0, "0"), (1.0, f"{100 * end:g} % and more"), (0.5, f"{50 * end:g} %")]
        bars.append(("Error relative to the truth", scales.error, ticks))
    bottom = top
    for number, (caption, colours, ticks) in enumerate(bars):
        left = MARGIN + number * (half + 2 * GAP)
        y = sheet.text((left, top), caption, TEXT_SIZE, INK) + 4
        lay_scale(sheet, colours, ticks, (left, y, left + half, y + BAR_HEIGHT))
        bottom = y + BAR_HEIGHT + TICK + 3 + LINE
    return bottom
