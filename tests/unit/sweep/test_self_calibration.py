"""Settings taken as the photos have them: of the demo, told wrongly in one thing at a time."""

import math
from dataclasses import replace

import pytest
import torch

from focalsweep import Camera, DepthPrediction, FocalStack
from focalsweep.errors import InputError
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.sweep.fit import Cause, Fit, check_fit
from focalsweep.sweep.self_calibration import Calibration, check_mode, self_calibration
from focalsweep.types import StackRecord
from tests.unit.sweep.test_fit import small_demo, told


def stack_of(distances: list[float], ranges: tuple[tuple[float, float], ...] = ()) -> FocalStack:
    images = torch.rand((len(distances), 1, 8, 8), generator=torch.Generator().manual_seed(0))
    return FocalStack(images, distances, Camera(0.05, 4.0, 5e-5), record=StackRecord(focus_ranges=ranges))


def fit_of(blur: float, *causes: str) -> Fit:
    sentence = check_fit(small_demo()).sentence
    named = tuple(Cause(name, sentence) for name in causes)
    return replace(check_fit(small_demo()), fits=not causes, blur=blur, blur_error=0.005, causes=named)


def span_px(stack: FocalStack) -> float:
    distances = stack.focus_distances
    return float(blur_slope_px(distances, stack.camera).mean() * (1 / distances.min() - 1 / distances.max()))


@pytest.mark.parametrize("stop", [1.3, 1 / 1.3])
def test_a_wrong_f_number_is_found(stop: float) -> None:
    wrong = told(small_demo(), stop=stop)
    found = self_calibration(wrong, check_fit(wrong))
    assert found.focus == 1.0
    camera = found.apply(wrong).metric_camera
    assert float(torch.as_tensor(camera.f_number).flatten()[0]) == pytest.approx(4.0, rel=0.03)
    assert torch.equal(torch.as_tensor(camera.pixel_pitch), torch.as_tensor(wrong.metric_camera.pixel_pitch))


@pytest.mark.parametrize("factor", [1.1, 1 / 1.1])
def test_the_scale_of_distances_is_found_where_the_camera_is_right(factor: float) -> None:
    wrong = told(small_demo(), small_demo().focus_distances * factor)
    found = self_calibration(wrong, check_fit(wrong), "focus")
    assert found.focus * factor == pytest.approx(1.0, rel=0.03)
    assert found.blur == pytest.approx(1.0, abs=1e-4)


def test_settings_that_the_photos_agree_with_stay() -> None:
    stack = stack_of([0.4, 0.6, 1.0])
    found = self_calibration(stack, fit_of(1.03))
    assert (found.blur, found.focus, found.scale_error) == (1.0, 1.0, 0.0)
    assert found.sentence() is None
    assert found.apply(stack) is stack


@pytest.mark.parametrize("mode", ["auto", "blur", "focus"])
def test_calibrated_settings_have_the_measured_blur(mode: str) -> None:
    stack = stack_of([0.4, 0.6, 1.0])
    found = self_calibration(stack, fit_of(1.25), mode)
    assert span_px(found.apply(stack)) == pytest.approx(1.25 * span_px(stack), rel=1e-6)
    assert (found.focus == 1.0) == (mode != "focus")


def test_the_same_may_come_of_the_distances() -> None:
    """Of exact settings the photos do not say which is wrong: two std hold both."""
    stack = stack_of([0.4, 0.6, 1.0])
    assert self_calibration(stack, fit_of(1.2)).scale_error == pytest.approx(math.log(1.2) / 2)
    assert self_calibration(stack, fit_of(1.2), "blur").scale_error == 0.0


def test_ranges_take_their_share() -> None:
    ranges = ((0.3, 0.5), (0.45, 0.75), (0.75, 1.25))
    stack = stack_of([0.4, 0.6, 1.0], ranges)
    found = self_calibration(stack, fit_of(1.2))
    assert 1 / 1.2 < found.focus < 1
    assert found.scale_error > 0.05
    assert span_px(found.apply(stack)) == pytest.approx(1.2 * span_px(stack), rel=1e-6)
    narrow = stack_of([0.4, 0.6, 1.0], tuple((0.99 * d, 1.01 * d) for d in (0.4, 0.6, 1.0)))
    assert self_calibration(narrow, fit_of(1.3), "focus").focus >= 0.99


def test_what_is_wrong_otherwise_is_left_alone() -> None:
    stack = stack_of([0.4, 0.6, 1.0])
    for fit in (
        fit_of(1.3, "order"),
        replace(fit_of(1.3), bracketed=False),
        fit_of(3.0, "f_number"),
        replace(fit_of(1.3), blur=None, blur_error=None),
    ):
        assert self_calibration(stack, fit) == Calibration()
    assert self_calibration(stack, fit_of(1.3), "off") == Calibration()
    assert self_calibration(stack, fit_of(1.3, "f_number")).blur == pytest.approx(1.3)


def test_error_bars_hold_what_stays_open() -> None:
    """At a plane of focus the growth of blur does not matter; a scale does everywhere."""
    stack = stack_of([0.5, 1.0])
    depth = torch.tensor([[[0.5, 1.0, 2.0, math.inf]]])
    flat = DepthPrediction(depth, std=torch.full_like(depth, 1e-3), confidence=torch.ones_like(depth))
    by_blur = Calibration(blur_error=0.1).widened(flat, stack).std[0, 0]
    assert by_blur[:2].tolist() == pytest.approx([1e-3, 1e-3])
    assert float(by_blur[2]) == pytest.approx(math.hypot(1e-3, 4 * 0.5 * 0.1))
    by_scale = Calibration(scale_error=0.1).widened(flat, stack).std[0, 0]
    assert by_scale[:3].tolist() == pytest.approx([math.hypot(1e-3, 0.1 * d) for d in (0.5, 1.0, 2.0)])
    assert bool(by_scale.isfinite().all())


def test_a_mode_that_is_none() -> None:
    with pytest.raises(InputError, match=r"calibrate must be auto or blur or focus or off, but is 'on'"):
        check_mode("on")
