"""What a network is asked for: the cost volume, the picture it reads beside it, and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.methods.paper import within_blur
from focalsweep.methods.sweep import smooth_uncertain
from focalsweep.model.papernet import paper_loss
from focalsweep.model.regression import soft_argmin
from focalsweep.model.sweepnet import SweepOutput
from focalsweep.optics.light import linear_to_srgb
from focalsweep.sweep.colour import project_to_dominant_colour
from focalsweep.sweep.costs import Cost, ReblurCost, find_cost
from focalsweep.sweep.frames import focused_picture, sharpest_frames
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import DepthGrid
from focalsweep_research.synthesis.sample import Sample

Figures = dict[str, Tensor]
DEPTH_END = 20.0  # times the nearest plane: errors of depth mean little beyond, and infinity is no error
RELATIVE_WEIGHT = 4.0
EDGE_PLANES, EDGE_PX, EDGE_WEIGHT = 2.0, 9, 2.0  # a jump, how wide a strip around it counts more, by how much
WHOLE_WEIGHT = 0.5  # of what is said of the whole picture, beside its part
GUIDELESS = 0.15  # share of parts that are read without a guide, as if they were the whole


@dataclass(frozen=True, eq=False)
class Reading:
    """What a network saw beside the costs, and what it said."""

    picture: Tensor  # B 3 H W, sRGB in 0..1
    position: Tensor  # B H W, 0..1 over the planes
    scale: Tensor | None  # B H W: the error it expects, in the same unit, where the network says so


def swept(sample: Sample, cost: str | Cost) -> Tensor:
    """The cost volume B D H W; re-blur reads one channel (see `sweep.colour`), the paper's cost all three."""
    stack, cost = sample.stack.as_batch(), find_cost(cost)
    return cost_volume(
        project_to_dominant_colour(stack) if isinstance(cost, ReblurCost) else stack, sample.planes, cost
    )


def network_inputs(sample: Sample, cost: str | Cost) -> tuple[Tensor, Tensor]:
    """The picture (B 3 H W, sRGB about 0) and the cost volume (B D H W) of a batch; no gradient goes through them."""
    with torch.no_grad(), torch.autocast(sample.depth.device.type, enabled=False):
        volume = swept(sample, cost)
        picture = focused_picture(sample.stack.as_batch(), sample.planes, volume.argmin(1))
        return linear_to_srgb(picture) - 0.5, volume


def plane_ends(sample: Sample) -> tuple[Tensor, Tensor]:
    """Inverse depths of the nearest and the farthest plane, B 1 1 each."""
    planes = sample.planes.as_batch(len(sample.depth)).to(sample.depth, non_blocking=True)
    return planes[:, 0, None, None], planes[:, -1, None, None]


def true_position(sample: Sample) -> Tensor:  # B H W
    """Where the true depth lies among the planes, 0 (nearest) to 1; none where it is not known."""
    near, far = plane_ends(sample)
    if uniform_in_depth(sample.planes):
        return ((sample.depth - 1 / near) / (1 / far - 1 / near)).clamp(0, 1)
    return ((near - 1 / sample.depth) / (near - far)).clamp(0, 1)


def depth_at(position: Tensor, sample: Sample) -> Tensor:
    """Positions 0..1 over the planes, B H W, as metres."""
    near, far = plane_ends(sample)
    if uniform_in_depth(sample.planes):
        return 1 / near + position * (1 / far - 1 / near)
    return 1 / (near + position * (far - near))


def uniform_in_depth(planes: DepthGrid) -> bool:
    """Whether the steps between planes are equal in metres (the paper's) and not in inverse depth (ours)."""
    steps = planes.depths.diff(dim=-1)
    return torch.allclose(steps, steps.mean(-1, keepdim=True).expand_as(steps), rtol=1e-4, atol=0)


