"""Errors of depth: hand-computed values, sums that add up, unknown truth left out."""

import math

import pytest
import torch

from focalsweep.evaluation.metrics import ErrorSums, error_sums


def test_values_by_hand() -> None:
    """Errors of 0.5, 0, 1 and 0.04 m at 1, 2, 4 and 1 m."""
    depth, truth = torch.tensor([1.5, 2.0, 3.0, 1.04]), torch.tensor([1.0, 2.0, 4.0, 1.0])
    means = error_sums(depth, truth).means()
    assert means["pixels"] == 4
    assert means["mae"] == pytest.approx(1.54 / 4)
    assert means["rmse"] == pytest.approx(math.sqrt((0.25 + 1 + 0.0016) / 4))
    assert means["abs_rel"] == pytest.approx((0.5 + 0.25 + 0.04) / 4)
    assert means["delta_1.05"] == pytest.approx(0.5)


@pytest.mark.parametrize(("factor", "share"), [(1.04, 1.0), (1 / 1.04, 1.0), (1.06, 0.0), (1 / 1.06, 0.0)])
def test_delta_is_a_factor_either_way(factor: float, share: float) -> None:
    truth = torch.linspace(0.1, 30, 50)
    assert error_sums(truth * factor, truth).means()["delta_1.05"] == share


def test_sums_of_parts_add_up() -> None:
    generator = torch.Generator().manual_seed(0)
    depth, truth = (torch.rand((3, 20, 30), generator=generator) + 0.5 for _ in range(2))
    left = torch.rand(truth.shape, generator=generator) < 0.3
    whole = error_sums(depth, truth).means()
    parts = error_sums(depth, truth, left) + error_sums(depth, truth, ~left)
    batches = sum((error_sums(depth[i], truth[i]) for i in range(3)), ErrorSums())
    for joined in (parts, batches):
        assert joined.means() == pytest.approx(whole, rel=1e-9)
    assert error_sums(depth, truth, left).means()["mae"] != pytest.approx(whole["mae"], rel=1e-6)


@pytest.mark.parametrize("unknown", [math.nan, math.inf, 0.0, -1.0])
def test_unknown_truth_is_left_out(unknown: float) -> None:
    depth = torch.tensor([[1.1, 5.0], [2.0, 9.0]])
    truth = torch.tensor([[1.0, unknown], [2.0, unknown]])
    means = error_sums(depth, truth).means()
    assert means["pixels"] == 2
    assert means["mae"] == pytest.approx(0.05)  # 0.025 if the unknown ones counted as right
    assert means["abs_rel"] == pytest.approx(0.05)


def test_nothing_counted_has_no_means() -> None:
    nowhere = torch.zeros(4, dtype=torch.bool)
    assert error_sums(torch.ones(4), torch.ones(4), nowhere).means() == {"pixels": 0}
    assert ErrorSums().means() == {"pixels": 0}


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_an_estimate_that_is_no_number_is_not_forgiven(wrong: float) -> None:
    means = error_sums(torch.tensor([1.0, wrong]), torch.ones(2)).means()
    assert not math.isfinite(means["mae"]) and not math.isfinite(means["abs_rel"])
    assert means["delta_1.05"] == 0.5
