"""The noise and the texture of a stack, which the re-blur cost measures misfit against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from focalsweep.sweep.deconvolution import triton_serves

NOISE_FLOOR = 1e-3
"""About the rounding of 8-bit sRGB at mid grey, in linear light: no photo is better than that."""


@dataclass(frozen=True, eq=False)
class StackStatistics:
    """What a cost must know of the whole stack before it looks at a part of it."""

    noise_std: Tensor  # B
    texture_power: Tensor  # B C: the prior power spectrum is texture_power / |f|^2


def stack_statistics(
    images: Tensor,  # B F C H W
    noise_std: float | None,
) -> StackStatistics:
    """The noise and the strength of texture of a stack, for the re-blur cost.

    The noise is the same in all frames, so the frame with the least detail tells it best; the texture is that of the
    sharpest frame. Nothing is read back, so a GPU is not waited for.
    """
    if triton_serves(images):
        from focalsweep.sweep import kernels

        steps = haar_steps(images.shape[-2], images.shape[-1])
        return StackStatistics(*kernels.stack_statistics(images, steps, noise_std, NOISE_FLOOR))
    diagonal, across, down = haar_details(images)  # B F C n each
    if noise_std is None:
        sigma = noise_from_detail(diagonal).amin(1).square().mean(-1).sqrt().clamp_min(NOISE_FLOOR)
    else:
        sigma = torch.full(images.shape[:1], noise_std, dtype=images.dtype, device=images.device)
    # Gradient energy: the block's two horizontal and two vertical differences, the mean of each pair.
    gradient = (2 * diagonal.square() + across.square() + down.square()).mean(-1).amax(1)
    # That of S0 / |f|^2 over the unit square of frequencies is (2 pi)^2 S0; white noise adds 2 sigma^2 a direction.
    variance = sigma.square()[:, None]
    power = torch.maximum(gradient - 4 * variance, 0.1 * variance)
    return StackStatistics(sigma, power / (2 * math.pi) ** 2)


def haar_steps(height: int, width: int) -> tuple[int, int]:
    """How far apart 2 x 2 blocks are taken: many tell no more than some, so at most 64 a direction."""
    if height < 2 or width < 2:
        raise ValueError(f"pictures must be at least 2 x 2 px, but are {height} x {width}")
    return 2 * math.ceil(height / 128), 2 * math.ceil(width / 128)


def haar_details(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Diagonal, horizontal and vertical differences (orthonormal) of 2 x 2 blocks of (..., H, W): (..., n) each."""
    steps = haar_steps(images.shape[-2], images.shape[-1])
    blocks = images.unfold(-2, 2, steps[0]).unfold(-2, 2, steps[1]).flatten(-2).flatten(-3, -2)  # ... n 4: a b c d
    haar = _haar(images.dtype, images.device)
    diagonal, across, down = (blocks @ haar).unbind(-1)
    return diagonal, across, down


@cache
def _haar(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Copied to a device once and kept: recorded sweeps go on reading it."""
    return torch.tensor([[1, -1, -1], [-1, 1, -1], [-1, -1, 1], [1, 1, 1]], dtype=dtype, device=device) / 2


def noise_from_detail(diagonal: Tensor) -> Tensor:
    """Noise from the finest diagonal detail (..., n) of an image: its median magnitude / 0.6745."""
    return diagonal.abs().median(-1).values / 0.6745
