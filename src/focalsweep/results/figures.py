"""Pictures for people: depth in colour, with its scale in metres."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from focalsweep.optics.light import linear_to_srgb
from focalsweep.results.result import Array

if TYPE_CHECKING:
    from PIL import ImageFont

Pixels = npt.NDArray[np.uint8]

ROWS_AT_ONCE = 512
NARROWEST_PX, WIDEST_PX = 580, 2000
LINE_EMS, LEAST_BAR_EMS = 45, 6  # sizes of type across the picture; along its scale, at least
INK = (28, 30, 34)
PNG_LEVEL = 3  # of 9: half as fast again as zlib's own choice, for a file little larger
LEAST_CONFIDENCE = 0.5  # the chosen plane or a direct neighbour is more likely right than not
UNSURE_WORDS = f"confidence below {LEAST_CONFIDENCE}"
HATCH_LINES, HATCH_DARK, FAINT = 90, 0.55, 0.35
NOTHING = (196, 198, 202)
NARROW = 1.6  # a range whose ends are in this ratio has ticks in equal steps
ROUND_STEPS = (1, 2, 5, 3, 4, 1.5, 6, 8, 2.5, 7, 3.5, 1.2, 9, 4.5, 1.8)  # the roundest first
UNITS = ((1.0, "m"), (1e2, "cm"), (1e3, "mm"), (1e6, "µm"))


def srgb_8_bit(linear: Array) -> npt.NDArray[np.uint8]:
    """Linear light as 8-bit sRGB of the same axes; what lies outside 0 to 1 is clipped."""
    encoded = np.empty(linear.shape, np.uint8)
    for top in range(0, len(linear), ROWS_AT_ONCE):  # in bands: the arithmetic takes several copies
        band = linear_to_srgb(torch.from_numpy(linear[top : top + ROWS_AT_ONCE]))
        encoded[top : top + ROWS_AT_ONCE] = band.clamp(0, 1).mul(255).round().to(torch.uint8).numpy()
    return encoded


def depth_picture(
    depth: Array,
    title: str | None = None,
    *,
    unit: str | None = "m",
    confidence: Array | None = None,
    quantity: Literal["depth", "height"] = "depth",
) -> bytes:
    """A PNG of depth H W, near warm and far cold, equal steps of colour for equal steps of 1/depth.

    The scale has round lengths, or says near and far alone where depth has no unit. Where the confidence is below
    one half, colours are faint and hatched, and a line below says what that means. Heights run from high, warm, to
    low, cold, in equal steps.
    """
    import matplotlib
    from PIL import Image, ImageDraw

    stride = math.ceil(depth.shape[1] / WIDEST_PX)  # more pixels than the picture has only take memory
    part = (slice(None, None, stride), slice(None, None, stride))
    colours = matplotlib.colormaps["turbo_r"]
    pixels, ticks = in_colours(depth, part, colours, unit, quantity)
    unsure = np.zeros(depth.shape, bool) if confidence is None else is_unsure(depth, confidence)
    shown = Image.fromarray(hatched(pixels, unsure[part]))
    wide = max(pixels.shape[1], NARROWEST_PX)
    em = wide / LINE_EMS
    tall = max(1, round((wide - em) * depth.shape[0] / depth.shape[1]))
    bar = max(tall, round(LEAST_BAR_EMS * em))
    font, above = font_of(round(em)), round(em if title is None else 2.5 * em)
    below = round(em if not unsure.any() else 2.5 * em)
    left, right = round(em), round(1.18 * wide)
    picture = Image.new("RGB", (right, above + bar + below), (255, 255, 255))
    draw = ImageDraw.Draw(picture)
    picture.paste(shown.resize((wide - left, tall), Image.Resampling.NEAREST), (left, above))
    if title:
        draw.text(((left + wide) / 2, above / 2), title, fill=INK, font=font, anchor="mm")
    if unsure.any():
        words = f"hatched: unsure ({UNSURE_WORDS}), {unsure.mean():.0%}"
        draw.text((left, picture.height - em), words, fill=INK, font=font, anchor="lm")
    first = wide + round(em)
    scale = Image.fromarray(coloured(np.linspace(0, 1, 256)[:, None], colours))  # near at the top
    picture.paste(scale.resize((round(2 * em), bar), Image.Resampling.BILINEAR), (first, above))
    for share, label in spaced(ticks, least=2 * em / bar):
        y, x = above + share * (bar - 1), first + 2 * em
        draw.line((x, y, x + em / 3, y), fill=INK, width=max(1, round(em / 10)))
        draw.text((x + 0.6 * em, y), label, fill=INK, font=font, anchor="lm")
    buffer = io.BytesIO()
    picture.save(buffer, "png", compress_level=PNG_LEVEL)
    return buffer.getvalue()


@lru_cache(maxsize=16)
def font_of(size_px: int) -> ImageFont.FreeTypeFont:
    """The font that matplotlib brings along: the same on every machine."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size_px)


def in_colours(
    depth: Array, part: tuple[slice, slice], colours: Any, unit: str | None, quantity: Literal["depth", "height"]
) -> tuple[Pixels, list[tuple[float, str]]]:
    """A part of a map of depth or height in the colours of the whole, and the ticks of its scale."""
    if quantity == "height":
        high, low = height_range(depth)
        return height_pixels(depth[part], high, low, colours), height_ticks(high, low)
    near, far = inverse_depth_range(depth)
    ticks = [(0.0, "near"), (1.0, "far")] if unit is None else depth_ticks(near, far)
    return depth_pixels(depth[part], near, far, colours), ticks


