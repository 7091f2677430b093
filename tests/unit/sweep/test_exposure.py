"""Dark stacks in normal light."""

import numpy as np
import pytest
import torch

import focalsweep as fs
from focalsweep.estimate import predict
from focalsweep.sweep.colour import grey_for_sweep, project_to_dominant_colour
from focalsweep.sweep.exposure import MOST_GAIN, NORMAL_LIGHT, brighten, brighten_picture, light_gain
from tests.demo import demo_stack


def stack_of(images: torch.Tensor) -> fs.FocalStack:
    return fs.FocalStack(images, [0.5, 1.0, 2.0], fs.Camera(0.05, 2.8, 2e-5)).as_batch()


def test_a_gain_brings_the_brightest_hundredth_to_normal_light() -> None:
    images = torch.full((1, 3, 3, 100, 100), 0.01)
    images[..., :10, :20] = 0.04  # one pixel in fifty
    assert light_gain(images).item() == pytest.approx(NORMAL_LIGHT / 0.04)
    images[..., 50, :5] = 1.0  # a lamp
    assert light_gain(images).item() == pytest.approx(NORMAL_LIGHT / 0.04)


def test_normal_light_stays_as_it_is_to_the_last_digit() -> None:
    batch = demo_stack().stack.as_batch()
    assert light_gain(batch.images).item() == 1
    assert torch.equal(grey_for_sweep(batch).images, project_to_dominant_colour(batch).images)
    grey = stack_of(torch.rand((3, 1, 16, 16), generator=torch.Generator().manual_seed(0)))
    assert grey_for_sweep(grey) is grey


def test_each_stack_of_a_batch_has_its_own_and_black_has_an_end() -> None:
    images = torch.ones(3, 2, 1, 8, 8) * torch.tensor([1.0, 0.1, 0.0])[:, None, None, None, None]
    assert light_gain(images).tolist() == pytest.approx([1, 10 * NORMAL_LIGHT, MOST_GAIN])
    assert brighten(stack_of(torch.rand(3, 1, 8, 8) * 1e-3), torch.tensor([100.0])).images.max() > 0.05


def test_a_lamp_in_a_dark_picture_is_white_and_bright_pictures_are_left_alone() -> None:
    picture = torch.tensor([0.5, 1.5]).expand(2, 3, 1, 2)
    seen = brighten_picture(picture, torch.tensor([1.0, 4.0]))
    assert torch.equal(seen[0], picture[0]) and torch.equal(seen[1], torch.ones(3, 1, 2))


@pytest.mark.parametrize("light", [0.1, 0.001])
@pytest.mark.parametrize("method", ["sweep", "argmin"])
def test_depth_and_error_bars_do_not_hang_on_the_light(light: float, method: str) -> None:
    """At a hundredth of the light 18 % of the pixels of "sweep" were off by more than three error bars."""
    stack = demo_stack().stack.cropped(90, 120, 96, 128)
    stack = stack.with_images(stack.images * 0.5)
    planes = fs.DepthGrid.uniform_in_inverse_depth(0.37, 1.3, 32)
    bright, dark = (predict(stack.with_images(stack.images * by), method, planes) for by in (1, light))
    assert torch.isclose(dark.depth, bright.depth, rtol=1e-3).float().mean() > 0.99
    assert torch.isclose(dark.std, bright.std, rtol=1e-2).float().mean() > 0.99


@pytest.mark.slow
def test_a_dark_stack_takes_the_whole_road_and_its_picture_keeps_its_own_light() -> None:
    stack = demo_stack().stack.resized(0.5)
    stack = stack.with_images(stack.images * 0.5)
    bright, dark = (fs.estimate_depth(stack.with_images(stack.images * by), "argmin") for by in (1, 0.01))
    assert np.isclose(dark.depth, bright.depth, rtol=1e-3).mean() > 0.99
    assert dark.all_in_focus.max() < 0.01
