"""What the rivals' networks are asked for, each by its own paper's loss: see `focalsweep_research.rivals`.

They read no cost volume: pictures and focus distances alone. Pixels whose depth is not known (NaN) count nowhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from focalsweep.methods import focus_measure
from focalsweep.optics.light import linear_to_srgb
from focalsweep.optics.thin_lens import coc_px
from focalsweep.types import Camera
from focalsweep.validation import as_setting
from focalsweep_research.rivals.answer import NEAREST, Answer, near_to_far
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.objectives import Figures, Reading, depth_at, plane_ends

TRAINED_DEPTH_END = 50.0  # times the nearest plane: depth ends there, for infinity is no number to learn
LARGEST_BLUR_PX = 1e-4 / (3.1e-3 / 256)  # DefocusNet's blur maps are clipped: 1 is 0.1 mm on its sensor, or more
FULL_DEPTH = 3.0  # metres: DefocusNet's unit of depth in its loss
SMOOTHNESS = 0.002  # of AiFDepthNet's depth beside its all-in-focus picture
EDGE_STEP = 0.1  # of sRGB: a step of the picture that allows one of depth


class RivalObjective(ABC):
    """(network, sample) -> loss and figures, for `training.loop.train`; a rival's own loss is in a subclass."""

    def __call__(self, network: Any, sample: Sample) -> tuple[Tensor, Figures]:
        answer, picture = self._ask(network, sample)
        truth, known = true_depth(sample)
        loss, figures = self.loss(answer, sample, truth, known, picture)
        with torch.no_grad():
            limit = TRAINED_DEPTH_END / plane_ends(sample)[0]
            relative = masked_mean((torch.minimum(answer.depth, limit) - truth).abs() / truth, known)
            return loss, figures | {"abs_rel": relative}

    @abstractmethod
    def loss(
        self, answer: Answer, sample: Sample, truth: Tensor, known: Tensor, pictures: Tensor
    ) -> tuple[Tensor, Figures]:
        """The rival's own, of the pixels that are known."""

    def read(self, network: Any, sample: Sample) -> Reading:
        """The answer as positions over the planes, also before the first and beyond the last."""
        answer, pictures = self._ask(network, sample)
        return Reading(pictures[:, -1], position_of(answer.depth.clamp_min(NEAREST), sample), None)

    def _ask(self, network: Any, sample: Sample) -> tuple[Answer, Tensor]:
        with torch.no_grad():
            pictures, distances = near_to_far(sample.stack.as_batch())
        answer: Answer = network(pictures, distances)
        return answer, pictures


class DisparityObjective(RivalObjective):
    """DDFF: the mean squared error of disparity, here 1 / depth."""

    def loss(
        self, answer: Answer, sample: Sample, truth: Tensor, known: Tensor, pictures: Tensor
    ) -> tuple[Tensor, Figures]:
        assert answer.disparity is not None
        loss = masked_mean((answer.disparity - 1 / truth).square(), known)
        return loss, {"disparity_rmse": loss.detach().sqrt()}


class BlurObjective(RivalObjective):
    """DefocusNet: squared errors of each frame's clipped blur, and of depth in units of 3 m."""

    def loss(
        self, answer: Answer, sample: Sample, truth: Tensor, known: Tensor, pictures: Tensor
    ) -> tuple[Tensor, Figures]:
        assert answer.blur is not None and answer.metres is not None
        target = true_blur(sample, truth)
        blur = masked_mean((answer.blur - target).square(), known[:, None].expand_as(target))
        depth = masked_mean((answer.metres - truth).square(), known)
        return blur + depth / FULL_DEPTH**2, {"blur": blur, "depth": depth}


class AttentionObjective(RivalObjective):
    """AiFDepthNet trained by depth: its mean absolute error."""

    def loss(
        self, answer: Answer, sample: Sample, truth: Tensor, known: Tensor, pictures: Tensor
    ) -> tuple[Tensor, Figures]:
        return masked_mean((answer.depth - truth).abs(), known), {}


