"""Error against confidence: closed forms, loops, other libraries; what is known to be right, wrong or blind is told."""

import math

import numpy as np
import pytest
import torch
from research.tests import twins_errors as twins
from torch import Tensor

from focalsweep.types import DepthGrid, DepthPrediction
from focalsweep_research.metrics.confidence import (
    BINS,
    ERRORS,
    STEPS,
    ConfidenceSums,
    CoverageSums,
    ReliabilitySums,
    SparsificationSums,
    confidence_sums,
    coverage_sums,
    reliability_sums,
    sparsification_sums,
    within_a_plane,
)
from tests.errors import assert_one_sentence, message_of


def noise(seed: int, shape: tuple[int, ...] = (1, 25, 31)) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def laplace(seed: int, scale: Tensor) -> Tensor:
    u = noise(seed, tuple(scale.shape)) - 0.5
    return -scale * u.sign() * torch.log1p(-2 * u.abs())


@pytest.mark.parametrize("error", ERRORS)
def test_curves_as_the_loops_have_them(error: str) -> None:
    truth, uncertainty = 1 + noise(0), noise(1)
    depth = truth + 0.2 * noise(2) * uncertainty
    sums = sparsification_sums(depth, truth, uncertainty, error=error)
    wrong = ((depth - truth).abs() / (truth if error == "abs_rel" else 1)).flatten().numpy()
    for curve, by in ((sums.remaining, uncertainty.flatten().numpy()), (sums.oracle, wrong)):
        np.testing.assert_allclose(curve, twins.sparsification_curve(wrong, by, STEPS, error == "rmse"), rtol=1e-9)


def test_areas_as_scikit_learn_has_them() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    truth, uncertainty = 1 + noise(0), noise(1)
    sums = sparsification_sums(truth + noise(2) * uncertainty, truth, uncertainty)
    curves, means = sums.curves(), sums.means()
    area, best = (sklearn.auc(curves["removed"], curves[name]) for name in ("error", "oracle"))
    assert means["ause"] == pytest.approx(area - best, rel=1e-9) and means["ause"] > 0
    chance = sklearn.auc(curves["removed"], [curves["error"][0]] * STEPS + [0])
    assert means["aurg"] == pytest.approx(chance - area, rel=1e-9)
    assert means["aurg_share"] == pytest.approx(means["aurg"] / curves["error"][0])


def test_areas_in_closed_form() -> None:
    """Errors spread evenly from 0 to 1: what remains at best is (1 - r) / 2, at worst (1 + r) / 2, by chance 1 / 2."""
    n = 100_000
    wrong = ((torch.arange(n, dtype=torch.float64) + 0.5) / n).reshape(1, 100, -1)
    truth = torch.ones_like(wrong)
    depth = truth + wrong
    best, worst, blind = (sparsification_sums(depth, truth, u).means() for u in (wrong, -wrong, truth))
    last = 0.5 / STEPS  # the curve falls to 0 in its last step
    assert best["ause"] == 0
    assert best["aurg"] == pytest.approx(0.25 - last / 2, abs=1e-3)
    assert worst["ause"] == pytest.approx(0.5, abs=0.006)
    assert worst["aurg"] == pytest.approx(-0.25, abs=0.006)
    assert blind["aurg"] == pytest.approx(0, abs=1e-12)
    assert blind["ause"] == pytest.approx(0.25 - last / 2, abs=1e-3)
    assert blind["ause_share"] == pytest.approx(0.5 - last, abs=2e-3)


def test_equal_uncertainties_go_in_no_order() -> None:
    """Two levels: the order of pixels within one changes nothing."""
    truth = torch.ones((1, 20, 20), dtype=torch.float64)
    wrong, level = noise(3, (1, 20, 20)), (noise(4, (1, 20, 20)) > 0.3).double()
    order = torch.randperm(400, generator=torch.Generator().manual_seed(5))
    shuffled = [map_.flatten()[order].reshape(1, 20, 20) for map_ in (truth + wrong, truth, level)]
    curve = sparsification_sums(truth + wrong, truth, level).remaining
    np.testing.assert_allclose(curve, sparsification_sums(*shuffled).remaining, rtol=1e-12)
    np.testing.assert_allclose(curve[-2], wrong[level == 0].mean(), rtol=1e-12)


