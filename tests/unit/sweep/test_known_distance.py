"""A measured distance at one pixel sets the scale."""

import math

import numpy as np
import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack, RelativeLens
from focalsweep.errors import InputError
from focalsweep.sweep.known_distance import (
    KnownDistance,
    check_known_distance,
    read_known_distance,
    rescaled_grid,
    rescaling,
)


def stack_of(distances: list[float]) -> FocalStack:
    stops = torch.linspace(2.8, 8, len(distances))
    return FocalStack(torch.rand(len(distances), 1, 8, 8), distances, Camera(0.035, stops, 3e-5))


DEPTH = np.repeat(np.array([[0.5, 1.0, 2.0, np.inf]], np.float32), 5, 1).repeat(20, 0)  # 20 20
STD, SURE = 0.01 * np.where(np.isfinite(DEPTH), DEPTH, 1), np.ones_like(DEPTH)


def test_all_lengths_are_scaled() -> None:
    by = rescaling(KnownDistance(1.2, 7, 10), DEPTH, STD, SURE, stack_of([0.5, 2.0]))
    depth, std = by.depth_and_std(DEPTH, STD)
    assert depth[10, [0, 7, 12, 18]] == pytest.approx([0.6, 1.2, 2.4, math.inf])
    assert std[10, 7] == pytest.approx(1.2 * math.hypot(0.01, 0.01))
    planes = DepthGrid.uniform_in_inverse_depth(0.5, math.inf, 8)
    assert rescaled_grid(planes, by).depths.tolist() == pytest.approx((1.2 * planes.depths).tolist())


def test_of_one_focus_the_growth_of_blur_is_set() -> None:
    """The plane in focus stays where it is."""
    by = rescaling(KnownDistance(1.6, 12, 10), DEPTH, STD, SURE, stack_of([1.0, 1.0]))
    depth, _ = by.depth_and_std(DEPTH, STD)
    assert depth[10, [7, 12]] == pytest.approx([1.0, 1.6])
    assert 1 / depth[10, 0] == pytest.approx(1 + (1 - 1 / 1.6) / 0.5)
    planes = rescaled_grid(DepthGrid.uniform_in_inverse_depth(0.5, 20, 8), rescaling(
        KnownDistance(4.0, 12, 10), DEPTH, STD, SURE, stack_of([1.0, 1.0])))  # fmt: skip
    assert math.isinf(float(planes.depths[-1]))
    with pytest.raises(InputError, match="on the other side of the focus"):
        rescaling(KnownDistance(0.8, 12, 10), DEPTH, STD, SURE, stack_of([1.0, 1.0]))


def test_points_that_set_nothing() -> None:
    stack = stack_of([0.5, 2.0])
    with pytest.raises(InputError, match="the sharp picture has 20 x 20 px"):
        rescaling(KnownDistance(1, 20, 3), DEPTH, STD, SURE, stack)
    with pytest.raises(InputError, match="not sure enough"):
        rescaling(KnownDistance(1, 5, 5), DEPTH, STD, 0 * SURE, stack)
    with pytest.raises(InputError, match="not sure enough"):
        rescaling(KnownDistance(1, 18, 5), DEPTH, STD, SURE, stack)
    with pytest.raises(InputError, match="without focus distances in metres"):
        check_known_distance(FocalStack(stack.images, [1.0, 2.0], RelativeLens(10.0)))


def test_how_it_is_written() -> None:
    assert read_known_distance("0.50@320,240.5") == KnownDistance(0.5, 320, 240.5)
    assert read_known_distance(None) is None
    for text in ("0.5", "0@1,2", "0.5@1", "a@1,2", "-1@2,3"):
        with pytest.raises(InputError, match="metres and a pixel"):
            read_known_distance(text)
