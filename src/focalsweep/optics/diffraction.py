"""The blur of a microscope's objective by wave optics: what a cone of light is not, while it is a few waves wide.

Holds for incoherent light (fluorescence, or a condenser opened as far as the objective) and a round aperture in air.
Beyond MOST_WAVES of defocus the cone of geometric optics is what is left, and is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from focalsweep.optics.psf import jinc

MOST_WAVES = 20.0  # of defocus at the rim of the aperture
WAVES_A_STEP = 0.05  # of the table; the OTF's fastest swing has a wave
FREQUENCIES, ALONG, ACROSS = 97, 40, 16  # of the table; points of the integral, along the shift and across it
NEAR_CUT_OFF = 0.98  # of the cut-off: what lies beyond it is noise, alike in every frame


@dataclass(frozen=True)
class Diffraction:
    """A defocused objective, over what it shows in focus: the OTF is 1 there, as that of a geometric cone is.

    Args:
        numerical_aperture: in air.
        pixel_size: metres in the specimen.
        wavelength: metres.
    """

    numerical_aperture: float
    pixel_size: float
    wavelength: float
    radial = True

    def __call__(self, coc_px: Tensor, fy: Tensor, fx: Tensor) -> Tensor:
        """`coc_px` is the cone's diameter, which tells how far out of focus a place is."""
        frequency = torch.sqrt(fy * fy + fx * fx).to(torch.result_type(coc_px, fy))
        coc_px = coc_px.to(frequency)
        height = coc_px.abs() * self.pixel_size / (2 * math.tan(math.asin(self.numerical_aperture)))
        waves = height * (1 - math.sqrt(1 - self.numerical_aperture**2)) / self.wavelength
        share = frequency * self.wavelength / (self.pixel_size * 2 * self.numerical_aperture)  # of the cut-off
        table = _table(self.numerical_aperture).to(frequency)
        row = (waves / WAVES_A_STEP).clamp(max=len(table) - 1.001)
        column = (share / NEAR_CUT_OFF).clamp(max=1).sqrt() * (FREQUENCIES - 1.001)
        top, left = row.floor(), column.floor()
        down, across = row - top, column - left
        place = (top * FREQUENCIES + left).long()
        flat = table.flatten()
        upper = torch.lerp(flat[place], flat[place + 1], across)
        lower = torch.lerp(flat[place + FREQUENCIES], flat[place + FREQUENCIES + 1], across)
        found = torch.lerp(upper, lower, down)
        return torch.where(waves < MOST_WAVES, found, jinc(math.pi * coc_px * frequency))


@lru_cache(maxsize=8)
def _table(numerical_aperture: float) -> Tensor:
    """OTF over that in focus: a row for each WAVES_A_STEP of defocus, a column for each square root of the frequency.

    The aperture is laid over itself, shifted by the frequency; what both share is summed up with the difference of
    their phases, which is that of a sphere's cap: depth times the cosine of the ray's angle.
    """
    (along, along_weights), (across, across_weights) = _gauss_legendre(ALONG), _gauss_legendre(ACROSS)
    share = torch.linspace(0, 1, FREQUENCIES, dtype=torch.float64).square()[:, None, None] * NEAR_CUT_OFF
    # The shift is 2 share, of apertures of radius 1. A quarter of what both share: y from 0 to its height, x from 0 to
    # the rim of the one that lies farther.
    y = across * (1 - share * share).sqrt()
    width = (1 - y * y).sqrt() - share
    x = along[:, None] * width
    area = along_weights[:, None] * width * across_weights
    rays = [(1 - numerical_aperture**2 * ((x + sign * share).square() + y * y)).sqrt() for sign in (-1, 1)]
    swing = 2 * torch.cos(WAVES_A_STEP * 2 * math.pi / (1 - math.sqrt(1 - numerical_aperture**2)) * (rays[0] - rays[1]))
    rows, before, here = [], swing / 2, torch.ones_like(swing)
    for _ in range(round(MOST_WAVES / WAVES_A_STEP) + 1):
        rows.append((here * area).sum((1, 2)) / area.sum((1, 2)))
        before, here = here, swing * here - before  # cosines of one multiple after the other
    return torch.stack(rows)


def _gauss_legendre(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on 0..1."""
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy((nodes + 1) / 2), torch.from_numpy(weights / 2)
