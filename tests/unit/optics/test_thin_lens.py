"""The blur of a thin lens against its closed forms and the loop twin."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalsweep import Camera, coc_px
from focalsweep.optics.thin_lens import blur_slope_px, depth_from_coc, lens_distance, sensor_distance, signed_coc_px
from tests.errors import assert_one_sentence, message_of
from tests.reference import twins

CAMERA = Camera(focal_length=0.05, f_number=2.8, pixel_pitch=6e-5)
F, N, PITCH = 0.05, 2.8, 6e-5
inf = math.inf

cameras = st.builds(Camera, st.floats(1e-3, 0.2), st.floats(0.7, 22.0), st.floats(1e-6, 1e-4))
focus_in_focal_lengths = st.floats(1.5, 1e3)


@pytest.mark.parametrize("focus", [0.06, 0.5, 3.0, 1e4])
def test_blur_is_zero_in_focus(focus: float) -> None:
    assert coc_px(focus, focus, CAMERA).item() == pytest.approx(0, abs=1e-10)


def test_blur_is_linear_in_inverse_depth() -> None:
    inverse = torch.linspace(0, 5, 21, dtype=torch.float64)
    blur = signed_coc_px(1 / inverse, 0.8, CAMERA)
    slope = F**2 / (N * PITCH * (1 - F / 0.8))
    torch.testing.assert_close(blur, slope * (1 / 0.8 - inverse), rtol=1e-12, atol=1e-12)
    assert blur_slope_px(0.8, CAMERA).item() == pytest.approx(slope, rel=1e-14)


def test_blur_at_infinity() -> None:
    assert coc_px(inf, 0.8, CAMERA).item() == pytest.approx(F**2 / (N * (0.8 - F)) / PITCH, rel=1e-12)
    assert coc_px(0.8, inf, CAMERA).item() == pytest.approx(F**2 / (N * 0.8) / PITCH, rel=1e-12)
    assert coc_px(inf, inf, CAMERA).item() == 0


def test_blur_against_the_twin() -> None:
    depth = np.array([0.1, 0.5, 0.8, 2.0, inf])[:, None]
    focus = np.array([0.3, 0.8, 4.0, inf])
    expected = twins.coc_px(depth, focus, F, N, PITCH)
    torch.testing.assert_close(coc_px(depth, focus, CAMERA), torch.from_numpy(expected), rtol=1e-12, atol=1e-10)


def test_sign_is_positive_beyond_the_focus() -> None:
    assert signed_coc_px(2.0, 0.8, CAMERA) > 0
    assert signed_coc_px(0.5, 0.8, CAMERA) < 0


def test_magnification_multiplies() -> None:
    plain, magnified = coc_px([0.5, 2.0], 0.8, CAMERA), coc_px([0.5, 2.0], 0.8, CAMERA, magnification=1.25)
    torch.testing.assert_close(magnified, 1.25 * plain, rtol=1e-14, atol=0)


def test_depth_keeps_its_precision() -> None:
    assert coc_px(torch.tensor([0.5, 2.0]), 0.8, CAMERA).dtype == torch.float32
    assert coc_px(1, 0.8, CAMERA).dtype == torch.float64
    assert coc_px(torch.tensor([1, 2]), 0.8, CAMERA).dtype == torch.float64


def test_resize_by_half_halves_the_blur() -> None:
    torch.testing.assert_close(coc_px(2.0, 0.8, CAMERA.resized(0.5)), coc_px(2.0, 0.8, CAMERA) / 2)


def test_blur_is_differentiable() -> None:
    depth, focus, focal_length = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1.3, 0.8, 0.05))
    assert torch.autograd.gradcheck(lambda d, s, f: coc_px(d, s, Camera(f, N, PITCH)), (depth, focus, focal_length))


@given(camera=cameras, relative_focus=focus_in_focal_lengths, relative_depth=st.floats(0.05, 1e4))
def test_depth_from_blur_round_trips(camera: Camera, relative_focus: float, relative_depth: float) -> None:
    focus = relative_focus * float(camera.focal_length)
    depth = relative_depth * focus
    blur = signed_coc_px(depth, focus, camera, magnification=0.9)
    back = depth_from_coc(blur, focus, camera, magnification=0.9)
    assert (1 / back).item() == pytest.approx(1 / depth, rel=1e-9, abs=1e-12 / focus)


def test_depth_from_blur_beyond_infinity() -> None:
    at_infinity = signed_coc_px(inf, 0.8, CAMERA).item()
    assert depth_from_coc(at_infinity * 1.01, 0.8, CAMERA).item() == inf
    assert depth_from_coc(0.0, 0.8, CAMERA).item() == pytest.approx(0.8)


@given(focal_length=st.floats(1e-3, 0.3), ratio=st.floats(2.0, 1e4))
def test_sensor_and_lens_distance_round_trip(focal_length: float, ratio: float) -> None:
    """Beyond twice the focal length, where the larger of the two solutions is the lens's."""
    focus = ratio * focal_length
    total = sensor_distance(focus, focal_length)
    image_distance = focal_length * focus / (focus - focal_length)
    assert total.item() == pytest.approx(focus + image_distance, rel=1e-12)
    # At 1 : 1 both solutions meet, and the square root loses half of the digits.
    tolerance = 1e-6 if ratio < 2.01 else 1e-9
    assert lens_distance(total * (1 + 1e-15), focal_length).item() == pytest.approx(focus, rel=tolerance)


def test_lens_distance_keeps_infinity_and_refuses_the_impossible() -> None:
    assert lens_distance(inf, 0.05).item() == inf
    assert sensor_distance(inf, 0.05).item() == inf
    message = message_of(lambda: lens_distance([1.0, 0.15], 0.05), ValueError)
    assert_one_sentence(message, "0.05 m", "0.15 m", "four focal lengths")
