"""From probabilities over planes to depth, its error bar and its confidence."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from focalsweep.types import DepthPrediction
from focalsweep.validation import check_shape


def soft_argmin(
    probabilities: Tensor,  # B D H W
    values: Tensor,  # B D
) -> Tensor:
    """The mean of `values` under `probabilities` (paper, Eq. 11), B H W.

    A plane may have an infinite value: the mean is infinite where its probability is above zero, and that of the
    other planes where it is zero. (A softmax is hardly ever zero: with a plane at infinity, average inverse depths.)
    """
    finite, endless = _split(probabilities, values)
    return _mean(probabilities, finite).masked_fill(endless, torch.inf)


def prediction_from_probabilities(
    probabilities: Tensor,  # B D H W, summing to one over D
    inverse_depths: Tensor,  # B D, 1/m, near to far; 0 is infinity
    mean: Literal["depth", "inverse depth"] = "depth",
) -> DepthPrediction:
    """Depth, error bar and confidence of a distribution over planes.

    Args:
        probabilities: kept in the prediction.
        inverse_depths: of the planes.
        mean: "depth" is the paper's sum of p d (Eq. 11), with the standard deviation of d: both are infinite as soon
            as a plane at infinity has any probability. "inverse depth" is 1 / sum of p / d, where such a plane is an
            ordinary one, with the standard deviation of 1/d carried over to first order: std = depth^2 std(1/d).

    Returns:
        depth and std in metres; confidence, the probability of the plane nearest to the estimate (on the averaged
        axis) and its two neighbours; all B H W.
    """
    if mean not in ("depth", "inverse depth"):
        raise ValueError(f'mean must be "depth" or "inverse depth", but is {mean!r}')
    check_shape("probabilities", probabilities, "B D H W")
    values = inverse_depths if mean == "inverse depth" else 1 / inverse_depths
    finite, endless = _split(probabilities, values)
    estimate = _mean(probabilities, finite)
    spread = _mean_square_deviation(probabilities, finite, estimate).sqrt()
    estimate, spread = (value.masked_fill(endless, torch.inf) for value in (estimate, spread))
    confidence = _probability_around(probabilities, values.to(probabilities), estimate)
    if mean == "depth":
        return DepthPrediction(estimate, spread, confidence, probabilities)
    depth = 1 / estimate
    std = (spread * depth.square()).masked_fill(depth.isinf(), torch.inf)
    return DepthPrediction(depth, std, confidence, probabilities)


def _split(probabilities: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The values with 0 for infinity (B D), and where an infinite one has any probability (B H W)."""
    check_shape("probabilities", probabilities, "B D H W")
    batch, planes = probabilities.shape[:2]
    check_shape("values", values, "B D", B=batch, D=planes)
    values = values.to(probabilities)
    infinite = values.isinf()
    endless = ((probabilities > 0) & infinite[:, :, None, None]).any(1)
    return values.masked_fill(infinite, 0), endless


def _mean(probabilities: Tensor, values: Tensor) -> Tensor:
    # A product and a sum, not a matrix product: autocast would round metres to half precision there.
    return (probabilities * values[:, :, None, None]).sum(1)


def _mean_square_deviation(probabilities: Tensor, values: Tensor, mean: Tensor) -> Tensor:
    return (probabilities * (values[:, :, None, None] - mean[:, None]).square()).sum(1)


def _probability_around(probabilities: Tensor, values: Tensor, estimate: Tensor) -> Tensor:
    """The probability of the plane nearest to the estimate and of its two neighbours, B H W, in 0..1."""
    batch, planes, height, width = probabilities.shape
    sign = (values[:, -1:] - values[:, :1]).sign()  # search wants rising values: -1 turns falling ones round
    rising = sign * values
    midpoints = ((rising[:, 1:] + rising[:, :-1]) / 2).contiguous()
    nearest = torch.searchsorted(midpoints, (sign * estimate.detach().flatten(1)).contiguous(), right=True)
    around = nearest[:, None] + torch.arange(-1, 2, device=nearest.device)[:, None]  # B 3 HW
    inside = (around >= 0) & (around < planes)
    found = probabilities.flatten(2).gather(1, around.clamp(0, planes - 1)) * inside
    return found.sum(1).clamp(0, 1).reshape(batch, height, width)
