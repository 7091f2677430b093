"""The classical way (Nayar and Nakagawa 1994): where is a pixel sharpest, and what lies between the frames?

Sharpness is the modified Laplacian times the local variance, each in a window; over the frames it is fitted with a
Gaussian in inverse distance; what the fit says is spread along the edges of the all-in-focus picture by weighted least
squares, strong peaks speaking louder. No lens, no blur: any stack whose frames have distances. The answer lies between
the nearest and the farthest focus distance; what lies beyond is given the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from focalsweep.errors import InputError
from focalsweep.methods.method import Method, Options
from focalsweep.optics.light import linear_to_srgb
from focalsweep.progress import silent
from focalsweep.sweep.costs import gaussian_blur
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

WINDOW_SIGMA_PX = 2.0
TEXTURE = 4.0  # times the sharpness of noise: below it there is hardly any
SMOOTHNESS = 2.0  # of the weighted least squares, against pixels of full confidence
EDGE_STEP = 0.04  # of sRGB: a step of the picture that cuts the smoothing to 1/e
WITHIN_PEAK = 0.25  # of the peak's width: the error of its top
STEPS = 200  # of conjugate gradients at each size
SETTLED = 1e-4  # of the residual
COARSEST_PX = 32


@dataclass(frozen=True, eq=False)
class Peak:
    """A Gaussian through the sharpness of each pixel, all B H W."""

    inverse_depth: Tensor  # of its top, between the focus distances
    width: Tensor  # its sigma, dioptres; at most the whole range
    confidence: Tensor  # 0..1: how far the top stands above the other frames and above noise
    frame: Tensor  # the sharpest


def focus_measure_depth(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    """Depth of a batched stack. The planes are not used, and the workspace is a few times the stack.

    The std is a share of the peak's width where the peak is clear, and tends to that of a guess where it is not;
    neither it nor the confidence is calibrated.
    """
    progress = options.progress or silent
    images = linear_to_srgb(stack.images.float().clamp(0, 1))
    focus = (1 / stack.focus_distances.detach()).to(images)
    if bool((focus == focus[:, :1]).all(1).any()):
        raise InputError(
            "all frames have one focus distance, and a focus measure compares several",
            field="focus_distances", rule="different", remedy="add frames",
        )  # fmt: skip
    peak = fit_peak(sharpness(images), focus)
    progress("sweeping", 0.5)
    guide = pick(images, peak.frame)
    low, high = (end(1)[:, None, None] for end in (focus.amin, focus.amax))
    share = smooth((peak.inverse_depth - low) / (high - low), peak.confidence, guide)
    inverse = low + share.clamp(0, 1) * (high - low)
    confidence = smooth(peak.confidence, torch.ones_like(share), guide).clamp(0, 1)
    std = torch.hypot(WITHIN_PEAK * peak.width, (1 - confidence) * (high - low) / math.sqrt(12))
    progress("sweeping", 1.0)
    depth = 1 / inverse.clamp_min(1e-6)
    return DepthPrediction(depth, std * depth.square(), confidence)


def sharpness(
    images: Tensor,  # B F C H W
) -> Tensor:  # B F H W
    """Square of the geometric mean of the windowed modified Laplacian's square and the local variance."""
    grey = images.mean(2)
    laplacian = sum(((2 * grey - _shifted(grey, dim, 1) - _shifted(grey, dim, -1)).abs() for dim in (-2, -1)), grey * 0)
    energy = gaussian_blur(laplacian.square(), WINDOW_SIGMA_PX)
    mean = gaussian_blur(grey, WINDOW_SIGMA_PX)
    variance = gaussian_blur((grey - mean).square(), WINDOW_SIGMA_PX)
    return torch.sqrt(energy * variance).clamp_min(1e-12)


def fit_peak(
    sharp: Tensor,  # B F H W
    focus: Tensor,  # B F, 1/m, in any order
) -> Peak:
    """The Gaussian through the sharpest frame and its neighbours in inverse distance; at the ends, the end itself."""
    focus, order = focus.sort(dim=1)
    log = sharp.log().gather(1, order[:, :, None, None].expand_as(sharp))
    top, place = log.max(1, keepdim=True)
    last = log.shape[1] - 1
    at = place.clamp(1, last - 1) if last > 1 else place
    spots = focus[:, :, None, None].expand_as(log)
    u, before, after = (spots.gather(1, (at + k).clamp(0, last))[:, 0] for k in (0, -1, 1))
    value, value_before, value_after = (log.gather(1, (at + k).clamp(0, last))[:, 0] for k in (0, -1, 1))
    # A parabola through three logarithms: vertex and curvature, for steps a < 0 and b > 0 and the falls to either side.
    a, b = before - u, after - u
    fall_a, fall_b = value - value_before, value - value_after
    inner = (place[:, 0] > 0) & (place[:, 0] < last) & (a < 0) & (b > 0)
    slope = torch.where(inner, fall_a * b - fall_b * a, 1.0)
    vertex = u + (fall_a * b * b - fall_b * a * a) / (2 * slope.clamp_min(1e-12))
    safe_a, safe_b = torch.where(inner, a, -1.0), torch.where(inner, b, 1.0)
    curvature = 2 * (fall_b / safe_b - fall_a / safe_a) / (safe_b - safe_a)
    span = (focus[:, -1] - focus[:, 0])[:, None, None]
    width = torch.minimum(1 / curvature.clamp_min(1e-12).sqrt(), span)
    end = spots.gather(1, place)[:, 0]
    inverse = torch.where(inner, torch.minimum(torch.maximum(vertex, before), after), end)
    frame = order[:, :, None, None].expand_as(log).gather(1, place)[:, 0]
    return Peak(inverse, torch.where(inner, width, span / max(last, 1)), _confidence(log, top), frame)


