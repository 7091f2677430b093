"""One channel in place of three: the colour in which a stack has the most texture.

Defocus is the same in all colours, and the texture of most surfaces is mostly light against dark. The frames projected
on the colour direction of their strongest gradients keep nearly all that a sweep can use, for a third of its work; and
misfit that is only noise in the other two directions is left out (docs/network.md has the figures).
"""

from __future__ import annotations

import torch
from torch import Tensor

from focalsweep.sweep.exposure import brighten, light_gain
from focalsweep.sweep.statistics import haar_details
from focalsweep.types import FocalStack

SQUARINGS = 6  # of the covariance: the strongest direction outweighs the others by the 64th power of their ratio


def project_to_dominant_colour(stack: FocalStack, gain: Tensor | None = None) -> FocalStack:
    """A batched stack as one channel. The direction has unit length, so noise keeps its strength; values may pass 1.

    Each stack of the batch is multiplied by its `gain` on the way (`exposure.light_gain`).
    """
    if stack.images.shape[2] == 1:
        return stack if gain is None else brighten(stack, gain)
    direction = dominant_colour(stack.images)
    return stack.with_images(project(stack.images, direction if gain is None else direction * gain[:, None]))


def grey_for_sweep(stack: FocalStack) -> FocalStack:
    """A batched stack as the sweep reads it: one channel, in normal light."""
    return project_to_dominant_colour(stack, light_gain(stack.images))


def project(
    images: Tensor,  # B F C H W
    direction: Tensor,  # B C
) -> Tensor:  # B F 1 H W
    grey = images[:, :, :1] * direction[:, None, :1, None, None]
    for channel in range(1, images.shape[2]):  # one after the other: never a second copy of the frames
        part = slice(channel, channel + 1)
        grey = grey.addcmul_(images[:, :, part], direction[:, None, part, None, None])
    return grey


def dominant_colour(
    images: Tensor,  # B F C H W
) -> Tensor:  # B C
    """The first principal direction of the frames' gradients, of unit length, its sum not negative.

    Powers of the covariance instead of an eigenvalue solver: a GPU is not waited for. Without any texture it is grey.
    """
    _, across, down = haar_details(images)  # B F C n each
    gradients = torch.cat([across, down], -1).movedim(2, 1).flatten(2)  # B C m
    covariance = gradients @ gradients.mT
    channels = images.shape[2]
    # A trace of grey breaks ties, and is all there is where there is no texture.
    tiny = torch.finfo(images.dtype).tiny ** 0.5
    power = covariance + tiny * torch.ones((channels, channels), dtype=images.dtype, device=images.device)
    for _ in range(SQUARINGS):
        power = power / power.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
        power = power @ power
    strongest = power.diagonal(dim1=1, dim2=2).argmax(-1)
    direction = power.gather(2, strongest[:, None, None].expand(-1, channels, 1))[..., 0]
    direction = direction / direction.norm(dim=1, keepdim=True)
    return torch.where(direction.sum(1, keepdim=True) < 0, -direction, direction)
