"""Protocol `robustness`: how fast each method gets worse as one thing about the photos does, all else being good.

The scenes are the generator's, none of which any training saw, and the same ones at every level. What happens to
photos after the lens (noise, JPEG, frames that do not register, wrong metadata) is done to one rendering; the number of
frames, the blur and the aperture's shape ask for one each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.sweep.deconvolution import fast_length, pad_periodic
from focalsweep.types import Camera, FocalStack
from focalsweep.validation import as_setting
from focalsweep_research.protocols.distributed import Say, Tally, over_processes, own_share
from focalsweep_research.protocols.generated import DATA, SEED, batch_of, estimate
from focalsweep_research.protocols.methods import Reader
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.jpeg import jpeg
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.synthesis.tracer import disk_samples

STACKS = 40
BATCH = 20  # a random field over many pictures takes hardly longer than over one
CLEAN = replace(
    DATA, seed=SEED + 3, frames=(5, 5), noise_std=(1e-7, 1e-7), quantised=0.0, jpeg=0.0, distance_error=0.0,
    f_number_error=0.0, odd_aperture=0.0,
)  # fmt: skip
METRIC = "abs_rel"
MARGIN_PX = 16  # around pictures that are moved, for what rings at their borders


@dataclass(frozen=True)
class Flaws:
    """What is wrong with photos and their metadata; by default they are 8-bit files of little noise.

    Args:
        noise_std: of linear light at half of full light, about; it grows with the signal as a sensor's does.
        jpeg_quality: 1 to 100; 0 for files that lose nothing.
        shift_px: how far each frame but the first is moved, in a direction of its own.
        distance_error: standard deviation of the focus distances that are told, relative to the true ones.
        f_number_error: of the f-number that is told, relative: 0.1 says f/2.2 for f/2.
    """

    noise_std: float = 0.003
    jpeg_quality: float = 0.0
    shift_px: float = 0.0
    distance_error: float = 0.0
    f_number_error: float = 0.0


@dataclass(frozen=True)
class Factor:
    """One thing that varies: a field of `Flaws` or of `GeneratorConfig`, or the aperture's shape."""

    label: str
    levels: tuple[Any, ...]  # numbers, or names
    flaw: str = ""
    setting: str = ""  # a range, both ends of which are the level


FACTORS = {
    "noise": Factor("noise, std of linear light", (0.0, 0.002, 0.005, 0.01, 0.02, 0.04), flaw="noise_std"),
    "jpeg": Factor("JPEG quality", (100.0, 95.0, 85.0, 75.0, 60.0, 40.0, 20.0), flaw="jpeg_quality"),
    "misalignment": Factor("misalignment, px", (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), flaw="shift_px"),
    "focus_distances": Factor("error of focus distances", (0.0, 0.01, 0.02, 0.05, 0.1), flaw="distance_error"),
    "f_number": Factor("error of the f-number", (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3), flaw="f_number_error"),
    "frames": Factor("number of frames", (2, 3, 4, 5, 6, 8), setting="frames"),
    "blur": Factor("blur between the ends of the scene, px", (2.0, 4.0, 8.0, 16.0, 24.0, 32.0), setting="blur_px"),
    "psf": Factor("shape of the aperture", ("disk", "hexagon", "gaussian")),
}


