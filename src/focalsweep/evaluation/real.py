"""Real stacks without true depth: where a textured pixel is sharpest in a frame, its depth should be that frame's.

An independent check: sharpness is a plain focus measure (energy of the Laplacian), which the sweep does not use.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.sweep.costs import gaussian_blur
from focalsweep.types import FocalStack

WINDOW_SIGMA_PX = 3.0
STRONG = 0.7  # quantile of sharpness above which a pixel counts as textured
CLEAR = 1.5  # the peak stands this many times above the median frame


def sharpness_agreement(
    stack: FocalStack,
    depth: Tensor,  # H W, of the stack's size or larger
) -> dict[str, float]:
    """How far 1/depth lies from 1/distance of the sharpest frame, in dioptres and in spacings between frames.

    Over textured pixels whose sharpness peaks inside the stack, not in its first or last frame; the peak is refined
    by a parabola through the logarithms of it and its neighbours.
    """
    focus = (1 / stack.focus_distances).float()
    grey = stack.images.mean(1)  # F H W
    laplacian = functional.conv2d(
        grey[:, None], torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]]).to(grey), padding=1
    )[:, 0]
    sharpness = gaussian_blur(laplacian.square(), WINDOW_SIGMA_PX) + 1e-12
    peak, frame = sharpness.max(0)
    inside = (frame > 0) & (frame < len(focus) - 1)
    textured = peak > torch.quantile(peak.flatten()[:: max(1, peak.numel() // 10**6)], STRONG)
    clear = peak > CLEAR * sharpness.median(0).values
    counted = inside & textured & clear
    if not bool(counted.any()):
        return {"pixels": 0.0}
    at = frame.clamp(1, len(focus) - 2)
    before, middle, after = (sharpness.gather(0, (at + k)[None])[0].log() for k in (-1, 0, 1))
    # The vertex of a parabola through three points of uneven spacing.
    a, b = focus[at - 1] - focus[at], focus[at + 1] - focus[at]
    rise_a, rise_b = middle - before, middle - after
    vertex = focus[at] + (rise_a * b * b - rise_b * a * a) / (2 * (rise_a * b - rise_b * a))
    small = functional.interpolate((1 / depth)[None, None], size=grey.shape[1:], mode="area")[0, 0]
    error = (small - vertex).abs()[counted]
    spacing = ((focus[at - 1] - focus[at + 1]) / 2)[counted]
    return {
        "pixels": float(counted.sum()),
        "median_dioptres": float(error.median()),
        "median_spacings": float((error / spacing).median()),
        "within_half_a_spacing": float((error < spacing / 2).float().mean()),
    }
