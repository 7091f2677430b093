"""Photos that do not belong to a stack."""

import torch
from torch import Tensor

from focalsweep import FocalStack
from focalsweep.sweep.odd_frames import odd_frames
from tests.rendering import random_texture
from tests.unit.sweep.test_fit import small_demo

NAMES = [f"{letter}.jpg" for letter in "abcdefg"]


def found(images: Tensor) -> dict[str, str]:
    stack = small_demo().with_images(images)
    return {name: str(sentence) for name, sentence in odd_frames(stack, 0.005, NAMES)}


def test_nothing_is_odd_about_the_demo() -> None:
    assert found(small_demo().images) == {}


def test_the_same_photo_saved_twice() -> None:
    images = small_demo().images.clone()
    images[:, 2] = images[:, 1] + 1e-4 * torch.randn(images[:, 1].shape, generator=torch.Generator().manual_seed(0))
    assert "b.jpg and c.jpg are the same photo" in found(images)["same"]


def test_one_photo_many_times() -> None:
    images = small_demo().images[:, :1].expand_as(small_demo().images)
    assert "same" in found(images)


def test_noise_alone_is_no_copy() -> None:
    """Two photos at nearly one focus are worth having."""
    images = small_demo().images.clone()
    images[:, 2] = images[:, 1] + 0.005 * torch.randn(images[:, 1].shape, generator=torch.Generator().manual_seed(0))
    assert "same" not in found(images)


def test_another_scene() -> None:
    images = small_demo().images.clone()
    images[0, 6, 0] = random_texture(*images.shape[-2:], channels=1, seed=5)[0]
    assert found(images).keys() == {"scene"}
    assert "g.jpg show another scene" in found(images)["scene"]


def test_photos_of_nothing_in_common() -> None:
    images = small_demo().images.clone()
    for i in range(7):
        images[0, i, 0] = random_texture(*images.shape[-2:], channels=1, seed=i)[0]
    assert "do not show one scene" in found(images)["scene"]


def test_a_thing_that_moved_is_told_with_its_place() -> None:
    images = small_demo().images.clone()
    rows, columns = slice(40, 90), slice(50, 110)
    images[..., 4, :, rows, 62:122] = small_demo().images[..., 4, :, rows, columns]
    sentence = found(images)["moved"]
    print(sentence)
    assert "most in e.jpg" in sentence


def test_exposure_alone_does_not_move_things() -> None:
    images = small_demo().images.clone()
    images[:, 3] *= 1.2
    assert found(images) == {}


def test_a_black_frame_is_no_crash() -> None:
    images = small_demo().images.clone()
    images[:, 3] = 0
    found(images)
    assert isinstance(small_demo(), FocalStack)