def evaluate_robustness(
    readers: dict[str, Reader],
    textures: str,
    device: torch.device,
    say: Say,
    share: float = 1.0,
    factors: Sequence[str] = tuple(FACTORS),
) -> dict[str, Any]:
    """Every method at every level of every factor; `share` below 1 takes fewer stacks.

    A method that reads another number of frames has a row with a note and null in place of figures.
    """
    stacks = max(1, round(STACKS * share))
    batch = min(BATCH, stacks)
    stacks -= stacks % batch
    steps = range(stacks // batch)
    config = replace(CLEAN, texture_folder=textures)

    @lru_cache(maxsize=1)
    def rendered(varied: GeneratorConfig, shape: str, step: int) -> Sample:
        aperture = aperture_samples(shape, varied.rays) if shape else None
        return batch_of(varied, step, batch, device, aperture)

    # What happens after the lens happens to one rendering, one step after the other.
    work = [(step, name, FACTORS[name].levels) for step in steps for name in factors if FACTORS[name].flaw]
    others = [name for name in factors if not FACTORS[name].flaw]
    work += [(step, name, (level,)) for name in others for level in FACTORS[name].levels for step in steps]
    tally = Tally()
    for step, name, levels in own_share(work, say):
        factor = FACTORS[name]
        for level in levels:
            change: dict[str, Any] = {factor.setting: (level, level)} if factor.setting else {}
            varied = replace(config, **change)
            flaws = replace(Flaws(), **({factor.flaw: level} if factor.flaw else {}))
            shape = "" if factor.flaw or factor.setting else str(level)
            sample = spoiled(rendered(varied, shape, step), flaws, seed=step)
            for method, reader in readers.items():
                tally.add(estimate(reader, sample), (name, level, method))
    tally = over_processes(tally)
    rows = [
        {"factor": name, "level": level, "method": method, **tally.figures(name, level, method)}
        for name in factors
        for level in FACTORS[name].levels
        for method in readers
    ]
    table = {"columns": [METRIC, "rmse", "delta_1.05", "delta_1.25"], "sections": ["factor", "level"]}
    return {"protocol": "robustness", "stacks": stacks, "rows": rows, "table": table}


def spoiled(sample: Sample, flaws: Flaws, seed: int) -> Sample:
    """The sample as photos with these flaws would show it; the truth stays. The same seed has the same chances."""
    images = shifted(sample.stack.as_batch().images, flaws.shift_px, seed)
    images = with_noise_and_jpeg(images, flaws.noise_std, flaws.jpeg_quality, seed)
    return replace(sample, stack=with_wrong_metadata(sample.stack, images, flaws, seed))


def shifted(
    images: Tensor,  # B F C H W
    by_px: float,
    seed: int,
) -> Tensor:
    """Every frame but the first moved by so many pixels, by the phase of its spectrum: nothing is blurred by it."""
    if not by_px:
        return images
    angles = 2 * math.pi * np.random.default_rng([seed, 2]).random(images.shape[:2])
    moves = torch.from_numpy(by_px * np.stack([np.sin(angles), np.cos(angles)]))  # down and right, B F
    moves[:, :, 0] = 0
    height, width = (fast_length(size + 2 * math.ceil(by_px) + MARGIN_PX) for size in images.shape[-2:])
    spectrum = torch.fft.rfft2(pad_periodic(images, height, width))
    fy, fx = torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)
    down, right = moves[..., None, None, None].float()
    turn = torch.exp(2j * math.pi * (down * fy + right * fx)).to(images.device)
    moved = torch.fft.irfft2(spectrum * turn, s=(height, width))[..., : images.shape[-2], : images.shape[-1]]
    return torch.cat([images[:, :1], moved[:, 1:]], 1)


def with_noise_and_jpeg(images: Tensor, noise_std: float, jpeg_quality: float, seed: int) -> Tensor:
    """Sensor noise, then 8-bit sRGB, then JPEG where a quality is given."""
    generator = torch.Generator(device=images.device).manual_seed(seed)
    noise = torch.randn(images.shape, generator=generator, device=images.device, dtype=images.dtype)
    noisy = images + noise_std * torch.sqrt((0.3 + 1.75 * images).clamp_min(0)) * noise
    encoded = torch.round(linear_to_srgb(noisy.clamp(0, 1)) * 255) / 255
    if jpeg_quality:
        flat = encoded.flatten(0, 1)
        quality = torch.full((len(flat),), float(jpeg_quality), device=images.device)
        encoded = jpeg(flat, quality).view_as(encoded)
    return srgb_to_linear(encoded)


def with_wrong_metadata(stack: FocalStack, images: Tensor, flaws: Flaws, seed: int) -> FocalStack:
    """The stack with other pictures and metadata that are wrong by what the flaws say."""
    batch = stack.as_batch()
    errors = torch.from_numpy(np.random.default_rng([seed, 1]).standard_normal(tuple(batch.focus_distances.shape)))
    focal_length = as_setting("focal_length", batch.metric_camera.focal_length)
    told = batch.focus_distances * (1 + flaws.distance_error * errors)
    told = torch.maximum(told, 1.01 * focal_length)
    # The pictures have one field of view, so a wrong distance means another magnification too.
    field = as_setting("magnification", batch.magnification) / (1 - focal_length / batch.focus_distances)
    f_number = as_setting("f_number", batch.metric_camera.f_number) * (1 + flaws.f_number_error)
    camera = Camera(focal_length, f_number, batch.metric_camera.pixel_pitch)
    return FocalStack(images, told, camera, field * (1 - focal_length / told))


def aperture_samples(shape: str, rays: int) -> list[Tensor]:
    """Points on an aperture of this shape with the disk's variance, a quarter, half and all of the rays.

    The sizes and axes are those of `generator.lens_samples`: S 4.
    """
    sets = []
    for count in (rays // 4, rays // 2, rays):
        samples = disk_samples(max(4, count))
        points, radius = samples[:, :2], samples[:, :2].norm(dim=1)
        if shape == "hexagon":
            angle = torch.atan2(points[:, 1], points[:, 0]) % (math.pi / 3) - math.pi / 6
            points = points * (math.cos(math.pi / 6) / angle.cos())[:, None]
        elif shape == "gaussian":  # the radius that has as much of a Gaussian inside as the point has of the disk
            points = points * (torch.sqrt(-torch.log1p(-radius.square())) / radius)[:, None]
        elif shape != "disk":
            raise ValueError(f"no aperture is called {shape!r}: it is one of disk, hexagon, gaussian")
        points = points * torch.sqrt(0.5 / points.square().sum(1).mean())
        sets.append(torch.cat([points, samples[:, 2:]], 1))
    return sets
