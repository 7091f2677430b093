"""`estimate_depth`: shapes, units, records, refusals."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack, estimate_depth, load_stack, pipeline
from focalsweep.cli.photos import DEMO_STACK
from focalsweep.model.sweepnet import STRIDE
from tests.demo import demo_stack
from tests.errors import assert_one_sentence, message_of
from tests.rendering import RIGS, render_plane


def test_result_of_a_rendered_plane() -> None:
    rendered = render_plane("phone", 0.4, size=64)
    result = estimate_depth(rendered.stack)
    for values in (result.depth, result.std, result.confidence):
        assert values.dtype == np.float32
        assert values.shape == (64, 64)
    assert result.all_in_focus.shape == (64, 64, 3)
    assert result.all_in_focus.dtype == np.float32
    assert np.median(result.depth) == pytest.approx(0.4, rel=0.01)
    assert (result.std > 0).all()
    assert 0 <= result.confidence.min() <= result.confidence.max() <= 1
    assert np.median(result.confidence) > 0.85
    assert result.camera is rendered.stack.camera
    assert result.planes.count == 64


def test_batch_equals_one_by_one() -> None:
    first, second = (render_plane("dslr", depth, size=40).stack for depth in (1.1, 1.7))
    batch = FocalStack(torch.stack([first.images, second.images]), first.focus_distances, first.camera)
    together = estimate_depth(batch)
    assert together.depth.shape == (2, 40, 40)
    assert together.all_in_focus.shape == (2, 40, 40, 3)
    for i, stack in enumerate((first, second)):
        alone = estimate_depth(stack)
        np.testing.assert_allclose(together.depth[i], alone.depth, rtol=1e-4)
        np.testing.assert_allclose(together.std[i], alone.std, rtol=1e-3)
        np.testing.assert_allclose(together.all_in_focus[i], alone.all_in_focus, atol=1e-5)


def test_given_planes_are_used() -> None:
    rendered = render_plane("dslr", 1.3, size=40)
    planes = DepthGrid.uniform_in_depth(0.9, 2.0, 12)
    result = estimate_depth(rendered.stack, planes=planes)
    assert result.planes is planes
    assert result.depth.min() >= 0.9 - 1e-6
    assert result.depth.max() <= 2.0 + 1e-6


def test_record_tells_how_it_was_made() -> None:
    record = estimate_depth(render_plane("dslr", 1.3, size=24).stack).record
    assert record["method"] == "sweep"
    assert record["planes"]["count"] == 64
    assert record["planes"]["source"] == "the depths in sight"
    assert record["focus_distances"] == pytest.approx(RIGS["dslr"].focus_distances)
    assert set(record["seconds"]) == {"depth", "all_in_focus"}
    assert record["versions"]["torch"] == torch.__version__


def test_record_tells_given_planes() -> None:
    result = estimate_depth(render_plane("dslr", 1.3, size=24).stack, planes=DepthGrid.uniform_in_depth(0.9, 2.0, 8))
    assert result.record["planes"]["source"] != "the focus distances and a margin"


def test_progress_and_memory_are_passed_on() -> None:
    shares: list[float] = []
    stack = render_plane("dslr", 1.3, size=24).stack
    estimate_depth(stack, progress=shares.append)
    assert shares[-1] == 1.0
    assert_one_sentence(message_of(lambda: estimate_depth(stack, memory=1000), ValueError), "memory")


def test_unknown_method_is_refused() -> None:
    stack = render_plane("dslr", 1.3, size=24).stack
    assert_one_sentence(message_of(lambda: estimate_depth(stack, method="magic"), ValueError), "'magic'", "argmin")


def test_gray_stack_and_infinity() -> None:
    images = render_plane("dslr", 1.3, size=40).stack.images[:, :1]
    stack = FocalStack(images[:3], [0.8, 2.0, math.inf], Camera(0.05, 2.8, 6e-5))
    result = estimate_depth(stack)
    assert result.planes.depths[-1] == math.inf
    assert result.all_in_focus.shape == (40, 40, 1)
    assert not np.isnan(result.depth).any()
    assert (result.depth > 0).all()


def test_flat_pictures_give_no_confidence() -> None:
    stack = FocalStack(torch.full((3, 3, 32, 32), 0.5), [0.8, 1.0, 2.0], Camera(0.05, 2.8, 6e-5))
    assert estimate_depth(stack, "sweep").confidence.max() < 0.3
    result = estimate_depth(stack, "argmin")
    assert result.confidence.max() < 0.1
    assert np.isfinite(result.depth).all()
    spread = result.planes.inverse_depths.std(correction=0).item()
    assert (result.std / result.depth**2).min() >= 0.99 * spread


def test_nothing_keeps_a_graph() -> None:
    stack = render_plane("dslr", 1.3, size=24).stack
    learned = FocalStack(stack.images.clone().requires_grad_(), stack.focus_distances, stack.camera)
    assert estimate_depth(learned).depth.shape == (24, 24)


def test_network_takes_gray_and_double_and_refuses_other_channels() -> None:
    images = torch.rand((3, 1, 33, 40), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    camera = Camera(0.05, 2.8, 6e-5)
    result = estimate_depth(FocalStack(images, [0.8, 1.2, 2.0], camera), "sweep")
    assert result.depth.shape == (33, 40) and result.depth.dtype == np.float32
    with pytest.raises(ValueError, match="4 channels"):
        estimate_depth(FocalStack(images.expand(3, 4, 33, 40), [0.8, 1.2, 2.0], camera), "sweep")


def test_tiles_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture in six tiles against the same in one: what differs, and by how much depth jumps between tiles."""
    stack = load_stack(DEMO_STACK).cropped(3, 5, 281, 371)
    planes = DepthGrid.around(stack, 32)
    monkeypatch.setattr(pipeline, "NETWORK_TILE_PX", 1000)
    whole = estimate_depth(stack, planes=planes)
    shares: list[float] = []
    monkeypatch.setattr(pipeline, "NETWORK_TILE_PX", 128)
    tiled = estimate_depth(stack, planes=planes, progress=shares.append)
    assert shares == sorted(shares) and {round(6 * share, 6) for share in shares} >= {1, 2, 3, 4, 5, 6}
    difference = np.abs(tiled.depth - whole.depth) / whole.depth
    print(f"relative difference of depth: mean {difference.mean():.1e}, largest {difference.max():.1e}")
    assert 0 < difference.mean() < 1e-3
    assert np.quantile(difference, 0.999) < 0.02
    assert difference.max() < 0.15  # where an edge of the picture lets a guess follow one side or the other
    assert (np.abs(tiled.std - whole.std) / whole.std).mean() < 0.02
    for axis, length in enumerate(stack.size):
        jump, usual = (np.abs(np.diff(1 / result.depth, axis=axis)).mean(1 - axis) for result in (tiled, whole))
        borders = [core.start - 1 for core, _ in pipeline._cuts(length, 128)[1:]]
        assert borders
        for border in borders:
            assert jump[border] < 1.1 * usual[border] + 0.1 * usual.mean(), f"a seam along axis {axis} at {border}"


