"""An outcome as pictures and words for the page. Rows and columns are those of the outcome's (reduced) result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import torch

from focalsweep.errors import say
from focalsweep.methods.sweep import cost_curve
from focalsweep.results.contact_sheet import CONFIDENCE_TICKS, display_pixels
from focalsweep.results.figures import Pixels, coloured, depth_pixels, depth_ticks, inverse_depth_range, metres
from focalsweep.results.geometry import measure_distance
from focalsweep.results.refocus import refocus
from focalsweep.types import FocalStack
from focalsweep.web.tasks import Outcome
from focalsweep.web.words import WORDS

Mark = tuple[int, int]  # row, column
LEAST_WIDTH_PX = 700  # above the widest that the page shows it
REFOCUS_PX = 640  # a picture that follows the slider: a tenth of a second
SCALE_STEPS = 24
LEAST_TICK_GAP = 0.16  # of the bar, so that labels do not touch on a phone
CURVE = (320, 120)  # the SVG's own units


def enlargement(outcome: Outcome) -> int:
    """How many pixels of the depth picture a pixel of the depth has, across and down.

    The browser only ever shrinks the picture: of one that it enlarges, Gradio tells the wrong place of a click.
    """
    width: int = outcome.result.depth.shape[1]
    return math.ceil(LEAST_WIDTH_PX / width)


def depth_view(outcome: Outcome, marks: Sequence[Mark] = ()) -> Pixels:
    near, far = inverse_depth_range(outcome.result.depth)
    times = enlargement(outcome)
    pixels = depth_pixels(outcome.result.depth, near, far, _colours("turbo_r")).repeat(times, 0).repeat(times, 1)
    return _marked(pixels, [(row * times + times // 2, column * times + times // 2) for row, column in marks])


def mark_at(outcome: Outcome, across: float, down: float) -> Mark:
    """The pixel of the depth at a place of its picture, inside it whatever was asked."""
    times = enlargement(outcome)
    height, width = outcome.result.depth.shape
    return min(max(int(down) // times, 0), height - 1), min(max(int(across) // times, 0), width - 1)


def confidence_view(outcome: Outcome) -> Pixels:
    return coloured(outcome.result.confidence, _colours("YlGnBu_r"))


def sharp_view(outcome: Outcome) -> Pixels:
    return display_pixels(outcome.result.all_in_focus)


def depth_scale(outcome: Outcome) -> str:
    """A bar from near to far with depths below it."""
    near, far = inverse_depth_range(outcome.result.depth)
    ticks = [(0.0, "near"), (1.0, "far")] if outcome.relative else depth_ticks(near, far)
    return _scale("turbo_r", ticks, "depth, near to far")


def confidence_scale() -> str:
    return _scale("YlGnBu_r", CONFIDENCE_TICKS, "confidence, 0 to 1")


def reading(outcome: Outcome, mark: Mark) -> str:
    """Depth, error bar and confidence at a pixel."""
    depth, std, confidence = (
        float(maps[mark]) for maps in (outcome.result.depth, outcome.result.std, outcome.result.confidence)
    )
    if outcome.relative:
        words = f"<b>{depth:.3g}</b> ± {std:.2g} (relative, no unit)"
    else:
        words = f"<b>{metres(depth)}</b> ± {_error(std)}"
    return f'<p class="fs-reading">{words} <span>confidence {confidence:.2f}</span></p>'


def ruler(outcome: Outcome, marks: Sequence[Mark]) -> str:
    """The distance between two marks, or what to do for it."""
    if len(marks) < 2:
        where = "a second point" if marks else "two points"
        return f'<p class="fs-reading fs-quiet">Click {where} in the picture.</p>'
    if outcome.relative:
        return '<p class="fs-reading">A distance needs metres, and this depth has no unit.</p>'
    distance, std = measure_distance(outcome.result, marks[0], marks[1])
    if not math.isfinite(distance):
        return '<p class="fs-reading">One of the points has no depth.</p>'
    return f'<p class="fs-reading"><b>{metres(distance)}</b> ± {_error(std)} <span>between the two points</span></p>'


def refocused(outcome: Outcome, share: float) -> tuple[Pixels, str]:
    """The sharp picture focused anew, `share` of the way from near to far (even in dioptres), and where that is."""
    result = outcome.result
    near, far = inverse_depth_range(result.depth)
    at = 1 / max(near + (far - near) * min(max(share, 0.0), 1.0), 1e-6)
    sharp = torch.from_numpy(np.clip(result.all_in_focus, 0, 1)).movedim(-1, 0)[None]
    depth = torch.from_numpy(np.ascontiguousarray(result.depth))[None, None]
    scale = min(1.0, REFOCUS_PX / max(result.depth.shape))
    if scale < 1:
        sharp = torch.nn.functional.interpolate(sharp, scale_factor=scale, mode="bilinear", antialias=True)
        depth = torch.nn.functional.interpolate(depth, size=sharp.shape[-2:], mode="nearest-exact")
    camera, plane = result.camera.resized(scale), result.projection_distance
    picture = refocus(sharp[0], depth[0, 0], camera, at, projection_distance=plane)
    words = f"at {at:.3g} (relative, no unit)" if outcome.relative else f"at {metres(at)}"
    return display_pixels(picture.movedim(0, -1).float().numpy()), f'<p class="fs-reading">Focused <b>{words}</b></p>'


def cost_curve_view(outcome: Outcome, stack: FocalStack, mark: Mark) -> str:
    """How badly each depth explains the frames at a pixel, and the depth that was chosen, as a drawing."""
    height, width = outcome.result.depth.shape
    row, column = (
        min(n - 1, int((at + 0.5) / of * n)) for at, of, n in zip(mark, (height, width), stack.size, strict=True)
    )
    planes = outcome.result.planes
    costs = cost_curve(stack, planes, row, column).double().numpy()
    inverse = planes.inverse_depths.reshape(-1).double().numpy()
    spread = costs.max() - costs.min()
    levels = (costs - costs.min()) / spread if spread > 0 else np.zeros_like(costs)
    left, right = inverse[0], inverse[-1]

    def across(u: float) -> float:
        return float(np.clip((u - left) / (right - left), 0, 1)) * CURVE[0]

    points = " ".join(
        f"{across(u):.1f},{6 + (1 - level) * (CURVE[1] - 12):.1f}" for u, level in zip(inverse, levels, strict=True)
    )
    depth = float(outcome.result.depth[mark])
    chosen = across(1 / depth) if depth > 0 else 0.0
    ends = ("near", "far") if outcome.relative else (metres(1 / left), metres(1 / right if right > 0 else math.inf))
    label = f"{depth:.3g}" if outcome.relative else metres(depth)
    return (
        f'<figure class="fs-curve"><figcaption>How badly each depth explains the frames here; '
        f"the line marks the chosen one, {escape(label)}</figcaption>"
        f'<svg viewBox="0 0 {CURVE[0]} {CURVE[1]}" preserveAspectRatio="none" role="img" '
        f'aria-label="cost by depth, lowest near {escape(metres(1 / inverse[int(costs.argmin())]))}">'
        f'<line x1="{chosen:.1f}" x2="{chosen:.1f}" y1="0" y2="{CURVE[1]}" class="fs-chosen"/>'
        f'<polyline points="{points}" class="fs-cost"/></svg>'
        f"<div><span>{escape(ends[0])}</span><span>{escape(ends[1])}</span></div></figure>"
    )


def summary(outcome: Outcome) -> str:
    """The result in a line, and what the visitor should know of it."""
    depth = outcome.result.depth[np.isfinite(outcome.result.depth)]
    words = "no pixel has a depth"
    if depth.size:
        near, middle, far = np.quantile(depth, [0.005, 0.5, 0.995]).tolist()
        shown: Any = (lambda value: f"{value:.3g}") if outcome.relative else metres
        words = f"Depth from {shown(near)} to {shown(far)}, median {shown(middle)}"
        words += ", without a unit" if outcome.relative else ""
    fit = outcome.result.fit
    told = [*outcome.notes, *([fit.sentence] if fit and fit.fits is not False else [])]  # what does not fit is a note
    notes = "".join(f"<li>{escape(say(note, WORDS))}</li>" for note in told)
    return f"<p><b>{escape(words)}</b></p>" + (f'<ul class="fs-notes">{notes}</ul>' if notes else "")


def _marked(pixels: Pixels, marks: Sequence[Mark]) -> Pixels:
    """Rings around the marks, and a line between two."""
    import cv2

    if not marks:
        return pixels
    picture = pixels.copy()
    size = max(pixels.shape[:2]) / 480
    places = [(column, row) for row, column in marks]
    for colour, thickness in (((20, 20, 20), max(3, round(4 * size))), ((255, 255, 255), max(1, round(2 * size)))):
        if len(places) == 2:
            cv2.line(picture, places[0], places[1], colour, thickness, cv2.LINE_AA)
        for place in places:
            cv2.circle(picture, place, max(4, round(7 * size)), colour, thickness, cv2.LINE_AA)
    return picture


def _scale(colours: str, ticks: Sequence[tuple[float, str]], label: str) -> str:
    stops = _colours(colours)(np.linspace(0, 1, SCALE_STEPS))[:, :3] * 255
    gradient = ",".join(f"rgb({r:.0f},{g:.0f},{b:.0f})" for r, g, b in stops)
    placed: list[float] = []
    words = ""
    for share, text in ticks:
        if any(abs(share - other) < LEAST_TICK_GAP for other in placed):
            continue
        placed.append(share)
        shift = "0" if share < 0.04 else "-100%" if share > 0.96 else "-50%"
        words += f'<span style="left:{share * 100:.1f}%;transform:translateX({shift})">{escape(text)}</span>'
    return (
        f'<div class="fs-scale" role="img" aria-label="{escape(label)}">'
        f'<div style="background:linear-gradient(to right,{gradient})"></div><div class="fs-ticks">{words}</div></div>'
    )


def _error(std: float) -> str:
    return metres(std) if std >= 0.01 else f"{std * 1e3:.2g} mm"


def _colours(name: str) -> Any:
    import matplotlib

    return matplotlib.colormaps[name]
