"""Recorded sweeps: the first call runs, the second records, later ones replay. All must give the same."""

import math
import threading
from collections.abc import Iterator

import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack, PaperCost, ReblurCost, cost_volume
from focalsweep.sweep import costs, deconvolution, graphs, statistics, volume

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

PLANES = DepthGrid.uniform_in_inverse_depth(0.7, 4.0, 8)
COST = ReblurCost(squash=False)


@pytest.fixture(autouse=True)
def fresh_records() -> Iterator[None]:
    graphs.SWEEPS.clear()
    yield
    graphs.SWEEPS.clear()


def stack(seed: int, f_number: float = 2.8) -> FocalStack:
    images = 0.4 + 0.1 * torch.rand((3, 3, 40, 44), generator=torch.Generator().manual_seed(seed))
    return FocalStack(images.cuda(), [0.8, 1.2, 2.0], Camera(0.05, f_number, 6e-5))


def plain(made: FocalStack, cost: object) -> torch.Tensor:
    """The same without kernels or records."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (costs, deconvolution, statistics, volume):
            patch.setattr(module, "triton_serves", lambda *tensors: False)
        return cost_volume(made, PLANES, cost)  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [COST, PaperCost(normalise=False)], ids=["reblur", "paper"])
def test_replays_follow_their_inputs(cost: object) -> None:
    """Other pictures and another aperture of the same shapes; earlier results are not overwritten."""
    made = [stack(seed, f_number) for seed, f_number in ((0, 2.8), (1, 2.8), (2, 4.0), (3, 2.8), (0, 2.8))]
    replayed = [cost_volume(s, PLANES, cost) for s in made]  # type: ignore[arg-type]
    for s, result in zip(made, replayed, strict=True):
        torch.testing.assert_close(result, plain(s, cost), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(replayed[0], replayed[-1], rtol=1e-5, atol=1e-5)


def test_sweeps_are_recorded() -> None:
    """Otherwise this file would test nothing."""
    for seed in range(3):
        cost_volume(stack(seed), PLANES, COST)
    assert any(record is not None for record in graphs.SWEEPS._records.values())


def test_few_records_are_kept() -> None:
    for count in range(4, 24, 4):
        for _ in range(2):
            cost_volume(stack(0), DepthGrid.uniform_in_inverse_depth(0.7, 4.0, count), COST)
    assert len(graphs.SWEEPS._records) <= graphs.RECORDS


def test_records_survive_the_caches_they_drew_from() -> None:
    """Sweeps of other sizes and windows push a record's frequencies and taps out of their caches."""
    for _ in range(3):
        cost_volume(stack(0), PLANES, COST)
    for k in range(20):
        deconvolution.fourier_grid(4 + k, 5, torch.device("cuda"), torch.float32)
        costs._constants((float(k),), torch.device("cuda"))
    torch.cuda.empty_cache()
    _ = [torch.full((1 << k,), math.nan, device="cuda") for k in range(4, 18)]
    torch.testing.assert_close(cost_volume(stack(0), PLANES, COST), plain(stack(0), COST), rtol=1e-4, atol=1e-4)


def test_records_made_in_inference_mode_serve_outside() -> None:
    with torch.inference_mode():
        for _ in range(2):
            cost_volume(stack(0), PLANES, COST)
    torch.testing.assert_close(cost_volume(stack(0), PLANES, COST), plain(stack(0), COST), rtol=1e-4, atol=1e-4)


def test_a_psf_that_allocates_is_served() -> None:
    """A callable PSF may make tensors from numbers, which a graph cannot record."""

    def pinhole(coc_px: torch.Tensor, fy: torch.Tensor, fx: torch.Tensor) -> torch.Tensor:
        one = torch.tensor([1.0], device=fy.device)
        return one * torch.exp(-(coc_px.square()) * (fy * fy + fx * fx))

    cost = ReblurCost(squash=False, psf=pinhole)
    results = [cost_volume(stack(0), PLANES, cost) for _ in range(3)]
    for result in results:
        torch.testing.assert_close(result, plain(stack(0), cost), rtol=1e-4, atol=1e-4)


def test_threads_do_not_mix_their_sweeps() -> None:
    expected = [plain(stack(seed), COST) for seed in range(4)]
    wrong: list[str] = []

    def work(seed: int) -> None:
        try:
            for _ in range(5):
                result = cost_volume(stack(seed), PLANES, COST)
                if not torch.allclose(result, expected[seed], rtol=1e-3, atol=1e-3):
                    wrong.append(f"{seed}: another result")
        except RuntimeError as error:
            wrong.append(f"{seed}: {error}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_gradients_after_a_record() -> None:
    for _ in range(3):
        cost_volume(stack(0), PLANES, COST)
    learned = stack(0)
    learned.images.requires_grad_()
    cost_volume(learned, PLANES, PaperCost(normalise=False)).sum().backward()
    assert learned.images.grad is not None
    assert bool(torch.isfinite(learned.images.grad).all())
