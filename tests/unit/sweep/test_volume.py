"""The sweep's layout: tiles, chunks, memory, progress, batches."""

import math
from typing import Any

import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack, PaperCost, ReblurCost, cost_volume
from focalsweep.sweep import volume
from focalsweep.sweep.volume import Tile, plan_sweep, plane_position, sweep_coc_px
from tests.errors import assert_one_sentence, message_of
from tests.rendering import RIGS, render_plane

COSTS = {
    "reblur": ReblurCost(),
    "reblur, raw": ReblurCost(squash=False),
    "paper": PaperCost(),
    "paper, raw": PaperCost(normalise=False),
}
every_cost = pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS.keys())


def small_stack(*shape: int, dtype: torch.dtype = torch.float32) -> FocalStack:
    images = torch.rand(shape or (3, 3, 22, 27), generator=torch.Generator().manual_seed(0), dtype=dtype) * 0.5 + 0.2
    return FocalStack(images, [0.8, 1.2, 2.0][: images.shape[-4]], Camera(0.05, 4.0, 2e-4))


@every_cost
@pytest.mark.parametrize("count", [4, 5, 7])
def test_chunked_equals_whole(monkeypatch: pytest.MonkeyPatch, cost: Any, count: int) -> None:
    """Two planes at once, as little as there is, against all at once; odd counts have a spare."""
    stack, planes = small_stack(), DepthGrid.uniform_in_inverse_depth(0.5, math.inf, count)
    monkeypatch.setattr(volume, "CPU_WORKING_SET_BYTES", 1)
    assert plan_sweep(stack.as_batch(), planes, cost, "mirror", None).planes_at_once == 2
    chunked = cost_volume(stack, planes, cost)
    monkeypatch.setattr(volume, "CPU_WORKING_SET_BYTES", 2**40)
    assert plan_sweep(stack.as_batch(), planes, cost, "mirror", None).planes_at_once >= count - 1
    whole = cost_volume(stack, planes, cost)
    assert whole.shape == (count, 22, 27)
    torch.testing.assert_close(chunked, whole, rtol=1e-5, atol=1e-5)


def test_chunked_gradients_equal_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for size in (1, 2**40):
        monkeypatch.setattr(volume, "CPU_WORKING_SET_BYTES", size)
        stack = small_stack()
        stack.images.requires_grad_()
        cost_volume(stack, [0.6, 0.9, 1.5, 3.0, 8.0], PaperCost(normalise=False)).square().sum().backward()
        gradients.append(stack.images.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cost", [ReblurCost(squash=False), PaperCost(normalise=False)], ids=["reblur", "paper"])
@pytest.mark.parametrize(("rig", "depth"), [("paper", 0.2), ("dslr", 1.3)])
def test_tiled_equals_whole(cost: Any, rig: str, depth: float) -> None:
    rendered = render_plane(rig, depth, size=200)
    planes = DepthGrid.around(rendered.stack, count=16)
    little = 11_000_000
    plan = plan_sweep(rendered.stack.as_batch(), planes, cost, "mirror", little)
    assert len(plan.tiles) >= 4
    assert_tiles_cover(plan.tiles, (200, 200))
    whole = cost_volume(rendered.stack, planes, cost, workspace=2**40)
    tiled = cost_volume(rendered.stack, planes, cost, workspace=little)
    difference = (tiled - whole).abs() / whole
    same = (tiled.argmin(0) == whole.argmin(0))[rendered.textured].float().mean().item()
    print(f"{rig} {type(cost).__name__}: {len(plan.tiles)} tiles, relative difference mean {difference.mean():.1e}, "
          f"max {difference.max():.1e}, same plane {100 * same:.2f} %")  # fmt: skip
    assert difference.mean() < (5e-4 if isinstance(cost, ReblurCost) else 3e-3)
    assert difference.max() < (0.05 if isinstance(cost, ReblurCost) else 0.2)
    assert same > (0.999 if isinstance(cost, ReblurCost) else 0.99)


def assert_tiles_cover(tiles: list[Tile], size: tuple[int, int]) -> None:
    """Every pixel belongs to exactly one core, and every core lies within its area."""
    count = torch.zeros(size, dtype=torch.int64)
    for tile in tiles:
        count[tile.core] += 1
        for core, area in zip(tile.core, tile.area, strict=True):
            assert area.start <= core.start < core.stop <= area.stop, f"core {core} leaves its area {area}"
    assert bool((count == 1).all()), "some pixels belong to no core or to several"


def test_assert_tiles_cover_can_fail() -> None:
    left, right = (slice(0, 4), slice(0, 3)), (slice(0, 4), slice(3, 6))
    assert_tiles_cover([Tile(left, left), Tile(right, right)], (4, 6))
    for wrong in ([Tile(left, left)], [Tile(left, left)] * 2, [Tile(left, right), Tile(right, right)]):
        with pytest.raises(AssertionError):
            assert_tiles_cover(wrong, (4, 6))


def test_small_transforms_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """`CPU_TRANSFORM_PX` alone cuts a picture too, where the blur is small."""
    monkeypatch.setattr(volume, "CPU_TRANSFORM_PX", 96)
    images = torch.rand((2, 1, 300, 60), generator=torch.Generator().manual_seed(0)) * 0.5 + 0.2
    stack = FocalStack(images, [0.8, 1.2], Camera(0.05, 4.0, 2e-3))
    planes = DepthGrid.uniform_in_inverse_depth(0.6, 2.0, 4)
    plan = plan_sweep(stack.as_batch(), planes, ReblurCost(), "mirror", None)
    assert len(plan.tiles) > 1
    assert_tiles_cover(plan.tiles, (300, 60))
    tiled = cost_volume(stack, planes, ReblurCost(squash=False))
    monkeypatch.undo()
    whole = cost_volume(stack, planes, ReblurCost(squash=False))
    torch.testing.assert_close(tiled, whole, rtol=1e-3, atol=1e-4)


def test_too_little_memory_is_said() -> None:
    call = lambda: cost_volume(small_stack(), [0.5, 1.0, 4.0], workspace=1000)  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "memory", "blur", "px", "smaller")


