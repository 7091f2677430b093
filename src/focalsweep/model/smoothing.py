"""A map of depth made whole: what the network is sure of stays, what it only guessed follows its surroundings.

The network tells with every pixel how far it may be off. Where that is a lot (a plain wall, a burnt-out sky) its guess
is worth less than what its neighbours know, unless an edge of the picture lies between. With positions p and their
scales b, the answer x has the least of

    sum_i w_i (x_i - p_i)^2  +  STRENGTH sum_ij v_ij (x_i - x_j)^2,
    w = (b_0 / b)^3,  v = exp(-|colour_i - colour_j| / COLOUR_SIGMA)

over pixels i and their neighbours j, b_0 being the geometric mean of b. It is found coarse to fine: each level starts
from the one before, brought up along the edges of the picture, and takes a few steps of conjugate gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

STRENGTH = 4.0  # at a pixel of the usual scale it reaches 2 px, at one of ten times that scale 60
COLOUR_SIGMA = 0.015  # of sRGB values in 0..1, the channel that differs most
LEAK = 1e-3  # across the strongest edge
STEPS = 8  # of conjugate gradients on each level
COARSEST_PX = 8


def smooth_by_trust(
    position: Tensor,  # B H W
    scale: Tensor,  # B H W, positive
    picture: Tensor,  # B 3 H W, sRGB
) -> Tensor:  # B H W
    """The positions, each followed as far as its scale says; the picture tells where surfaces end."""
    position, scale, picture = position[:, None].float(), scale[:, None].float(), picture.float()
    trust = (scale.log().mean((-2, -1), keepdim=True).exp() / scale) ** 3
    levels = [(trust, position, picture)]
    while min(levels[-1][1].shape[-2:]) > 2 * COARSEST_PX:
        trust, position, picture = levels[-1]
        total = _halved(trust)
        levels.append((total, _halved(trust * position) / total, _halved(picture)))
    answer = levels[-1][1]
    for number in range(len(levels) - 1, -1, -1):
        trust, position, picture = levels[number]
        trust = trust * 4**number  # of all the pixels that are one here
        if number + 1 < len(levels):
            answer = _brought_up(answer, levels[number + 1][2], picture)
            answer = (trust * position + STRENGTH * answer) / (trust + STRENGTH)
        answer = _relaxed(answer, position, trust, STRENGTH * _ties(picture, -1), STRENGTH * _ties(picture, -2))
    return answer[:, 0]


def _halved(maps: Tensor) -> Tensor:
    """Means of 2 x 2; an odd border counts twice."""
    height, width = maps.shape[-2:]
    return functional.avg_pool2d(functional.pad(maps, (0, width % 2, 0, height % 2), mode="replicate"), 2)


def _ties(picture: Tensor, dim: int) -> Tensor:
    """How much neighbours along an axis belong together, 0..1: B 1, one less along the axis."""
    return torch.exp(picture.diff(dim=dim).abs().amax(1, keepdim=True) / -COLOUR_SIGMA) + LEAK


def _brought_up(coarse: Tensor, coarse_picture: Tensor, picture: Tensor) -> Tensor:
    """Twice the size: of the four coarse pixels around each fine one, those of its colour."""
    height, width = picture.shape[-2:]
    maps = functional.pad(torch.cat([coarse, coarse_picture], 1), (1, 1, 1, 1), mode="replicate")
    total = weights = torch.zeros_like(picture[:, :1])
    for row, row_weight in ((_own(maps, -2), 0.75), (_beside(maps, -2), 0.25)):
        for both, weight in ((_own(row, -1), 0.75), (_beside(row, -1), 0.25)):
            both = both[..., :height, :width]
            likeness = torch.exp((both[:, 1:] - picture).abs().amax(1, keepdim=True) / -COLOUR_SIGMA) + LEAK
            weights = weights + row_weight * weight * likeness
            total = total + row_weight * weight * likeness * both[:, :1]
    return total / weights


def _own(maps: Tensor, dim: int) -> Tensor:
    """Along an axis with a border of one, the pixel that each of the twice as many fine ones lies in."""
    return maps.narrow(dim, 1, maps.shape[dim] - 2).repeat_interleave(2, dim)


def _beside(maps: Tensor, dim: int) -> Tensor:
    """And the one that it lies next to: the one before for the first half, the one after for the second."""
    size = maps.shape[dim] - 2
    before, after = maps.narrow(dim, 0, size), maps.narrow(dim, 2, size)
    return torch.stack([before, after], maps.ndim + dim + 1).flatten(maps.ndim + dim, maps.ndim + dim + 1)


def _relaxed(answer: Tensor, position: Tensor, trust: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Steps of conjugate gradients on (W + L) x = W p, scaled by the diagonal; their number is fixed: no waiting."""

    def spread(x: Tensor) -> Tensor:  # (W + L) x
        result = trust * x
        for ties, dim in ((across, -1), (down, -2)):
            size = ties.shape[dim]
            flow = ties * x.diff(dim=dim)
            result.narrow(dim, 0, size).sub_(flow)
            result.narrow(dim, 1, size).add_(flow)
        return result

    diagonal = trust.clone()
    for ties, dim in ((across, -1), (down, -2)):
        diagonal.narrow(dim, 0, ties.shape[dim]).add_(ties)
        diagonal.narrow(dim, 1, ties.shape[dim]).add_(ties)
    residual = trust * position - spread(answer)
    scaled = residual / diagonal
    direction, power = scaled, _dot(residual, scaled)
    for _ in range(STEPS):
        spread_direction = spread(direction)
        step = power / _dot(direction, spread_direction).clamp_min(1e-30)
        answer = answer + step * direction
        residual = residual - step * spread_direction
        scaled = residual / diagonal
        before, power = power, _dot(residual, scaled)
        direction = scaled + (power / before.clamp_min(1e-30)) * direction
    return answer


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((-2, -1), keepdim=True)
