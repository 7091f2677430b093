"""Apertures of many shapes: disks, polygons of blades, soft edges up to a Gaussian, bright and dark rims."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalsweep_research.synthesis.tracer import disk_samples

EXACT_DISKS, POLYGONS = 0.4, 0.3  # shares; the rest are soft
RIMMED = 0.5  # share of those that are no exact disk
EXPONENTS = (2.0, 32.0)  # of soft ones, even in the logarithm
BLADES = (5, 9)
RIM = (-0.5, 1.0)  # light at the rim against that in the middle, less 1
RIM_WIDTH = (0.08, 0.3)  # of the radius


@dataclass(frozen=True)
class Aperture:
    exponent: float = math.inf  # p of the density exp(-r^p): 2 is a Gaussian, infinity a disk
    blades: int = 0  # 0: round
    rounding: float = 0.0  # of the polygon, 1: a circle
    rim: float = 0.0
    rim_width: float = 0.1
    turn: float = 0.0  # radians


def draw_aperture(rng: np.random.Generator) -> Aperture:
    kind, turn = rng.random(), rng.uniform(0, 2 * math.pi)
    if kind < EXACT_DISKS:
        return Aperture(turn=turn)
    rim = rng.uniform(*RIM) if rng.random() < RIMMED else 0.0
    rim_width = rng.uniform(*RIM_WIDTH)
    if kind < EXACT_DISKS + POLYGONS:
        blades = int(rng.integers(BLADES[0], BLADES[1] + 1))
        return Aperture(blades=blades, rounding=rng.uniform(0, 0.8), rim=rim, rim_width=rim_width, turn=turn)
    exponent = math.exp(rng.uniform(*np.log(EXPONENTS)))
    return Aperture(exponent, rim=rim, rim_width=rim_width, turn=turn)


def aperture_samples(rng: np.random.Generator, rays: int) -> list[Tensor]:  # S 4 each
    """One random aperture as sets of a quarter, half and all of the rays: a tile takes as many as its blur needs."""
    aperture = draw_aperture(rng)
    return [aperture_points(aperture, max(4, count)) for count in (rays // 4, rays // 2, rays)]


def aperture_points(aperture: Aperture, count: int) -> Tensor:
    """count x 4: points on the aperture, as many where it is brighter, and offsets within a pixel, as `disk_samples`.

    The points are centred and have a disk's variance along each axis, 1/4, so that the blur keeps the size that the
    formula says whatever the shape.
    """
    disk = disk_samples(count)
    x, y = disk[:, 0].double().numpy(), disk[:, 1].double().numpy()
    angle, radius = np.arctan2(y, x) % (2 * math.pi), _radii(aperture, x * x + y * y)
    if aperture.blades:
        angle, reach = _polygon(aperture, angle)
        radius = radius * reach
    angle = angle + aperture.turn
    points = _with_variance_of_disk(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1))
    return torch.cat([torch.from_numpy(points).float(), disk[:, 2:]], 1)


def _radii(aperture: Aperture, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Radii within which these shares of the light lie (the inverse of the density's cumulative sum)."""
    if aperture.exponent == math.inf and not aperture.rim:
        return np.sqrt(share)
    soft = aperture.exponent < math.inf
    r = np.linspace(0, 4.0 if soft else 1.0, 4001)
    density = np.exp(-(r**aperture.exponent)) if soft else np.ones_like(r)
    density *= 1 + aperture.rim * np.exp(-np.maximum(1 - r, 0) / aperture.rim_width)
    return _inverse_cumulative(density * r, r, share)


def _polygon(aperture: Aperture, angle: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Angles in even density over the polygon's area, and how far it reaches there."""
    grid = np.linspace(0, 2 * math.pi, 2048 + 1)

    def reach(at: NDArray[np.float64]) -> NDArray[np.float64]:
        half = math.pi / aperture.blades
        straight = math.cos(half) / np.cos(at % (2 * half) - half)
        return straight + aperture.rounding * (1 - straight)

    even = _inverse_cumulative(reach(grid) ** 2, grid, angle / (2 * math.pi))
    return even, reach(even)


def _inverse_cumulative(
    density: NDArray[np.float64], at: NDArray[np.float64], share: NDArray[np.float64]
) -> NDArray[np.float64]:
    total = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(share, total / total[-1], at)


def _with_variance_of_disk(points: NDArray[np.float64]) -> NDArray[np.float64]:
    points = points - points.mean(0)
    values, axes = np.linalg.eigh(points.T @ points / len(points))
    whitened: NDArray[np.float64] = points @ (axes / np.sqrt(4 * values)) @ axes.T
    return whitened