class SharpObjective(RivalObjective):
    """AiFDepthNet trained without depth: the all-in-focus picture, and depth that is smooth but at its edges.

    Args:
        sharp: the all-in-focus picture of a sample, B 3 H W in sRGB; by default each pixel from its sharpest frame, as
            focus stacking programs do it, which the authors used where a data set had none.
    """

    def __init__(self, sharp: Callable[[Sample], Tensor] | None = None) -> None:
        self.sharp = sharp or stitched

    def loss(
        self, answer: Answer, sample: Sample, truth: Tensor, known: Tensor, pictures: Tensor
    ) -> tuple[Tensor, Figures]:
        assert answer.sharp is not None
        with torch.no_grad():
            target = self.sharp(sample)
        picture = (answer.sharp - target).abs().mean()
        roughness = edge_aware_roughness(answer.depth, target)
        return picture + SMOOTHNESS * roughness, {"picture": picture, "roughness": roughness}


OBJECTIVES: dict[str, Callable[[], RivalObjective]] = {
    "ddff": DisparityObjective,
    "defocusnet": BlurObjective,
    "aifdepthnet": AttentionObjective,
    "aifdepthnet-aif": SharpObjective,
}


def true_depth(sample: Sample) -> tuple[Tensor, Tensor]:
    """B H W: depth with 1 where it is unknown and an end where it has none, and where it is known."""
    known = sample.depth > 0
    limit = TRAINED_DEPTH_END / plane_ends(sample)[0]
    return torch.where(known, torch.minimum(sample.depth, limit), 1.0), known


def position_of(depth: Tensor, sample: Sample) -> Tensor:
    """The inverse of `depth_at`, whether planes are even in depth or in inverse depth; also beyond the planes."""
    places = (torch.full_like(depth[:, :1, :1], p) for p in (0, 0.5, 1))
    near, middle, far = (depth_at(place, sample) for place in places)
    in_depth = (depth - near) / (far - near)
    in_inverse = (1 / near - 1 / depth) / (1 / near - 1 / far)
    return torch.where(torch.isclose(middle, (near + far) / 2), in_depth, in_inverse)


def true_blur(sample: Sample, depth: Tensor) -> Tensor:  # B F H W
    """The blur of every frame, nearest focus first, as a share of LARGEST_BLUR_PX and at most 1."""
    stack = sample.stack.as_batch()
    order = stack.focus_distances.argsort(dim=1, stable=True)

    def sorted_(name: str, value: Any) -> Tensor:
        return as_setting(name, value).gather(1, order)[:, :, None, None]

    names = ("focal_length", "f_number", "pixel_pitch")
    camera = Camera(*(sorted_(name, getattr(stack.camera, name)) for name in names))
    distances = sorted_("focus_distances", stack.focus_distances)
    blur_px = coc_px(depth[:, None], distances, camera, sorted_("magnification", stack.magnification))
    return (blur_px / LARGEST_BLUR_PX).clamp(0, 1)


def stitched(sample: Sample) -> Tensor:  # B 3 H W, sRGB
    images = linear_to_srgb(sample.stack.as_batch().images.clamp(0, 1))
    return focus_measure.pick(images, focus_measure.sharpness(images).argmax(1)).expand(-1, 3, -1, -1)


def edge_aware_roughness(
    depth: Tensor,  # B H W
    picture: Tensor,  # B 3 H W
) -> Tensor:
    """Steps of depth, as shares of its mean, less where the picture has steps too."""
    share = depth / depth.mean((1, 2), keepdim=True).clamp_min(1e-6)
    steps = [
        share.diff(dim=dim).abs() * torch.exp(-picture.diff(dim=dim).abs().mean(1) / EDGE_STEP) for dim in (-1, -2)
    ]
    return steps[0].mean() + steps[1].mean()


def masked_mean(values: Tensor, known: Tensor) -> Tensor:
    """Over the pixels that are known; 0 of none. What stands at the others, NaN too, has no gradient either."""
    return torch.where(known, values, 0.0).sum() / known.sum().clamp_min(1)
