"""Lens profiles: the identities that make a correction after the sweep exact, and what it does to depth and its bar."""

from __future__ import annotations

import math

import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack
from focalsweep.optics.profile import Curvature, LensProfile, Measured, corrected_settings, flatten_field, raised
from focalsweep.optics.thin_lens import blur_slope_px, signed_coc_px
from focalsweep.types import StackRecord

CAMERA = Camera(6.8e-3, 1.85, 5e-6)
CURVATURE = Curvature((0.002, 0.004), (0.1, 0.6), (0.01, 0.03))


def stack_of(distances: list[float], size: tuple[int, int] = (4, 6), **more: object) -> FocalStack:
    return FocalStack(torch.zeros(len(distances), 1, *size), distances, CAMERA, **more)  # type: ignore[arg-type]


def test_a_displaced_image_has_the_told_slope_and_another_inverse_depth() -> None:
    """A |v_i - v - delta| / (v + delta), worked out with image distances, is the model's blur at u'."""
    f, aperture, pitch = 0.0068, 0.0068 / 1.85, 5e-6
    distances = torch.tensor([0.3, 0.6, 2.0], dtype=torch.float64)
    sensor = 1 / (1 / f - 1 / distances)
    for depth, displaced in ((0.4, 3e-5), (1.5, -2e-5), (math.inf, 5e-5)):
        image = 1 / (1 / f - 1 / depth) + displaced
        blur = aperture * (sensor - image).abs() / image / pitch
        apparent = 1 / f - 1 / image
        assert torch.allclose(blur, signed_coc_px(1 / apparent, distances, CAMERA).abs(), rtol=1e-9)


def test_raised_frames_blur_what_is_nearer_by_as_much_alike() -> None:
    stack = stack_of([0.3, 0.6, math.inf], magnification=torch.tensor([1.02, 1.0, 0.99]))
    for lift in (0.0, 0.4, 2.0):
        higher = raised(stack, lift)
        for inverse in (0.0, 0.2, 1.7, 3.0):
            before = signed_coc_px(
                1 / inverse if inverse else math.inf, stack.focus_distances, CAMERA, stack.magnification
            )
            after = blur_slope_px(higher.focus_distances, CAMERA, higher.magnification) * (
                1 / higher.focus_distances - (inverse + lift)
            )
            assert torch.allclose(before, after, rtol=1e-9, atol=1e-9)


def test_curvature_is_straight_in_the_square_of_the_radius() -> None:
    at = torch.tensor([0.0, 0.001, 0.002, math.sqrt((0.002**2 + 0.004**2) / 2), 0.004, 0.009], dtype=torch.float64)
    value, std = CURVATURE.at(at)
    assert value.tolist() == pytest.approx([0, 0.025, 0.1, 0.35, 0.6, 0.6])
    assert std.tolist() == pytest.approx([0, 0.0025, 0.01, 0.02, 0.03, 0.03])
    assert CURVATURE.within(0.004) == pytest.approx((0.0, 0.6))
    assert CURVATURE.within(0.002) == pytest.approx((0.0, 0.1))
    assert Curvature((0.002, 0.004), (-0.2, 0.1), (0, 0)).within(0.004) == pytest.approx((-0.2, 0.1))


@pytest.mark.parametrize("lift", [0.0, 0.3])
def test_depth_and_its_bar_are_those_of_the_flat_field(lift: float) -> None:
    size, pitch = (300, 40), 2e-5  # more rows than are worked on at once
    point = (11.0, 190.0)
    rows, columns = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) + 0.5 for n in size), indexing="ij")
    shift, unsure = CURVATURE.at(pitch * torch.hypot(columns - point[0], rows - point[1]))
    true = 0.5 + rows / 300
    depth, std = flatten_field(
        1 / (true + shift + lift), 0.02 / (true + shift + lift) ** 2, CURVATURE,
        principal_point=point, pixel_pitch=pitch, lift=lift,
    )  # fmt: skip
    assert torch.allclose(1 / depth, true)
    assert torch.allclose(std * true**2, torch.hypot(torch.full_like(unsure, 0.02), unsure))


def test_what_lies_beyond_infinity_is_at_infinity_with_an_endless_bar() -> None:
    apparent = torch.tensor([[1 / 0.05, math.inf, 1.0]], dtype=torch.float64)
    flat = Curvature((1e-6,), (0.1,), (0.0,))
    depth, std = flatten_field(apparent, 0.1 * apparent, flat, principal_point=(-9.0, 0.5), pixel_pitch=1.0)
    assert depth[0, :2].isinf().all() and std[0, :2].isinf().all()
    assert depth[0, 2].item() == pytest.approx(1 / 0.9)


def test_planes_cover_what_things_seem_to_be_at() -> None:
    stack = stack_of([0.3, 1.0], (400, 600))
    planes = DepthGrid.uniform_in_inverse_depth(0.5, 4.0, 9)
    for profile, low, high in (
        (LensProfile(6.8e-3, 1.85, curvature=CURVATURE), 0.0, CURVATURE.within(5e-6 * math.hypot(300, 200))[1]),
        (LensProfile(6.8e-3, 1.85), 0.0, 0.0),
    ):
        seen = profile.apparent(planes, stack, (400, 600))
        assert seen.count == 9
        assert seen.inverse_depths[[0, -1]].tolist() == pytest.approx([2 + high, 0.25 + low])
    hollow = LensProfile(6.8e-3, 1.85, curvature=Curvature((0.001,), (-0.5,), (0.0,)))
    assert hollow.lift == 0.5
    assert hollow.apparent(planes, stack, (400, 600), hollow.lift).inverse_depths[-1].item() == pytest.approx(0.25)
    # From 1 / 0.25 on, planes stop at infinity.
    assert hollow.apparent(planes, stack, (400, 600)).inverse_depths[-1].item() == 0


def test_settings_are_those_of_the_real_lens() -> None:
    record = StackRecord(focus_ranges=((0.3, 0.3), (0.9, math.inf)))
    profile = LensProfile(6.8e-3, 1.85, blur=Measured(1.25), focus_scale=Measured(0.9), focus_offset=Measured(0.1))
    stack = corrected_settings(stack_of([0.3, 1.0], record=record), profile)
    assert (1 / stack.focus_distances).tolist() == pytest.approx([0.9 / 0.3 + 0.1, 1.0])
    assert float(torch.as_tensor(stack.metric_camera.f_number)) == pytest.approx(1.48)
    assert stack.record.focus_ranges[1] == pytest.approx((1 / (1.0 + 0.1), 10.0))
    told = corrected_settings(stack_of([0.3, 1.0]), profile, aperture=False)
    assert told.metric_camera.f_number == 1.85
