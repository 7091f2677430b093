"""A step of smoothing by trust on a GPU (Triton): `smoothing._step` is its plain twin."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256  # pixels a program


@triton.jit
def _step(
    answer, before, position, trust, across, down, out, pixels, height, width, momentum, gain, BLOCK: tl.constexpr
):
    pixel = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < pixels
    line = pixel // width  # of all the pictures
    column = pixel - line * width
    picture = line // height
    row = line - picture * height
    own = tl.load(answer + pixel, mask=inside, other=0.0)
    weight = tl.load(trust + pixel, mask=inside, other=1.0)
    pull = weight * (tl.load(position + pixel, mask=inside, other=0.0) - own)
    right, left = inside & (column + 1 < width), inside & (column > 0)
    below, above = inside & (row + 1 < height), inside & (row > 0)
    beside, under = pixel - line, pixel - picture * width  # ties have one column, or one row, less
    tie = tl.load(across + beside, mask=right, other=0.0)
    pull += tie * (tl.load(answer + pixel + 1, mask=right, other=0.0) - own)
    weight += tie
    tie = tl.load(across + beside - 1, mask=left, other=0.0)
    pull += tie * (tl.load(answer + pixel - 1, mask=left, other=0.0) - own)
    weight += tie
    tie = tl.load(down + under, mask=below, other=0.0)
    pull += tie * (tl.load(answer + pixel + width, mask=below, other=0.0) - own)
    weight += tie
    tie = tl.load(down + under - width, mask=above, other=0.0)
    pull += tie * (tl.load(answer + pixel - width, mask=above, other=0.0) - own)
    weight += tie
    moved = momentum * (own - tl.load(before + pixel, mask=inside, other=0.0))
    tl.store(out + pixel, own + moved + gain * pull / weight, mask=inside)


def step(
    answer: Tensor, before: Tensor, position: Tensor, trust: Tensor, across: Tensor, down: Tensor,
    momentum: float, gain: float,
) -> Tensor:  # fmt: skip
    """As `smoothing._step`."""
    maps = [x.contiguous() for x in (answer, before, position, trust, across, down)]
    out = torch.empty_like(maps[0])
    pixels, (height, width) = out.numel(), out.shape[-2:]
    with torch.cuda.device_of(out):
        _step[(triton.cdiv(pixels, BLOCK),)](*maps, out, pixels, height, width, momentum, gain, BLOCK=BLOCK)
    return out
