"""The size to work at, in closed form."""

import math

import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack
from focalsweep.sweep.working_size import ENOUGH_BLUR_PX, ENOUGH_PIXELS, LARGEST_BLUR_PX, LEAST_SIDE_PX, working_scale

FOCUS = [0.5, 0.8, 1.0, 2.0]
PLANES = DepthGrid.from_depths([0.4, 1.0, 4.0])


def blurred_by(blur_px: float) -> FocalStack:
    """A stack whose widest blur over PLANES is `blur_px`: that of 0.4 m in the frame focused at 2 m."""
    focal_length, f_number, focus = 0.05, 2.0, 2.0
    metres = focal_length**2 / f_number / (focus - focal_length) * (focus / 0.4 - 1)
    stack = FocalStack(torch.zeros(4, 1, 2, 2), FOCUS, Camera(focal_length, f_number, metres / blur_px))
    nearest = focal_length**2 / f_number / (0.5 - focal_length) * (1 - 0.5 / 4.0)  # of 4 m in the frame at 0.5 m
    assert nearest < metres
    return stack


@pytest.mark.parametrize(
    ("blur_px", "size", "scale"),
    [
        (10.0, (400, 600), 1.0),  # little blur, few pixels
        (LARGEST_BLUR_PX, (1200, 1600), 1.0),  # both at their limits or below
        (100.0, (1200, 1600), LARGEST_BLUR_PX / 100),  # less blur
        (100.0, (400, 600), LEAST_SIDE_PX / 600),  # but not fewer pixels than that
        (100.0, (300, 400), 1.0),  # small already
        (30.0, (3000, 4000), math.sqrt(ENOUGH_PIXELS / 12e6)),  # fewer pixels
        (15.0, (3000, 4000), ENOUGH_BLUR_PX / 15),  # but not less blur than that
        (8.0, (3000, 4000), 1.0),  # too little blur to lose any
        (100.0, (3000, 4000), LARGEST_BLUR_PX / 100),  # both: the smaller of them
        (40.0, (6000, 8000), ENOUGH_BLUR_PX / 40),
    ],
)
def test_working_scale(blur_px: float, size: tuple[int, int], scale: float) -> None:
    assert working_scale(blurred_by(blur_px), PLANES, size) == pytest.approx(scale, rel=1e-9)


def test_magnified_frames_count_as_blurred_wider() -> None:
    stack = blurred_by(50.0)
    magnified = FocalStack(stack.images, stack.focus_distances, stack.camera, [1.0, 1.0, 1.0, 2.0])
    assert working_scale(magnified, PLANES, (1200, 1600)) == pytest.approx(LARGEST_BLUR_PX / 100)


def test_a_finer_picture_is_worked_on_at_the_same_size() -> None:
    for factor in (1.0, 2.0, 5.0):
        scale = working_scale(blurred_by(100 * factor), PLANES, (round(1000 * factor), round(1500 * factor)))
        assert scale * factor == pytest.approx(LARGEST_BLUR_PX / 100)