def sweep_loss(output: SweepOutput, sample: Sample) -> tuple[Tensor, Figures]:
    """Cross-entropy of the coarse distribution, L1 of its mean, the Laplace likelihood and the relative error of depth.

    Errors count in steps between planes, so that the terms mean the same for any number of them. The relative error,
    |d' - d| / d = |u - u'| / u', makes far pixels count: a step there is more metres.
    """
    position, steps = true_position(sample), output.logits.shape[1] - 1
    known = torch.isfinite(position)
    position = position.where(known, 0)
    weight = known * (1 + EDGE_WEIGHT * near_edges(position * steps))

    def mean(values: Tensor, counted: Tensor = weight) -> Tensor:
        return (values * counted).sum() / counted.sum().clamp_min(1)

    error = (output.position - position).abs() * steps
    scale = output.scale * steps
    likelihood = mean(error / scale + torch.log(scale))
    coarse = mean((output.coarse - position).abs() * steps)
    middle = position[:, 1::4, 1::4]  # one of the four pixels in the middle of each cell
    logits = output.logits[..., : middle.shape[1], : middle.shape[2]]
    entropy = mean(plane_cross_entropy(logits, middle), known[:, 1::4, 1::4])
    near, far = plane_ends(sample)
    inverse, true = (near + p * (far - near) for p in (output.position, position))
    relative = mean(((inverse - true).abs() / torch.maximum(inverse, near / DEPTH_END)).clamp_max(1))
    loss = likelihood + 0.1 * coarse + entropy + RELATIVE_WEIGHT * relative
    return loss, {
        "likelihood": likelihood,
        "coarse": coarse,
        "entropy": entropy,
        "relative": relative,
        "error_planes": mean(error, known),
    }