def _confidence(log: Tensor, top: Tensor) -> Tensor:  # B H W
    """How far the sharpest frame stands above the least sharp one, and its texture above what noise has."""
    contrast = -torch.expm1(log.amin(1) - top[:, 0])
    # The least sharp places of a stack have noise only: their middle is its level.
    flat = torch.stack([stack.flatten()[:: max(1, stack.numel() // 10**6)].quantile(0.02) for stack in log.amin(1)])
    above = ((top[:, 0] - flat[:, None, None]).exp() / TEXTURE).square()
    return contrast.square() * above / (1 + above)


def pick(
    images: Tensor,  # B F C H W
    frame: Tensor,  # B H W
) -> Tensor:  # B C H W
    """Each pixel from its frame."""
    return images.gather(1, frame[:, None, None].expand(-1, 1, images.shape[2], -1, -1))[:, 0]


def smooth(
    values: Tensor,  # B H W
    trust: Tensor,  # B H W, 0..1
    guide: Tensor,  # B C H W, sRGB
    smoothness: float = SMOOTHNESS,
) -> Tensor:
    """The x that minimises sum trust (x - values)^2 + smoothness sum_edges exp(-|step of the guide| / EDGE_STEP) dx^2.

    Conjugate gradients, from the answer at half the size, so that wide areas without trust are bridged.
    """
    start = values
    if min(values.shape[-2:]) > COARSEST_PX:
        weight = _halved(trust)
        mean = _halved(trust * values) / weight.clamp_min(1e-6)
        mean = torch.where(weight > 1e-6, mean, _halved(values))
        # Half the size has a quarter of the pixels, and as much of each step.
        coarse = smooth(mean, weight, _halved(guide), smoothness)
        start = torch.nn.functional.interpolate(
            coarse[:, None], size=values.shape[-2:], mode="bilinear", align_corners=False
        )[:, 0]
    across, along = (smoothness * torch.exp(-guide.diff(dim=dim).abs().mean(1) / EDGE_STEP) + 1e-6 for dim in (-1, -2))

    def apply(x: Tensor) -> Tensor:
        result = trust * x
        flow = across * x.diff(dim=-1)
        result[..., :-1] -= flow
        result[..., 1:] += flow
        flow = along * x.diff(dim=-2)
        result[..., :-1, :] -= flow
        result[..., 1:, :] += flow
        return result

    diagonal = apply(torch.zeros_like(trust)) + trust + 1e-9
    diagonal[..., :-1] += across
    diagonal[..., 1:] += across
    diagonal[..., :-1, :] += along
    diagonal[..., 1:, :] += along
    return _conjugate_gradients(apply, trust * values, start, diagonal)


def _conjugate_gradients(apply: Callable[[Tensor], Tensor], right: Tensor, start: Tensor, diagonal: Tensor) -> Tensor:
    """Each picture of the batch by itself, preconditioned by the diagonal."""

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((1, 2), keepdim=True)

    x, residual = start, right - apply(start)
    scaled = residual / diagonal
    direction, size = scaled, dot(residual, scaled)
    enough = SETTLED**2 * dot(right, right / diagonal).clamp_min(1e-12)
    for step in range(STEPS):
        if step % 10 == 0 and bool((size <= enough).all()):
            break
        image = apply(direction)
        length = size / dot(direction, image).clamp_min(1e-20)
        x = x + length * direction
        residual = residual - length * image
        scaled = residual / diagonal
        following = dot(residual, scaled)
        direction = scaled + following / size.clamp_min(1e-20) * direction
        size = following
    return x


def _halved(maps: Tensor) -> Tensor:
    flat = maps.reshape(-1, 1, *maps.shape[-2:])
    small = torch.nn.functional.avg_pool2d(flat, 2, ceil_mode=True, count_include_pad=False)
    return small.reshape(*maps.shape[:-2], *small.shape[-2:])


def _shifted(maps: Tensor, dim: int, by: int) -> Tensor:
    """Moved by one pixel, the border repeated."""
    size = maps.shape[dim]
    at = (torch.arange(size, device=maps.device) + by).clamp(0, size - 1)
    return maps.index_select(dim, at)


FOCUS_MEASURE = Method(
    "focus_measure",
    "where is a pixel sharpest: the classical way, between the nearest and the farthest focus alone",
    focus_measure_depth,
    reads_displayed=True,
)
