"""Pictures too large to sweep as they are: the size to work at, and the sharp picture at full size."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.sweep.volume import plane_position, sweep_coc_px
from focalsweep.types import DepthGrid, FocalStack

LARGEST_BLUR_PX = 32.0  # what the network has seen; wider blur only tells the same depth with more pixels
ENOUGH_BLUR_PX = 12.0  # large pictures are worked on with less, down to this
ENOUGH_PIXELS = 3e6
LEAST_SIDE_PX = 480.0  # of the longer side
ROWS_AT_ONCE = 512


def working_scale(stack: FocalStack, planes: DepthGrid, size: tuple[int, int]) -> float:
    """How much smaller to work on pictures of this size (H, W); 1 for as they are.

    No plane is blurred wider than LARGEST_BLUR_PX, as long as LEAST_SIDE_PX are left; and pictures are no larger than
    ENOUGH_PIXELS, as long as ENOUGH_BLUR_PX are left, with which depth can still be told well.
    """
    blur_px = max(float(sweep_coc_px(stack.as_batch(), planes).abs().max()), 1e-9)
    fewer_pixels = math.sqrt(ENOUGH_PIXELS / (size[0] * size[1]))
    less_blur = max(LARGEST_BLUR_PX / blur_px, LEAST_SIDE_PX / max(size))
    return min(1.0, less_blur, max(fewer_pixels, ENOUGH_BLUR_PX / blur_px))


def blend_frames(
    frames: Iterable[Tensor],  # F of H W C, in the order of the distances
    focus_distances: Tensor,  # F, metres, in any order
    depth: Tensor,  # h w, of any size
) -> Tensor:  # H W C
    """Each pixel from the two frames focused before and behind its depth, mostly from the nearer in focus.

    Takes a frame at a time, so memory holds two pictures and a depth map at full size.
    """
    focus, order = (1 / focus_distances.detach()).sort(descending=True, stable=True)
    places = order.argsort().tolist()  # of the frames, near to far
    sharp = torch.empty(0)
    position = torch.empty(0)
    given = iter(frames)
    for place in places:
        frame = next(given, None)
        if frame is None:
            raise ValueError(f"there are fewer frames than the {len(places)} focus distances: give one for each")
        if not len(sharp):
            small = plane_position((1 / depth)[None].double(), focus[None].double()).float()
            position = functional.interpolate(small[None], size=frame.shape[:2], mode="bilinear")[0, 0]
            sharp = torch.zeros_like(frame)
        for top in range(0, len(frame), ROWS_AT_ONCE):
            rows = slice(top, top + ROWS_AT_ONCE)
            share = (1 - (position[rows] - place).abs()).clamp_min(0)
            rest = 1 - share
            weight = share.square() / (share.square() + rest.square())
            sharp[rows] += weight[..., None] * frame[rows]
        del frame  # before the next one is read
    return sharp
