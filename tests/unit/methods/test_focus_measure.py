"""The focus measure: closed forms of the peak and the smoothing, and planes at known depths."""

import math

import numpy as np
import pytest
import torch

from focalsweep import Camera, DepthGrid, FocalStack, Options, estimate_depth
from focalsweep.methods import focus_measure
from focalsweep.methods.focus_measure import EDGE_STEP, fit_peak, pick, sharpness, smooth
from tests.rendering import RIGS, render_plane


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 4, 1, 2]])
def test_a_gaussian_is_found_exactly(order: list[int]) -> None:
    """Its top and its width, between uneven frames in any order."""
    focus = torch.tensor([[0.5, 0.8, 1.5, 2.0, 3.0]], dtype=torch.float64)[:, order]
    top = torch.tensor([[0.85, 1.2], [1.7, 2.3]], dtype=torch.float64)[None]
    width = 0.6
    sharp = 3 * torch.exp(-(focus[:, :, None, None] - top[:, None]).square() / (2 * width**2))
    peak = fit_peak(sharp, focus)
    torch.testing.assert_close(peak.inverse_depth, top)
    torch.testing.assert_close(peak.width, torch.full_like(top, width))
    nearest = (focus[:, :, None, None] - top[:, None]).abs().argmin(1)
    assert torch.equal(peak.frame, nearest)


def test_peaks_at_the_ends_are_the_ends() -> None:
    focus = torch.tensor([[0.5, 1.0, 2.0]], dtype=torch.float64)
    rising = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).reshape(1, 3, 1, 1)
    for sharp, end in ((rising, 2.0), (rising.flip(1), 0.5), (rising[:, :2], 1.0)):
        peak = fit_peak(sharp.expand(-1, -1, 4, 4), focus[:, : sharp.shape[1]])
        assert (peak.inverse_depth == end).all()
        assert torch.isfinite(peak.width).all() and (peak.width > 0).all()


def test_blur_lowers_sharpness_and_flatness_has_none() -> None:
    sharp = render_plane("dslr", 1.4, size=48, noise_std=0.0).stack.images[None].clamp(0, 1)
    values = sharpness(sharp).mean((2, 3))[0]
    assert values.argmax() == 2  # focused at 1.4 m
    assert (values[:3].diff() > 0).all() and (values[2:].diff() < 0).all()
    assert sharpness(torch.full((1, 2, 3, 8, 8), 0.5)).max().item() == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize(("rig", "depth"), [("phone", 0.4), ("dslr", 1.3), ("paper", 0.25)])
def test_rendered_planes(rig: str, depth: float) -> None:
    rendered = render_plane(rig, depth, size=64)
    result = estimate_depth(rendered.stack, "focus_measure", planes=DepthGrid.around(rendered.stack, 16))
    error = np.abs(result.depth - depth)[rendered.textured.numpy()] / depth
    print(f"{rig} at {depth} m: median {np.median(result.depth):.4f} m, AbsRel {error.mean():.4f}")
    assert np.median(result.depth) == pytest.approx(depth, rel=0.06)
    assert error.mean() < 0.08
    assert result.confidence.min() >= 0 and result.confidence.max() <= 1 and np.median(result.confidence) > 0.5
    assert np.isfinite(result.std).all() and (result.std > 0).all()


def test_it_answers_between_the_focus_distances_only() -> None:
    rendered = render_plane("dslr", 4.5, size=48)  # beyond the farthest
    result = estimate_depth(rendered.stack, "focus_measure", planes=DepthGrid.around(rendered.stack, 16))
    ends = RIGS["dslr"].focus_distances
    assert ends[0] * 0.999 <= result.depth.min() and result.depth.max() <= ends[-1] * 1.001
    assert np.median(result.depth) > 0.9 * ends[-1]


def test_infinity_and_a_batch() -> None:
    images = torch.rand((2, 3, 1, 40, 24), generator=torch.Generator().manual_seed(0))
    stack = FocalStack(images, (0.5, 2.0, math.inf), Camera(0.05, 2.8, 6e-5)).as_batch()
    both = focus_measure.focus_measure_depth(stack, DepthGrid.around(stack, 8), Options())
    assert not torch.isnan(both.depth).any() and (both.depth >= 0.5 - 1e-6).all()
    for i in range(2):
        alone = focus_measure.focus_measure_depth(stack.one_of_batch(i), DepthGrid.around(stack, 8), Options())
        torch.testing.assert_close(1 / alone.depth[0], 1 / both.depth[i], rtol=0, atol=0.02)


def test_smoothing_solves_its_equations() -> None:
    """Against a dense solution of the normal equations."""
    generator = torch.Generator().manual_seed(0)
    values, trust = (torch.rand((1, 5, 6), generator=generator, dtype=torch.float64) for _ in range(2))
    guide = torch.rand((1, 3, 5, 6), generator=generator, dtype=torch.float64)
    found = smooth(values, trust, guide, smoothness=0.7)
    matrix, index = torch.diag(trust.flatten()), torch.arange(30).reshape(5, 6)
    for (a, b), dim in (((index[:, :-1], index[:, 1:]), -1), ((index[:-1], index[1:]), -2)):
        step = guide.diff(dim=dim).abs().mean(1)[0]
        for i, j, w in zip(
            a.flatten(), b.flatten(), (0.7 * torch.exp(-step / EDGE_STEP) + 1e-6).flatten(), strict=True
        ):
            matrix[i, i] += w
            matrix[j, j] += w
            matrix[i, j] -= w
            matrix[j, i] -= w
    expected = torch.linalg.solve(matrix, (trust * values).flatten()).reshape(1, 5, 6)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-3)


def test_smoothing_fills_up_to_the_edges_of_the_picture() -> None:
    values, trust = torch.zeros(1, 64, 64), torch.zeros(1, 64, 64)
    values[..., 32:] = 1.0
    trust[:, 30:34, [5, 58]] = 1.0  # a few pixels on either side know
    values[trust == 0] = 0.5  # the others guess, and are not trusted
    guide = torch.zeros(1, 3, 64, 64)
    guide[..., 32:] = 1.0
    filled = smooth(values, trust, guide)
    assert filled[..., :31].max() < 0.05 and filled[..., 33:].min() > 0.95


def test_pick_takes_each_pixel_from_its_frame() -> None:
    images = torch.arange(2 * 3 * 1 * 2 * 2, dtype=torch.float32).reshape(2, 3, 1, 2, 2)
    frame = torch.tensor([[[0, 1], [2, 0]], [[2, 2], [1, 0]]])
    picked = pick(images, frame)
    for b in range(2):
        for i in range(2):
            for j in range(2):
                assert picked[b, 0, i, j] == images[b, frame[b, i, j], 0, i, j]
