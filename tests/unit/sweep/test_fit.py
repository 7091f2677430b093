"""Settings that explain the photos and settings that do not, on the demo stack and rendered planes."""

import math
import pickle
import re
from functools import cache

import pytest
import torch
from torch import Tensor

from focalsweep import Camera, FocalStack
from focalsweep.errors import say
from focalsweep.optics.thin_lens import blur_slope_px, lens_distance
from focalsweep.sweep.colour import project_to_dominant_colour
from focalsweep.sweep.fit import Fit, check_fit
from focalsweep.types import RelativeLens, StackRecord, StageLens
from focalsweep.validation import as_setting
from tests.demo import demo_stack
from tests.rendering import render_plane


@cache
def small_demo() -> FocalStack:
    return project_to_dominant_colour(demo_stack().stack.resized(0.5).as_batch())


def told(
    stack: FocalStack, distances: Tensor | None = None, focal: float = 1.0, stop: float = 1.0, pitch: float = 1.0
) -> FocalStack:
    """The same photos with other settings, in order of the distances."""
    known = stack.metric_camera
    camera = Camera(known.focal_length * focal, known.f_number * stop, known.pixel_pitch * pitch)
    given = stack.focus_distances if distances is None else distances
    order = given[0].argsort()
    magnification = torch.as_tensor(stack.magnification)[:, order]
    lens = Camera(*(getattr(camera, name)[:, :1] for name in ("focal_length", "f_number", "pixel_pitch")))
    return FocalStack(stack.images[:, order], given[:, order], lens, magnification)


def names(fit: Fit) -> list[str]:
    return [cause.name for cause in fit.causes]


@cache
def right() -> Fit:
    return check_fit(small_demo())


def test_right_settings_fit() -> None:
    fit = right()
    print(fit.sentence)
    assert fit.fits is True
    assert fit.explained > 0.9
    assert fit.blur == pytest.approx(1, rel=0.03)
    assert fit.blur_error < 0.02
    assert fit.causes == ()
    assert fit.map.shape == small_demo().size
    assert f"explain {fit.explained:.0%} of the textured pixels, with {fit.blur:.2f} times their blur" in fit.sentence


@pytest.mark.parametrize("stop", [0.5, 3.0])
def test_a_wrong_f_number_is_named_with_the_right_one(stop: float) -> None:
    fit = check_fit(told(small_demo(), stop=stop))
    assert fit.fits is False
    assert fit.blur == pytest.approx(stop, rel=0.05)
    assert "f_number" in names(fit)[:2]
    sentence = next(cause.sentence for cause in fit.causes if cause.name == "f_number")
    assert f"{4 * stop / fit.blur:.2g} would explain" in sentence
    assert "--f-number" in say(sentence, {"f_number": "--f-number"})


def test_a_wrong_pitch_is_told_in_pixels_of_the_photos() -> None:
    """The preview is half as large as the photos: its pixels are twice theirs."""
    fit = check_fit(told(small_demo(), pitch=0.25), scale=0.5)
    assert fit.fits is False
    assert "pixel_pitch" in names(fit)[:2]
    sentence = next(cause.sentence for cause in fit.causes if cause.name == "pixel_pitch")
    told_um = float(re.search(r"pixel_pitch of ([\d.]+) um", sentence)[1])  # type: ignore[index]
    assert told_um == pytest.approx(93.75, rel=0.05)


@pytest.mark.parametrize(("factor", "unit"), [(100, "centimetres"), (1000, "millimetres"), (1 / 0.3048, "feet")])
def test_distances_in_another_unit(factor: float, unit: str) -> None:
    fit = check_fit(told(small_demo(), small_demo().focus_distances * factor))
    assert fit.fits is False
    assert "unit" in names(fit)[:2]
    assert any(unit in cause.sentence for cause in fit.causes[:2])


def test_order_reversed() -> None:
    fit = check_fit(told(small_demo(), small_demo().focus_distances.flip(1)))
    assert fit.fits is False
    assert names(fit)[0] == "order"


def test_two_frames_exchanged() -> None:
    swapped = small_demo().focus_distances.clone()
    swapped[:, [2, 3]] = swapped[:, [3, 2]]
    fit = check_fit(told(small_demo(), swapped))
    assert fit.fits is False
    assert names(fit)[0] == "exchanged"
    assert "frame 3 and frame 4" in fit.causes[0].sentence


def test_distances_from_the_sensor_are_told_apart_from_an_aperture() -> None:
    """Of 50 mm at 0.4 m: the blur alone would be a third more."""
    stack = small_demo()
    from_sensor = stack.focus_distances**2 / (stack.focus_distances - 0.05)
    assert torch.allclose(lens_distance(from_sensor, 0.05), stack.focus_distances)
    fit = check_fit(told(stack, from_sensor))
    print(fit.sentence)
    assert fit.blur > 1.1


def test_little_blur_more_or_less_is_no_mistake() -> None:
    """Real apertures differ by as much from their f-numbers."""
    fit = check_fit(told(small_demo(), stop=1.15))
    assert fit.fits is True
    assert fit.blur == pytest.approx(1.15, rel=0.03)


