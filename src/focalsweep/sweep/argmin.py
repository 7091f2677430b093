"""The simplest reading of a sweep: the lowest cost, refined between planes, with the error bar the noise implies."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from focalsweep.progress import Progress
from focalsweep.sweep.costs import ReblurCost
from focalsweep.sweep.volume import bytes_a_plane, plan_sweep, sweep_tiles
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

# Both measured on ray-traced and rendered scenes (docs/physics.md), so that about 2/3 of the errors lie within one std.
INDEPENDENT_SHARE = 0.25  # of the window's pixels: residuals of one latent image are correlated
PLANE_ERROR = 0.1  # of the step between planes: what a parabola and a flat window leave, however low the noise


@dataclass(frozen=True, eq=False)
class Minimum:
    """The lowest cost of each pixel, all B H W."""

    plane: Tensor  # index of the lowest plane
    inverse_depth: Tensor  # refined by a parabola through it and its neighbours
    curvature: Tensor  # second derivative of the cost in inverse depth; 0 at the end planes
    lowest: Tensor  # the cost at the plane


def find_minimum(
    costs: Tensor,  # B D H W
    inverse_depths: Tensor,  # B D, near to far
) -> Minimum:
    """Lowest plane, then the vertex of the parabola through it and its neighbours in inverse depth (any spacing)."""
    planes = inverse_depths.to(costs, non_blocking=True)[:, :, None, None].expand_as(costs)
    lowest, plane = costs.min(1, keepdim=True)
    last = costs.shape[1] - 1
    before, after = (plane - 1).clamp_min(0), (plane + 1).clamp_max(last)
    u, u_before, u_after = (planes.gather(1, index)[:, 0] for index in (plane, before, after))
    rise_before, rise_after = (costs.gather(1, index)[:, 0] - lowest[:, 0] for index in (before, after))
    inner = (plane[:, 0] > 0) & (plane[:, 0] < last) & (rise_before + rise_after > 0)
    # With a, b the steps to the neighbours and A, B the rises there: vertex = u + (A b^2 - B a^2) / (2 (A b - B a)).
    a, b = u_before - u, u_after - u
    slope_sum = torch.where(inner, rise_before * b - rise_after * a, torch.ones_like(a))
    vertex = u + (rise_before * b * b - rise_after * a * a) / (2 * slope_sum)
    vertex = torch.where(inner, torch.minimum(torch.maximum(vertex, u_after), u_before), u)
    safe_a, safe_b = torch.where(inner, a, 1.0), torch.where(inner, b, -1.0)
    curvature = 2 * (rise_before / safe_a - rise_after / safe_b) / (safe_a - safe_b)
    return Minimum(plane[:, 0], vertex, torch.where(inner, curvature, 0.0), lowest[:, 0])


def posterior(
    costs: Tensor,  # B D H W, -2 log likelihood a pixel
    inverse_depths: Tensor,  # B D
    minimum: Minimum,
    pixels: float,
    expected: float,
) -> tuple[Tensor, Tensor]:
    """Standard deviation of inverse depth, and the probability of the chosen plane or a neighbour: B H W each.

    The window of the cost holds `pixels` independent pixels. Where even the best plane fits worse than noise does
    (`expected`), the model is wrong by that factor, and the likelihood is flattened by it.
    """
    planes = inverse_depths.to(costs, non_blocking=True)
    sharpness = pixels / (2 * (minimum.lowest / expected).clamp_min(1))
    weights = torch.softmax(-sharpness[:, None] * (costs - minimum.lowest[:, None]), dim=1)
    mean = torch.einsum("bdhw,bd->bhw", weights, planes)
    square = torch.einsum("bdhw,bd->bhw", weights, planes.square())
    spread = (square - mean.square()).clamp_min(0)
    step = planes.diff(dim=1).abs().amax(1)[:, None, None]
    within_plane = torch.minimum(1 / (2 * sharpness * minimum.curvature).clamp_min(1e-30), step.square() / 3)
    near = torch.stack([(minimum.plane + k).clamp(0, costs.shape[1] - 1) for k in (-1, 0, 1)], 1)
    inside = torch.stack([minimum.plane > 0, minimum.plane >= 0, minimum.plane < costs.shape[1] - 1], 1)
    confidence = (weights.gather(1, near) * inside).sum(1)
    return torch.sqrt(spread + within_plane + (PLANE_ERROR * step).square()), confidence.clamp(0, 1)


def argmin_depth(
    stack: FocalStack,
    planes: DepthGrid,
    cost: ReblurCost | None = None,
    *,
    workspace: int | None = None,
    progress: Progress | None = None,
) -> DepthPrediction:
    """Depth of a batched stack from the lowest re-blur cost alone; never holds more of the volume than a tile."""
    cost = cost or ReblurCost(squash=False)
    batch, _, _, height, width = stack.images.shape
    maps = [stack.images.new_empty((batch, height, width)) for _ in range(3)]
    plan = plan_sweep(stack, planes, cost, "mirror", _for_planes(workspace, stack, planes))
    for tile, costs in sweep_tiles(stack, plan, cost, progress=progress):
        rows, columns = tile.core
        for whole, part in zip(maps, read_costs(stack, planes, cost, costs), strict=True):
            whole[:, rows, columns] = part
    return DepthPrediction(*maps)


def read_costs(
    stack: FocalStack,
    planes: DepthGrid,
    cost: ReblurCost,
    costs: Tensor,  # B D h w, of all of a batched stack or of a tile
) -> tuple[Tensor, Tensor, Tensor]:
    """Depth, its standard deviation and confidence from the lowest cost alone: B h w each."""
    batch, frames, channels = stack.images.shape[:3]
    inverse_depths = planes.as_batch(batch)
    minimum = find_minimum(costs, inverse_depths)
    # F C residuals a pixel, of which the latent image takes up C.
    pixels = INDEPENDENT_SHARE * cost.effective_pixels
    spread, sure = posterior(costs, inverse_depths, minimum, pixels, (frames - 1) * channels)
    return 1 / minimum.inverse_depth, spread / minimum.inverse_depth.square(), sure


def _for_planes(workspace: int | None, stack: FocalStack, planes: DepthGrid) -> int | None:
    """The share of a bound for planes at work; the rest is for a tile's costs and the weights made of them."""
    if workspace is None:
        return None
    work = 2 * bytes_a_plane(stack.images, (1, 1))
    costs = 5 * planes.count * len(stack.images) * stack.images.element_size()
    return max(1, workspace * work // (work + costs))
