"""Refocusing against the lens's closed form and against frames that Mitsuba rendered."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from focalsweep import Camera, DepthResult, RelativeLens
from focalsweep.lenses import StageLens
from focalsweep.optics.thin_lens import coc_px
from focalsweep.results.refocus import refocus
from focalsweep.types import Lens
from tests.demo import demo_stack
from tests.errors import message_of
from tests.unit.results.scenes import scene

CAMERA = Camera(0.05, 4.0, 5e-5)


def point_and_plane(depth: float) -> tuple[torch.Tensor, torch.Tensor]:
    image = torch.zeros(1, 65, 65, dtype=torch.float64)
    image[0, 32, 32] = 1
    return image, torch.full((65, 65), depth, dtype=torch.float64)


def test_in_focus_nothing_changes() -> None:
    image = torch.rand(3, 40, 50, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(refocus(image, torch.full((40, 50), 0.7), CAMERA, 0.7), image, atol=1e-5)


@pytest.mark.parametrize(("depth", "focus"), [(0.7, 0.5), (0.5, 0.9), (1.0, math.inf), (math.inf, 1.5)])
def test_a_point_becomes_the_disk_of_the_lens(depth: float, focus: float) -> None:
    """Its variance on each axis is that of a disk, coc^2 / 16 (and a pixel's own 1/12, within a tenth)."""
    image, plane = point_and_plane(depth)
    spread = refocus(image, plane, CAMERA, focus)[0].numpy()
    across = np.arange(65) - 32.0
    variance = float((spread.sum(0) * across**2).sum() / spread.sum())
    coc = float(coc_px(min(depth, 1e4), focus, CAMERA))
    assert coc > 4
    assert variance == pytest.approx(coc**2 / 16, abs=0.1 + 0.02 * coc**2 / 16)


def test_magnified_as_the_picture_was() -> None:
    image, plane = point_and_plane(0.7)
    as_taken = refocus(image, plane, CAMERA, 0.5)
    same = refocus(image, plane, CAMERA, 0.5, projection_distance=0.05 * 0.5 / 0.45)
    wider = refocus(image, plane, CAMERA, 0.5, projection_distance=0.1)
    assert torch.allclose(as_taken, same, atol=1e-9)
    assert float(wider.max()) < 0.6 * float(as_taken.max())


def test_no_depth_counts_as_far() -> None:
    image = torch.rand(1, 30, 30, generator=torch.Generator().manual_seed(2))
    depth = torch.full((30, 30), 0.5)
    depth[:, 15:] = torch.nan
    depth[0, 0] = math.inf
    assert bool(torch.isfinite(refocus(image, depth, CAMERA, 0.5)).all())
    assert "no pixel" in message_of(lambda: refocus(image, depth * torch.nan, CAMERA, 0.5), ValueError)


def test_mitsuba_frames_come_back() -> None:
    """From the frame with the least blur and the true depth: nearer to the frame of that focus than to any other."""
    demo = demo_stack()
    stack = demo.stack
    picked = (demo.depth[None] - stack.focus_distances[:, None, None]).abs().argmin(0)
    sharp = stack.images.gather(0, picked[None, None].expand(1, 3, -1, -1))[0]
    window = np.s_[..., 100:260, 150:350]
    for frame in (1, 5):
        again = refocus(
            sharp[window], demo.depth[window], stack.camera, float(stack.focus_distances[frame]),
            projection_distance=0.05,
        )  # fmt: skip
        errors = (again - stack.images[window]).abs().mean((1, 2, 3))
        assert int(errors.argmin()) == frame
        assert float(errors[frame]) < 0.75 * float(errors[[frame - 1, frame + 1]].min())


def spread_of(picture: np.ndarray) -> float:
    """The variance of a point's picture along the rows."""
    across = np.arange(picture.shape[1]) - picture.shape[1] // 2
    line = picture[..., 0].sum(0)
    return float((line * across**2).sum() / line.sum())


def point(lens: Lens, depth: float, **changes: Any) -> DepthResult:
    image, plane = point_and_plane(depth)
    plane[0] = 0.45  # a row that is nearer, so that the scene has a range
    return scene(1 / plane.numpy(), all_in_focus=image.movedim(0, -1).float().numpy(), camera=lens, **changes)


def test_a_result_has_the_blur_of_its_lens_aperture_and_magnification() -> None:
    result = point(CAMERA, 0.7)
    blurred = result.refocus(0.5)
    coc = float(coc_px(0.7, 0.5, CAMERA))
    assert spread_of(blurred) == pytest.approx(coc**2 / 16, abs=0.1 + 0.03 * coc**2 / 16)
    for changes in ({"f_number": 2.0}, {"widen": 2.0}):
        assert spread_of(result.refocus(0.5, **changes)) == pytest.approx(4 * coc**2 / 16, rel=0.05)
    closer = point(CAMERA, 0.7, projection_distance=0.1)
    wider = coc * 0.1 / (0.05 * 0.5 / 0.45)
    assert spread_of(closer.refocus(0.5)) == pytest.approx(wider**2 / 16, rel=0.05)
    np.testing.assert_allclose(result.refocus(0.7)[1:], result.all_in_focus[1:], atol=1e-3)


def test_a_stage_and_a_lens_without_unit_refocus_too() -> None:
    relative = point(RelativeLens(12.0), 0.7)
    assert spread_of(relative.refocus(0.5)) == pytest.approx((12 * (1 / 0.5 - 1 / 0.7)) ** 2 / 16, rel=0.05)
    lens = StageLens(96.0, 3e-4, 1e-5)
    stage = point(lens, 0.7)
    stage = replace(stage, depth=np.where(np.arange(65)[:, None] > 0, 2e-5, 6e-5) * np.ones((1, 65), np.float32))
    assert spread_of(stage.refocus(5e-5)) == pytest.approx((96 * 3e-5 / 3e-4) ** 2 / 16, rel=0.05)


def test_a_tilted_focus_keeps_a_leaning_plane_sharp() -> None:
    """A ground plane, near at the lower edge: with tilt 1 all of it is in focus, with -1 less than without."""
    ramp = np.linspace(0.5, 2.0, 64)[:, None] * np.ones((1, 64))
    sharp = np.random.default_rng(0).random((64, 64, 3)).astype(np.float32)
    result = scene(ramp, all_in_focus=sharp, camera=RelativeLens(10.0))
    lost = [float(np.abs(result.refocus(share=0.5, tilt=tilt) - sharp).mean()) for tilt in (1.0, 0.0, -1.0)]
    assert lost[0] < 0.1 * lost[1]
    assert lost[1] < lost[2]