@every_cost
def test_mixed_batch_equals_one_by_one(cost: Any) -> None:
    """Two cameras, two sets of distances, two ranges of planes in one batch."""
    images = small_stack(2, 3, 3, 22, 27, dtype=torch.float64).images
    distances = torch.tensor([[0.8, 1.2, 2.0], [0.3, 0.4, 0.9]])
    lengths, numbers, pitches = [0.05, 0.02], [4.0, 2.0], [2e-4, 8e-5]
    near, far = torch.tensor([0.6, 0.25]), torch.tensor([4.0, math.inf])
    camera = Camera(torch.tensor(lengths), torch.tensor(numbers), torch.tensor(pitches))
    planes = DepthGrid.uniform_in_inverse_depth(near, far, 5)
    # Alone, a stack with less blur is padded less; circular padding takes that difference away.
    together = cost_volume(FocalStack(images, distances, camera), planes, cost, padding="circular")
    assert together.shape == (2, 5, 22, 27)
    for i in range(2):
        alone = FocalStack(images[i], distances[i], Camera(lengths[i], numbers[i], pitches[i]))
        single = cost_volume(alone, DepthGrid(planes.inverse_depths[i]), cost, padding="circular")
        torch.testing.assert_close(together[i], single, rtol=1e-4, atol=1e-5)


@every_cost
def test_mixed_batch_equals_one_by_one_with_padding(cost: Any) -> None:
    """The second stack is another picture, with everything four times as large: the same blur, the same padding."""
    images = small_stack(2, 3, 3, 22, 27, dtype=torch.float64).images
    first = FocalStack(images[0], [0.8, 1.2, 2.0], Camera(0.05, 4.0, 2e-4))
    second = FocalStack(images[1], [0.8, 1.2, 2.0], Camera(0.05, 4.0, 2e-4)).scaled(4.0)
    planes = DepthGrid.uniform_in_inverse_depth(torch.tensor([0.6, 2.4]), math.inf, 5)
    distances = torch.stack([first.focus_distances, second.focus_distances])
    batch = FocalStack(images, distances, Camera(torch.tensor([0.05, 0.2]), 4.0, torch.tensor([2e-4, 8e-4])))
    together = cost_volume(batch, planes, cost)
    for i, alone in enumerate((first, second)):
        single = cost_volume(alone, DepthGrid(planes.inverse_depths[i]), cost)
        torch.testing.assert_close(together[i], single, rtol=1e-4, atol=1e-5)


def test_padding_against_circular() -> None:
    """Mirror padding does not let the left border see the right one."""
    rendered = render_plane("dslr", 1.3)
    planes = DepthGrid.around(rendered.stack, count=16)
    true_plane = (planes.depths - 1.3).abs().argmin()
    border = torch.ones(96, 96, dtype=torch.bool)
    border[8:-8, 8:-8] = False
    errors = {
        padding: (cost_volume(rendered.stack, planes, padding=padding).argmin(0) - true_plane)
        .abs()[border]
        .float()
        .mean()
        for padding in ("mirror", "circular")
    }
    assert errors["mirror"] < 0.5 * errors["circular"]


def test_unknown_padding_is_refused() -> None:
    call = lambda: cost_volume(small_stack(), [0.5, 1.0], padding="zero")  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "padding", '"mirror"', '"circular"', "'zero'")


def test_planes_as_depths_and_batch_of_one() -> None:
    stack = small_stack()
    by_depths = cost_volume(stack, [0.6, 1.0, math.inf])
    by_grid = cost_volume(stack, DepthGrid.from_depths([0.6, 1.0, math.inf]))
    assert torch.equal(by_depths, by_grid)
    batched = FocalStack(stack.images[None], stack.focus_distances, stack.camera)
    assert torch.equal(cost_volume(batched, [0.6, 1.0, math.inf])[0], by_grid)


def test_progress_ends_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume, "CPU_WORKING_SET_BYTES", 1)
    shares: list[float] = []
    cost_volume(small_stack(), DepthGrid.uniform_in_depth(0.5, 2.0, 7), progress=lambda _, share: shares.append(share))
    assert shares == sorted(shares)
    assert len(shares) == 4
    assert shares[-1] == 1.0
    assert shares[0] == pytest.approx(2 / 7)


