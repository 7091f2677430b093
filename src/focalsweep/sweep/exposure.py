"""Dark stacks in the light of others: what noise floors and network know is light between black and white."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from focalsweep.types import FocalStack

NORMAL_LIGHT = 0.4  # linear, of the brightest hundredth of the pixels: photos as bright as that are left as they are
BRIGHT_SHARE = 0.99
MOST_GAIN = 2.0**12
SAMPLES = 128  # a direction: more tell no more


def light_gain(
    images: Tensor,  # B F C H W
) -> Tensor:  # B
    """What the light of each stack is multiplied by before a sweep: 1 unless it is dark. A GPU is not waited for."""
    rows, columns = (max(1, math.ceil(length / SAMPLES)) for length in images.shape[-2:])
    grey = images[..., rows // 2 :: rows, columns // 2 :: columns].detach().mean(2)  # B F h w
    bright = grey.amax(1).flatten(1).float().quantile(BRIGHT_SHARE, dim=1)
    return (NORMAL_LIGHT / bright.clamp_min(NORMAL_LIGHT / MOST_GAIN)).clamp(1, MOST_GAIN).to(images.dtype)


def brighten(stack: FocalStack, gain: Tensor) -> FocalStack:
    """A batched stack in that light; itself where it is bright enough (on a GPU, which must not wait, a copy)."""
    if stack.images.device.type == "cpu" and bool((gain == 1).all()):
        return stack
    return stack.with_images(stack.images * gain[:, None, None, None, None])


def brighten_picture(
    picture: Tensor,  # B C H W
    gain: Tensor,  # B
) -> Tensor:  # B C H W
    """A picture in that light, a lamp in a dark room as white as paper; pictures of a gain of 1 as they are."""
    gain = gain[:, None, None, None]
    brighter = picture * gain
    return torch.where(gain > 1, brighter.clamp_max(1), brighter)
