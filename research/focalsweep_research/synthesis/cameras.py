"""Random cameras: where they look from, lens, focus distances, what their metadata say, the shape of the aperture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from focalsweep_research.synthesis.generator_config import GeneratorConfig, Range
from focalsweep_research.synthesis.scenes import View
from focalsweep_research.synthesis.tracer import disk_samples

Rng = np.random.Generator

WIDEST_BLUR_PX = 36.0


@dataclass(frozen=True)
class Sensor:
    noise_std: float
    quantised: bool
    jpeg_quality: float  # 0: not a JPEG


@dataclass(frozen=True)
class Draw:
    """One random camera: what it is, and what its metadata will say."""

    focal_px: float
    aperture: float
    focal_length: float
    focus_distances: list[float]
    told_distances: list[float]
    told_f_number: float
    near: float  # the planes' ends, 1/m
    far: float
    sensor: Sensor


def draw_view(rng: Rng, config: GeneratorConfig, size: int) -> View:
    near = 1 / log_uniform(rng, config.nearest)
    far = near * rng.uniform(*config.far_share)
    angle = math.radians(rng.uniform(*config.field_of_view_deg))
    return View(near, far, size / (2 * math.tan(angle / 2)), size, size)


def draw_camera(rng: Rng, config: GeneratorConfig, view: View, seen: Range, frames: int) -> Draw:
    """A lens and focus distances for a scene seen between two inverse depths, far and near."""
    far, near = seen
    span = max(near - far, 0.1 * near)
    blur_px = log_uniform(rng, config.blur_px)
    aperture = blur_px / span / view.focal_px
    focal_length = min(log_uniform(rng, config.focal_length), 0.3 / near)
    if config.f_number:
        aperture = focal_length / config.f_number
    places = (np.arange(frames) + rng.uniform(0, 1, frames)) / frames  # one in every part of the range
    margins = rng.uniform(*config.margin, 2)
    distance_errors = rng.standard_normal(frames)
    f_number_error = rng.standard_normal()
    sensor = draw_sensor(rng, config)
    if rng.random() < config.partial_focus:
        length = rng.uniform(0.25, 1)
        places = rng.uniform(0, 1 - length) + length * places
    if rng.random() < config.wide_range:  # but no blur beyond WIDEST_BLUR_PX
        margins = rng.uniform(0, min(1.5, max(config.margin[1], (WIDEST_BLUR_PX / blur_px - 1) / 2)), 2)
    ends = near + 0.05 * span, max(far - 0.05 * span, 0.0)
    distances = [1 / max(float(u), 1e-3) for u in ends[0] + (ends[1] - ends[0]) * places]
    return Draw(
        focal_px=view.focal_px,
        aperture=aperture,
        focal_length=focal_length,
        focus_distances=distances,
        told_distances=[d * (1 + config.distance_error * e) for d, e in zip(distances, distance_errors, strict=True)],
        told_f_number=focal_length / aperture * (1 + config.f_number_error * f_number_error),
        near=near + float(margins[0]) * span,
        far=max(far - float(margins[1]) * span, 0.0),
        sensor=sensor,
    )


def draw_sensor(rng: Rng, config: GeneratorConfig) -> Sensor:
    noise_std = log_uniform(rng, config.noise_std)
    quantised = bool(rng.random() < config.quantised)
    return Sensor(noise_std, quantised, rng.uniform(*config.jpeg_quality) if rng.random() < config.jpeg else 0.0)


def draw_softness(rng: Rng, config: GeneratorConfig) -> float:
    """Standard deviation of the lens's own blur, pixels; 0 for those that have none."""
    return rng.uniform(*config.softness_px) * float(rng.random() < config.soft)


def lens_samples(rng: Rng, config: GeneratorConfig) -> list[Tensor]:
    """Points on the aperture: a disk, or (for some batches) a polygon of blades, or one that is denser in the middle.

    Sets of a quarter, half and all of the rays: a tile takes as many as its blur needs.
    """
    odd, polygon = rng.random() < config.odd_aperture, rng.random() < 0.5
    turn, blades, softness = rng.uniform(0, 2 * math.pi), int(rng.integers(5, 9)), rng.uniform(1.0, 1.4)
    sets = []
    for rays in (config.rays // 4, config.rays // 2, config.rays):
        samples = disk_samples(max(4, rays))
        if odd:
            samples = _cut_to_polygon(samples, blades) if polygon else _soften(samples, softness)
        x, y = samples[:, 0], samples[:, 1]
        cos, sin = math.cos(turn), math.sin(turn)
        sets.append(torch.cat([torch.stack([x * cos - y * sin, x * sin + y * cos], 1), samples[:, 2:]], 1))
    return sets


def _cut_to_polygon(samples: Tensor, blades: int) -> Tensor:
    angle = torch.atan2(samples[:, 1], samples[:, 0])
    sector = 2 * math.pi / blades
    return _with_variance_of_disk(samples, math.cos(sector / 2) / torch.cos(angle % sector - sector / 2))


def _soften(samples: Tensor, power: float) -> Tensor:
    return _with_variance_of_disk(samples, torch.hypot(samples[:, 0], samples[:, 1]) ** (power - 1))


def _with_variance_of_disk(samples: Tensor, stretch: Tensor) -> Tensor:
    """Points stretched each by its factor, then all alike, so that the blur keeps the size that the formula says."""
    points = samples[:, :2] * stretch[:, None]
    return torch.cat([points * torch.sqrt(0.5 / points.square().sum(1).mean()), samples[:, 2:]], 1)


def log_uniform(rng: Rng, limits: Range) -> float:
    return float(np.exp(rng.uniform(math.log(limits[0]), math.log(limits[1]))))