def test_ranges_leave_the_blur_open() -> None:
    stack = told(small_demo(), stop=1.4)
    assert check_fit(stack).fits is False
    ranges = tuple((0.9 * distance, 1.1 * distance) for distance in stack.focus_distances[0].tolist())
    assert check_fit(stack._unchecked(record=StackRecord(focus_ranges=ranges))).fits is True


def test_without_texture_nothing_is_said() -> None:
    stack = small_demo()
    flat = stack.with_images(0.4 + 1e-3 * torch.randn(stack.images.shape, generator=torch.Generator().manual_seed(0)))
    fit = check_fit(flat)
    assert fit.fits is None
    assert "too little texture" in fit.sentence
    assert fit.blur_error is not None and math.isinf(fit.blur_error)


def test_without_a_unit_only_the_photos_are_judged() -> None:
    """The blur of a relative lens is measured; nobody said it wrongly."""
    stack = small_demo()
    lens = RelativeLens(torch.full((1, stack.frame_count), 1.0, dtype=torch.float64))
    fit = check_fit(stack._unchecked(camera=lens))
    assert fit.causes == ()
    assert fit.blur is None


def on_a_stage(stack: FocalStack, slope: float = 1.0, measure: bool = False) -> FocalStack:
    """The same photos, as if a stage had moved through inverse depth: 1 mm of height for each dioptre."""
    inverse, blur = 1 / stack.focus_distances, blur_slope_px(stack.focus_distances, stack.camera, stack.magnification)
    lens = StageLens(slope * blur, height_unit=1e-3, measure_blur=measure)
    return stack._unchecked(focus_distances=1 / inverse, camera=lens, magnification=torch.ones_like(inverse))


def test_a_stage_with_a_known_aperture() -> None:
    fit = check_fit(on_a_stage(small_demo()))
    assert fit.fits is True
    assert fit.blur == pytest.approx(1, rel=0.03)
    wrong = check_fit(on_a_stage(small_demo(), slope=0.5))
    assert wrong.fits is False
    assert names(wrong) == ["stage"]
    assert "2 times the blur" in wrong.sentence
    assert "--step-um" in say(wrong.sentence, {"step": "--step-um"})


def test_a_stage_whose_blur_is_measured_tells_no_factor() -> None:
    fit = check_fit(on_a_stage(small_demo(), slope=0.9, measure=True))
    assert fit.fits is True
    assert fit.blur is None
    assert "times" not in fit.sentence
    assert fit.to_json()["blur"] is None


def test_positions_of_a_stage_exchanged() -> None:
    stack = on_a_stage(small_demo())
    swapped = stack.focus_distances.clone()
    swapped[:, [2, 3]] = swapped[:, [3, 2]]
    order = swapped[0].argsort()
    wrong = stack._unchecked(images=stack.images[:, order], focus_distances=swapped[:, order])
    fit = check_fit(wrong, names=list("abcdefghij"))
    assert names(fit)[0] == "exchanged"
    assert "c and d seem exchanged: exchange their positions" in fit.sentence


def test_many_frames_of_a_stage() -> None:
    """Numbers of the lens stay as they are where settings of frames are picked out."""
    stack = on_a_stage(small_demo())
    times = -(-12 // stack.frame_count)
    noise = 0.002 * torch.randn((1, times * stack.frame_count, *stack.images.shape[2:]))
    lens = StageLens(as_setting("", stack.camera.slope_px).repeat(1, times), height_unit=1e-3)  # type: ignore[union-attr]
    distances = stack.focus_distances.repeat(1, times) + 1e-5 * torch.arange(noise.shape[1])
    many = FocalStack(stack.images.repeat(1, times, 1, 1, 1) + noise, distances, lens)
    assert check_fit(many).blur is not None


def test_two_apertures_at_one_distance() -> None:
    """Pairs have no order and no distances to be wrong."""
    plane = render_plane("dslr", 1.2).stack
    two = FocalStack(plane.images[:2], [1.0, 1.0], Camera(50e-3, torch.tensor([2.8, 8.0]), 6e-5))
    check_fit(project_to_dominant_colour(two.as_batch()))


def test_many_frames_are_judged_by_some() -> None:
    stack = small_demo()
    order = [min(i // 2, 6) for i in range(14)]
    distances = stack.focus_distances[0, order] + 1e-4 * torch.arange(14)
    noise = 0.002 * torch.randn((1, 14, *stack.images.shape[2:]), generator=torch.Generator().manual_seed(0))
    camera = Camera(50e-3, 4.0, float(stack.metric_camera.pixel_pitch[0, 0]))
    many = FocalStack(
        stack.images[:, order] + noise, distances[None], camera, torch.as_tensor(stack.magnification)[:, order]
    )
    fit = check_fit(many)
    assert fit.blur == pytest.approx(1, rel=0.05)


def test_a_fit_survives_a_process() -> None:
    again = pickle.loads(pickle.dumps(right()))
    assert again.sentence == right().sentence
    assert again.to_json() == right().to_json()
