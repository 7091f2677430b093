"""The size to work at, in closed form, and the sharp picture put together from the frames."""

import math

import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack
from focalsweep.sweep.full_size import (
    ENOUGH_BLUR_PX,
    ENOUGH_PIXELS,
    LARGEST_BLUR_PX,
    LEAST_SIDE_PX,
    ROWS_AT_ONCE,
    fuse_frames,
    working_scale,
)

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


def numbered(height: int = 6, width: int = 8) -> list[torch.Tensor]:
    """Flat frames: frame i is i + 1 everywhere."""
    return [torch.full((height, width, 1), float(i + 1)) for i in range(len(FOCUS))]


def test_blend_takes_the_frame_in_focus() -> None:
    for i, metres in enumerate(FOCUS):
        sharp = fuse_frames(numbered(), torch.tensor(FOCUS), torch.full((6, 8), metres))
        torch.testing.assert_close(sharp, torch.full((6, 8, 1), float(i + 1)))


@pytest.mark.parametrize(("metres", "frame"), [(0.1, 1.0), (50.0, 4.0), (math.inf, 4.0)])
def test_blend_beyond_the_ends_takes_the_end(metres: float, frame: float) -> None:
    assert (fuse_frames(numbered(), torch.tensor(FOCUS), torch.full((6, 8), metres)) == frame).all()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.8])
def test_blend_between_two_frames(share: float) -> None:
    """At `share` of the way in inverse depth: the squares of the shares, normalised, so mostly the nearer in focus."""
    inverse = 1 / FOCUS[1] + share * (1 / FOCUS[2] - 1 / FOCUS[1])
    sharp = fuse_frames(numbered(), torch.tensor(FOCUS), torch.full((6, 8), 1 / inverse))
    weight = share**2 / (share**2 + (1 - share) ** 2)
    torch.testing.assert_close(sharp, torch.full((6, 8, 1), 2 * (1 - weight) + 3 * weight), rtol=1e-5, atol=0)


def test_blend_takes_frames_in_any_order() -> None:
    generator = torch.Generator().manual_seed(0)
    frames = [torch.rand((6, 8, 3), generator=generator) for _ in FOCUS]
    depth = 0.3 + 3 * torch.rand((6, 8), generator=generator)
    expected = fuse_frames(frames, torch.tensor(FOCUS), depth)
    order = [2, 0, 3, 1]
    shuffled = fuse_frames([frames[i] for i in order], torch.tensor([FOCUS[i] for i in order]), depth)
    torch.testing.assert_close(shuffled, expected)
    assert (expected >= torch.stack(frames).amin(0) - 1e-6).all()


@pytest.mark.parametrize("focus", [[0.5, 0.5, 1.0], [0.5, 1.0, 1.0], [0.5, 1.0, math.inf]])
def test_blend_with_equal_or_infinite_distances(focus: list[float]) -> None:
    for metres in (0.4, 0.5, 0.7, 1.0, 3.0, math.inf):
        sharp = fuse_frames(numbered()[:3], torch.tensor(focus), torch.full((6, 8), metres, dtype=torch.float64))
        assert torch.isfinite(sharp).all()
        assert ((sharp >= 1) & (sharp <= 3)).all()


def test_blend_follows_a_small_depth_map_over_large_frames() -> None:
    depth = torch.tensor([[0.5, 2.0], [0.5, 2.0]])
    sharp = fuse_frames(numbered(2 * ROWS_AT_ONCE + 3, 8), torch.tensor(FOCUS), depth)[..., 0]
    assert sharp.shape == (2 * ROWS_AT_ONCE + 3, 8)
    torch.testing.assert_close(sharp, sharp[:1].expand_as(sharp))  # bands of rows leave no seams
    assert sharp[0, 0] == 1 and sharp[0, -1] == 4
    assert (sharp[0].diff() >= 0).all()


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="fewer frames"):
        fuse_frames(numbered()[:3], torch.tensor(FOCUS), torch.ones(6, 8))
