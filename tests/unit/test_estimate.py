"""`estimate_depth`: shapes, units, records, refusals."""

import math
from functools import partial

import numpy as np
import pytest
import torch

import focalsweep
from focalsweep import Camera, DepthGrid, DepthPrediction, FocalStack, Options, estimate_depth
from focalsweep.estimate import auto_depth_grid
from focalsweep.model.weights import WEIGHTS
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
        alone = estimate_depth(stack, calibrate="off")  # as the stacks of a batch are
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
    assert set(record["seconds"]) == {"before_depth", "depth", "after_depth"}
    about = record["focalsweep"]
    assert (about["version"], about["torch"]) == (focalsweep.__version__, torch.__version__)
    assert about["weights"] == {"sweepnet": WEIGHTS["sweepnet"].sha256[:12]}
    assert record["summary"] | {"near_m": 0, "median_m": 0, "far_m": 0} == {
        "frames": len(RIGS["dslr"].focus_distances), "width": 24, "height": 24, "unit": "m",
        "near_m": 0, "median_m": 0, "far_m": 0,
    }  # fmt: skip


def test_record_tells_given_planes() -> None:
    result = estimate_depth(render_plane("dslr", 1.3, size=24).stack, planes=DepthGrid.uniform_in_depth(0.9, 2.0, 8))
    assert result.record["planes"]["source"] != "the focus distances and a margin"


def test_progress_and_memory_are_passed_on() -> None:
    told: list[tuple[str, float]] = []
    stack = render_plane("dslr", 1.3, size=24).stack
    estimate_depth(stack, progress=lambda stage, share: told.append((stage, share)))
    assert list(dict.fromkeys(stage for stage, _ in told)) == ["looking", "reading", "sweeping", "network"]
    assert told[-1] == ("network", 1.0)
    result = estimate_depth(stack, memory=1000)  # of the whole process: what cannot be kept is told
    assert_one_sentence(result.record["warnings"][0], "memory of 1e-06 GB", "cannot be kept", "24 x 24 px")


@pytest.mark.parametrize("memory", [0, -5])
def test_no_memory_is_refused(memory: int) -> None:
    stack = render_plane("dslr", 1.3, size=24).stack
    assert_one_sentence(message_of(lambda: estimate_depth(stack, memory=memory), ValueError), "memory", str(memory))


def test_a_function_is_a_method() -> None:
    def wall(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
        depth = torch.full(stack.images.shape[:1] + stack.images.shape[-2:], 1.5)
        return DepthPrediction(depth, 0.1 * depth, torch.ones_like(depth))

    result = estimate_depth(render_plane("dslr", 1.3, size=24).stack, method=wall)
    assert (result.depth == 1.5).all() and result.record["method"] == "wall"


def test_settings_are_for_photos_alone() -> None:
    stack = render_plane("dslr", 1.3, size=24).stack
    message = message_of(lambda: estimate_depth(stack, focal_length=0.05), TypeError)
    assert_one_sentence(message, "FocalStack", "focal_length")


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
    together, _ = auto_depth_grid(batch)
    for i, stack in enumerate(stacks):
        alone, _ = auto_depth_grid(stack)
        assert torch.allclose(together.inverse_depths[i], alone.inverse_depths)
        assert batch.one_of_batch(i).images.equal(stack.images[None])
    assert not torch.allclose(together.inverse_depths[0], together.inverse_depths[1])
    assert estimate_depth(batch).depth.shape == (2, 48, 48)


@pytest.mark.gpu
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
