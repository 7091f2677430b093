"""The sharp picture put together from the frames."""

import math

import pytest
import torch
from torch import Tensor

from focalsweep.photos.fusing import ROWS_AT_ONCE, fuse_frames
from focalsweep.results.layered import render_layered
from focalsweep.types import RelativeLens

FOCUS = torch.tensor([0.5, 0.6, 0.75, 1.0, 1.5])  # equal steps of 1/distance: 1/3 1/m
SLOPE_PX = 18.0  # 6 px of blur from frame to frame


def textured(height: int = 96, width: int = 128, channels: int = 3, seed: int = 0) -> Tensor:  # C H W
    """Coarse and fine detail between 0.2 and 0.8."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand((1, channels, height // 8, width // 8), generator=generator)
    fine = torch.rand((channels, height, width), generator=generator)
    return 0.2 + 0.3 * torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")[0] + 0.3 * fine


def stack_of(sharp: Tensor, depth: Tensor) -> list[Tensor]:  # F of H W C
    """Focused at each of FOCUS."""
    frames = render_layered(sharp, depth, RelativeLens(SLOPE_PX), FOCUS, dilation_px=0)
    return [frame.movedim(0, -1) for frame in frames]


def slopes() -> Tensor:
    return torch.full((len(FOCUS),), SLOPE_PX)


def decibel(one: Tensor, other: Tensor) -> float:
    return -10 * math.log10(float((one - other).square().mean()) + 1e-12)


def test_frames_that_agree_come_back() -> None:
    frame = textured().movedim(0, -1)
    torch.testing.assert_close(fuse_frames([frame] * 5, FOCUS, torch.ones(6, 8)), frame, atol=1e-5, rtol=0)


@pytest.mark.parametrize("said", FOCUS.tolist())
def test_sharpness_decides_where_depth_is_off(said: float) -> None:
    """The scene is at 0.75 m, the depth map says otherwise, and its error bar that it is right."""
    sharp = textured()
    fused = fuse_frames(
        stack_of(sharp, torch.full((96, 128), 0.75)), FOCUS, torch.full((24, 32), said), torch.zeros(24, 32), slopes()
    )
    assert decibel(fused, sharp.movedim(0, -1)) > (40 if abs(1 / said - 1 / 0.75) < 0.4 else 30)


def test_depth_decides_where_nothing_is_to_be_seen() -> None:
    """Frames without detail: the nearest in focus counts most."""
    frames = [torch.full((64, 64, 1), 0.1 * (i + 1)) for i in range(5)]
    said = [0.1, *FOCUS.tolist(), math.inf]
    levels = [float(fuse_frames(frames, FOCUS, torch.full((64, 64), d), slope_px=slopes()).mean()) for d in said]
    assert levels == sorted(levels)
    assert levels[0] == levels[1] < 0.2 and levels[3] == pytest.approx(0.3, abs=0.02) and 0.4 < levels[5] == levels[6]


def test_noise_is_averaged_where_frames_agree() -> None:
    generator = torch.Generator().manual_seed(1)
    frames = [0.4 + 0.02 * torch.randn((96, 128, 3), generator=generator) for _ in FOCUS]
    fused = fuse_frames(frames, FOCUS, torch.full((96, 128), 0.75), 0.2 * torch.ones(96, 128), slopes())
    assert float(fused.std()) < 0.8 * 0.02
    assert float(fused.mean()) == pytest.approx(0.4, abs=0.002)


def test_nothing_glows_around_what_is_near() -> None:
    """A bright card over a dark wall: in the frame focused at the wall its light spreads over it."""
    depth = torch.full((96, 128), 1.5)
    depth[:, :64] = 0.5
    sharp = 0.05 + 0.05 * textured()
    sharp[:, :, :64] = 0.9
    frames = stack_of(sharp, depth)
    wall = frames[-1]
    fused = fuse_frames(frames, FOCUS, depth, 0.01 * torch.ones(96, 128), slopes())
    truth = sharp.movedim(0, -1)
    beside = slice(67, 78)
    glow = float((fused - truth)[:, beside].mean())
    assert float((wall - truth)[:, beside].mean()) > 0.05  # a frame alone has it
    assert abs(glow) < 0.012
    assert decibel(fused[:, 90:], truth[:, 90:]) > 35  # and away from the edge the wall is sharp


def test_frames_may_come_in_any_order() -> None:
    frames = stack_of(textured(), torch.full((96, 128), 0.75))
    depth = 0.5 + torch.rand((24, 32), generator=torch.Generator().manual_seed(0))
    expected = fuse_frames(frames, FOCUS, depth, None, slopes())
    order = [2, 0, 4, 3, 1]
    shuffled = fuse_frames([frames[i] for i in order], FOCUS[order], depth, None, slopes())
    torch.testing.assert_close(shuffled, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("focus", [[0.5, 0.5, 1.0], [0.5, 1.0, 1.0], [0.5, 1.0, math.inf], [1.0, 1.0, 1.0]])
def test_equal_and_infinite_distances(focus: list[float]) -> None:
    frames = [torch.full((6, 8, 1), 0.2 * (i + 1)) for i in range(3)]
    for metres in (0.4, 0.5, 0.7, 1.0, 3.0, math.inf):
        depth = torch.full((6, 8), metres, dtype=torch.float64)
        fused = fuse_frames(frames, torch.tensor(focus), depth, torch.full((6, 8), math.inf))
        assert torch.isfinite(fused).all()
        assert ((fused >= 0.2 - 1e-5) & (fused <= 0.6 + 1e-5)).all()


def test_bands_of_rows_leave_no_seams() -> None:
    """Upside down the bands lie elsewhere; of 2^n + 1 rows every level has an odd number, and turns over as well."""
    height, width = 2 * ROWS_AT_ONCE + 1, 33
    frames = [textured(height, width, 1, seed).movedim(0, -1) for seed in range(5)]
    depth = 0.5 + torch.rand((height, width), generator=torch.Generator().manual_seed(0))
    fused = fuse_frames(frames, FOCUS, depth, None, slopes())
    turned = fuse_frames([frame.flip(0) for frame in frames], FOCUS, depth.flip(0), None, slopes())
    assert fused.shape == (height, width, 1)
    inside = (slice(8, -8), slice(8, -8))  # the pyramid treats opposite borders differently
    torch.testing.assert_close(turned.flip(0)[inside], fused[inside], atol=1e-4, rtol=0)


def test_light_beyond_the_frames_is_not_made_up() -> None:
    frames = stack_of(textured().round(), torch.full((96, 128), 0.75))
    fused = fuse_frames(frames, FOCUS, torch.full((24, 32), 0.8), None, slopes())
    assert float(fused.min()) >= 0 and float(fused.max()) <= float(torch.stack(frames).max())


def test_too_few_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="fewer frames"):
        fuse_frames([torch.ones(6, 8, 1)] * 3, FOCUS, torch.ones(6, 8))