@pytest.mark.parametrize("length", [1, 500, 768, 770, 1023, 1999, 4000])
def test_cuts_cover_an_axis_in_step_with_the_network(length: int) -> None:
    cuts = pipeline._cuts(length, pipeline.NETWORK_TILE_PX)
    assert [pixel for core, _ in cuts for pixel in range(core.start, core.stop)] == list(range(length))
    for core, area in cuts:
        assert area.start % STRIDE == 0
        assert area.start == max(0, core.start - pipeline.NETWORK_HALO_PX)
        assert area.stop == min(length, core.stop + pipeline.NETWORK_HALO_PX)
        assert core.stop - core.start <= 1.5 * pipeline.NETWORK_TILE_PX + STRIDE


def test_planes_reach_what_lies_beyond_the_focus_distances() -> None:
    nearest = min(RIGS["phone"].focus_distances)
    rendered = render_plane("phone", 0.72 * nearest, size=64)
    assert float(DepthGrid.around(rendered.stack).depths[0]) > 0.75 * nearest
    result = estimate_depth(rendered.stack)
    assert result.record["planes"]["source"].endswith("beyond the focus distances at the near end")
    assert np.median(result.depth) == pytest.approx(0.72 * nearest, rel=0.03)


def test_each_stack_of_a_batch_has_its_own_planes() -> None:
    stacks = [render_plane("phone", depth, size=48).stack for depth in (0.2, 0.5)]
    images = torch.stack([stack.images for stack in stacks])
    batch = FocalStack(images, stacks[0].focus_distances, stacks[0].camera)
    together, _ = pipeline.auto_depth_grid(batch)
    for i, stack in enumerate(stacks):
        alone, _ = pipeline.auto_depth_grid(stack)
        assert torch.allclose(together.inverse_depths[i], alone.inverse_depths)
        assert batch.one_of_batch(i).images.equal(stack.images[None])
    assert not torch.allclose(together.inverse_depths[0], together.inverse_depths[1])
    assert estimate_depth(batch).depth.shape == (2, 48, 48)


