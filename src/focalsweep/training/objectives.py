"""What a network is asked for: the cost volume, the picture it reads beside it, and the loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.model.papernet import paper_loss
from focalsweep.model.regression import soft_argmin
from focalsweep.model.sweepnet import SweepOutput
from focalsweep.optics.light import linear_to_srgb
from focalsweep.sweep.argmin import focused_picture
from focalsweep.sweep.volume import cost_volume
from focalsweep.synthesis.sample import Sample

Figures = dict[str, Tensor]


def network_inputs(sample: Sample, cost: str) -> tuple[Tensor, Tensor]:
    """The picture (B 3 H W, sRGB about 0) and the cost volume (B D H W) of a batch; no gradient goes through them."""
    with torch.no_grad(), torch.autocast(sample.depth.device.type, enabled=False):
        volume = cost_volume(sample.stack, sample.planes, cost)
        picture = focused_picture(sample.stack.as_batch(), sample.planes, volume.argmin(1))
        return linear_to_srgb(picture) - 0.5, volume


def true_position(sample: Sample) -> Tensor:  # B H W
    """Where the true depth lies among the planes, 0 (nearest) to 1."""
    planes = sample.planes.as_batch(len(sample.depth)).to(sample.depth)
    near, far = planes[:, 0, None, None], planes[:, -1, None, None]
    return ((near - 1 / sample.depth) / (near - far)).clamp(0, 1)


def sweep_loss(output: SweepOutput, position: Tensor, planes: int) -> tuple[Tensor, Figures]:
    """Cross-entropy of the coarse distribution, L1 of its mean, and the Laplace likelihood of the final answer.

    Errors count in steps between planes, so that the terms mean the same for any number of them.
    """
    steps = planes - 1
    error = (output.position - position).abs() * steps
    scale = output.scale * steps
    likelihood = (error / scale + torch.log(scale)).mean()
    coarse = ((output.coarse - position).abs() * steps).mean()
    middle = position[:, 1::4, 1::4]  # one of the four pixels in the middle of each cell
    entropy = plane_cross_entropy(output.logits[..., : middle.shape[1], : middle.shape[2]], middle)
    loss = likelihood + 0.1 * coarse + entropy
    return loss, {"likelihood": likelihood, "coarse": coarse, "entropy": entropy, "error_planes": error.mean()}


def plane_cross_entropy(logits: Tensor, position: Tensor) -> Tensor:
    """Against a distribution on the two planes around the true position, B h w in 0..1."""
    last = logits.shape[1] - 1
    plane = position * last
    below = plane.floor().clamp(0, last - 1)
    share = plane - below
    log = functional.log_softmax(logits, 1)
    first = log.gather(1, below[:, None].long())[:, 0]
    second = log.gather(1, below[:, None].long() + 1)[:, 0]
    return -(first * (1 - share) + second * share).mean()


class PaperObjective:
    """The paper's loss (Eq. 12) on the farthest frame and its cost volume, for `training.loop.train`."""

    def __init__(self, cost: str = "paper") -> None:
        self.cost = cost

    def __call__(self, network: Any, sample: Sample) -> tuple[Tensor, Figures]:
        planes = sample.planes.as_batch(len(sample.depth)).to(sample.depth)
        with torch.no_grad(), torch.autocast(sample.depth.device.type, enabled=False):
            volume = cost_volume(sample.stack, sample.planes, self.cost)
            farthest = sample.stack.as_batch().focus_distances.argmax(1).to(volume.device)
            frame = sample.stack.images[torch.arange(len(farthest), device=volume.device), farthest]
        scales = network(linear_to_srgb(frame), volume)
        # Positions 0..1 in place of metres: the same for every range, infinity included.
        positions = torch.linspace(0, 1, volume.shape[1], device=volume.device).expand(len(planes), -1)
        position = true_position(sample)
        loss = paper_loss(scales, position.clamp_min(1e-6), positions)
        with torch.no_grad():
            estimate = soft_argmin(scales[-1], positions)
            near, far = planes[:, 0, None, None], planes[:, -1, None, None]
            depth = 1 / (near + estimate * (far - near))
            figures = {
                "error_planes": (estimate - position).abs().mean() * (volume.shape[1] - 1),
                "abs_rel": ((depth - sample.depth).abs() / sample.depth).nan_to_num(0, 0, 0).mean(),
            }
        return loss, figures


class SweepObjective:
    """(network, sample) -> loss and figures, for `training.loop.train`."""

    def __init__(self, cost: str = "reblur") -> None:
        self.cost = cost

    def __call__(self, network: Any, sample: Sample) -> tuple[Tensor, Figures]:
        picture, volume = network_inputs(sample, self.cost)
        output = network(picture, volume)
        loss, figures = sweep_loss(output, true_position(sample), volume.shape[1])
        planes = sample.planes.as_batch(len(sample.depth)).to(sample.depth)
        near, far = planes[:, 0, None, None], planes[:, -1, None, None]
        with torch.no_grad():
            depth = 1 / (near + output.position * (far - near))
            figures["abs_rel"] = ((depth - sample.depth).abs() / sample.depth).nan_to_num(0, 0, 0).mean()
        return loss, figures
