"""What the networks among the rivals share: how they are fed, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from focalsweep.optics.light import linear_to_srgb
from focalsweep.types import FocalStack

INFINITY_STANDS_AT = 20.0  # times the nearest focus distance is where infinity stands: networks are fed with numbers
NEAREST = 1e-3  # metres: networks may say less than nothing


class FrameCountError(ValueError):
    """A method that reads stacks of one number of frames was given another: a table has no figure there.

    Args:
        words: the sentence for whoever asked for depth.
        note: for below a table, the same for every stack that the method cannot read; the sentence by default.
    """

    def __init__(self, words: str, note: str = "") -> None:
        super().__init__(words)
        self.note = note or words


def check_frames(network: str, trained: int, given: int) -> None:
    """Refuse a stack of another number of frames than a network was trained on."""
    if given != trained:
        raise FrameCountError(
            f"{network} reads stacks of {trained} frames, as it was trained, but this one has {given}: "
            "take as many frames, or train with network_options.frames",
            note=f"reads stacks of {trained} frames alone, as it was trained",
        )


@dataclass(frozen=True, eq=False)
class Answer:
    """What a rival's network says of a stack whose frames go from near to far."""

    depth: Tensor  # B H W, metres
    std: Tensor | None = None  # B H W, metres
    blur: Tensor | None = None  # B F H W: of each frame, in the network's own unit
    sharp: Tensor | None = None  # B 3 H W: sRGB, all in focus
    disparity: Tensor | None = None  # B H W, 1/m, as it came out: where training reads it
    metres: Tensor | None = None  # B H W, depth as it came out


def in_single(maps: Tensor) -> Tensor:
    """In single precision at least: metres are read off it, also under autocast."""
    return maps.to(torch.promote_types(maps.dtype, torch.float32))


def read_out(layer: nn.Module, features: Tensor) -> Tensor:
    """A network's last layer in single precision at least, also under autocast: half has three digits, a depth more."""
    with torch.autocast(features.device.type, enabled=False):
        maps: Tensor = layer(in_single(features))
    return maps


def near_to_far(stack: FocalStack) -> tuple[Tensor, Tensor]:
    """Pictures of a batched stack in sRGB, B F 3 H W, and their finite focus distances, B F, nearest first."""
    images = stack.images
    if images.shape[2] not in (1, 3):
        raise ValueError(
            f'this network reads gray or RGB pictures, but these have {images.shape[2]} channels: use "argmin"'
        )
    distances, order = stack.focus_distances.detach().sort(dim=1, stable=True)
    finite = torch.where(torch.isfinite(distances), distances, 0.0).amax(1, keepdim=True)
    instead = torch.maximum(INFINITY_STANDS_AT * distances[:, :1], 2 * finite)
    distances = torch.where(torch.isfinite(distances), distances, instead).to(images, non_blocking=True)
    index = order.to(images.device, non_blocking=True)[:, :, None, None, None].expand_as(images)
    pictures = linear_to_srgb(images.gather(1, index).clamp(0, 1)).expand(-1, -1, 3, -1, -1)
    return pictures, distances