def height_range(height: Array) -> tuple[float, float]:
    """The highest and the lowest place that colours span, without the outermost 0.5 % at either end."""
    known = height[np.isfinite(height)].astype(np.float64)
    if known.size == 0:
        return 1.0, 0.0
    high, low = np.quantile(known, [0.995, 0.005]).tolist()
    return (high, low) if high > low else (low + 1e-9, low)


def height_pixels(height: Array, high: float, low: float, colours: Any) -> Pixels:
    """Height in colours, in equal steps from `high` to `low`; gray where there is none."""
    return coloured((high - height.astype(np.float64)) / (high - low), colours)


def height_ticks(high: float, low: float) -> list[tuple[float, str]]:
    """Round heights within a range: (share of the bar from high to low, label), all in one unit."""
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(step * power for step in (1, 2, 5, 10) if 6.001 * step * power >= high - low)
    values = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    labels = lengths(values, typical=max(abs(high), abs(low)))
    return [((high - value) / (high - low), label) for value, label in zip(values, labels, strict=True)]


def is_unsure(depth: Array, confidence: Array) -> npt.NDArray[np.bool_]:
    """Where there is a depth that is not to be relied on."""
    return np.asarray(~(confidence >= LEAST_CONFIDENCE) & ~np.isnan(depth))


def hatched(pixels: Pixels, unsure: npt.NDArray[np.bool_]) -> Pixels:
    """Pixels H W 3, faint and under slanted lines where `unsure`."""
    if not unsure.any():
        return pixels
    period = max(6, pixels.shape[1] // HATCH_LINES)
    row, column = np.ogrid[: pixels.shape[0], : pixels.shape[1]]
    line = (row + column) % period < max(1, period // 6)
    codes = np.arange(256)
    dark = (codes * HATCH_DARK).round().astype(np.uint8)
    faint = (FAINT * codes + (1 - FAINT) * 255).round().astype(np.uint8)
    shown = pixels.copy()
    for where, table in ((unsure & line, dark), (unsure & ~line, faint)):
        shown[where] = table[pixels[where]]
    return shown


def depth_pixels(depth: Array, near: float, far: float, colours: Any) -> Pixels:
    """Depth in colours, in equal steps of inverse depth from `near` to `far`; gray where there is none."""
    with np.errstate(divide="ignore"):
        return coloured((near - 1 / depth.astype(np.float64)) / (near - far), colours)


def coloured(shares: npt.NDArray[Any], colours: Any) -> Pixels:
    """0..1 as colours; gray where there is no number."""
    count = colours.N
    table = (colours(np.arange(count))[:, :3] * 255).round().astype(np.uint8)
    nowhere = np.isnan(shares)
    steps = np.clip(np.where(nowhere, 0, shares) * count, 0, count - 1).astype(np.intp)
    pixels: Pixels = table[steps]
    pixels[nowhere] = NOTHING
    return pixels


def inverse_depth_range(depth: Array) -> tuple[float, float]:
    """The nearest and the farthest inverse depth that colours span, without the outermost 0.5 % at either end."""
    inverse = 1 / depth[~np.isnan(depth) & (depth > 0)].astype(np.float64)
    if inverse.size == 0:
        return 1.0, 0.0
    near, far = np.quantile(inverse, [0.995, 0.005]).tolist()
    return (near, far) if near > far else (far + max(1e-6, 1e-3 * far), far)


def depth_ticks(near: float, far: float) -> list[tuple[float, str]]:
    """Round depths within a range of inverse depths, the roundest first: (share of the bar from near to far, label).

    All labels have one unit: metres, centimetres, millimetres or micrometres, as the range asks.
    """
    first, last = 1 / near, 1 / far if far > 0 else math.inf
    if last < NARROW * first:  # a step that is round, from end to end
        power = 10.0 ** math.floor(math.log10((last - first) / 4))
        step = next(step * power for step in (1, 2, 5, 10) if 4.001 * step * power >= last - first)
        depths = [k * step for k in range(math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9) + 1)]
    else:
        powers = range(math.floor(math.log10(first)), math.ceil(math.log10(min(last, 1000 * first))) + 1)
        depths = [math.inf, *(step * 10.0**power for step in ROUND_STEPS for power in powers)]
    inside = [value for value in depths if first * (1 - 1e-9) <= value <= last * (1 + 1e-9)]
    labels = lengths(inside, typical=min(last, 4 * first))
    return [
        (min(1.0, max(0.0, (near - 1 / value) / (near - far))), label)
        for value, label in zip(inside, labels, strict=True)
    ]


def spaced(ticks: list[tuple[float, str]], least: float) -> list[tuple[float, str]]:
    """Those that stand `least` of the bar apart, the first of them first."""
    kept: list[tuple[float, str]] = []
    for tick in ticks:
        if all(abs(tick[0] - other[0]) >= least for other in kept):
            kept.append(tick)
    return kept


def lengths(values: Sequence[float], typical: float) -> list[str]:
    """Lengths for people, in the unit that suits a typical one."""
    factor, unit = next((f, u) for f, u in UNITS if typical * f >= 1 or u == UNITS[-1][1])
    return ["infinity" if not math.isfinite(value) else f"{value * factor:.6g} {unit}" for value in values]


def metres(value: float) -> str:
    """A length for people: 30 µm, 5.12 mm, 1.23 m, infinity."""
    if not np.isfinite(value):
        return "infinity"
    if abs(value) < 1e-4:
        return f"{value * 1e6:.3g} µm"
    if value < 0.01:
        return f"{value * 1e3:.2f} mm"
    return f"{value:.3g} m"
