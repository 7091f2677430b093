"""The values passed between rooms: what they accept, what they refuse and how they say so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from focalsweep import Camera, DepthGrid, DepthPrediction, FocalStack
from focalsweep.sweep.volume import sweep_coc_px
from focalsweep.validation import as_setting, check_shape
from tests.errors import assert_one_sentence, message_of

CAMERA = Camera(focal_length=0.05, f_number=2.8, pixel_pitch=6e-5)
IMAGES = torch.linspace(0, 1, 3 * 3 * 8 * 10).reshape(3, 3, 8, 10)
DISTANCES = [0.8, 1.0, 2.0]


def stack(images: Any = IMAGES, focus_distances: Any = DISTANCES, camera: Camera = CAMERA, **more: Any) -> FocalStack:
    return FocalStack(images=images, focus_distances=focus_distances, camera=camera, **more)


def with_pixel(value: float) -> torch.Tensor:
    images = IMAGES.clone()
    images[1, 0, 2, 3] = value
    return images


nan, inf = float("nan"), float("inf")

BAD: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "focal length 0": (lambda: Camera(0.0, 2.8, 6e-5), ValueError, ("focal_length", "positive", "0 m")),
    "focal length negative": (lambda: Camera(-0.05, 2.8, 6e-5), ValueError, ("focal_length", "-0.05 m")),
    "focal length NaN": (lambda: Camera(nan, 2.8, 6e-5), ValueError, ("focal_length", "nan")),
    "focal length in millimetres": (lambda: Camera(50, 2.8, 6e-5), ValueError, ("focal_length", "50 m", "millimetres")),
    "focal length is a word": (lambda: Camera("wide", 2.8, 6e-5), TypeError, ("focal_length", "'wide'")),
    "f-number 0": (lambda: Camera(0.05, 0, 6e-5), ValueError, ("f_number", "positive", "0")),
    "f-number infinite": (lambda: Camera(0.05, inf, 6e-5), ValueError, ("f_number", "inf")),
    "pixel pitch negative": (lambda: Camera(0.05, 2.8, -6e-5), ValueError, ("pixel_pitch", "-6e-05 m")),
    "second focal length": (lambda: Camera([0.05, -0.04], 2.8, 6e-5), ValueError, ("focal_length", "1 has -0.04 m")),
    "camera for other frames": (
        lambda: stack(camera=Camera([0.05, 0.05], 2.8, 6e-5)),
        ValueError,
        ("focal_length", "(2,)", "F=3"),
    ),
    "camera for other stacks": (
        lambda: stack(images=IMAGES[None].repeat(2, 1, 1, 1, 1), camera=Camera([0.05] * 5, 2.8, 6e-5)),
        ValueError,
        ("focal_length", "(5", "B=2", "(2, 3)"),
    ),
    "one frame": (lambda: stack(IMAGES[:1], [1.0]), ValueError, ("at least 2 frames", "has 1")),
    "three axes": (lambda: stack(IMAGES[0]), ValueError, ("images", "F C H W", "(3, 8, 10)")),
    "six axes": (lambda: stack(IMAGES[None, None]), ValueError, ("images", "B F C H W", "(1, 1, 3, 3, 8, 10)")),
    "channels last": (lambda: stack(IMAGES.movedim(1, -1)), ValueError, ("F H W C", "(3, 8, 10, 3)", "channels")),
    "no pixels": (lambda: stack(IMAGES[..., :0]), ValueError, ("images", "empty", "(3, 3, 8, 0)")),
    "integers": (
        lambda: stack((IMAGES * 255).to(torch.uint8)),
        TypeError,
        ("images", "floats", "uint8", "srgb_to_linear"),
    ),
    "integers from NumPy": (lambda: stack(np.ones((3, 3, 8, 10), np.uint16)), TypeError, ("images", "uint16")),
    "0 to 255": (lambda: stack(IMAGES * 255), ValueError, ("images", "[0, 1]", "frame 0 runs from 0 to 84.7")),
    "NaN pixel": (lambda: stack(with_pixel(nan)), ValueError, ("images", "finite", "frame 1", "NaN")),
    "infinite pixel": (lambda: stack(with_pixel(inf)), ValueError, ("images", "finite", "frame 1")),
    "very negative pixel": (lambda: stack(with_pixel(-3.0)), ValueError, ("images", "frame 1", "-3")),
    "frames of two sizes": (
        lambda: stack([torch.zeros(3, 8, 10), torch.zeros(3, 8, 10), torch.zeros(3, 9, 10)]),
        ValueError,
        ("one size", "frame 0 is (3, 8, 10)", "frame 2 is (3, 9, 10)"),
    ),
    "too few distances": (
        lambda: stack(focus_distances=[0.8, 1.0]),
        ValueError,
        ("focus_distances", "3 frames", "(2,)"),
    ),
    "one distance": (lambda: stack(focus_distances=0.8), ValueError, ("focus_distances", "3 frames", "()")),
    "distances for other stacks": (
        lambda: stack(IMAGES[None].repeat(2, 1, 1, 1, 1), [DISTANCES] * 3),
        ValueError,
        ("focus_distances", "(3, 3)", "(2, 3)"),
    ),
    "equal distances": (lambda: stack(focus_distances=[0.8] * 3), ValueError, ("focus_distances", "equal", "0.8 m")),
    "all at infinity": (lambda: stack(focus_distances=[inf] * 3), ValueError, ("focus_distances", "equal", "inf m")),
    "inside the focal length": (
        lambda: stack(focus_distances=[0.8, 1.0, 0.012]),
        ValueError,
        ("focus_distances must exceed the focal length", "frame 2 has 0.012 m", "focal length 0.050 m", "millimetres"),
    ),
    "at the focal length": (lambda: stack(focus_distances=[0.8, 0.05, 2.0]), ValueError, ("frame 1 has 0.050 m",)),
    "distance NaN": (
        lambda: stack(focus_distances=[0.8, nan, 2.0]),
        ValueError,
        ("focus_distances", "frame 1 has nan"),
    ),
    "distance 0": (lambda: stack(focus_distances=[0.0, 1.0, 2.0]), ValueError, ("focus_distances", "frame 0 has 0 m")),
    "distance negative": (
        lambda: stack(focus_distances=[0.8, 1.0, -2.0]),
        ValueError,
        ("positive", "frame 2 has -2 m"),
    ),
    "distances are words": (lambda: stack(focus_distances=["a", "b", "c"]), TypeError, ("focus_distances", "'a'")),
    "second stack's distance": (
        lambda: stack(IMAGES[None].repeat(2, 1, 1, 1, 1), [DISTANCES, [0.8, 0.0, 2.0]]),
        ValueError,
        ("focus_distances", "stack 1, frame 1 has 0 m"),
    ),
    "magnification 0": (lambda: stack(magnification=[1, 0, 1]), ValueError, ("magnification", "frame 1 has 0")),
    "magnification for other frames": (
        lambda: stack(magnification=[1.0, 1.1]),
        ValueError,
        ("magnification", "(2,)", "F=3"),
    ),
    "crop outside": (lambda: stack().cropped(2, 0, 7, 10), ValueError, ("7 x 10", "row 2", "8 x 10 px")),
    "crop before the start": (lambda: stack().cropped(-1, 0, 4, 4), ValueError, ("row -1",)),
    "resize by 0": (lambda: stack().resized(0.0), ValueError, ("scale", "0")),
    "resize by NaN": (lambda: stack().resized(nan), ValueError, ("scale", "nan")),
    "resize to nothing": (lambda: stack().resized(0.1), ValueError, ("0.1", "8 x 10 px")),
    "one plane": (lambda: DepthGrid.from_depths([1.0]), ValueError, ("at least 2 planes", "(1,)")),
    "planes with three axes": (lambda: DepthGrid(torch.ones(1, 1, 3)), ValueError, ("D or B D", "(1, 1, 3)")),
    "planes far to near": (lambda: DepthGrid.from_depths([2.0, 1.0]), ValueError, ("planes", "near to far")),
    "planes repeated": (lambda: DepthGrid.from_depths([1.0, 1.0, 2.0]), ValueError, ("planes", "repeats")),
    "plane NaN": (lambda: DepthGrid.from_depths([1.0, nan, 2.0]), ValueError, ("planes", "nan")),
    "plane negative": (lambda: DepthGrid.from_depths([-1.0, 1.0]), ValueError, ("planes", "-1")),
    "plane at 0": (lambda: DepthGrid.from_depths([0.0, 1.0]), ValueError, ("planes", "inf")),
    "planes are words": (lambda: DepthGrid.from_depths(["near"]), TypeError, ("depths", "'near'")),
    "near 0": (lambda: DepthGrid.uniform_in_inverse_depth(0, 2), ValueError, ("near", "0 m")),
    "near at infinity": (lambda: DepthGrid.uniform_in_inverse_depth(inf, inf), ValueError, ("near", "inf m")),
    "far before near": (lambda: DepthGrid.uniform_in_inverse_depth(2, 1), ValueError, ("far", "beyond near", "1 m")),
    "far infinite in depth": (
        lambda: DepthGrid.uniform_in_depth(1, inf),
        ValueError,
        ("far", "uniform_in_inverse_depth"),
    ),
    "count 1": (lambda: DepthGrid.uniform_in_depth(1, 2, count=1), ValueError, ("at least 2 planes", "1")),
    "margin negative": (lambda: DepthGrid.around(stack(), margin=-0.1), ValueError, ("margin", "-0.1")),
    "planes for other stacks": (
        lambda: DepthGrid(torch.tensor([[2.0, 1.0]] * 3)).as_batch(2),
        ValueError,
        ("planes", "3 stacks", "2"),
    ),
    "depth without batch": (
        lambda: DepthPrediction(torch.ones(4, 5), torch.ones(4, 5), torch.ones(4, 5)),
        ValueError,
        ("depth", "B H W", "(4, 5)"),
    ),
    "std of another size": (
        lambda: DepthPrediction(torch.ones(1, 4, 5), torch.ones(1, 4, 4), torch.ones(1, 4, 5)),
        ValueError,
        ("std", "(1, 4, 4)", "(1, 4, 5)"),
    ),
    "probabilities of another size": (
        lambda: DepthPrediction(*[torch.ones(1, 4, 5)] * 3, probabilities=torch.ones(1, 7, 4, 4)),
        ValueError,
        ("probabilities", "B=1 D H=4 W=5", "(1, 7, 4, 4)"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(name: str) -> None:
    call, error, parts = BAD[name]
    assert_one_sentence(message_of(call, error), *parts)


def test_check_shape_names_axes_and_sizes() -> None:
    check_shape("images", torch.ones(2, 3, 4), "B H W", B=2)
    message = message_of(lambda: check_shape("images", torch.ones(2, 3, 4), "B H W", B=5, W=4), ValueError)
    assert_one_sentence(message, "images", "B=5 H W=4", "(2, 3, 4)")


def test_settings_are_float64_on_the_cpu_and_keep_gradients() -> None:
    given = torch.tensor([1.0, 2.0], dtype=torch.float32, requires_grad=True)
    setting = as_setting("x", given)
    assert setting.dtype == torch.float64
    setting.sum().backward()
    assert given.grad is not None
    values = np.array([1.0, 2.0])
    copied = as_setting("x", values)
    values[0] = 5.0
    assert copied[0] == 1.0


def test_camera_keeps_plain_numbers_and_tensors() -> None:
    assert isinstance(CAMERA.focal_length, float)
    assert CAMERA.focal_length == 0.05
    assert repr(CAMERA) == "Camera(50 mm, f/2.8, 60 um per px)"
    several = Camera(torch.tensor([0.05, 0.06]), 2.8, 6e-5)
    assert isinstance(several.focal_length, torch.Tensor)
    assert "0.06" in repr(several)
    learned = Camera(torch.tensor(0.05, requires_grad=True), 2.8, 6e-5)
    assert isinstance(learned.focal_length, torch.Tensor)
    assert learned.focal_length.requires_grad


def test_camera_is_frozen() -> None:
    with pytest.raises(AttributeError):
        CAMERA.f_number = 4.0  # type: ignore[misc]


def test_camera_resized_and_scaled() -> None:
    assert CAMERA.resized(0.5).pixel_pitch == pytest.approx(1.2e-4)
    assert CAMERA.resized(0.5).focal_length == 0.05
    scaled = CAMERA.scaled(3.0)
    assert (scaled.focal_length, scaled.f_number, scaled.pixel_pitch) == pytest.approx((0.15, 2.8, 1.8e-4))


def test_camera_expanded_over_frames_or_stacks() -> None:
    over_frames = Camera([0.05, 0.06], 2.8, 6e-5).expanded((1, 2), batched=False)
    assert torch.as_tensor(over_frames.focal_length).tolist() == [[0.05, 0.06]]
    over_stacks = Camera([0.05, 0.06], 2.8, 6e-5).expanded((2, 3), batched=True)
    assert torch.as_tensor(over_stacks.focal_length).tolist() == [[0.05] * 3, [0.06] * 3]
    both = Camera(torch.tensor([[0.05, 0.06], [0.07, 0.08]]), 2.8, 6e-5).expanded((2, 2), batched=True)
    assert torch.as_tensor(both.focal_length)[1, 0] == pytest.approx(0.07)


@pytest.mark.parametrize("form", ["tensor", "array", "list of tensors", "list of arrays"])
def test_stack_accepts(form: str) -> None:
    images = {
        "tensor": IMAGES,
        "array": IMAGES.numpy(),
        "list of tensors": list(IMAGES),
        "list of arrays": list(IMAGES.numpy()),
    }[form]
    made = stack(images)
    assert torch.equal(made.images, IMAGES)
    assert (made.frame_count, made.size, made.batched) == (3, (8, 10), False)


def test_stack_precision() -> None:
    assert stack(IMAGES.half()).images.dtype == torch.float32
    assert stack(IMAGES.double()).images.dtype == torch.float64
    assert stack().to(dtype=torch.float64).images.dtype == torch.float64


def test_stack_accepts_infinity_and_two_apertures() -> None:
    assert stack(focus_distances=[0.8, 1.0, inf]).focus_distances[-1] == inf
    stack(focus_distances=[0.8] * 3, camera=Camera(0.05, [2.0, 4.0, 8.0], 6e-5))


def test_stack_accepts_slightly_out_of_range_light() -> None:
    stack(with_pixel(-0.1))
    stack(with_pixel(1.7))


def test_as_batch_expands_every_setting() -> None:
    batch = stack(magnification=[1.0, 1.1, 1.2]).as_batch()
    assert batch.images.shape == (1, 3, 3, 8, 10)
    settings = (batch.focus_distances, batch.magnification, batch.camera.focal_length, batch.camera.pixel_pitch)
    assert all(torch.as_tensor(setting).shape == (1, 3) for setting in settings)
    assert batch.batched
    assert batch.size == (8, 10)
    shared = stack(IMAGES[None].repeat(2, 1, 1, 1, 1)).as_batch()
    assert shared.focus_distances.tolist() == [DISTANCES] * 2


def test_crop_keeps_the_pitch_and_the_pixels() -> None:
    crop = stack().cropped(2, 3, 4, 5)
    assert torch.equal(crop.images, IMAGES[..., 2:6, 3:8])
    assert crop.camera.pixel_pitch == CAMERA.pixel_pitch


def test_resize_keeps_the_blur_in_metres() -> None:
    half = stack().resized(0.5)
    assert half.images.shape == (3, 3, 4, 5)
    planes = DepthGrid.from_depths([0.5, 1.0, inf])
    blur, half_blur = (sweep_coc_px(s.as_batch(), planes) for s in (stack(), half))
    torch.testing.assert_close(half_blur, blur / 2, rtol=1e-12, atol=0)
    pitch, half_pitch = CAMERA.pixel_pitch, half.camera.pixel_pitch
    torch.testing.assert_close(half_blur * half_pitch, blur * pitch, rtol=1e-12, atol=0)
    assert half.images.mean().item() == pytest.approx(IMAGES.mean().item(), abs=1e-5)


def test_resize_of_a_batch_and_upwards() -> None:
    batch = stack(IMAGES[None].repeat(2, 1, 1, 1, 1)).resized(2.0)
    assert batch.images.shape == (2, 3, 3, 16, 20)
    assert batch.camera.pixel_pitch == pytest.approx(3e-5)


def test_scaled_multiplies_every_length() -> None:
    scaled = stack().scaled(10.0)
    assert scaled.focus_distances.tolist() == pytest.approx([8.0, 10.0, 20.0])
    assert scaled.camera.focal_length == pytest.approx(0.5)
    assert torch.equal(scaled.images, IMAGES)


def test_grid_uniform_in_inverse_depth() -> None:
    grid = DepthGrid.uniform_in_inverse_depth(0.5, inf, 5)
    assert grid.inverse_depths.tolist() == [2.0, 1.5, 1.0, 0.5, 0.0]
    assert grid.depths.tolist()[-1] == inf
    assert grid.count == 5


def test_grid_of_the_paper() -> None:
    grid = DepthGrid.uniform_in_depth()
    assert grid.count == 64
    assert (grid.depths[0].item(), grid.depths[-1].item()) == pytest.approx((0.1, 3.0), rel=1e-14)
    torch.testing.assert_close(grid.depths.diff(), torch.full((63,), 2.9 / 63, dtype=torch.float64))


def test_grid_around_a_stack() -> None:
    grid = DepthGrid.around(stack(focus_distances=[0.5, 0.8, 1.0]), count=9, margin=0.25)
    assert grid.inverse_depths[0].item() == pytest.approx(2.25)
    assert grid.inverse_depths[-1].item() == pytest.approx(0.75)
    to_infinity = DepthGrid.around(stack(focus_distances=[0.5, 0.8, 10.0]))
    assert to_infinity.inverse_depths[-1] == 0
    two_apertures = stack(focus_distances=[0.5] * 3, camera=Camera(0.05, [2.0, 4.0, 8.0], 6e-5))
    assert DepthGrid.around(two_apertures, margin=0.5).inverse_depths[[0, -1]].tolist() == pytest.approx([2.5, 1.5])


def test_grid_of_a_batch() -> None:
    images = IMAGES[None].repeat(2, 1, 1, 1, 1)
    grid = DepthGrid.around(stack(images, [[0.5, 0.8, 1.0], [1.0, 1.6, 2.0]]), count=5)
    assert grid.inverse_depths.shape == (2, 5)
    torch.testing.assert_close(grid.inverse_depths[1], grid.inverse_depths[0] / 2)
    near_and_far = DepthGrid.uniform_in_inverse_depth(torch.tensor([0.5, 1.0]), inf, 3)
    assert near_and_far.inverse_depths.tolist() == [[2.0, 1.0, 0.0], [1.0, 0.5, 0.0]]
    assert DepthGrid.from_depths([1.0, 2.0]).as_batch(3).shape == (3, 2)


def test_grid_scaled() -> None:
    grid = DepthGrid.from_depths([1.0, 2.0, inf]).scaled(4.0)
    assert grid.depths.tolist() == [4.0, 8.0, inf]


def test_prediction_accepts_what_fits() -> None:
    maps = torch.ones(2, 4, 5)
    assert DepthPrediction(maps, maps, maps).probabilities is None
    DepthPrediction(maps, maps, maps, torch.ones(2, 7, 4, 5))


def test_empty_list_of_frames_is_refused() -> None:
    with pytest.raises(ValueError, match="frames"):
        stack([], [])


def test_pixel_pitch_in_micrometres_is_refused() -> None:
    with pytest.raises(ValueError, match="pixel_pitch"):
        Camera(0.05, 2.8, 4.3)


def test_bad_plane_is_called_a_plane() -> None:
    message = message_of(lambda: DepthGrid.from_depths([-1.0, 1.0]), ValueError)
    assert "frame" not in message