@pytest.mark.parametrize("place", [(0, 0), (75, 100), (149, 199)])
def test_the_cost_curve_of_a_pixel_is_that_of_the_whole_volume(place: tuple[int, int]) -> None:
    """Up to the ripple of its cut edges: the same plane is lowest, and the curve has the same shape."""
    stack = demo_stack().stack.cropped(60, 100, 150, 200)
    planes = DepthGrid.around(stack, count=16)
    curve = pipeline.cost_curve(stack, planes, *place)
    grey = pipeline.project_to_dominant_colour(stack.as_batch())
    whole = pipeline.cost_volume(grey, planes, pipeline.COST)[0, :, place[0], place[1]]
    assert curve.shape == (16,) and int(curve.argmin()) == int(whole.argmin())
    np.testing.assert_allclose(curve, whole, atol=0.05 * float(whole.max() - whole.min()))


def test_the_cost_curve_outside_of_the_picture() -> None:
    stack = demo_stack().stack
    message = message_of(lambda: pipeline.cost_curve(stack, DepthGrid.around(stack), 288, 0), ValueError)
    assert_one_sentence(message, "row 288", "384 x 288 px")


def test_what_the_network_is_unsure_of_follows_its_surroundings() -> None:
    images = torch.full((1, 2, 3, 40, 40), 0.3)
    answer = torch.stack([torch.full((1, 40, 40), 0.5), torch.full((1, 40, 40), 0.004)], 1)
    answer[:, 0, 10:20, 10:20], answer[:, 0, 30, 30] = 0.9, 0.9
    answer[:, 1, 10:20, 10:20] = 0.2  # told as a guess, unlike the lone pixel
    whole = pipeline.smooth_uncertain(images, torch.zeros(1, 8, dtype=torch.long), answer)
    assert (whole[:, 0, 10:20, 10:20] - 0.5).abs().max() < 0.02
    assert whole[0, 0, 30, 30] > 0.52  # a voice among its neighbours
    torch.testing.assert_close(whole[:, 1], answer[:, 1])


def test_positions_stay_among_the_planes() -> None:
    torch.manual_seed(2)
    answer = torch.stack([2 * torch.rand(1, 24, 24) - 0.5, torch.full((1, 24, 24), 0.01)], 1)
    whole = pipeline.smooth_uncertain(torch.rand(1, 2, 1, 24, 24), torch.zeros(1, 8, dtype=torch.long), answer)
    assert whole[:, 0].min() == 0 and whole[:, 0].max() == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_recorded_run_is_that_of_the_cpu() -> None:
    whole = demo_stack().stack
    planes = DepthGrid.around(whole, 64)
    for moved_px in (0, 7, 14):  # eager, recorded, replayed
        stack = whole.with_images(whole.images.roll(moved_px, -1))
        here, there = (estimate_depth(stack.to(device), planes=planes).depth for device in ("cpu", "cuda"))
        assert np.median(np.abs(there / here - 1)) < 5e-3


def test_frames_of_one_focus_do_not_tell_near_from_far() -> None:
    """A bracket of apertures: with planes on one side of the focus it has depth, without them it is refused."""
    camera = Camera(0.05, torch.tensor([2.0, 8.0], dtype=torch.float64), 2e-5)
    stack = FocalStack(torch.rand(2, 3, 40, 48), [1.5, 1.5], camera)
    for method in ("sweep", "argmin", "focus_measure"):
        message = message_of(partial(estimate_depth, stack, method), ValueError)
        assert_one_sentence(message, "1.5 m", "near from far", "planes")
    behind = DepthGrid.uniform_in_inverse_depth(1.5, 10.0, 16)
    assert np.isfinite(estimate_depth(stack, "argmin", planes=behind).depth).all()
    message = message_of(partial(estimate_depth, stack, "focus_measure", planes=behind), ValueError)
    assert_one_sentence(message, "one focus distance", "add frames")
