"""One picture that shows a whole result: the frames, the picture sharp all over, depth and confidence."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from focalsweep.results.figures import INK as INK
from focalsweep.results.figures import (
    PNG_LEVEL,
    Pixels,
    coloured,
    font_of,
    hatched,
    in_colours,
    is_unsure,
    metres,
    srgb_8_bit,
)
from focalsweep.results.result import Array, DepthResult
from focalsweep.types import Camera, FocalStack, StageLens

if TYPE_CHECKING:
    from PIL import ImageDraw

Box = tuple[float, float, float, float]  # left, top, right, bottom

DESIGN_WIDTH_PX = 1600  # every length below is in pixels of a sheet this wide
MARGIN, GAP = 40, 16
TITLE_SIZE, CAPTION_SIZE, TEXT_SIZE = 30, 21, 17
MOST_COLUMNS, LEAST_COLUMNS = 10, 4
LINE = 1.25 * TEXT_SIZE
LEAST_SLOT = 84
TALLEST_PANEL, TALLEST_FRAME = 900, 360
MOST_PANEL_PX = 2000
BAR_HEIGHT, TICK = 16, 6
PAPER, FAINT_INK = (255, 255, 255), (110, 114, 122)
CONFIDENCE_TICKS = [(0.0, "0"), (1.0, "1"), (0.5, "0.5"), (0.25, "0.25"), (0.75, "0.75")]


def contact_sheet(
    stack: FocalStack, result: DepthResult, *, title: str | None = None, width_px: int = DESIGN_WIDTH_PX
) -> bytes:
    """A PNG of one stack and its result.

    Frames stand in order of focus with their distance. Depth runs from near, warm, to far, cold, with equal steps of
    colour for equal steps of 1/depth, over a scale in metres, or without a unit where the result has none. Pixels
    without a depth are gray.

    Args:
        stack: not a batch; of any size, the result's own included.
        result: what was made of it.
        title: the first line; by default the number of frames.
        width_px: of the sheet, 800 or more; text grows with it.
    """
    if stack.batched or result.depth.ndim != 2:
        raise ValueError("a contact sheet shows one stack: make one for each stack of a batch")
    if width_px < 800:
        raise ValueError(f"a contact sheet is not legible below 800 px, but width_px is {width_px}")
    sheet = Sheet(width_px)
    y: float = MARGIN
    y = sheet.text((MARGIN, y), title or _title(stack, result), TITLE_SIZE, INK) + 6
    y = sheet.text((MARGIN, y), _describe(stack, result), TEXT_SIZE, FAINT_INK) + 2 * GAP
    y = _lay_frames(sheet, stack, y) + 2 * GAP
    bottom = _lay_panels(sheet, result, y)
    return sheet.png(bottom + MARGIN)


def _title(stack: FocalStack, result: DepthResult) -> str:
    shown = stack.frame_count
    taken = result.record.get("summary", {}).get("frames", shown)
    return f"Focal stack of {taken} frames" + (f", {shown} of them read for depth" if shown < taken else "")


class Sheet:
    """What is to be drawn, in design pixels; drawn at the end, when the height is known."""

    def __init__(self, width_px: int) -> None:
        self.scale = width_px / DESIGN_WIDTH_PX
        self.width_px = width_px
        self.text_boxes: list[Box] = []
        self.picture_boxes: list[Box] = []
        self._jobs: list[Callable[[Any, ImageDraw.ImageDraw], None]] = []

    def widen(self, design_px: float) -> None:
        """To a width in design pixels, where that is more than it has."""
        self.width_px = max(self.width_px, round(design_px * self.scale))

    def text(
        self, at: tuple[float, float], words: str, size: int, colour: tuple[int, ...], anchor: str = "la"
    ) -> float:
        """Write a line at a point (Pillow's anchors); returns the y below it."""
        font = font_of(max(1, round(size * self.scale)))
        x, y = at
        length = font.getlength(words) / self.scale
        left = x - length * {"l": 0, "m": 0.5, "r": 1}[anchor[0]]
        below = y + 1.25 * size
        self.text_boxes.append((left, y, left + length, below))
        point = (x * self.scale, y * self.scale)
        self._jobs.append(lambda _, draw: draw.text(point, words, fill=colour, font=font, anchor=anchor))
        return below

    def text_width(self, words: str, size: int) -> float:
        return font_of(max(1, round(size * self.scale))).getlength(words) / self.scale

    def picture(self, pixels: Pixels, box: Box, smooth: bool = True) -> None:
        """Pixels H W 3 stretched over a box."""
        from PIL import Image

        self.picture_boxes.append(box)
        left, top, right, bottom = (round(value * self.scale) for value in box)
        size = (max(1, right - left), max(1, bottom - top))
        shrinks = pixels.shape[1] > size[0]
        method = Image.Resampling.BOX if shrinks else (Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST)
        picture = Image.fromarray(pixels).resize(size, method)
        self._jobs.append(lambda sheet, _: sheet.paste(picture, (left, top)))

    def rectangle(self, box: Box, colour: tuple[int, ...]) -> None:
        left, top, right, bottom = (round(value * self.scale) for value in box)
        corners = (left, top, max(left, right - 1), max(top, bottom - 1))
        self._jobs.append(lambda _, draw: draw.rectangle(corners, fill=colour))

    def png(self, height: float) -> bytes:
        from PIL import Image, ImageDraw

        image = Image.new("RGB", (self.width_px, round(height * self.scale)), PAPER)
        draw = ImageDraw.Draw(image)
        for job in self._jobs:
            job(image, draw)
        buffer = io.BytesIO()
        image.save(buffer, "png", compress_level=PNG_LEVEL)
        return buffer.getvalue()


def _lay_frames(sheet: Sheet, stack: FocalStack, top: float) -> float:
    """Thumbnails in rows of equal length, each over its focus distance or height; returns the y below them."""
    distances = stack.focus_distances.detach().cpu().reshape(-1).tolist()
    order = sorted(range(len(distances)), key=distances.__getitem__)
    columns = max(LEAST_COLUMNS, math.ceil(len(order) / math.ceil(len(order) / MOST_COLUMNS)))
    cell = (DESIGN_WIDTH_PX - 2 * MARGIN - (columns - 1) * GAP) / columns
    width, height = fit_within(stack.size, cell, TALLEST_FRAME)
    slot = max(width, LEAST_SLOT)  # room for the label of a narrow frame
    bottom = top
    for number, frame in enumerate(order):
        row, column = divmod(number, columns)
        middle = MARGIN + column * (slot + GAP) + slot / 2
        y = top + row * (height + LINE + 6 + GAP)
        pixels = display_pixels(stack.images[frame].detach().cpu().float().movedim(0, -1).numpy())
        sheet.picture(pixels, (middle - width / 2, y, middle + width / 2, y + height))
        label = metres(distances[frame]) if stack.unit else f"frame {number + 1}"
        if isinstance(stack.camera, StageLens):
            label = metres(round(float(stack.camera.heights(stack.focus_distances[frame])), 12))
        bottom = sheet.text((middle, y + height + 6), label, TEXT_SIZE, INK, "ma")
    return bottom


def _lay_panels(sheet: Sheet, result: DepthResult, top: float) -> float:
    """The three maps side by side, each under its caption; depth and confidence over their scales."""
    import matplotlib

    relative = result.unit is None
    # Of a large picture every n-th pixel: colours take 32 bytes each, and a panel shows no more.
    part = (slice(None, None, max(1, result.depth.shape[1] // MOST_PANEL_PX)),) * 2
    unsure = is_unsure(result.depth[part], result.confidence[part])
    depth_words = "Depth (relative, no unit)" if relative else result.quantity.capitalize()
    warm_to_cold, dark_to_light = matplotlib.colormaps["turbo_r"], matplotlib.colormaps["YlGnBu_r"]
    pixels, ticks = in_colours(result.depth, part, warm_to_cold, result.unit, result.quantity)
    panels = [
        ("Sharp all over", display_pixels(result.all_in_focus), None, []),
        (
            depth_words + (", hatched where unsure" if unsure.any() else ""),
            hatched(pixels, unsure),
            warm_to_cold,
            ticks,
        ),
        ("Confidence", coloured(result.confidence[part], dark_to_light), dark_to_light, CONFIDENCE_TICKS),
    ]
    cell = (DESIGN_WIDTH_PX - 2 * MARGIN - (len(panels) - 1) * 2 * GAP) / len(panels)
    width, height = fit_within(result.depth.shape, cell, TALLEST_PANEL)
    y: float = top
    for number, (caption, pixels, colours, ticks) in enumerate(panels):
        x = MARGIN + number * (cell + 2 * GAP)
        y = sheet.text((x, top), caption, CAPTION_SIZE, INK) + 6
        sheet.picture(pixels, (x, y, x + width, y + height), smooth=colours is None)
        y += height + GAP
        if colours is not None:
            lay_scale(sheet, colours, ticks, (x, y, x + cell, y + BAR_HEIGHT))
    return y + BAR_HEIGHT + TICK + 3 + LINE


def fit_within(size: tuple[int, ...], widest: float, tallest: float) -> tuple[float, float]:
    """Width and height of a picture of H W pixels within a box."""
    scale = min(widest / size[1], tallest / size[0])
    return max(1.0, size[1] * scale), max(1.0, size[0] * scale)


def lay_scale(sheet: Sheet, colours: Any, ticks: list[tuple[float, str]], box: Box) -> None:
    """A bar of colours with a label below each tick that finds room, the first of them first."""
    left, _, right, bottom = box
    sheet.picture(coloured(np.linspace(0, 1, 512)[None], colours), box)
    taken: list[tuple[float, float]] = []
    for share, label in ticks:
        x = left + share * (right - left)
        half = sheet.text_width(label, TEXT_SIZE) / 2
        middle = min(max(x, left + half), right - half)  # the outermost labels stay within the bar
        if any(middle - half < end + GAP and start < middle + half + GAP for start, end in taken):
            continue
        taken.append((middle - half, middle + half))
        sheet.rectangle((x - 1, bottom, x + 1, bottom + TICK), FAINT_INK)
        sheet.text((middle, bottom + TICK + 3), label, TEXT_SIZE, INK, "ma")


def _describe(stack: FocalStack, result: DepthResult) -> str:
    """Size, camera and method in a line; settings that differ between frames are left out."""
    height, width = result.depth.shape
    words = [f"{width} \N{MULTIPLICATION SIGN} {height} px"]
    camera = result.camera
    if isinstance(camera, Camera) and isinstance(camera.focal_length, float):
        words.append(f"{camera.focal_length * 1e3:.3g} mm")
        if isinstance(camera.f_number, float):
            told = result.record.get("settings", {}).get("f_number") or {}
            stop, effective = told.get("value", camera.f_number), f"{camera.f_number:.3g}"
            words[-1] += f" f/{stop:.3g}" + (f", blurs like f/{effective}" if f"{stop:.3g}" != effective else "")
    if "method" in result.record:
        words.append(f"method {result.record['method']}, {result.planes.count} planes")
    return "   \N{MIDDLE DOT}   ".join(words)


def display_pixels(linear: Array) -> Pixels:
    """Linear light H W C as sRGB H W 3; a picture of other than 1 or 3 channels by their mean."""
    if linear.shape[-1] not in (1, 3):
        linear = linear.mean(-1, keepdims=True)
    return np.ascontiguousarray(np.broadcast_to(srgb_8_bit(linear), (*linear.shape[:2], 3)))
