"""The lowest cost and its error bar. `tests/reference/test_oracles.py` compares the parabola with its twin."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalsweep import DepthGrid, ReblurCost
from focalsweep.sweep.argmin import argmin_depth, find_minimum, posterior
from tests.rendering import render_plane

PLANES = DepthGrid.uniform_in_inverse_depth(0.4, 4.0, 10)
STEP = float(-PLANES.inverse_depths.diff()[0])


@given(st.floats(0.05, 0.95), st.floats(0.1, 1e3))
def test_vertex_and_curvature_of_a_parabola(share: float, steepness: float) -> None:
    low, high = PLANES.inverse_depths[-2].item(), PLANES.inverse_depths[1].item()
    truth = low + share * (high - low)
    for grid in (PLANES, DepthGrid.uniform_in_depth(0.4, 4.0, 10)):
        costs = steepness * (grid.inverse_depths - truth).square()
        minimum = find_minimum(costs[None, :, None, None] + 3.0, grid.as_batch(1))
        if 0 < minimum.plane.item() < 9:
            assert minimum.inverse_depth.item() == pytest.approx(truth, rel=1e-6)
            assert minimum.curvature.item() == pytest.approx(2 * steepness, rel=1e-5)
        assert minimum.lowest.item() == pytest.approx(costs.min().item() + 3.0)


def test_one_hot_volume_gives_its_plane() -> None:
    for plane in range(10):
        costs = torch.ones(1, 10, 2, 3)
        costs[:, plane] = 0
        minimum = find_minimum(costs, PLANES.as_batch(1))
        assert bool((minimum.plane == plane).all())
        torch.testing.assert_close(minimum.inverse_depth, torch.full((1, 2, 3), PLANES.inverse_depths[plane].item()))


def test_confidence_of_flat_and_of_sharp_costs() -> None:
    flat = torch.zeros(1, 10, 1, 1)
    sharp = 1e6 * (torch.arange(10.0) - 4).square()[None, :, None, None]
    for costs, expected in ((flat, 0.2), (sharp, 1.0)):  # flat: the first plane and its one neighbour, of ten
        minimum = find_minimum(costs, PLANES.as_batch(1))
        std, confidence = posterior(costs, PLANES.as_batch(1), minimum, pixels=10.0, expected=1.0)
        assert confidence.item() == pytest.approx(expected, abs=1e-5)
        assert std.item() > 0
    uniform = PLANES.inverse_depths.std(correction=0).item()
    minimum = find_minimum(flat, PLANES.as_batch(1))
    std, _ = posterior(flat, PLANES.as_batch(1), minimum, 10.0, 1.0)
    assert std.item() >= uniform


def test_std_of_a_parabolic_likelihood() -> None:
    """-2 log likelihood of curvature 2 / s^2 for each of n pixels: the std is s / sqrt(n)."""
    s, n = 4 * STEP, 4.0
    costs = ((PLANES.inverse_depths - PLANES.inverse_depths[5]) / s).square()[None, :, None, None]
    fine = DepthGrid.uniform_in_inverse_depth(0.4, 4.0, 10)
    minimum = find_minimum(costs, fine.as_batch(1))
    std, _ = posterior(costs, fine.as_batch(1), minimum, pixels=n, expected=1.0)
    assert std.item() == pytest.approx(s / np.sqrt(n), rel=0.25)


def test_a_bad_fit_widens_the_error_bar() -> None:
    costs = 0.5 * (torch.arange(10.0) - 4).square()[None, :, None, None]
    spreads = []
    for offset in (1.0, 50.0):
        minimum = find_minimum(costs + offset, PLANES.as_batch(1))
        spreads.append(posterior(costs + offset, PLANES.as_batch(1), minimum, 10.0, 1.0)[0].item())
    assert spreads[1] > 1.5 * spreads[0]


def test_argmin_depth_of_a_rendered_plane() -> None:
    rendered = render_plane("dslr", 1.3)
    planes = DepthGrid.around(rendered.stack, count=32)
    prediction = argmin_depth(rendered.stack.as_batch(), planes)
    assert prediction.depth.shape == (1, 96, 96)
    assert prediction.depth.median().item() == pytest.approx(1.3, rel=0.01)
    assert bool((prediction.std > 0).all())
    assert bool(((prediction.confidence >= 0) & (prediction.confidence <= 1)).all())
    other = argmin_depth(rendered.stack.as_batch(), planes, ReblurCost(squash=False, window_sigma_px=1.0))
    assert not torch.equal(other.depth, prediction.depth)
