"""Confidence-weighted smoothing: what the network is sure of stays, what it only guessed follows its surroundings.

The network tells with every pixel how far it may be off. Where that is a lot (a plain wall, a burnt-out sky) its guess
is worth less than what its neighbours know, unless an edge of the picture lies between. With positions p and their
scales b, the answer x has the least of

    sum_i w_i (x_i - p_i)^2  +  STRENGTH sum_ij v_ij (x_i - x_j)^2,
    w = (b_0 / b)^3,  v = exp(-max |colour_i - colour_j| / COLOUR_SIGMA) + LEAK

over pixels i and pairs ij of neighbours, b_0 being the geometric mean of b, the largest difference that of the three
channels. It is found coarse to fine: each level starts from the one before, brought up along the edges of the picture,
and takes a few steps of Chebyshev's iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

STRENGTH = 8.0  # at a pixel of the usual scale it reaches 3 px, at one of ten times that scale 90
COLOUR_SIGMA = 0.015  # of sRGB values in 0..1, the channel that differs most
LEAK = 1e-3  # across the strongest edge
STEPS = 8  # on each level
SLOWEST = 0.05  # the least eigenvalue that they are made for
COARSEST_PX = 8
BAND_PX = 256  # rows that are brought up at once: what that takes is most of the memory


def smooth_by_confidence(
    position: Tensor,  # B H W
    scale: Tensor,  # B H W, positive
    picture: Tensor,  # B 3 H W, sRGB
) -> Tensor:  # B H W
    """The positions, each followed as far as its scale says; the picture tells where surfaces end."""
    position, scale, picture = position[:, None].float(), scale[:, None].float(), picture.float()
    differentiated = torch.is_grad_enabled() and (position.requires_grad or scale.requires_grad)
    fused = position.is_cuda and find_spec("triton") is not None and not differentiated
    downsample, start, iterate = _level_steps(fused)
    weight = (scale.log().mean((-2, -1), keepdim=True).exp() / scale) ** 3
    levels = [(weight, position, picture)]
    while min(levels[-1][1].shape[-2:]) > 2 * COARSEST_PX:
        levels.append(downsample(*levels[-1]))
    answer: Tensor | None = None
    for number in range(len(levels) - 1, -1, -1):
        weight, position, picture = levels[number]
        coarse = None if answer is None else (answer, levels[number + 1][2])
        answer, across, down = start(coarse, weight, position, picture)
        answer = _chebyshev(iterate, answer, position, weight, across, down)
    assert answer is not None
    return answer[:, 0]


def _level_steps(fused: bool) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """What a level is made of, `_downsample`, `_start` and `_iterate`: here, or one kernel each on a GPU."""
    if not fused:
        return _downsample, _start, _iterate
    from focalsweep.model import smoothing_kernel

    return smoothing_kernel.downsample, smoothing_kernel.start, smoothing_kernel.iterate


def _downsample(weight: Tensor, position: Tensor, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Half the size: the weight of four pixels together, their position by weight, their mean colour."""
    total = _mean_of_four(weight)
    return 4 * total, _mean_of_four(weight * position) / total, _mean_of_four(picture)


