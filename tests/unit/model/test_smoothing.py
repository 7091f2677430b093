"""Smoothing by trust: against a sparse solver, and what it must leave alone."""

import numpy as np
import pytest
import scipy.sparse as sparse
import torch
from scipy.sparse.linalg import spsolve

from focalsweep.model import smoothing
from focalsweep.model.smoothing import smooth_by_confidence


def exact(position: np.ndarray, scale: np.ndarray, picture: np.ndarray) -> np.ndarray:
    """The minimum of the docstring's sum, by SciPy."""
    height, width = position.shape
    number = np.arange(height * width).reshape(height, width)
    trust = ((np.exp(np.log(scale).mean()) / scale) ** 3).ravel()
    matrix = sparse.diags(trust).tolil()
    for a, b, axis in ((number[:, :-1], number[:, 1:], 2), (number[:-1], number[1:], 1)):
        difference = np.abs(np.diff(picture, axis=axis)).max(0).ravel()
        for i, j, tie in zip(a.ravel(), b.ravel(), np.exp(-difference / smoothing.COLOUR_SIGMA), strict=True):
            tie = smoothing.STRENGTH * (tie + smoothing.LEAK)
            matrix[i, i] += tie
            matrix[j, j] += tie
            matrix[i, j] -= tie
            matrix[j, i] -= tie
    return spsolve(matrix.tocsc(), trust * position.ravel()).reshape(height, width)


def scene(height: int = 37, width: int = 52) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two surfaces of two colours; a patch of each is a wild guess, told as one."""
    rng = np.random.default_rng(3)
    left = np.arange(width) < 23
    position = np.where(left, 0.2, 0.7) + 0.02 * np.linspace(0, 1, height)[:, None]
    picture = np.where(left, 0.3, 0.6) + 0.004 * rng.standard_normal((3, height, width))
    scale = np.full((height, width), 0.003)
    guessed = np.zeros((height, width), bool)
    guessed[8:26, 10:20] = guessed[5:20, 30:44] = True
    scale[guessed] = 0.06
    position = position + 0.002 * rng.standard_normal(position.shape)
    position[guessed] = rng.uniform(0, 1, guessed.sum())
    return position, scale, picture


def smoothed(position: np.ndarray, scale: np.ndarray, picture: np.ndarray) -> np.ndarray:
    maps = (torch.from_numpy(x).float()[None] for x in (position, scale, picture))
    return smooth_by_confidence(*maps)[0].numpy()


def test_more_steps_come_to_the_exact_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    given = scene()
    wanted = exact(*given)
    far = np.abs(smoothed(*given) - wanted)
    assert far.mean() < 2e-3
    monkeypatch.setattr(smoothing, "STEPS", 150)
    np.testing.assert_allclose(smoothed(*given), wanted, atol=2e-5)


def test_guesses_follow_their_own_surface_and_what_is_sure_stays() -> None:
    position, scale, picture = scene()
    answer = smoothed(position, scale, picture)
    truth = np.where(np.arange(52) < 23, 0.2, 0.7) + 0.02 * np.linspace(0, 1, 37)[:, None]
    guessed = scale > 0.01
    assert np.abs(answer - truth)[guessed].max() < 0.05 < 0.2 < np.abs(position - truth)[guessed].mean()
    assert np.abs(answer - truth)[~guessed].max() < 0.01


def test_a_coarser_level_has_the_trust_and_the_mean_of_four() -> None:
    trust, position = torch.tensor([[[[1.0, 3.0], [2.0, 2.0]]]]), torch.tensor([[[[0.1, 0.5], [0.2, 0.4]]]])
    total, mean, colour = smoothing._downsample(trust, position, torch.arange(12.0).view(1, 3, 2, 2))
    assert total.item() == 8 and mean.item() == pytest.approx((0.1 + 1.5 + 0.4 + 0.8) / 8)
    assert colour.flatten().tolist() == [1.5, 5.5, 9.5]


def test_bands_are_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = smoothed(*scene())
    monkeypatch.setattr(smoothing, "BAND_PX", 6)
    np.testing.assert_array_equal(smoothed(*scene()), whole)


def test_stacks_of_a_batch_do_not_meet() -> None:
    one, two = scene(), [x[..., ::-1].copy() for x in scene()]
    maps = [torch.from_numpy(np.stack(pair)).float() for pair in zip(one, two, strict=True)]
    both = smooth_by_confidence(*maps).numpy()
    np.testing.assert_allclose(both[0], smoothed(*one), atol=1e-6)
    np.testing.assert_allclose(both[1], smoothed(*two), atol=1e-6)


@pytest.mark.parametrize("size", [(1, 1), (3, 40), (16, 17), (33, 65)])
def test_every_size_and_an_even_map_stays(size: tuple[int, int]) -> None:
    even = torch.full((1, *size), 0.4)
    answer = smooth_by_confidence(even, torch.rand(even.shape) + 0.01, torch.rand((1, 3, *size)))
    torch.testing.assert_close(answer, even)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (37, 52), (256, 256)])
def test_the_kernel_agrees_with_the_plain_version(size: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(5)
    position, scale = (torch.rand((2, *size), generator=generator) + 0.01 for _ in range(2))
    picture = torch.rand((2, 3, *size), generator=generator)
    plain = smooth_by_confidence(position, scale, picture)
    fused = smooth_by_confidence(position.cuda(), scale.cuda(), picture.cuda())
    torch.testing.assert_close(fused.cpu(), plain, rtol=1e-4, atol=1e-5)
