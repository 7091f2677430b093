"""What must not matter: the unit of length, the order of the frames, the number of pixels."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalsweep import Camera, DepthGrid, FocalStack, PaperCost, ReblurCost, coc_px, cost_volume, estimate_depth
from focalsweep.sweep.volume import sweep_coc_px
from tests.rendering import random_texture, render_plane

COSTS = [ReblurCost(), PaperCost()]


@st.composite
def stacks(draw: st.DrawFn, size: tuple[int, int] = (24, 29), frames: int | None = None) -> FocalStack:
    """Any camera, with pixels chosen so that the widest blur is 3 to 12 px."""
    focal_length = draw(st.floats(2e-3, 0.1))
    f_number = draw(st.floats(1.0, 11.0))
    count = frames or draw(st.integers(2, 4))
    nearest = draw(st.floats(4.0, 100.0)) * focal_length
    # Steps of at least a quarter of the distance, so that no two frames are nearly the same.
    ratios = draw(st.lists(st.floats(1.25, 3.0), min_size=count - 1, max_size=count - 1))
    distances = nearest * np.cumprod([1.0, *ratios])
    widest_px = draw(st.floats(3.0, 12.0))
    unit = Camera(focal_length, f_number, 1e-6)
    pitch = 1e-6 * float(coc_px(distances[-1], distances[0], unit)) / widest_px
    images = random_texture(size[0] * count, size[1], seed=draw(st.integers(0, 99))).reshape(3, count, *size)
    return FocalStack(images.movedim(1, 0).double(), distances, Camera(focal_length, f_number, pitch))


@pytest.mark.parametrize("cost", COSTS, ids=["reblur", "paper"])
@given(stack=stacks(), factor=st.floats(0.01, 50.0))
def test_costs_do_not_know_the_unit_of_length(cost: Any, stack: FocalStack, factor: float) -> None:
    """Paper, Eq. 2: multiply every length, and nothing changes."""
    planes = DepthGrid.around(stack, count=6)
    plain = cost_volume(stack, planes, cost)
    scaled = cost_volume(stack.scaled(factor), planes.scaled(factor), cost)
    torch.testing.assert_close(scaled, plain, rtol=1e-4, atol=1e-4)


@given(stack=stacks(), factor=st.floats(0.01, 50.0))
def test_depth_and_its_error_bar_scale(stack: FocalStack, factor: float) -> None:
    """In inverse depth: planes go to infinity, where a rounding error is any number of metres."""
    planes = DepthGrid.around(stack, count=6)
    near = float(planes.inverse_depths[0])
    plain = estimate_depth(stack, planes=planes)
    scaled = estimate_depth(stack.scaled(factor), planes=planes.scaled(factor))
    np.testing.assert_allclose(factor / scaled.depth, 1 / plain.depth, rtol=1e-5, atol=1e-5 * near)
    seen = plain.depth < 100 / near
    np.testing.assert_allclose(scaled.std[seen], plain.std[seen] * np.float32(factor), rtol=5e-3)
    np.testing.assert_allclose(scaled.confidence, plain.confidence, atol=1e-4)
    np.testing.assert_allclose(scaled.all_in_focus, plain.all_in_focus, atol=1e-4)


@given(stack=stacks(), factor=st.floats(0.01, 50.0))
def test_default_planes_scale(stack: FocalStack, factor: float) -> None:
    scaled = DepthGrid.around(stack.scaled(factor)).depths
    torch.testing.assert_close(scaled, DepthGrid.around(stack).depths * factor, rtol=1e-9, atol=0)


@pytest.mark.parametrize("cost", COSTS, ids=["reblur", "paper"])
@given(stack=stacks(frames=4), order=st.permutations(range(4)))
def test_order_of_the_frames_does_not_matter(cost: Any, stack: FocalStack, order: list[int]) -> None:
    planes = DepthGrid.around(stack, count=6)
    shuffled = FocalStack(stack.images[order], stack.focus_distances[order], stack.camera)
    torch.testing.assert_close(
        cost_volume(shuffled, planes, cost), cost_volume(stack, planes, cost), rtol=1e-6, atol=1e-7
    )


@given(stack=stacks(), scale=st.sampled_from([0.5, 0.25, 2.0]))
def test_resize_keeps_the_blur_in_metres(stack: FocalStack, scale: float) -> None:
    planes = DepthGrid.around(stack, count=6)
    blur, resized = (sweep_coc_px(s.as_batch(), planes) for s in (stack, stack.resized(scale)))
    torch.testing.assert_close(resized, scale * blur, rtol=1e-9, atol=1e-12)


def test_depth_survives_a_resize_by_half() -> None:
    """The same scene with half as many pixels: the same metres."""
    rendered = render_plane("dslr", 1.3, size=128)
    planes = DepthGrid.around(rendered.stack, count=32)
    for stack in (rendered.stack, rendered.stack.resized(0.5)):
        assert np.median(estimate_depth(stack, planes=planes).depth) == pytest.approx(1.3, rel=0.02)


@given(left=st.integers(0, 16), top=st.integers(0, 16))
def test_blur_does_not_depend_on_the_crop(left: int, top: int) -> None:
    rendered = render_plane("phone", 0.4, size=24)
    planes = DepthGrid.from_depths([0.2, 0.5, math.inf])
    crop = rendered.stack.cropped(top, left, 8, 8)
    assert torch.equal(sweep_coc_px(crop.as_batch(), planes), sweep_coc_px(rendered.stack.as_batch(), planes))
