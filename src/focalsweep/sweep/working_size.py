"""The size to work at: pictures whose blur is wider than the network has seen, or that are very large, are reduced."""

from __future__ import annotations

import math

from focalsweep.sweep.volume import sweep_coc_px
from focalsweep.types import DepthGrid, FocalStack

LARGEST_BLUR_PX = 32.0  # what the network has seen; wider blur only tells the same depth with more pixels
ENOUGH_BLUR_PX = 12.0  # large pictures are worked on with less, down to this
ENOUGH_PIXELS = 3e6
LEAST_SIDE_PX = 480.0  # of the longer side


def working_scale(stack: FocalStack, planes: DepthGrid, size: tuple[int, int]) -> float:
    """How much smaller to work on pictures of this size (H, W); 1 for as they are.

    No plane is blurred wider than LARGEST_BLUR_PX, as long as LEAST_SIDE_PX are left; and pictures are no larger than
    ENOUGH_PIXELS, as long as ENOUGH_BLUR_PX are left, with which depth can still be told well.
    """
    blur_px = max(float(sweep_coc_px(stack.as_batch(), planes).abs().max()), 1e-9)
    fewer_pixels = math.sqrt(ENOUGH_PIXELS / (size[0] * size[1]))
    less_blur = max(LARGEST_BLUR_PX / blur_px, LEAST_SIDE_PX / max(size))
    return min(1.0, less_blur, max(fewer_pixels, ENOUGH_BLUR_PX / blur_px))
