"""Which frame is sharpest at a plane, and pictures put together from such frames."""

from __future__ import annotations

from torch import Tensor

from focalsweep.sweep.volume import sweep_coc_px
from focalsweep.types import DepthGrid, FocalStack


def focused_picture(
    stack: FocalStack,
    planes: DepthGrid,
    plane: Tensor,  # B H W, index
) -> Tensor:  # B C H W
    """Each pixel from the frame that is sharpest at its plane: a quick all-in-focus picture of a batched stack."""
    return pick_frames(stack.images, sharpest_frames(stack, planes).to(plane.device, non_blocking=True), plane)


def sharpest_frames(stack: FocalStack, planes: DepthGrid) -> Tensor:  # B D
    """The frame of a batched stack that is sharpest at each plane."""
    return sweep_coc_px(stack, planes).abs().argmin(-1)


def pick_frames(
    images: Tensor,  # B F C H W
    frames: Tensor,  # B D: a frame for each plane
    plane: Tensor,  # B H W
) -> Tensor:  # B C H W
    frame = frames.gather(1, plane.flatten(1)).reshape(plane.shape)
    return images.gather(1, frame[:, None, None].expand(-1, 1, images.shape[2], -1, -1))[:, 0]
