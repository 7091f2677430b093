"""The fused CUDA kernels against the plain versions, and CUDA against the CPU."""

import math
from typing import Any

import pytest
import torch

from focalsweep import Camera, DepthGrid, Disk, FocalStack, PaperCost, ReblurCost, cost_volume, estimate_depth
from focalsweep.sweep import costs, deconvolution, statistics, volume
from focalsweep.sweep.deconvolution import fourier_grid, pad_periodic, quadrant_functions, triton_serves

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

DISTANCES = [0.8, 1.0, 1.4, 2.0, 3.0]
# The paper's min-max stretches float32 rounding: what differs by 1e-6 before it may differ by 3e-4 behind it.
COSTS = {
    "reblur": (ReblurCost(), 1e-4),
    "reblur, raw": (ReblurCost(squash=False), 1e-4),
    "reblur, narrow window": (ReblurCost(squash=False, window_sigma_px=1.0), 1e-4),
    "reblur, no window": (ReblurCost(squash=False, window_sigma_px=0.0), 1e-4),
    "reblur, gaussian": (ReblurCost(squash=False, psf="gaussian"), 1e-4),
    "paper": (PaperCost(), 1e-3),
    "paper, raw": (PaperCost(normalise=False), 1e-5),
    # Nothing bounds this one: where the OTF is 0 at a low frequency, rounding is divided by balance |L|^2, about 1e-4.
    "paper, bare": (PaperCost(normalise=False, outlier_removal=False, neighbourhood_sigma_px=0.0), 3e-4),
    "paper, gaussian": (PaperCost(normalise=False, psf="gaussian"), 1e-5),
}
every_cost = pytest.mark.parametrize(("cost", "tolerance"), COSTS.values(), ids=COSTS.keys())


def plain_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fused kernels, and no recorded graph that would replay them."""
    for module in (costs, deconvolution, statistics, volume):
        monkeypatch.setattr(module, "triton_serves", lambda *tensors: False)


def stack(*shape: int, device: str = "cuda", pitch: float = 6e-5) -> FocalStack:
    """Low in contrast, so that the paper's tanh does not saturate."""
    images = 0.4 + 0.1 * torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return FocalStack(images.to(device), DISTANCES[: shape[-4]], Camera(0.05, 2.8, pitch))


PLANES = DepthGrid.uniform_in_inverse_depth(0.7, 4.0, 9)


def assert_near(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    """Largest difference at most `tolerance` times the larger of 1 and the largest value."""
    assert actual.shape == expected.shape
    assert bool(torch.isfinite(actual).all()), "not finite"
    worst = (actual - expected.to(actual)).abs().max().item() / max(1.0, expected.abs().max().item())
    assert worst <= tolerance, f"largest difference {worst:.2e} exceeds {tolerance:.0e}"


def test_assert_near_can_fail() -> None:
    assert_near(torch.ones(3), torch.ones(3), 0.0)
    for wrong in (torch.tensor([1.0, 1.0, 1.1]), torch.tensor([1.0, 1.0, math.nan]), torch.ones(2)):
        with pytest.raises(AssertionError):
            assert_near(wrong, torch.ones(3), 1e-3)


def test_kernels_serve() -> None:
    """Otherwise this file would compare the plain version with itself."""
    ones = torch.ones(2, device="cuda")
    assert triton_serves(ones)
    assert not triton_serves(ones.double())
    assert not triton_serves(ones.clone().requires_grad_())
    with torch.no_grad():
        assert triton_serves(ones.clone().requires_grad_())


@every_cost
@pytest.mark.parametrize(
    "shape",
    [(2, 3, 64, 64), (3, 3, 61, 47), (5, 3, 40, 53), (5, 1, 33, 64), (3, 4, 32, 40), (2, 5, 3, 37, 45)],
    ids=lambda shape: " ".join(map(str, shape)),
)
def test_fused_equals_plain(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], cost: Any, tolerance: float
) -> None:
    for padding in ("mirror", "circular"):
        fused = cost_volume(stack(*shape), PLANES, cost, padding=padding)
        with monkeypatch.context() as patch:
            plain_only(patch)
            plain = cost_volume(stack(*shape), PLANES, cost, padding=padding)
        assert_near(fused, plain, tolerance)


@every_cost
def test_cuda_equals_cpu(cost: Any, tolerance: float) -> None:
    on_cuda = cost_volume(stack(3, 3, 45, 52), PLANES, cost)
    on_cpu = cost_volume(stack(3, 3, 45, 52, device="cpu"), PLANES, cost)
    assert on_cuda.is_cuda
    assert_near(on_cuda.cpu(), on_cpu, tolerance)


def test_mixed_batch_equals_one_by_one() -> None:
    images = stack(2, 3, 3, 45, 52).images
    camera = Camera(torch.tensor([0.05, 0.04]), torch.tensor([2.8, 2.0]), torch.tensor([6e-5, 8e-5]))
    planes = DepthGrid.uniform_in_inverse_depth(torch.tensor([0.7, 0.5]), 4.0, 7)
    together = cost_volume(
        FocalStack(images, DISTANCES[:3], camera), planes, ReblurCost(squash=False), padding="circular"
    )
    for i, (f, n, pitch) in enumerate(((0.05, 2.8, 6e-5), (0.04, 2.0, 8e-5))):
        alone = FocalStack(images[i], DISTANCES[:3], Camera(f, n, pitch))
        single = cost_volume(alone, DepthGrid(planes.inverse_depths[i]), ReblurCost(squash=False), padding="circular")
        assert_near(together[i], single, 1e-4)


