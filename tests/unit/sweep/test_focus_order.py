"""Which way a stack runs: by where things are sharp in the picture, else by how focus breathes."""

import pytest
import torch

from focalsweep import FocalStack, RelativeLens
from focalsweep.sweep.costs import gaussian_blur
from focalsweep.sweep.focus_order import find_direction


def floor(upwards: bool, magnification: list[float] | None = None, flat: bool = False) -> FocalStack:
    """Noise that is sharp in one band of rows a frame, from the bottom to the top of the picture."""
    picture = torch.rand((1, 120, 160), generator=torch.Generator().manual_seed(3))
    blurred = gaussian_blur(picture, 3.0)
    frames = []
    for i in range(4):
        band = torch.zeros(1, 120, 160, dtype=torch.bool)
        rows = slice(90 - 30 * i, 120 - 30 * i)
        band[:, rows] = True
        if flat:
            band = torch.zeros_like(band).transpose(1, 2)
            band[:, 40 * i : 40 * i + 40] = True
            band = band.transpose(1, 2)
        frames.append(torch.where(band, picture, blurred))
    images = torch.stack(frames if upwards else frames[::-1])
    return FocalStack(images, [1.0, 1.2, 1.5, 2.0], RelativeLens(20.0), magnification or 1.0).as_batch()


@pytest.mark.parametrize("upwards", [True, False])
def test_what_is_near_lies_lower(upwards: bool) -> None:
    found = find_direction(floor(upwards))
    assert found.near_to_far is upwards
    assert "lower in the picture" in found.sentence
    assert f'order="{"far-to-near" if upwards else "near-to-far"}"' in found.sentence


@pytest.mark.parametrize(("by", "near_to_far"), [([0.98, 0.99, 1.0, 1.01], True), ([1.03, 1.02, 1.01, 1.0], False)])
def test_else_breathing_tells(by: list[float], near_to_far: bool) -> None:
    assert find_direction(floor(True, by, flat=True)).near_to_far is near_to_far


def test_else_nothing_does() -> None:
    found = find_direction(floor(True, flat=True))
    assert found.near_to_far is None
    assert "near to far is assumed" in found.sentence
