"""From the light on an ideal sensor to what a photo file gives: exposure, noise, mosaic, and what cameras do next.

The pictures of a batch go through the steps together; a step that only some stacks take is done for those alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep_research.synthesis.demosaic import bayer
from focalsweep_research.synthesis.flaws import LEAST_RADIUS_PX, Flaws, draw_flaws, reduce_flaws
from focalsweep_research.synthesis.jpeg import TO_YCC, jpeg

__all__ = ["Flaws", "draw_flaws", "metered_gain", "photograph"]

BAND_PX = (1.0, 2.24, 4.6)  # standard deviations of the Gaussians that noise reduction takes bands between
BAND_NOISE = (0.87, 0.206, 0.086)  # standard deviation of white noise in those bands
SHOULDER = 0.5  # light above is compressed where the sensor held more than the file does


def photograph(
    images: Tensor,  # B F 3 H W, linear light as an ideal sensor sees it
    flaws: Sequence[Flaws],
    seed: int,
    reduced: Sequence[float] | None = None,  # B, at least 1: by how much each picture was reduced since it was taken
    gain: Tensor | None = None,  # B: the exposure, where a view should have that of another view of the same photo
) -> Tensor:  # B F 3 H W
    """Linear light as the photo reader gives it, which takes every file's curve for sRGB's.

    A stack's flaws and noise are the same whatever else is in its batch, up to rounding, on one kind of device.
    """
    _check(images, flaws)
    gain = metered_gain(images, flaws) if gain is None else gain
    seen = [reduce_flaws(one, factor) for one, factor in zip(flaws, reduced or [1.0] * len(flaws), strict=True)]
    exposed = images * gain[:, None, None, None, None]
    exposed *= _column([one.drift for one in seen], images)[:, :, :, None, None]
    return _where(_sensor(exposed, seen, seed), seen, lambda one: one.file, _develop)


def metered_gain(images: Tensor, flaws: Sequence[Flaws]) -> Tensor:  # B
    """What brings the mean light of each stack to its level; small bright lights do not count for all they are."""
    mean = images.flatten(1).mean(1)
    mean = torch.minimum(images, 4 * mean[:, None, None, None, None]).flatten(1).mean(1)
    level = _column([one.level for one in flaws], images)
    return torch.where(level > 0, (level / mean.clamp_min(1e-4)).clamp(0.1, 10), 1.0)


def _sensor(images: Tensor, flaws: Sequence[Flaws], seed: int) -> Tensor:
    """Noise that grows with the light, then the light that the sensor can hold. Changes the images."""
    noise = torch.empty_like(images)
    generator = torch.Generator(device=images.device)
    for one, own in zip(flaws, noise, strict=True):
        own.normal_(generator=generator.manual_seed(seed * 1_000_003 + one.seed))
    read, shot, scale = (
        _column(values, images)[:, None, :, None, None]
        for values in (
            [[one.read_share * amplified**2 for amplified in one.colour_gains] for one in flaws],
            [[(1 - one.read_share) / 0.4 * amplified for amplified in one.colour_gains] for one in flaws],
            [[one.noise_std * more for more in one.colour_noise] for one in flaws],
        )
    )
    images += noise.mul_((images.clamp_min(0) * shot + read).sqrt_().mul_(scale))
    return torch.minimum(images.clamp_min_(-0.1), _column([one.headroom for one in flaws], images)[_EACH])


def _develop(images: Tensor, flaws: Sequence[Flaws]) -> Tensor:
    """From the sensor's light to the file's, read as if the file were sRGB."""
    images = _where(images, flaws, lambda one: one.mosaic, _mosaic)
    images = _where(images, flaws, lambda one: bool(one.denoise_luma or one.denoise_chroma), _denoise)
    encoded = _tone(images, flaws)
    encoded = _where(encoded, flaws, _is_emphasised, _emphasise)
    encoded = _where(encoded, flaws, lambda one: one.rounded, lambda chosen, _: (chosen * 255).round() / 255)
    return srgb_to_linear(_where(encoded, flaws, lambda one: bool(one.jpeg_quality), _jpeg))


def _mosaic(images: Tensor, flaws: Sequence[Flaws]) -> Tensor:
    phase = _column([one.mosaic_phase for one in flaws], images)
    return bayer(images, phase, _column([float(one.edge_aware) for one in flaws], images))


def _denoise(images: Tensor, flaws: Sequence[Flaws]) -> Tensor:
    """Each band loses what is not above the noise near by, colour more than light: faint texture goes, edges stay.

    Works on sqrt(light + read noise / shot noise), where the noise is about the same everywhere.
    """
    offsets = [0.4 * one.read_share / (1 - one.read_share) + one.noise_std for one in flaws]  # the root's foot is steep
    offset = _column(offsets, images)[_EACH]
    stable = (images + offset).clamp_min(0).sqrt()
    to_ycc = torch.tensor(TO_YCC, dtype=torch.float64)
    there, back = (m.to(images, non_blocking=True) for m in (to_ycc, torch.linalg.inv(to_ycc)))
    before = torch.einsum("dc,bfchw->bfdhw", there, stable)
    left = before.clone()
    for band_px, noise in zip(BAND_PX, BAND_NOISE, strict=True):
        sigmas_px = [band_px * one.denoise_px for one in flaws]
        thresholds = [
            [
                noise * strength * (sigma >= LEAST_RADIUS_PX)
                for strength in (one.denoise_luma, *[one.denoise_chroma] * 2)
            ]
            for one, sigma in zip(flaws, sigmas_px, strict=True)
        ]
        after = _blur(before, sigmas_px)
        band = before - after
        noise_energy = _column(thresholds, images)[:, None, :, None, None].square()
        lost = (noise_energy / _blur(band.square(), sigmas_px).clamp_min_(1e-12)).clamp_max_(1)
        left.addcmul_(band, lost, value=-1)
        before = after
    return torch.einsum("cd,bfdhw->bfchw", back, left).square() - offset


def _tone(images: Tensor, flaws: Sequence[Flaws]) -> Tensor:
    """Highlights compressed into the file's range, sRGB's curve, and what makers add to it; rises everywhere."""
    # Above the shoulder Reinhard's curve t (1 + t / w^2) / (1 + t), t and its white w counted from there: a sum of
    # t / w^2 and (1 - 1 / w^2) t / (1 + t).
    share = ((1 - SHOULDER) / (_column([one.headroom for one in flaws], images) - SHOULDER))[_EACH].square()
    above = (images - SHOULDER).clamp_min_(0)
    light = images.clamp(0, SHOULDER).addcmul_(share, above)
    light.addcmul_(1 - share, above / (1 + above / (1 - SHOULDER)))
    encoded = linear_to_srgb(light.clamp_max_(1))
    encoded = encoded ** _column([2.2 / one.gamma for one in flaws], images)[_EACH]
    # The S-curve e (1 - e) (2 e - 1) and the shadows' e (1 - e)^3, times their amounts, by Horner.
    contrast = _column([one.contrast for one in flaws], images)[_EACH]
    lift = _column([one.lift for one in flaws], images)[_EACH]
    slope = torch.addcmul(2 * (contrast - lift), lift, encoded)
    slope = torch.addcmul(lift - contrast, slope, encoded)
    return torch.addcmul(encoded, encoded - encoded.square(), slope)


def _is_emphasised(one: Flaws) -> bool:
    return bool(one.local_contrast or one.sharpening) or one.saturation != 1


def _emphasise(encoded: Tensor, flaws: Sequence[Flaws]) -> Tensor:
    """Saturation, local contrast and sharpening: two unsharp masks on the lightness, which keeps the colours."""
    weights = torch.tensor(TO_YCC[0]).to(encoded, non_blocking=True)
    light = torch.einsum("c,bfchw->bfhw", weights, encoded)[:, :, None]
    added = torch.zeros_like(light)
    for amounts, sigmas_px, most in (
        ([one.local_contrast for one in flaws], [one.local_px for one in flaws], 0.15),
        ([one.sharpening for one in flaws], [one.sharpening_px for one in flaws], 0.1),
    ):
        detail = light - _blur(light, sigmas_px)
        added += _column(amounts, encoded)[_EACH] * most * torch.tanh(detail / most)
    saturation = _column([one.saturation for one in flaws], encoded)[_EACH]
    return (torch.lerp(light, encoded, saturation) + added).clamp(0, 1)


def _jpeg(encoded: Tensor, flaws: Sequence[Flaws]) -> Tensor:
    quality = torch.tensor([one.jpeg_quality for one in flaws]).repeat_interleave(encoded.shape[1])
    return jpeg(encoded.flatten(0, 1), quality.to(encoded.device, non_blocking=True)).view(encoded.shape)


def _blur(maps: Tensor, sigmas_px: Sequence[float]) -> Tensor:  # B F C H W
    """A Gaussian of its own for each stack, any width: as a product with two matrices; weights end at the border."""
    rows, columns = (_gaussians(maps.shape[dim], sigmas_px, maps) for dim in (-2, -1))
    return rows[:, None, None] @ (maps.flatten(1, -2) @ columns.mT).view(maps.shape)


def _gaussians(size: int, sigmas_px: Sequence[float], like: Tensor) -> Tensor:  # B size size
    at = torch.arange(size, dtype=like.dtype, device=like.device)
    weights = torch.exp(-0.5 * ((at[:, None] - at) / _column(sigmas_px, like).clamp_min(0.05)[:, None, None]) ** 2)
    return weights / weights.sum(-1, keepdim=True)


def _where(
    images: Tensor,
    flaws: Sequence[Flaws],
    chosen: Callable[[Flaws], bool],
    step: Callable[[Tensor, Sequence[Flaws]], Tensor],
) -> Tensor:
    """The images with a step done for the stacks whose flaws ask for it."""
    numbers = [number for number, one in enumerate(flaws) if chosen(one)]
    if len(numbers) in (0, len(flaws)):
        return step(images, flaws) if numbers else images
    index = torch.tensor(numbers).to(images.device, non_blocking=True)
    return images.index_copy(0, index, step(images.index_select(0, index), [flaws[number] for number in numbers]))


_EACH = (slice(None), None, None, None, None)  # a value of every stack, spread over its F C H W


def _column(values: Sequence[object], like: Tensor) -> Tensor:
    return torch.tensor(values).to(like, non_blocking=True)


def _check(images: Tensor, flaws: Sequence[Flaws]) -> None:
    if images.ndim != 5 or images.shape[2] != 3 or len(images) != len(flaws):
        raise ValueError(f"images must be B F 3 H W with B = {len(flaws)} flaws, but have shape {tuple(images.shape)}")
    for number, one in enumerate(flaws):
        if len(one.drift) != images.shape[1]:
            raise ValueError(f"stack {number} has {images.shape[1]} frames, its flaws are of {len(one.drift)}")