def test_pictures_count_alike_and_add_up() -> None:
    truth, wrong, uncertainty = 1 + noise(6, (3, 9, 9)), noise(7, (3, 9, 9)), noise(8, (3, 9, 9))
    truth[1, 1:] = math.nan
    whole = sparsification_sums(truth + wrong, truth, uncertainty)
    assert whole.pictures == 3
    parts = [sparsification_sums(truth[i] + wrong[i], truth[i], uncertainty[i]) for i in range(3)]
    np.testing.assert_allclose(sum(parts, SparsificationSums()).remaining, whole.remaining, rtol=1e-12)
    each = [float((wrong[i] / truth[i])[torch.isfinite(truth[i])].mean()) for i in range(3)]
    assert whole.curves()["error"][0] == pytest.approx(sum(each) / 3)
    unknown = torch.full_like(truth, math.nan)
    assert sparsification_sums(truth, unknown, uncertainty).means() == {"pictures": 0}


def test_no_number_is_the_least_sure() -> None:
    truth = torch.ones((1, 10, 10), dtype=torch.float64)
    depth, uncertainty = truth.clone(), noise(9, (1, 10, 10))
    depth[0, 0], uncertainty[0, 0] = 2.0, math.nan
    curve = sparsification_sums(depth, truth, uncertainty).remaining
    assert curve[0] == pytest.approx(0.1) and curve[10] == 0


def test_coverage_of_a_laplace_distribution() -> None:
    scale = 0.05 + 0.1 * noise(10, (400, 500))
    truth = torch.full_like(scale, 5)
    honest = coverage_sums(truth + laplace(11, scale), truth, math.sqrt(2) * scale).means()
    assert honest["expected_within_1_std"] == pytest.approx(0.7569, abs=1e-4)
    assert honest["expected_within_2_std"] == pytest.approx(0.9409, abs=1e-4)
    assert honest["within_1_std"] == pytest.approx(honest["expected_within_1_std"], abs=0.003)
    assert honest["within_2_std"] == pytest.approx(honest["expected_within_2_std"], abs=0.003)
    assert honest["rms_z"] == pytest.approx(1, abs=0.02)
    assert honest["miscalibration"] < 0.003
    # A bar of half the length holds 1 - (1 - p) ** 0.5 where it should hold p: on average 1/6 too little.
    boastful = coverage_sums(truth + laplace(11, scale), truth, math.sqrt(0.5) * scale).means()
    assert boastful["within_2_std"] == pytest.approx(honest["within_1_std"])
    assert boastful["rms_z"] == pytest.approx(2 * honest["rms_z"])
    levels = np.arange(1, BINS) / BINS
    assert boastful["miscalibration"] == pytest.approx(np.mean(levels - (1 - np.sqrt(1 - levels))), abs=0.003)


def test_coverage_by_hand() -> None:
    """Errors of 0, 1, 3 and 5 with bars of 0, 1, 2 and 2: the bar's own end counts as within."""
    truth = torch.full((2, 2), 10.0)
    error, std = torch.tensor([[0.0, 1.0], [3.0, 5.0]]), torch.tensor([[0.0, 1.0], [2.0, 2.0]])
    means = coverage_sums(truth - error, truth, std).means()
    assert means["within_1_std"] == 0.5 and means["within_2_std"] == 0.75
    assert means["rms_z"] == pytest.approx(math.sqrt((0 + 1 + 2.25 + 6.25) / 4))
    parts = coverage_sums(truth[0] - error[0], truth[0], std[0]) + coverage_sums(truth[1] - error[1], truth[1], std[1])
    assert parts.means() == means
    assert CoverageSums().means() == coverage_sums(truth, truth * math.nan, std).means() == {"pixels": 0}


def test_an_estimate_that_is_no_number_is_covered_by_nothing() -> None:
    truth = torch.ones(4)
    depth = torch.tensor([1.0, 1.0, 1.0, math.nan])
    assert coverage_sums(depth, truth, torch.ones(4)).means()["within_2_std"] == 0.75