def _start(
    coarse: tuple[Tensor, Tensor] | None,  # answer and picture of the level before
    weight: Tensor,
    position: Tensor,
    picture: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """What a level begins with: its answer so far, and how strongly neighbours hold together across and down."""
    answer = position
    if coarse is not None:
        answer = (weight * position + STRENGTH * _upsample(*coarse, picture)) / (weight + STRENGTH)
    return answer, STRENGTH * _edge_weights(picture, -1), STRENGTH * _edge_weights(picture, -2)


def _mean_of_four(maps: Tensor) -> Tensor:
    """Means of 2 x 2; an odd border counts twice."""
    height, width = maps.shape[-2:]
    return functional.avg_pool2d(functional.pad(maps, (0, width % 2, 0, height % 2), mode="replicate"), 2)


def _edge_weights(picture: Tensor, dim: int) -> Tensor:
    """How much neighbours along an axis belong together, LEAK to 1 + LEAK: B 1, one less along the axis."""
    return torch.exp(picture.diff(dim=dim).abs().amax(1, keepdim=True) / -COLOUR_SIGMA) + LEAK


def _upsample(coarse: Tensor, coarse_picture: Tensor, picture: Tensor) -> Tensor:
    """Twice the size: of the four coarse pixels around each fine one, those of its colour."""
    maps = functional.pad(torch.cat([coarse, coarse_picture], 1), (1, 1, 1, 1), mode="replicate")
    bands = [
        _upsample_band(maps[..., row // 2 : (row + BAND_PX) // 2 + 2, :], picture[..., row : row + BAND_PX, :])
        for row in range(0, picture.shape[-2], BAND_PX)
    ]
    return torch.cat(bands, -2)


def _upsample_band(maps: Tensor, picture: Tensor) -> Tensor:
    """Rows of it, from coarse answers and colours with a border of one."""
    height, width = picture.shape[-2:]
    total = weights = torch.zeros_like(picture[:, :1])
    for row, row_weight in ((_nearest(maps, -2), 0.75), (_next_nearest(maps, -2), 0.25)):
        for both, weight in ((_nearest(row, -1), 0.75), (_next_nearest(row, -1), 0.25)):
            both = both[..., :height, :width]
            likeness = torch.exp((both[:, 1:] - picture).abs().amax(1, keepdim=True) / -COLOUR_SIGMA) + LEAK
            weights = weights + row_weight * weight * likeness
            total = total + row_weight * weight * likeness * both[:, :1]
    return total / weights


def _nearest(maps: Tensor, dim: int) -> Tensor:
    """Along an axis with a border of one, the pixel that each of the twice as many fine ones lies in."""
    inner = maps.narrow(dim, 1, maps.shape[dim] - 2)
    return _interleave(inner, inner, dim)


def _next_nearest(maps: Tensor, dim: int) -> Tensor:
    """And the one that it lies next to: the one before for the first half, the one after for the second."""
    size = maps.shape[dim] - 2
    return _interleave(maps.narrow(dim, 0, size), maps.narrow(dim, 2, size), dim)


def _interleave(first: Tensor, second: Tensor, dim: int) -> Tensor:
    dim %= first.ndim
    return torch.stack([first, second], dim + 1).flatten(dim, dim + 1)


def _chebyshev(
    iterate: Callable[..., Tensor], answer: Tensor, position: Tensor, weight: Tensor, across: Tensor, down: Tensor
) -> Tensor:
    """Chebyshev's steps towards the least sum: their lengths are known beforehand, so that no step waits for a sum.

    Scaled by its diagonal the matrix has no eigenvalue above 2; of those below SLOWEST the coarser levels take care.
    """
    middle, radius = (2 + SLOWEST) / 2, (2 - SLOWEST) / 2
    ratio = radius / middle
    before, answer = answer, iterate(answer, answer, position, weight, across, down, 0.0, 1 / middle)
    for _ in range(STEPS - 1):
        last, ratio = ratio, 1 / (2 * middle / radius - ratio)
        before, answer = (
            answer,
            iterate(answer, before, position, weight, across, down, last * ratio, 2 * ratio / radius),
        )
    return answer


def _iterate(
    answer: Tensor,  # B 1 H W, as all but the last two
    before: Tensor,
    position: Tensor,
    weight: Tensor,
    across: Tensor,  # B 1 H W-1
    down: Tensor,  # B 1 H-1 W
    momentum: float,
    gain: float,
) -> Tensor:  # B 1 H W
    """On by a share of the way from the answer before, and towards where its own position and its neighbours pull."""
    pull, diagonal = weight * (position - answer), weight.clone()
    for strength, dim in ((across, -1), (down, -2)):
        size = strength.shape[dim]
        flow = strength * answer.diff(dim=dim)
        pull.narrow(dim, 0, size).add_(flow)
        pull.narrow(dim, 1, size).sub_(flow)
        diagonal.narrow(dim, 0, size).add_(strength)
        diagonal.narrow(dim, 1, size).add_(strength)
    return answer + momentum * (answer - before) + gain * pull / diagonal
