"""The strongest colour against NumPy's eigenvectors, and what a sweep keeps of it."""

import numpy as np
import pytest
import torch

import focalsweep as fs
from focalsweep.sweep.colour import dominant_colour, project, project_to_dominant_colour


def textured(direction: list[float], seed: int = 0) -> torch.Tensor:
    """A stack whose texture lies along one colour direction, on grey."""
    texture = torch.rand((2, 3, 1, 64, 64), generator=torch.Generator().manual_seed(seed)) - 0.5
    return 0.5 + texture * torch.tensor(direction)[:, None, None]


def test_it_is_the_first_eigenvector_of_the_gradients() -> None:
    images = torch.rand((3, 4, 3, 48, 40), generator=torch.Generator().manual_seed(1)) ** 2
    images = images * torch.tensor([1.0, 0.6, 0.3])[:, None, None] + images.roll(1, 2) * 0.3
    found = dominant_colour(images).numpy()
    for stack, direction in zip(images.double().numpy(), found, strict=True):
        across = (stack[..., 0::2, 1::2] + stack[..., 1::2, 1::2] - stack[..., 0::2, 0::2] - stack[..., 1::2, 0::2]) / 2
        down = (stack[..., 1::2, 0::2] + stack[..., 1::2, 1::2] - stack[..., 0::2, 0::2] - stack[..., 0::2, 1::2]) / 2
        gradients = np.concatenate([part.transpose(1, 0, 2, 3).reshape(3, -1) for part in (across, down)], 1)
        _, vectors = np.linalg.eigh(gradients @ gradients.T)
        assert abs(abs(vectors[:, -1] @ direction) - 1) < 1e-4


@pytest.mark.parametrize("direction", [[0.2, 0.2, 0.2], [0.3, -0.3, 0.0], [0.0, 0.0, 0.4]])
def test_texture_of_one_colour_is_kept_whole(direction: list[float]) -> None:
    images = textured(direction)
    assert project(images, dominant_colour(images)).var() == pytest.approx(
        images.var((0, 1, 3, 4)).sum().item(), rel=2e-3
    )


def test_a_plain_picture_becomes_grey() -> None:
    direction = dominant_colour(torch.full((1, 2, 3, 16, 16), 0.4))
    assert torch.allclose(direction, torch.full((1, 3), 3**-0.5))


def test_grey_stacks_stay_as_they_are() -> None:
    stack = fs.FocalStack(torch.rand(3, 1, 16, 16), [0.5, 1.0, 2.0], fs.Camera(0.05, 2.8, 2e-5)).as_batch()
    assert project_to_dominant_colour(stack) is stack


def test_other_images_must_fit_the_stack() -> None:
    stack = fs.FocalStack(torch.rand(3, 1, 16, 16), [0.5, 1.0, 2.0], fs.Camera(0.05, 2.8, 2e-5))
    with pytest.raises(ValueError, match="frames and the size"):
        stack.with_images(torch.rand(2, 1, 16, 16))