def test_progress_of_a_sweep_in_one_go() -> None:
    shares: list[float] = []
    cost_volume(small_stack(), [0.6, 0.9, 1.5, 3.0], progress=lambda _, share: shares.append(share))
    assert shares[-1] == 1.0


def test_blur_of_the_sweep() -> None:
    stack = FocalStack(small_stack().images, [0.8, 1.2, 2.0], Camera(0.05, 4.0, 2e-4), magnification=[1.0, 1.5, 1.0])
    coc = sweep_coc_px(stack.as_batch(), DepthGrid.from_depths([0.8, 1.2, math.inf]))
    assert coc.shape == (1, 3, 3)
    assert coc[0, 0, 0] == 0
    assert coc[0, 1, 1] == 0
    assert coc[0, 2, 1].item() == pytest.approx(1.5 * 0.05**2 / (4.0 * (1.2 - 0.05)) / 2e-4)


def test_plane_position_is_exact_on_planes_and_halfway() -> None:
    planes = DepthGrid.uniform_in_inverse_depth(torch.tensor([0.5, 0.2]), math.inf, 6).inverse_depths
    on, between = planes[:, None, :], (planes[:, None, 1:] + planes[:, None, :-1]) / 2
    torch.testing.assert_close(
        plane_position(on, planes), torch.arange(6.0).double().expand(2, 1, 6), rtol=0, atol=1e-12
    )
    halfway = torch.arange(5.0).double().expand(2, 1, 5) + 0.5
    torch.testing.assert_close(plane_position(between, planes), halfway, rtol=0, atol=1e-12)
    outside = torch.tensor([[[9.0, 0.0]], [[9.0, 0.0]]], dtype=torch.float64)
    assert plane_position(outside, planes).tolist() == [[[0.0, 5.0]]] * 2


def test_plane_position_with_uneven_planes() -> None:
    planes = torch.tensor([[4.0, 1.0, 0.5]])
    assert plane_position(torch.tensor([[[2.5, 0.75]]]), planes).tolist() == [[[0.5, 1.5]]]


@pytest.mark.parametrize("rig", RIGS)
def test_a_crop_agrees_inside(rig: str) -> None:
    planes = DepthGrid.around(render_plane(rig, 1.0, size=24).stack, count=16)
    rendered = render_plane(rig, planes.depths[7].item(), size=128)
    cost = ReblurCost(noise_std=0.005, squash=False)
    whole = cost_volume(rendered.stack, planes, cost)[:, 20:108, 20:108]
    crop = cost_volume(rendered.stack.cropped(20, 20, 88, 88), planes, cost)
    inner = slice(24, -24)
    difference = ((crop - whole).abs() / whole)[:, inner, inner]
    assert difference.max() < 0.03
    assert torch.equal(crop.argmin(0)[inner, inner], whole.argmin(0)[inner, inner])


def test_workers_stay_within_the_memory_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cores: the chunks at work together fit in the bound, and one is always allowed."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    stack = FocalStack(torch.rand(5, 3, 200, 200), [0.5, 0.7, 1.0, 1.5, 3.0], Camera(0.05, 4.0, 1e-4)).as_batch()
    planes = DepthGrid.around(stack, count=8)
    for memory in (2**24, 2**26, 2**30):
        plan = volume.plan_sweep(stack, planes, ReblurCost(), "mirror", memory)
        transform = (plan.grid.height, plan.grid.width)
        used = plan.workers * plan.planes_at_once * volume.bytes_a_plane(stack.images, transform)
        assert plan.workers >= 1
        assert used <= memory or plan.workers == 1
    assert plan.workers > 4


@pytest.mark.parametrize("memory", [None, 8_000_000], ids=["at once", "tiled"])
def test_a_part_with_the_statistics_of_the_whole_is_that_part(memory: int | None) -> None:
    """Away from its borders, that is: there the part is mirrored, the whole goes on."""
    stack = render_plane("dslr", 1.3, size=200).stack
    planes = DepthGrid.uniform_in_inverse_depth(1.1, 1.6, 8)
    cost = ReblurCost(squash=False)
    statistics = cost.measure(stack.as_batch().images)
    part = stack.cropped(20, 0, 170, 160)
    assert (len(plan_sweep(part.as_batch(), planes, cost, "mirror", memory).tiles) > 1) == (memory is not None)
    whole = cost_volume(stack, planes, cost)[:, 20:190, :160]
    given = cost_volume(part, planes, cost, statistics=statistics, workspace=memory)
    own = cost_volume(part, planes, cost, workspace=memory)
    inside = (slice(None), slice(24, -24), slice(24, -24))  # blur of up to 10 px, the window, what the prior spreads
    error, error_of_own = (((one - whole).abs() / whole)[inside].mean().item() for one in (given, own))
    print(f"relative difference: {error:.1e} with the whole's statistics, {error_of_own:.1e} with its own")
    assert error < 2e-4
    assert error_of_own > 10 * error
