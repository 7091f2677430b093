"""A lens that stays while the specimen moves: its blur, its heights, and what it refuses."""

import math
from collections.abc import Callable

import pytest
import torch

import focalsweep as fs
from focalsweep.lenses import StageLens, unit_of
from focalsweep.optics.thin_lens import blur_slope_px
from tests.errors import assert_one_sentence, message_of

STEP, PIXEL, NA = 2e-6, 0.5e-6, 0.25


def test_blur_is_linear_in_height_by_the_aperture() -> None:
    """A cone of half-angle asin(NA): its diameter over the pixel, closed form."""
    stage = fs.Stage(step=STEP, pixel_size=PIXEL, numerical_aperture=NA)
    focus, lens = stage.lens(9)
    assert not lens.measure_blur
    places = torch.tensor(stage.places(9), dtype=torch.float64)
    for height in (-3e-6, 5e-6, 40e-6):
        u = 1 + (height - lens.origin) / lens.height_unit
        slope = blur_slope_px(focus, lens, torch.ones(9, dtype=torch.float64))
        expected_px = 2 * math.tan(math.asin(NA)) * (height - places).abs() / PIXEL
        torch.testing.assert_close((slope * (u - 1 / focus)).abs(), expected_px, rtol=1e-9, atol=1e-9)


def test_heights_come_back() -> None:
    stage = fs.Stage(positions=[5e-6, 0.0, 12e-6], upwards=False)
    focus, lens = stage.lens(3)
    expected = torch.tensor([-5e-6, 0.0, -12e-6], dtype=torch.float64)
    torch.testing.assert_close(lens.heights(focus), expected, rtol=0, atol=1e-16)
    assert lens.measure_blur and unit_of(lens) == "m"


def test_the_error_bar_follows_the_slope() -> None:
    _, lens = fs.Stage(step=STEP).lens(5)
    depth = torch.tensor([0.9, 1.0, 1.1], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(lens.heights(depth).sum(), depth)
    torch.testing.assert_close(lens.height_std(depth, torch.full_like(depth, 1e-3)), slope.abs() * 1e-3)


def test_a_sensor_pixel_shows_less_through_an_objective() -> None:
    direct = fs.Stage(step=STEP, pixel_size=PIXEL, numerical_aperture=NA).lens(4)[1]
    through = fs.Stage(step=STEP, pixel_size=20 * PIXEL, magnification=20, numerical_aperture=NA).lens(4)[1]
    assert through.slope_px == pytest.approx(direct.slope_px)


def test_resized_pictures_have_less_blur() -> None:
    lens = fs.Stage(step=STEP, pixel_size=PIXEL, numerical_aperture=NA).lens(4)[1].resized(0.5)
    assert isinstance(lens, StageLens)
    coarse = fs.Stage(step=STEP, pixel_size=2 * PIXEL, numerical_aperture=NA).lens(4)[1]
    assert lens.slope_px == pytest.approx(coarse.slope_px)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fs.Stage(), ["step", "positions"]),
        (lambda: fs.Stage(step=1e-6, positions=[0.0, 1e-6]), ["step", "positions"]),
        (lambda: fs.Stage(step=0.0), ["step", "other than 0"]),
        (lambda: fs.Stage(step=math.nan), ["step"]),
        (lambda: fs.Stage(step=STEP, pixel_size=-1.0), ["pixel_size", "above 0"]),
        (lambda: fs.Stage(step=STEP, numerical_aperture=1.3, pixel_size=PIXEL), ["in air", "immersion"]),
        (lambda: fs.Stage(step=STEP, numerical_aperture=0.4), ["pixel_size"]),
        (lambda: fs.Stage(positions=[0.0, 1e-6]).lens(3), ["2 values", "3 frames"]),
        (lambda: fs.Stage(positions=[1e-6, 1e-6]).lens(2), ["differ"]),
        (lambda: fs.Stage(step=STEP).lens(3)[1].scaled(2.0), ["heights of a stage"]),
    ],
)
def test_what_is_refused(make: Callable[[], object], words: list[str]) -> None:
    assert_one_sentence(message_of(make, ValueError), *words)
