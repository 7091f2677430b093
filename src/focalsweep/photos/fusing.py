"""The sharp picture: every pixel from the frames that are in focus at its depth."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.sweep.volume import plane_position

ROWS_AT_ONCE = 512


def fuse_frames(
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