@pytest.mark.parametrize("target", [(64, 72), (61, 47), (61, 60), (122, 94)])
def test_padding(monkeypatch: pytest.MonkeyPatch, target: tuple[int, int]) -> None:
    images = torch.rand(2, 3, 61, 47, device="cuda")
    fused = pad_periodic(images, *target)
    plain_only(monkeypatch)
    assert_near(fused, pad_periodic(images, *target), 1e-6)


def test_padding_of_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window into a larger picture: its rows are strided."""
    images = torch.rand(2, 3, 100, 90, device="cuda")[..., 10:70, 20:81]
    fused = pad_periodic(images, 72, 80)
    plain_only(monkeypatch)
    assert_near(fused, pad_periodic(images, 72, 80), 1e-6)


STRIDED = {
    "every other column": lambda x: x[..., ::2],
    "transposed": lambda x: x.transpose(-1, -2),
    "channels last": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strided_pictures(name: str) -> None:
    images = STRIDED[name](stack(3, 3, 48, 64).images)
    camera = Camera(0.05, 2.8, 6e-5)
    strided, dense = (
        cost_volume(FocalStack(x, DISTANCES[:3], camera), PLANES, ReblurCost(squash=False))
        for x in (images, images.contiguous())
    )
    assert_near(strided, dense, 1e-4)


@pytest.mark.parametrize("noise_std", [None, 0.02])
@pytest.mark.parametrize("shape", [(1, 2, 1, 40, 44), (2, 3, 3, 61, 47), (1, 2, 3, 300, 290)])
def test_statistics(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], noise_std: float | None) -> None:
    images = 0.4 + 0.1 * torch.rand(shape, generator=torch.Generator().manual_seed(0)).cuda()
    fused = costs.stack_statistics(images, noise_std)
    plain_only(monkeypatch)
    plain = costs.stack_statistics(images, noise_std)
    torch.testing.assert_close(fused.noise_std, plain.noise_std, rtol=1e-2, atol=0)
    torch.testing.assert_close(fused.texture_power, plain.texture_power, rtol=2e-2, atol=0)


@pytest.mark.parametrize("size", [(32, 40), (33, 41)])
def test_disk_quadrant(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    grid = fourier_grid(*size, torch.device("cuda"), torch.float32)
    coc = torch.tensor([[-7.3, 0.0, 1e-4], [0.5, 12.0, 60.0]], device="cuda")
    fused = quadrant_functions(Disk(), coc, grid)
    plain_only(monkeypatch)
    assert_near(fused, quadrant_functions(Disk(), coc, grid), 2e-6)


@pytest.mark.parametrize("cost", [PaperCost(), ReblurCost()], ids=["min-max", "squash"])
def test_finish(monkeypatch: pytest.MonkeyPatch, cost: Any) -> None:
    raw = torch.rand(2, 7, 31, 29, device="cuda") * 40
    fused = cost.finish(raw)
    plain_only(monkeypatch)
    assert_near(fused, cost.finish(raw), 1e-6)
    strided = torch.rand(2, 31, 29, 7, device="cuda").movedim(-1, 1)
    monkeypatch.undo()
    assert_near(cost.finish(strided), cost.finish(strided.contiguous()), 0.0)


def test_very_many_blurs() -> None:
    """More maps than one axis of a CUDA grid may have blocks (65535)."""
    grid = fourier_grid(4, 4, torch.device("cuda"), torch.float32)
    coc = torch.linspace(0, 9, 70_000, device="cuda")
    assert_near(quadrant_functions(Disk(), coc, grid)[-1], quadrant_functions(Disk(), coc[-1:], grid)[0], 1e-6)


def test_gradients_take_the_plain_path() -> None:
    made = stack(3, 3, 24, 27)
    made.images.requires_grad_()
    cost_volume(made, PLANES, PaperCost(normalise=False)).sum().backward()
    on_cpu = stack(3, 3, 24, 27, device="cpu")
    on_cpu.images.requires_grad_()
    cost_volume(on_cpu, PLANES, PaperCost(normalise=False)).sum().backward()
    assert made.images.grad is not None
    assert on_cpu.images.grad is not None
    assert_near(made.images.grad.cpu(), on_cpu.images.grad, 1e-3)


def test_estimate_depth_equals_cpu() -> None:
    from tests.rendering import render_plane

    rendered = render_plane("dslr", 1.3, size=64)
    on_cpu, on_cuda = estimate_depth(rendered.stack), estimate_depth(rendered.stack.to("cuda"))
    relative = torch.from_numpy(on_cuda.depth / on_cpu.depth - 1).abs()
    assert (relative < 1e-3).float().mean() > 0.99
    assert_near(torch.from_numpy(on_cuda.all_in_focus), torch.from_numpy(on_cpu.all_in_focus), 0.02)


def test_memory_bound_tiles_on_cuda() -> None:
    made = stack(3, 3, 200, 210, pitch=2e-4)
    whole, tiled = (cost_volume(made, PLANES, ReblurCost(squash=False), workspace=m) for m in (None, 12_000_000))
    assert ((whole - tiled).abs() / whole).mean() < 1e-3
