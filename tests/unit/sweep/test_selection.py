"""Frames that add nothing to depth, and what is known of those that were left out."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from focalsweep import Camera, FocalStack, RelativeLens
from focalsweep.sweep.selection import ALIKE_PX, LEAST_STEP_PX, SHORT, frames_for_depth, spread_between, with_frames
from focalsweep.types import StackRecord


def stack(inverse: list[float], widest_px: float = 20.0) -> FocalStack:
    """Focused at these inverse distances, with so much blur from the nearest to the farthest."""
    focus = 1 / torch.tensor(inverse, dtype=torch.float64)
    focal = 0.01  # short against the distances: blur grows by f^2 / (N p) a dioptre, but for 2 %
    pitch = focal**2 * (max(inverse) - min(inverse)) / (2.0 * widest_px)
    return FocalStack(torch.zeros(len(inverse), 1, 2, 2), focus, Camera(focal, 2.0, pitch))


def test_a_short_stack_is_used_whole_but_for_frames_focused_alike() -> None:
    apart = [2.0 - 2 * ALIKE_PX / 20 * i for i in range(SHORT)]  # 20 px of blur a dioptre
    assert frames_for_depth(stack(apart, 20 * (apart[0] - apart[-1]))) == list(range(SHORT))
    alike = [2.0, 1.9, 1.9 - 0.5 * ALIKE_PX / 20, 1.6, 1.4]
    assert frames_for_depth(stack(alike, 20 * 0.6)) == [0, 1, 3, 4]
    ranges = tuple((0.95 * d, 1.05 * d) for d in (1 / torch.tensor(alike)).tolist())  # they may lie apart
    unsure = replace(stack(alike, 20 * 0.6), record=StackRecord(focus_ranges=ranges))
    assert frames_for_depth(unsure) == [0, 1, 2, 3, 4]


def test_evenly_spaced_frames_are_two_pixels_of_blur_apart() -> None:
    """A hundred frames over 20 px of blur: one in five is a pixel apart, one in ten two; both ends stay."""
    inverse = [2.0 - 0.01 * i for i in range(101)]
    chosen = frames_for_depth(stack(inverse))
    assert chosen[0] == 0 and chosen[-1] == 100
    steps_px = [20.0 * (b - a) / 100 for a, b in pairwise(chosen)]
    assert all(LEAST_STEP_PX / 2 < step < 1.2 * LEAST_STEP_PX for step in steps_px)


def test_the_same_distances_twice_are_used_once() -> None:
    inverse = [u for step in range(5) for u in (2.0 - 0.2 * step, 1.999 - 0.2 * step)]
    assert frames_for_depth(stack(inverse)) == [0, 2, 4, 6, 9]


def test_apertures_that_differ_are_all_used() -> None:
    whole = stack([2.0 - 0.001 * i for i in range(20)])
    camera = Camera(0.01, torch.linspace(2, 8, 20), 1e-5)
    assert len(frames_for_depth(FocalStack(whole.images, whole.focus_distances, camera))) == 20


def test_a_lens_that_nobody_knows_may_have_the_widest_blur() -> None:
    whole = stack([2.0 - 0.01 * i for i in range(60)])
    chosen = frames_for_depth(FocalStack(whole.images, whole.focus_distances, RelativeLens(1.0)))
    assert 10 < len(chosen) < 16


def test_frames_left_out_lie_evenly_between_and_in_their_ranges() -> None:
    focus = 1 / torch.tensor([2.0, 1.9, 1.7, 1.6, 1.5], dtype=torch.float64)
    ranges = [(float(1 / (1 / d + 0.1)), float(1 / (1 / d - 0.1))) for d in focus]
    ranges[3] = (float(focus[3]), float(focus[3]))  # exactly known
    whole = FocalStack(
        torch.zeros(5, 1, 2, 2), focus, Camera(0.05, 2.0, 1e-5), record=StackRecord(focus_ranges=tuple(ranges))
    )
    found = spread_between(whole, [0, 2, 4], [1 / 2.02, 1 / 1.7, 1 / 1.48])
    assert [1 / d for d in found] == pytest.approx([2.02, 1.86, 1.7, 1.6, 1.48])
    part = with_frames(whole, [0, 2, 4])
    torch.testing.assert_close(part.focus_distances, focus[[0, 2, 4]])
    assert part.record.focus_ranges == tuple(ranges[i] for i in (0, 2, 4))
