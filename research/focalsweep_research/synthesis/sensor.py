"""A plain camera: softness, exposure, noise, 8 bits, JPEG. `photograph` has what real ones do beside."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.sweep.deconvolution import mirror_ends
from focalsweep_research.synthesis.cameras import Sensor
from focalsweep_research.synthesis.jpeg import jpeg


def soften(images: Tensor, sigmas_px: list[float]) -> Tensor:  # B F C H W
    """A Gaussian over all frames of a stack, each stack its own; beyond the border the picture goes on mirrored."""
    if not any(sigmas_px):
        return images
    radius = math.ceil(3 * max(sigmas_px))
    at = torch.arange(-radius, radius + 1, dtype=torch.float64)
    sigma = torch.tensor(sigmas_px, dtype=torch.float64).clamp_min(1e-3)[:, None]
    taps = torch.exp(-0.5 * (at / sigma) ** 2)
    taps = (taps / taps.sum(1, keepdim=True)).to(images, non_blocking=True)[..., None, None, None, None]  # B K
    for dim in (-2, -1):
        before, after = mirror_ends(images, dim, radius, radius)
        padded, size = torch.cat([before, images, after], dim), images.shape[dim]
        images = torch.zeros_like(images)
        for k in range(2 * radius + 1):
            images.addcmul_(taps[:, k], padded.narrow(dim, k, size))
    return images


def degrade(images: Tensor, sensors: list[Sensor], seed: int, step: int) -> Tensor:
    """Exposure, sensor noise that grows with the signal, and for some 8-bit sRGB, of which some went through JPEG."""
    device = images.device
    generator = torch.Generator(device=device).manual_seed(seed * 1_000_003 + step)
    level = images.flatten(1).mean(1)[:, None, None, None, None]
    images = (images * (0.4 / level.clamp_min(0.05)).clamp(0.3, 2.5)).clamp(0, 1)
    std = torch.tensor([one.noise_std for one in sensors]).to(device, non_blocking=True)[:, None, None, None, None]
    noise = torch.randn(images.shape, generator=generator, device=device)
    noisy = images + std * torch.sqrt(0.3 + 1.75 * images) * noise
    encoded = torch.round(linear_to_srgb(noisy.clamp(0, 1)) * 255) / 255
    files = [i for i, one in enumerate(sensors) if one.quantised and one.jpeg_quality]
    if files:
        quality = torch.tensor([sensors[i].jpeg_quality for i in files]).repeat_interleave(images.shape[1])
        quality, chosen = (x.to(device, non_blocking=True) for x in (quality, torch.tensor(files)))
        encoded[chosen] = jpeg(encoded[chosen].flatten(0, 1), quality).view(encoded[chosen].shape)
    quantised = torch.tensor([one.quantised for one in sensors]).to(device, non_blocking=True)
    return torch.where(quantised[:, None, None, None, None], srgb_to_linear(encoded), noisy.clamp(-0.1, 1.1))
