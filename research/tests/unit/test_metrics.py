"""Errors of depth: hand-computed values, twins and other libraries, sums that add up, unknown truth left out."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from research.tests import twins_errors as twins
from torch import Tensor

from focalsweep_research.metrics.errors import (
    METRICS,
    RESCALINGS,
    ErrorSums,
    PictureSums,
    Scoreboard,
    depth_bands,
    error_sums,
    picture_sums,
    rescaled,
)
from tests.errors import assert_one_sentence, message_of


def random_pair(seed: int = 0, shape: tuple[int, ...] = (3, 20, 30)) -> tuple[Tensor, Tensor]:
    """An estimate that follows the truth loosely."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.rand(shape, generator=generator, dtype=torch.float64) * 3 + 0.5
    return truth * torch.exp(0.3 * torch.randn(shape, generator=generator, dtype=torch.float64) + 0.1), truth


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
    depth, truth = random_pair()
    left = torch.rand(truth.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    whole = error_sums(depth, truth).means()
    parts = (error_sums(depth, truth, left) + error_sums(depth, truth, ~left)).means()
    batches = sum((error_sums(depth[i], truth[i]) for i in range(3)), ErrorSums()).means()
    assert batches == pytest.approx(whole, rel=1e-9)
    assert parts.pop("ssitrim") != pytest.approx(whole.pop("ssitrim"), rel=1e-6)  # it belongs to a whole picture
    assert parts == pytest.approx(whole, rel=1e-9)
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


@pytest.mark.parametrize("wrong", [-1.0, 0.0])
def test_a_depth_that_is_not_positive_is_within_no_factor(wrong: float) -> None:
    means = error_sums(torch.tensor([1.0, wrong]), torch.ones(2)).means()
    assert means["delta_1.05"] == means["delta_1.25^3"] == 0.5
    assert not math.isfinite(means["sc_inv"])


def test_deltas_and_log_errors_by_hand() -> None:
    """Factors of 1.04, 1.2, 1.5, 1.9 and 3, and their logarithms' standard deviation."""
    factors = [1.04, 1 / 1.2, 1.5, 1 / 1.9, 3.0]
    truth = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    means = error_sums(truth * torch.tensor(factors, dtype=torch.float64), truth).means()
    assert [means[key] for key in METRICS if key.startswith("delta")] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert means["sc_inv"] == pytest.approx(np.std(np.log(factors)))


def test_ssitrim_by_hand() -> None:
    """Inverse depths 1..5 have the median 3 and deviate from it by 1.2 on average.

    The estimate's 1, 2, 3, 4, 11 have the same median and deviate by 2.4; divided by those, -2 / 1.2 against -2 / 2.4
    and so on: differences of 5/6, 5/12, 0, 5/12 and 5/3, of which the largest goes.
    """
    truth, estimate = (1 / torch.tensor(u, dtype=torch.float64) for u in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 11]))
    assert error_sums(estimate, truth).means()["ssitrim"] == pytest.approx((5 / 6 + 5 / 12 + 0 + 5 / 12) / 10)


@pytest.mark.parametrize("shape", [(1, 7, 9), (1, 8, 8), (4, 5, 5)])
def test_as_the_loops_have_it(shape: tuple[int, ...]) -> None:
    depth, truth = random_pair(1, shape)
    truth[0, 2] = math.nan
    one = error_sums(depth[0], truth[0]).means()
    assert one == pytest.approx(twins.picture_errors(depth[0].numpy(), truth[0].numpy()), rel=1e-9)
    means = picture_sums(depth, truth).means()
    known = int(torch.isfinite(truth).sum())
    expected = twins.mean_of_pictures(depth.numpy(), truth.numpy())
    assert means == pytest.approx({**expected, "pixels": known, "pictures": shape[0]}, rel=1e-9)


