"""Agreement with sharpness: small for the true depth, large for a wrong one."""

import pytest
import torch

from focalsweep.evaluation.real import sharpness_agreement
from focalsweep.types import FocalStack
from tests.demo import demo_stack


@pytest.fixture(scope="module")
def stack() -> FocalStack:
    return demo_stack().stack


def test_true_depth_lies_where_frames_are_sharpest(stack: FocalStack) -> None:
    found = sharpness_agreement(stack, demo_stack().depth.float())
    assert found["pixels"] > 1000
    assert found["median_spacings"] < 0.25
    assert found["within_half_a_spacing"] > 0.7


def test_depth_one_frame_off_is_told(stack: FocalStack) -> None:
    truth = demo_stack().depth.float()
    spacing = float((1 / stack.focus_distances).diff().abs().mean())
    found = sharpness_agreement(stack, 1 / (1 / truth + spacing))
    assert found["median_spacings"] == pytest.approx(1, abs=0.35)
    assert found["median_dioptres"] == pytest.approx(spacing, rel=0.3)


def test_without_texture_nothing_is_said(stack: FocalStack) -> None:
    flat = stack.with_images(torch.full_like(stack.images, 0.5))
    assert sharpness_agreement(flat, torch.ones(stack.size)) == {"pixels": 0.0}
