"""A plane rendered without any of the sweep's own machinery is found where it was put, for three cameras."""

import math

import numpy as np
import pytest
import torch

from focalsweep import DepthGrid, PaperCost, ReblurCost, cost_volume, estimate_depth
from tests.rendering import RIGS, RenderedPlane, render_plane

TRUE_PLANES = (6, 14, 22, 32, 42, 52)  # of 64: before the nearest focus distance, near the ends, in the middle


def scene(rig: str, plane: int, **more: float) -> tuple[RenderedPlane, DepthGrid]:
    """The plane rendered exactly at plane number `plane` of the default grid."""
    any_depth = render_plane(rig, 1.0, size=24)
    planes = DepthGrid.around(any_depth.stack)
    return render_plane(rig, planes.depths[plane].item(), **more), planes


def plane_errors(rendered: RenderedPlane, planes: DepthGrid, cost: PaperCost | ReblurCost, plane: int) -> torch.Tensor:
    """How many planes the lowest cost is off, at the textured pixels."""
    lowest = cost_volume(rendered.stack, planes, cost).argmin(0)
    return (lowest - plane).abs()[rendered.textured].float()


@pytest.mark.parametrize("rig", RIGS)
def test_lowest_cost_is_at_the_true_depth(rig: str) -> None:
    reblur, paper = [], []
    for plane in TRUE_PLANES:
        rendered, planes = scene(rig, plane)
        assert rendered.textured.float().mean() > 0.5
        ours, theirs = (plane_errors(rendered, planes, cost, plane) for cost in (ReblurCost(), PaperCost()))
        within = (ours <= 2).float().mean().item()
        print(
            f"{rig:6} plane {plane:2} at {rendered.depth:.3f} m: reblur {100 * within:5.1f} % within 2 planes, "
            f"mean error {ours.mean():.3f} planes; "
            f"paper {100 * (theirs <= 2).float().mean():5.1f} %, {theirs.mean():.3f}"
        )
        assert within > 0.95, f"plane {plane}"
        reblur.append(ours.mean().item())
        paper.append(theirs.mean().item())
    print(f"{rig:6} mean error: reblur {np.mean(reblur):.3f} planes, paper {np.mean(paper):.3f}")
    assert np.mean(reblur) < 0.5 * np.mean(paper)


def test_recovery_fails_with_the_wrong_camera() -> None:
    """The check above can fail: with twice the f-number the depth is another."""
    rendered, planes = scene("dslr", 52)
    wrong = type(rendered.stack.camera)(50e-3, 5.6, 6e-5)
    stack = type(rendered.stack)(rendered.stack.images, rendered.stack.focus_distances, wrong)
    errors = plane_errors(RenderedPlane(stack, rendered.sharp, rendered.depth), planes, ReblurCost(), 52)
    assert (errors <= 2).float().mean() < 0.95


def test_error_bars_cover_the_truth() -> None:
    """Over all rendered planes: about two thirds of the pixels within one std, most within two."""
    scores = []
    for rig in RIGS:
        for plane in TRUE_PLANES[1:-1]:
            rendered, planes = scene(rig, plane)
            result = estimate_depth(rendered.stack, "argmin", planes=planes)
            z = np.abs(result.depth - rendered.depth) / result.std
            scores.append(z[rendered.textured.numpy()])
    pooled = np.concatenate(scores)
    one, two = (pooled < 1).mean(), (pooled < 2).mean()
    print(f"error bars: {100 * one:.1f} % within one std, {100 * two:.1f} % within two")
    assert 0.5 < one < 0.9
    assert two > 0.85


def psnr(picture: torch.Tensor, truth: torch.Tensor, border: int = 12) -> float:
    inner = slice(border, -border)
    return -10 * math.log10((picture - truth)[..., inner, inner].square().mean().item())


@pytest.mark.parametrize("rig", RIGS)
@pytest.mark.parametrize("plane", [14, 32, 47])
def test_all_in_focus_is_as_sharp_as_the_frame_in_focus(rig: str, plane: int) -> None:
    rendered, planes = scene(rig, plane)
    result = estimate_depth(rendered.stack, "argmin", planes=planes)
    ours = psnr(torch.from_numpy(result.all_in_focus).movedim(-1, 0), rendered.sharp)
    frames = [psnr(frame, rendered.sharp) for frame in rendered.stack.images]
    print(
        f"{rig:6} plane {plane}: all in focus {ours:.1f} dB, frames {', '.join(f'{value:.1f}' for value in frames)} dB"
    )
    *others, second, best = sorted(frames)
    assert ours > best - 1.6  # a pixel between two frames is mixed from both
    assert ours > max(others) + 2 and ours > second
