"""Flatness, seams and agreement over sizes on maps whose figures can be told beforehand."""

import pytest
import torch
from torch import Tensor

from focalsweep.methods.registry import choose_method
from focalsweep.types import Camera, DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.metrics.flatness import flatness, seams
from focalsweep_research.metrics.sizes import picture_sums, region_sums, smaller_answers

SIZE = (96, 128)
EVERYWHERE = torch.ones(SIZE, dtype=torch.bool)


def tilted() -> Tensor:  # H W
    """The inverse depth of a plane from about 0.8 to 2.2 m."""
    rows, columns = (torch.linspace(0, 1, length, dtype=torch.double) for length in SIZE)
    rows, columns = torch.meshgrid(rows, columns, indexing="ij")
    return 0.45 + 0.5 * rows + 0.3 * columns


def noise(sigma: float, seed: int = 0) -> Tensor:
    return sigma * torch.randn(SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def test_any_plane_is_flat() -> None:
    found = flatness(1 / tilted(), torch.full(SIZE, 0.01), EVERYWHERE)
    assert found.rms < 1e-9 and found.robust < 1e-9 and found.spread < 1e-9
    assert found.off_2_std == 0 and found.pixels == 96 * 128
    assert found.depth == pytest.approx(1 / 0.85, rel=0.01)


def test_noise_is_told_in_inverse_depth_and_in_error_bars() -> None:
    inverse = tilted() + noise(0.01)
    found = flatness(1 / inverse, 0.01 / inverse.square(), EVERYWHERE)
    assert found.rms == pytest.approx(0.01, rel=0.02) and found.robust == pytest.approx(0.01, rel=0.02)
    assert found.spread == pytest.approx(2 * 1.2816 * 0.01, rel=0.03)
    assert found.of_std == pytest.approx(1, rel=0.02) and found.bar == pytest.approx(0.01)
    assert found.off_2_std == pytest.approx(0.0455, abs=0.006)


def test_a_hole_is_in_the_rms_and_not_in_the_median() -> None:
    inverse = tilted() + noise(0.001)
    inverse[10:30, 20:60] += 0.3
    found = flatness(1 / inverse, 0.001 / inverse.square(), EVERYWHERE)
    assert found.robust == pytest.approx(0.001, rel=0.1)
    assert found.rms > 0.05
    assert found.off_2_std == pytest.approx(0.0455 + 800 / 96 / 128, abs=0.01)


def test_only_the_region_counts() -> None:
    inverse = tilted()
    inverse[:, 64:] += noise(0.1)[:, 64:]
    half = EVERYWHERE.clone()
    half[:, 64:] = False
    assert flatness(1 / inverse, torch.full(SIZE, 0.01), half).rms < 1e-9
    with pytest.raises(ValueError, match="outside of the picture"):
        flatness(1 / inverse, torch.full(SIZE, 0.01), torch.zeros_like(half))


def test_curved_things_are_not_flat() -> None:
    across = torch.linspace(-1, 1, SIZE[1], dtype=torch.double)
    found = flatness(1 / (tilted() + 0.1 * across.square()), torch.full(SIZE, 0.01), EVERYWHERE)
    assert found.rms == pytest.approx(0.1 * (4 / 45) ** 0.5, rel=0.05)  # of x^2 about its mean


def test_sky_has_no_error_bar_but_a_place() -> None:
    depth = torch.full(SIZE, torch.inf)
    found = flatness(depth, depth, EVERYWHERE)
    assert found.rms == 0 and found.off_2_std == 0


def test_tiles_that_do_not_meet() -> None:
    columns = torch.linspace(0, 1, 256, dtype=torch.double)
    generator = torch.Generator().manual_seed(0)
    inverse = 0.5 + 0.3 * columns + 0.002 * torch.randn((640, 256), generator=generator, dtype=torch.double)
    smooth = seams(1 / inverse, [], [96])  # nothing begins there
    inverse[:, 96:] += 0.02
    stepped = seams(1 / inverse, [], [96])
    assert smooth is not None and stepped is not None
    assert smooth.ratio == pytest.approx(1, abs=0.5)
    assert stepped.ratio > 10 and stepped.at_borders == pytest.approx(0.02, rel=0.05)
    assert seams(1 / inverse, [], []) is None, "a picture of one tile"
    across = seams(1 / inverse.T, [96], [])
    assert across is not None and across.ratio == pytest.approx(stepped.ratio, rel=1e-6)


def answer(inverse: Tensor, bar: float) -> DepthPrediction:
    """Of that standard deviation in inverse depth."""
    depth = (1 / inverse)[None]
    return DepthPrediction(depth, bar * depth.square(), torch.ones_like(depth))


def test_answers_that_agree_at_all_sizes() -> None:
    inverse = tilted()
    answers = [answer(inverse[2::4, 2::4], 0.02), answer(inverse[1::2, 1::2], 0.02), answer(inverse, 0.02)]
    figures = (region_sums(answers, EVERYWHERE) + picture_sums(answers)).figures()
    assert figures["size_change"] == pytest.approx(0, abs=0.01)
    assert figures["size_alike"] == 1 and figures["size_agreement"] == 1


def test_an_answer_that_hangs_on_the_size() -> None:
    inverse = torch.full(SIZE, 0.5).double()
    far = inverse[1::2, 1::2] * 0.95  # 2.1 m in place of 2 m: 2.5 error bars
    answers = [answer(inverse[2::4, 2::4], 0.01), answer(far, 0.01), answer(inverse, 0.01)]
    figures = region_sums(answers, EVERYWHERE).figures()
    assert figures["size_change"] == pytest.approx(1 / 0.95 - 1)
    assert figures["size_alike"] == 0 and figures["size_agreement"] == 0
    half = inverse.clone()
    half[:, 64:] = 0.7
    answers = [answer(inverse[2::4, 2::4], 0.01), answer(half, 0.01)]
    assert picture_sums(answers).figures()["size_agreement"] == pytest.approx(0.5)
    assert picture_sums(answers).figures()["size_change"] is None


def test_a_stack_is_read_at_a_quarter_and_a_half() -> None:
    stack = FocalStack(torch.rand(3, 1, 64, 96), [0.5, 1.0, 2.0], Camera(0.05, 2.8, 6e-5))
    answers = smaller_answers(stack, choose_method("argmin"), DepthGrid.uniform_in_inverse_depth(0.4, 3.0, 8))
    assert [tuple(one.depth.shape) for one in answers] == [(1, 16, 24), (1, 32, 48)]
