"""Labels on a grid against all labellings there are."""

import itertools

import pytest
import torch
from torch import Tensor

from focalsweep_research.rivals.mrf import find_labels


def problem(height: int, width: int, labels: int, seed: int, weight: float = 0.4) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    unary = torch.rand((1, labels, height, width), generator=generator)
    right = weight * torch.rand((1, height, width - 1), generator=generator)
    down = weight * torch.rand((1, height - 1, width), generator=generator)
    return unary, right, down


def energy_of(labels: Tensor, unary: Tensor, right: Tensor, down: Tensor, limit: float) -> float:
    """One pixel and one edge after the other."""
    _, _, height, width = unary.shape
    total = 0.0
    for i, j in itertools.product(range(height), range(width)):
        total += float(unary[0, labels[i, j], i, j])
        if j + 1 < width:
            total += float(right[0, i, j]) * min(abs(int(labels[i, j] - labels[i, j + 1])), limit)
        if i + 1 < height:
            total += float(down[0, i, j]) * min(abs(int(labels[i, j] - labels[i + 1, j])), limit)
    return total


def lowest_of_all(unary: Tensor, right: Tensor, down: Tensor, limit: float) -> float:
    _, count, height, width = unary.shape
    every = itertools.product(range(count), repeat=height * width)
    return min(energy_of(torch.tensor(x).reshape(height, width), unary, right, down, limit) for x in every)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("height", "width"), [(2, 3), (3, 2), (1, 6), (6, 1)])
def test_bound_and_energy_enclose_the_best(height: int, width: int, seed: int) -> None:
    parts = problem(height, width, 3, seed)
    found = find_labels(*parts, limit=1.5, passes=60)
    best = lowest_of_all(*parts, 1.5)
    assert energy_of(found.labels[0], *parts, 1.5) == pytest.approx(found.energy.item(), abs=1e-5)
    assert found.bounds[-1].item() <= best + 1e-5
    assert best <= found.energy.item() + 1e-5
    assert found.energy.item() <= best * 1.03
    if min(height, width) == 1:  # a tree: exact
        assert found.energy.item() == pytest.approx(best, abs=1e-5)
        assert found.gap.item() == pytest.approx(0, abs=1e-3)


def test_the_bound_never_falls() -> None:
    found = find_labels(*problem(17, 23, 9, 0, weight=0.2), limit=3, passes=12)
    bounds = torch.stack(found.bounds)[:, 0]
    assert len(bounds) > 2
    assert (bounds.diff() >= -1e-4).all()
    assert 0 <= found.gap.item() < 0.03


def test_weights_decide() -> None:
    """Without edges every pixel takes its own best; with heavy ones all take the best for all."""
    unary, right, down = problem(12, 9, 5, 3)
    alone = find_labels(unary, 0 * right, 0 * down, limit=10)
    assert torch.equal(alone.labels, unary.argmin(1))
    assert alone.gap.item() == pytest.approx(0, abs=1e-6)
    together = find_labels(unary, 0 * right + 50, 0 * down + 50, limit=10, passes=40)
    assert (together.labels == unary.sum((2, 3)).argmin()).all()


def test_a_batch_is_its_parts() -> None:
    parts = [problem(7, 11, 4, seed) for seed in (5, 6)]
    joined = find_labels(*(torch.cat(both) for both in zip(*parts, strict=True)), limit=2, passes=5)
    for i, one in enumerate(parts):
        alone = find_labels(*one, limit=2, passes=len(joined.bounds))
        assert joined.energy[i].item() == pytest.approx(alone.energy.item(), rel=1e-3)
    assert joined.beliefs.shape == (2, 4, 7, 11)
