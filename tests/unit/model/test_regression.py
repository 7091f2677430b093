"""Depth, error bar and confidence from probabilities: closed forms, their twins, planes at infinity."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from focalsweep import DepthGrid
from focalsweep.model.regression import prediction_from_probabilities, soft_argmin
from tests.errors import assert_one_sentence, message_of
from tests.reference import twins_model

GRIDS = [
    DepthGrid.uniform_in_depth(0.1, 3.0, 12),
    DepthGrid.uniform_in_inverse_depth(0.3, 5.0, 12),
    DepthGrid.uniform_in_inverse_depth([0.3, 0.5], [5.0, 0.9], 12),
]
TO_INFINITY = DepthGrid.uniform_in_inverse_depth(0.5, math.inf, 5)


def random_probabilities(planes: int = 12, sharpness: float = 5.0) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.softmax(sharpness * torch.rand((2, planes, 4, 5), dtype=torch.float64, generator=generator), 1)


def one_hot(plane: int, planes: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.full((1, 2, 3), plane), planes).movedim(-1, 1).double()


@pytest.mark.parametrize("mean", ["depth", "inverse depth"])
@pytest.mark.parametrize("grid", [*GRIDS[:2], TO_INFINITY])
def test_one_hot_gives_its_plane(grid: DepthGrid, mean: str) -> None:
    for plane in range(grid.count):
        prediction = prediction_from_probabilities(one_hot(plane, grid.count), grid.as_batch(1), mean)
        depth = grid.depths[plane].item()
        torch.testing.assert_close(prediction.depth, torch.full((1, 2, 3), depth, dtype=torch.float64))
        error = 0.0 if math.isfinite(depth) else math.inf
        torch.testing.assert_close(prediction.std, torch.full((1, 2, 3), error, dtype=torch.float64), rtol=0, atol=1e-9)
        assert torch.equal(prediction.confidence, torch.ones(1, 2, 3, dtype=torch.float64))


@pytest.mark.parametrize("sharpness", [0.0, 5.0, 40.0])
@pytest.mark.parametrize("grid", GRIDS)
def test_agrees_with_its_twins(grid: DepthGrid, sharpness: float) -> None:
    probabilities, planes = random_probabilities(sharpness=sharpness), grid.as_batch(2)
    by_depth = prediction_from_probabilities(probabilities, planes)
    by_inverse = prediction_from_probabilities(probabilities, planes, "inverse depth")
    for i, p in enumerate(probabilities.numpy()):
        inverse = planes[i].numpy()
        mean, std = twins_model.moments(p, 1 / inverse)
        np.testing.assert_allclose(by_depth.depth[i], mean, rtol=1e-10)
        np.testing.assert_allclose(by_depth.std[i], std, rtol=1e-9)
        np.testing.assert_allclose(by_depth.confidence[i], twins_model.confidence(p, 1 / inverse, mean), rtol=1e-10)
        mean, std = twins_model.moments(p, inverse)
        np.testing.assert_allclose(by_inverse.depth[i], 1 / mean, rtol=1e-10)
        np.testing.assert_allclose(by_inverse.std[i], std / mean**2, rtol=1e-9)
        np.testing.assert_allclose(by_inverse.confidence[i], twins_model.confidence(p, inverse, mean), rtol=1e-10)
    torch.testing.assert_close(soft_argmin(probabilities, 1 / planes), by_depth.depth)


def test_a_plane_at_infinity_without_probability_is_harmless() -> None:
    probabilities = random_probabilities(planes=5)
    probabilities[:, -1] = 0
    probabilities /= probabilities.sum(1, keepdim=True)
    probabilities.requires_grad_()
    planes = TO_INFINITY.as_batch(2)
    depth = soft_argmin(probabilities, 1 / planes)
    torch.testing.assert_close(depth, soft_argmin(probabilities[:, :-1], 1 / planes[:, :-1]))
    (gradient,) = torch.autograd.grad(depth.sum(), probabilities)
    assert bool(gradient.isfinite().all())


def test_a_plane_at_infinity_with_probability() -> None:
    probabilities, planes = random_probabilities(planes=5), TO_INFINITY.as_batch(2)
    by_depth = prediction_from_probabilities(probabilities, planes)
    assert bool(by_depth.depth.isinf().all()) and bool(by_depth.std.isinf().all())
    by_inverse = prediction_from_probabilities(probabilities, planes, "inverse depth")
    assert bool(by_inverse.depth.isfinite().all()) and bool(by_inverse.std.isfinite().all())
    torch.testing.assert_close(1 / by_inverse.depth, soft_argmin(probabilities, planes))


def test_two_planes_have_all_the_confidence() -> None:
    planes = DepthGrid.from_depths([1.0, 2.0]).as_batch(2)
    confidence = prediction_from_probabilities(random_probabilities(planes=2), planes).confidence
    torch.testing.assert_close(confidence, torch.ones_like(confidence))


def test_a_flat_distribution_has_the_confidence_of_three_planes() -> None:
    flat = torch.full((1, 12, 2, 2), 1 / 12)
    confidence = prediction_from_probabilities(flat, GRIDS[0].as_batch(1)).confidence
    torch.testing.assert_close(confidence, torch.full((1, 2, 2), 3 / 12))


def test_gradients() -> None:
    planes = GRIDS[1].as_batch(2)[:, ::4]
    probabilities = random_probabilities(planes=3).requires_grad_()

    def depth_and_std(probabilities: Tensor) -> tuple[Tensor, Tensor]:
        prediction = prediction_from_probabilities(probabilities, planes, "inverse depth")
        return prediction.depth, prediction.std

    assert torch.autograd.gradcheck(soft_argmin, (probabilities, planes))
    assert torch.autograd.gradcheck(depth_and_std, (probabilities,))


def test_autocast_keeps_metres() -> None:
    probabilities, depths = random_probabilities().float(), GRIDS[0].depths.expand(2, -1)
    with torch.autocast("cpu", torch.bfloat16):
        cast = soft_argmin(probabilities, depths)
    torch.testing.assert_close(cast, soft_argmin(probabilities, depths))


def test_wrong_arguments_are_named() -> None:
    probabilities, planes = random_probabilities(), GRIDS[0].as_batch(2)
    message = message_of(lambda: prediction_from_probabilities(probabilities, planes, "median"), ValueError)
    assert_one_sentence(message, "mean", "'median'")
    message = message_of(lambda: prediction_from_probabilities(probabilities, planes[:, 1:]), ValueError)
    assert_one_sentence(message, "B=2", "D=12", "(2, 11)")
    message = message_of(lambda: soft_argmin(probabilities[0], planes), ValueError)
    assert_one_sentence(message, "probabilities", "B D H W")
