"""What a Bayer colour filter does to a picture: a pixel has one colour, its neighbours lend it the other two."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def bayer(
    images: Tensor,  # B F 3 H W, linear light
    phase: Tensor,  # B 2, 0 or 1: rows and columns that the filter's pattern is moved by
    edge_aware: Tensor,  # B, 0: bilinear, 1: along edges, and red and blue by their difference from green
) -> Tensor:  # B F 3 H W
    """The pictures sampled through the filter, red, green / green, blue, and interpolated again.

    Along edges as Hamilton and Adams (US patent 5 629 734, expired) do, but the two directions are weighed, not chosen.
    """
    height, width = images.shape[-2:]
    row = (torch.arange(height, device=images.device) + phase[:, :1]).remainder(2)[:, None, :, None]
    column = (torch.arange(width, device=images.device) + phase[:, 1:]).remainder(2)[:, None, None, :]
    red, blue = (1 - row) * (1 - column), row * column  # B 1 H W
    green = 1 - red - blue
    raw = images[:, :, 0] * red + images[:, :, 1] * green + images[:, :, 2] * blue
    aware = edge_aware[:, None, None, None]
    full_green = torch.where(green > 0, raw, _green_between(raw, aware))
    base = aware * full_green
    difference = raw - base
    return torch.stack([base + _bilinear(difference * red), full_green, base + _bilinear(difference * blue)], 2)


def _green_between(raw: Tensor, aware: Tensor) -> Tensor:
    """Green at red and blue pixels: of four neighbours, or of the two along the edge with the centre's curvature."""
    middle, bends, roughness = [], [], []
    for dim in (-2, -1):
        far_before, before, _, after, far_after = _neighbours(raw, dim, 2)
        bend = 2 * raw - far_before - far_after
        middle.append((before + after) / 2)
        bends.append(bend / 4)
        roughness.append(((before - after).abs() + bend.abs()).square())
    down = (roughness[1] + 1e-8) / (roughness[0] + roughness[1] + 2e-8)
    down = torch.lerp(torch.full_like(down, 0.5), down, aware)
    return torch.lerp(middle[1] + aware * bends[1], middle[0] + aware * bends[0], down)


def _bilinear(sparse: Tensor) -> Tensor:
    """Fills in the zeros between samples that are two pixels apart."""
    for dim in (-2, -1):
        before, here, after = _neighbours(sparse, dim, 1)
        sparse = torch.add(here, before + after, alpha=0.5)
    return sparse


def _neighbours(maps: Tensor, dim: int, reach: int) -> list[Tensor]:
    """Values from `reach` pixels before to as many behind; reflected about border pixels, which keeps the pattern."""
    sides = [reach, reach, 0, 0] if dim == -1 else [0, 0, reach, reach]
    padded = functional.pad(maps, sides, mode="reflect")
    return [padded.narrow(dim, start, maps.shape[dim]) for start in range(2 * reach + 1)]