def test_as_other_libraries_have_it() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    torchmetrics = pytest.importorskip("torchmetrics.functional.regression")
    depth, truth = (map_.flatten() for map_ in random_pair(2))
    means = error_sums(depth, truth).means()
    d, t = depth.numpy(), truth.numpy()
    assert means["mae"] == pytest.approx(sklearn.mean_absolute_error(t, d), rel=1e-9)
    assert means["rmse"] == pytest.approx(sklearn.root_mean_squared_error(t, d), rel=1e-9)
    assert means["abs_rel"] == pytest.approx(sklearn.mean_absolute_percentage_error(t, d), rel=1e-9)
    # The explained variance of a log that varies by 1 leaves the variance of the log error.
    log = (depth / truth).log()
    varied = torch.randn(len(log), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    unexplained = (1 - sklearn.explained_variance_score(varied, varied + log)) * float(varied.var(correction=0))
    assert means["sc_inv"] ** 2 == pytest.approx(unexplained, rel=1e-9)
    assert means["mae"] == pytest.approx(float(torchmetrics.mean_absolute_error(depth, truth)), rel=1e-6)
    assert means["rmse"] == pytest.approx(float(torchmetrics.mean_squared_error(depth, truth, squared=False)), rel=1e-6)
    relative = torchmetrics.mean_absolute_percentage_error(depth, truth)
    assert means["abs_rel"] == pytest.approx(float(relative), rel=1e-6)


def test_pixels_and_pictures_weigh_differently() -> None:
    """Nine pixels that are 1 m off in one picture, one that is 11 m off in another."""
    truth = torch.full((2, 3, 3), 2.0)
    depth = truth + torch.tensor([1.0, 11.0])[:, None, None]
    truth[1].flatten()[1:] = math.nan
    assert error_sums(depth, truth).means()["mae"] == pytest.approx((9 + 11) / 10)
    assert picture_sums(depth, truth).means()["mae"] == pytest.approx((1 + 11) / 2)
    assert picture_sums(depth, truth).means()["rmse"] == pytest.approx((1 + 11) / 2)


def test_a_picture_without_truth_is_no_picture() -> None:
    depth, truth = random_pair()
    truth[1] = 0
    assert picture_sums(depth, truth).means() == picture_sums(depth[::2], truth[::2]).means()
    assert picture_sums(depth, truth).pictures == 2
    assert PictureSums().means() == picture_sums(depth[1:2], truth[1:2]).means() == {"pixels": 0, "pictures": 0}


def test_pictures_add_up() -> None:
    depth, truth = random_pair(4, (5, 6, 7))
    parts = picture_sums(depth[:2], truth[:2]) + picture_sums(depth[2:], truth[2:])
    assert parts.means() == pytest.approx(picture_sums(depth, truth).means(), rel=1e-9)


@given(scale=st.floats(0.2, 5), shift=st.floats(0, 0.5), seed=st.integers(0, 99))
def test_what_rescaling_leaves_alone(scale: float, shift: float, seed: int) -> None:
    """A scale changes neither sc_inv nor the errors after the median; an affine map not ssitrim or after "affine"."""
    depth, truth = random_pair(seed, (1, 9, 9))
    scaled, mapped = depth * scale, 1 / (scale / depth + shift)
    errors = {how: error_sums(rescaled(depth, truth, how), truth).means() for how in RESCALINGS}
    assert error_sums(scaled, truth).means()["sc_inv"] == pytest.approx(errors["raw"]["sc_inv"], rel=1e-7)
    assert error_sums(rescaled(scaled, truth, "median"), truth).means() == pytest.approx(errors["median"], rel=1e-7)
    assert error_sums(mapped, truth).means()["ssitrim"] == pytest.approx(errors["raw"]["ssitrim"], rel=1e-7)
    assert error_sums(rescaled(mapped, truth, "affine"), truth).means() == pytest.approx(errors["affine"], rel=1e-7)


@pytest.mark.parametrize("farthest", [None, 2.0])
def test_rescaling_as_the_loops_have_it(farthest: float | None) -> None:
    depth, truth = random_pair(5)
    truth[:, :3] = math.nan
    depth[:, 5] = math.inf
    by_median, by_squares = (rescaled(depth, truth, how, farthest=farthest) for how in ("median", "affine"))
    for i in range(3):
        d, t = depth[i].numpy(), truth[i].numpy()
        np.testing.assert_allclose(by_median[i], twins.median_rescaled(d, t), rtol=1e-12)
        np.testing.assert_allclose(by_squares[i], twins.affine_rescaled(d, t, farthest), rtol=1e-9)
    assert torch.isinf(depth[:, 5]).all()  # and the input stays as it was


def test_affine_keeps_within_reach() -> None:
    """Where the fit goes to or below zero, depth is the farthest one, not negative."""
    inverse = torch.tensor([0.5, 1.0, 1.5, 4.0], dtype=torch.float64)
    depth, truth = 1 / inverse, 1 / torch.tensor([0.1, 1.0, 2.0, 4.0], dtype=torch.float64)
    beyond = 1 / torch.tensor([0.5, 1.0, 1.5, 4.0, 0.0], dtype=torch.float64)
    unknown = torch.cat([truth, torch.tensor([math.nan], dtype=torch.float64)])
    assert rescaled(beyond, unknown, "affine")[4] == pytest.approx(10)  # the fit has -0.15 there
    assert rescaled(beyond, unknown, "affine", farthest=50)[4] == pytest.approx(50)
    assert error_sums(rescaled(depth, truth, "affine"), truth).means()["delta_1.05"] < 1


def test_rescaling_by_some_pixels_moves_all() -> None:
    truth = torch.full((4, 4), 2.0)
    depth = truth * 3
    depth[2:] = 7
    counted = torch.arange(4)[:, None].expand(4, 4) < 2
    fitted = rescaled(depth, truth, "median", counted)
    assert torch.allclose(fitted[:2], truth[:2]) and torch.allclose(fitted[2:], torch.tensor(7 / 3))
    nothing = torch.zeros_like(counted)
    assert torch.equal(rescaled(depth, truth, "affine", nothing), depth)


def test_maps_in_any_order_of_memory() -> None:
    depth, truth = random_pair()
    turned = depth.transpose(1, 2).contiguous().transpose(1, 2)
    assert not turned.is_contiguous()
    for how in RESCALINGS:
        assert torch.equal(rescaled(turned, truth, how), rescaled(depth, truth, how))
    assert picture_sums(turned, truth).means() == picture_sums(depth, truth).means()


def test_flat_depths_have_a_trimmed_error() -> None:
    """A flat estimate says nothing: half the truth's normalised deviation, less the largest fifth of it."""
    truth = 1 / torch.tensor([1.0, 2, 3, 4, 5], dtype=torch.float64)
    flat = torch.full_like(truth, 0.3)
    assert error_sums(flat, truth).means()["ssitrim"] == pytest.approx((2 + 1 + 0 + 1) / 1.2 / 10)
    assert error_sums(flat, flat).means()["ssitrim"] == 0
    assert not bool(rescaled(flat, truth, "affine").isnan().any())


def test_bands_share_out_the_pixels() -> None:
    truth = torch.tensor([0.0, 0.5, 1.0, 1.9, 2.0, 7.0])
    bands = depth_bands(truth, (0.5, 1, 2))
    assert {name: mask.tolist() for name, mask in bands.items()} == {
        "0.5 to 1 m": [False, True, False, False, False, False],
        "1 to 2 m": [False, False, True, True, False, False],
    }


@pytest.mark.parametrize("per_picture", [False, True])
def test_scoreboard(per_picture: bool) -> None:
    depth, truth = random_pair(6)
    counted = truth < 3.2
    left = torch.arange(30).expand_as(truth) < 10
    settings = {"per_picture": per_picture, "rescalings": RESCALINGS, "bands": (0.5, 1.5, 4.0)}
    whole, first, second = (Scoreboard(**settings) for _ in range(3))
    for board, part in ((whole, slice(0, 3)), (first, slice(0, 2)), (second, slice(2, 3))):
        board.add("ours", depth[part], truth[part], counted[part], {"left": left[part]})
    second.add("theirs", truth, truth)
    found = {(row["method"], row["group"], row["rescaling"]): row for row in whole.rows()}
    groups = {"all": counted, "left": counted & left, **depth_bands(truth, (0.5, 1.5, 4.0))}
    assert set(found) == {("ours", group, how) for group in groups for how in RESCALINGS}
    measure = picture_sums if per_picture else error_sums
    for (_, group, how), row in found.items():
        expected = measure(rescaled(depth, truth, how, counted), truth, counted & groups[group]).means()
        assert {key: row[key] for key in expected} == pytest.approx(expected, rel=1e-9)
    joined = {(row["method"], row["group"], row["rescaling"]): row for row in (first + second).rows()}
    assert len(joined) == len(found) + 3 * 3
    for key, row in found.items():
        assert {k: v for k, v in joined[key].items() if k in METRICS} == pytest.approx({k: row[k] for k in METRICS})
    assert len(second.rows()) == len(found) + 3 * 3 and len(first.rows()) == len(found)  # and neither was changed


def test_refusals() -> None:
    depth, truth = random_pair()
    message = message_of(lambda: rescaled(depth, truth, "mean"), ValueError)
    assert_one_sentence(message, "'mean'", "raw, median, affine")
    assert_one_sentence(message_of(lambda: error_sums(depth[0], truth), ValueError), "(20, 30)", "(3, 20, 30)")
    message = message_of(lambda: error_sums(depth, truth, truth[0] > 1), ValueError)
    assert_one_sentence(message, "counted", "(20, 30)")
    with pytest.raises(ValueError, match="different settings"):
        Scoreboard() + Scoreboard(per_picture=True)
