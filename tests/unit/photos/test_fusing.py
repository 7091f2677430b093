"""The sharp picture put together from the frames."""

import math

import pytest
import torch

from focalsweep.photos.fusing import ROWS_AT_ONCE, fuse_frames

FOCUS = [0.5, 0.8, 1.0, 2.0]


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