def near_edges(plane: Tensor) -> Tensor:  # B H W, 0 or 1
    """Where what is in sight jumps by more than EDGE_PLANES planes from a pixel to the next, and the strip around."""
    high, low = (sign * functional.max_pool2d(sign * plane[:, None], 3, stride=1, padding=1) for sign in (1, -1))
    jump = (high - low > EDGE_PLANES).to(plane)
    return functional.max_pool2d(jump, EDGE_PX, stride=1, padding=EDGE_PX // 2)[:, 0]


def plane_cross_entropy(logits: Tensor, position: Tensor) -> Tensor:  # B h w
    """Against a distribution on the two planes around the true position, B h w in 0..1."""
    last = logits.shape[1] - 1
    plane = position * last
    below = plane.floor().clamp(0, last - 1)
    share = plane - below
    log = functional.log_softmax(logits, 1)
    first = log.gather(1, below[:, None].long())[:, 0]
    second = log.gather(1, below[:, None].long() + 1)[:, 0]
    return -(first * (1 - share) + second * share)


class SweepObjective:
    """(network, sample) -> loss and figures, for `training.loop.train`."""

    def __init__(self, cost: str | Cost = "reblur") -> None:
        self.cost = cost

    def __call__(self, network: Any, sample: Sample) -> tuple[Tensor, Figures]:
        guide, loss_of_whole = None, torch.zeros((), device=sample.depth.device)
        if sample.whole is not None:
            picture, volume = network_inputs(sample.whole, self.cost)
            output = network(picture, volume)
            loss_of_whole, _ = sweep_loss(output, sample.whole)
            guide = without_some(guide_of_part(output, sample))
        picture, volume = network_inputs(sample, self.cost)
        output = network(picture, volume, guide=guide)
        loss, figures = sweep_loss(output, sample)
        figures |= {"abs_rel": abs_rel(output.position, sample)}
        return loss + WHOLE_WEIGHT * loss_of_whole, figures

    def read(self, network: Any, sample: Sample) -> Reading:
        guide = None
        if sample.whole is not None:
            guide = guide_of_part(network(*network_inputs(sample.whole, self.cost)), sample)
        picture, volume = network_inputs(sample, self.cost)
        output = network(picture, volume, guide=guide)
        stack = sample.stack.as_batch()
        frames = sharpest_frames(stack, sample.planes).to(picture.device, non_blocking=True)
        answer = smooth_uncertain(stack.images, frames, torch.stack([output.position, output.scale], 1))
        return Reading(picture + 0.5, answer[:, 0], answer[:, 1])


def guide_of_part(output: SweepOutput, sample: Sample) -> Tensor:  # B 2 H W
    """What was said of the whole pictures, at the places of their parts; no gradient goes through it."""
    assert sample.window is not None
    left, top, width, height = (values[:, None, None] for values in sample.window.unbind(1))
    rows, columns = sample.depth.shape[-2:]
    device = sample.depth.device
    x = left + width * (torch.arange(columns, device=device) + 0.5) / columns
    y = top + height * (torch.arange(rows, device=device)[:, None] + 0.5) / rows
    grid = 2 * torch.stack(torch.broadcast_tensors(x, y), -1) - 1  # type: ignore[no-untyped-call]
    maps = torch.stack([output.position, output.scale], 1).detach().float()
    with torch.autocast(device.type, enabled=False):
        return functional.grid_sample(maps, grid.float(), padding_mode="border", align_corners=False)


def without_some(guide: Tensor) -> Tensor:
    """A share of the guides, told as not known."""
    gone = (torch.rand(len(guide), device=guide.device) < GUIDELESS)[:, None, None]
    position, scale = guide.unbind(1)
    return torch.stack([torch.where(gone, 0.5, position), torch.where(gone, torch.inf, scale)], 1)


class PaperObjective:
    """The paper's loss (Eq. 12) on the farthest frame and its cost volume, for `training.loop.train`.

    Positions 0..1 over the planes stand in place of metres: with the paper's planes, uniform in depth, they are metres
    but for a factor; with ours they are the same for every range, infinity included.
    """

    def __init__(self, cost: str | Cost = "paper") -> None:
        self.cost = cost

    def __call__(self, network: Any, sample: Sample) -> tuple[Tensor, Figures]:
        _, scales, positions = self._scales(network, sample)
        position = true_position(sample)
        loss = paper_loss(scales, position.clamp_min(1e-6), positions)
        with torch.no_grad():
            estimate = soft_argmin(scales[-1], positions)
            error = (estimate - position).abs().nanmean() * (positions.shape[1] - 1)
            return loss, {"error_planes": error, "abs_rel": abs_rel(estimate, sample)}

    def read(self, network: Any, sample: Sample) -> Reading:
        picture, scales, positions = self._scales(network, sample)
        return Reading(picture, soft_argmin(scales[-1], positions), None)

    def read_windows(
        self,
        network: Any,
        sample: Sample,  # of one stack
        windows: Sequence[tuple[int, int]],  # top, left
        size: int,
    ) -> Tensor:  # N size size
        """Positions in windows whose costs are those of the whole picture, as the paper measures on NYU."""
        maps = torch.cat(self._inputs(sample), 1)[0]  # 3 + D H W
        cut = torch.stack([maps[:, top : top + size, left : left + size] for top, left in windows])
        scales = network(cut[:, :3], cut[:, 3:])
        return soft_argmin(scales[-1], _even_positions(cut[:, 3:]))

    def _scales(self, network: Any, sample: Sample) -> tuple[Tensor, list[Tensor], Tensor]:
        """The farthest frame in sRGB, probabilities, coarse to fine, and the planes' positions B D."""
        frame, volume = self._inputs(sample)
        return frame, network(frame, volume), _even_positions(volume)

    def _inputs(self, sample: Sample) -> tuple[Tensor, Tensor]:
        """The farthest frame in sRGB, B 3 H W, and the cost volume."""
        with torch.no_grad(), torch.autocast(sample.depth.device.type, enabled=False):
            volume = swept(replace(sample, planes=within_blur(sample.stack, sample.planes)), self.cost)
            farthest = sample.stack.as_batch().focus_distances.argmax(1).to(volume.device, non_blocking=True)
            frame = linear_to_srgb(sample.stack.images[torch.arange(len(farthest), device=volume.device), farthest])
        return frame, volume


def _even_positions(volume: Tensor) -> Tensor:  # B D
    return torch.linspace(0, 1, volume.shape[1], device=volume.device).expand(len(volume), -1)


@torch.no_grad()
def abs_rel(position: Tensor, sample: Sample) -> Tensor:
    """Mean relative error of depth; both depths end at DEPTH_END times the nearest plane."""
    limit = DEPTH_END / plane_ends(sample)[0]
    estimate, truth = (torch.minimum(depth, limit) for depth in (depth_at(position, sample), sample.depth))
    return ((estimate - truth).abs() / truth).nanmean()
