"""Pictures for people: depth in colour, with its scale in metres."""

from __future__ import annotations

import io
import math

import numpy as np
import numpy.typing as npt
import torch

from focalsweep.optics.light import linear_to_srgb
from focalsweep.results.result import Array

ROWS_AT_ONCE = 512
WIDEST_PX = 2000


def srgb_8_bit(linear: Array) -> npt.NDArray[np.uint8]:
    """Linear light as 8-bit sRGB of the same axes; what lies outside 0 to 1 is clipped."""
    encoded = np.empty(linear.shape, np.uint8)
    for top in range(0, len(linear), ROWS_AT_ONCE):  # in bands: the arithmetic takes several copies
        band = linear_to_srgb(torch.from_numpy(linear[top : top + ROWS_AT_ONCE]))
        encoded[top : top + ROWS_AT_ONCE] = band.clamp(0, 1).mul(255).round().to(torch.uint8).numpy()
    return encoded


def depth_picture(depth: Array, title: str | None = None, *, unit: str | None = "m") -> bytes:
    """A PNG of depth H W, near warm and far cold, equal steps of colour for equal steps of 1/depth.

    The scale is in metres, or says near and far alone where depth has no unit.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    stride = math.ceil(depth.shape[1] / WIDEST_PX)  # more pixels than the figure has only take memory
    inverse = 1 / depth[::stride, ::stride]
    near, far = np.quantile(inverse[np.isfinite(inverse)], [0.995, 0.005])
    if near <= far:
        near = far + 1e-6
    height, width = depth.shape
    inches = 6.0
    figure = Figure(figsize=(inches * 1.18, inches * height / width + 0.1), dpi=max(100.0, min(300.0, width / inches)))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.01, 0.02, 0.82, 0.96 if title is None else 0.9))
    image = axes.imshow(inverse, cmap="turbo", vmin=far, vmax=near, interpolation="nearest")
    axes.set_axis_off()
    if title:
        axes.set_title(title)
    ticks = np.linspace(near, far, 6)
    bar = figure.colorbar(image, cax=figure.add_axes((0.85, 0.06, 0.03, 0.86)), ticks=ticks)
    words = ["near", "", "", "", "", "far"] if unit is None else [metres(1 / u if u > 0 else np.inf) for u in ticks]
    bar.ax.set_yticklabels(words)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def metres(value: float) -> str:
    """A length for people: 5.12 mm, 1.23 m, infinity."""
    if not np.isfinite(value):
        return "infinity"
    if value < 0.01:
        return f"{value * 1e3:.2f} mm"
    return f"{value:.3g} m"