def test_reliability_as_other_libraries_have_it() -> None:
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    calibration = pytest.importorskip("sklearn.calibration")
    sure = noise(12, (40, 50))
    right = noise(13, (40, 50)) < sure**2
    sums = reliability_sums(sure, right)
    expected = torchmetrics.binary_calibration_error(sure.flatten(), right.flatten().int(), n_bins=BINS, norm="l1")
    assert sums.means()["ece"] == pytest.approx(float(expected), rel=1e-5) and float(expected) > 0.1
    shares, sureness = calibration.calibration_curve(right.flatten().numpy(), sure.flatten().numpy(), n_bins=BINS)
    bins = sums.bins()
    assert [row["right"] for row in bins] == pytest.approx(shares.tolist(), rel=1e-9)
    assert [row["confidence"] for row in bins] == pytest.approx(sureness.tolist(), rel=1e-9)
    loops = twins.reliability(sure.flatten().numpy(), right.flatten().numpy(), BINS)
    assert [tuple(row.values()) for row in bins] == [pytest.approx(row, rel=1e-9) for row in loops]


def test_an_honest_confidence_has_no_calibration_error() -> None:
    sure = noise(14, (400, 500))
    assert reliability_sums(sure, noise(15, (400, 500)) < sure).means()["ece"] < 0.01
    assert reliability_sums(sure, torch.ones_like(sure, dtype=torch.bool)).means()["ece"] == pytest.approx(
        0.5, abs=0.01
    )


def test_reliability_counts_what_it_should() -> None:
    sure = torch.tensor([0.0, 0.97, 1.0, 0.5])
    right, counted = torch.tensor([False, True, True, True]), torch.tensor([True, True, True, False])
    sums = reliability_sums(sure, right, counted)
    assert sums.means()["pixels"] == 3 and sums.means()["right"] == pytest.approx(2 / 3)
    assert [row["pixels"] for row in sums.bins()] == [1, 2]
    assert (sums + sums).means()["ece"] == pytest.approx(sums.means()["ece"])
    assert ReliabilitySums().means() == {"pixels": 0} and ReliabilitySums().bins() == []


def test_within_a_plane() -> None:
    planes = DepthGrid.uniform_in_inverse_depth(0.5, 2.0, 4)  # inverse depths 2, 1.5, 1, 0.5
    truth = torch.full((1, 1, 5), 1.0)
    depth = 1 / torch.tensor([[[2.0, 1.7, 1.0, 0.3, 0.0]]])
    # Two planes off, 1.4, none; beyond the last plane counts as there.
    assert within_a_plane(depth, truth, planes).flatten().tolist() == [False, True, True, True, True]


def test_a_prediction_at_once() -> None:
    planes = DepthGrid.uniform_in_inverse_depth(0.5, 5.0, 16)
    truth = 1 + noise(16, (2, 30, 30)).float()
    std = (0.02 + 0.3 * noise(17, (2, 30, 30)) ** 4).float()
    depth = truth + laplace(18, std / math.sqrt(2)).float()
    confidence = torch.exp(-3 * std)
    counted = truth < 1.9
    sums = confidence_sums(DepthPrediction(depth, std, confidence), truth, planes, counted)
    means = (sums + ConfidenceSums()).means()
    assert means["by_std"] == sparsification_sums(depth, truth, std / depth, counted).means()
    assert means["by_confidence"] == sparsification_sums(depth, truth, 1 - confidence, counted).means()
    assert means["by_std"]["aurg_share"] > 0.3 and means["by_confidence"]["aurg_share"] > 0.3
    assert means["coverage"]["pixels"] == means["reliability"]["pixels"] == int(counted.sum())
    assert means["coverage"]["within_1_std"] == pytest.approx(0.757, abs=0.04)
    assert means["reliability"]["right"] == pytest.approx(
        float(within_a_plane(depth, truth, planes)[counted].double().mean())
    )


def test_refusals() -> None:
    truth = torch.ones((1, 4, 4))
    message = message_of(lambda: sparsification_sums(truth, truth, truth, error="mse"), ValueError)
    assert_one_sentence(message, "'mse'", "mae, rmse, abs_rel")
    message = message_of(lambda: reliability_sums(2 * truth, truth > 0), ValueError)
    assert_one_sentence(message, "confidence", "2.0")
