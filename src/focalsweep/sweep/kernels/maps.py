"""Cost maps after the transforms: windows, and the finish over the planes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 512


@triton.jit
def _mirrored(position, length):
    position = tl.where(position < 0, -1 - position, position)
    return tl.where(position >= length, 2 * length - 1 - position, position)


@triton.jit
def _blur_kernel(
    source, taps, out, mean, variance, noise_std,
    height, width, planes, slope,
    RADIUS: tl.constexpr, ALONG_ROWS: tl.constexpr, MODE: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A Gaussian along one axis with mirrored borders, and what follows it at the same pixel.

    MODE 0: nothing. 1: variance + (mean - blurred)^2. 2: sum over channels of the square root. 3: the same, then
    tanh(slope * sum). 4: over the noise variance of the map's stack.
    """
    which = tl.program_id(0).to(tl.int64)
    size = height * width
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < size
    y = index // width
    x = index % width
    result = tl.zeros([BLOCK], tl.float32)
    for c in tl.static_range(CHANNELS):
        plane = source + (which * CHANNELS + c) * size
        total = tl.zeros([BLOCK], tl.float32)
        for k in tl.static_range(-RADIUS, RADIUS + 1):
            if ALONG_ROWS:  # noqa: SIM108
                shifted = y * width + _mirrored(x + k, width)
            else:
                shifted = _mirrored(y + k, height) * width + x
            total += tl.load(taps + RADIUS + k) * tl.load(plane + shifted, mask=mask, other=0.0)
        if MODE == 1:
            deviation = tl.load(mean + which * size + index, mask=mask, other=0.0) - total
            total = tl.load(variance + which * size + index, mask=mask, other=0.0) + deviation * deviation
        if MODE == 2 or MODE == 3:
            total = tl.sqrt(tl.maximum(total, 1e-19))
        if MODE == 4:
            sigma = tl.load(noise_std + which // planes)
            total = total / (sigma * sigma)
        result += total
    if MODE == 3:
        result = 1.0 - 2.0 / (tl.exp(2.0 * slope * result) + 1.0)
    tl.store(out + which * size + index, result, mask=mask)


@triton.jit
def _finish_kernel(costs, out, planes, size, scale, MINMAX: tl.constexpr, BLOCK: tl.constexpr):
    """Over the planes of each pixel: min-max, or the excess x over the minimum as x / (x + scale)."""
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < size
    base = tl.program_id(0).to(tl.int64) * planes * size + index
    low = tl.full([BLOCK], float("inf"), tl.float32)
    high = tl.full([BLOCK], float("-inf"), tl.float32)
    for d in range(planes):
        value = tl.load(costs + base + d * size, mask=mask, other=0.0)
        low = tl.minimum(low, value)
        high = tl.maximum(high, value)
    for d in range(planes):
        excess = tl.load(costs + base + d * size, mask=mask, other=0.0) - low
        result = excess / (high - low + 1e-8) if MINMAX else excess / (excess + scale)
        tl.store(out + base + d * size, result, mask=mask)


def launch_grid(size: int, maps: int) -> tuple[int, int]:
    """Maps first: CUDA takes two thousand million programs along the first axis, but only 65535 along the second."""
    return maps, triton.cdiv(size, BLOCK)


def blur(
    maps: Tensor, taps: Tensor, along_rows: bool, mode: int = 0, channels: int = 1, mean: Tensor | None = None,
    variance: Tensor | None = None, noise_std: Tensor | None = None, planes: int = 1, slope: float = 0.0,
) -> Tensor:  # fmt: skip
    height, width = maps.shape[-2:]
    count = maps.shape[0] // channels
    out = torch.empty((count, height, width), device=maps.device)
    _blur_kernel[launch_grid(height * width, count)](
        maps, taps, out, mean, variance, noise_std, height, width, planes, slope,
        RADIUS=taps.numel() // 2, ALONG_ROWS=along_rows, MODE=mode, CHANNELS=channels, BLOCK=BLOCK,
    )  # fmt: skip
    return out


def finish(costs: Tensor, squash_scale: float | None) -> Tensor:
    """B D H W: min-max over the planes, or the squashed excess where a scale is given."""
    batch, planes, height, width = costs.shape
    out = torch.empty_like(costs)
    _finish_kernel[launch_grid(height * width, batch)](
        costs, out, planes, height * width, squash_scale or 0.0, MINMAX=squash_scale is None, BLOCK=BLOCK
    )
    return out
