"""Smoothing by confidence on a GPU (Triton): `downsample`, `start` and `iterate` have their plain twins in `smoothing`.

The maps are small: what costs is the number of kernels, about two microseconds each in a recorded graph.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from focalsweep.model.smoothing import COLOUR_SIGMA, LEAK, STRENGTH

BLOCK = 256  # pixels a program


@triton.jit
def _pixels_of_program(pixels, rows, columns, BLOCK: tl.constexpr):
    """Pixels of all the pictures, whether there are such; the line of all lines, column, picture and row of each."""
    pixel = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    line = pixel // columns
    picture = line // rows
    return pixel, pixel < pixels, line, pixel - line * columns, picture, line - picture * rows


@triton.jit
def _downsample(
    trust, position, picture, trust_out, position_out, picture_out, pixels, height, width, rows, columns,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pixel, inside, _, column, number, row = _pixels_of_program(pixels, rows, columns, BLOCK)
    area, small = tl.cast(height, tl.int64) * width, tl.cast(rows, tl.int64) * columns
    total = tl.zeros([BLOCK], tl.float32)
    pulled, red, green, blue = total, total, total, total
    for corner in tl.static_range(4):
        y = tl.minimum(2 * row + corner // 2, height - 1)  # an odd border counts twice
        x = tl.minimum(2 * column + corner % 2, width - 1)
        at = number * area + y * width + x
        weight = tl.load(trust + at, mask=inside, other=1.0)
        total += weight
        pulled += weight * tl.load(position + at, mask=inside, other=0.0)
        at += 2 * number * area
        red += 0.25 * tl.load(picture + at, mask=inside, other=0.0)
        green += 0.25 * tl.load(picture + at + area, mask=inside, other=0.0)
        blue += 0.25 * tl.load(picture + at + 2 * area, mask=inside, other=0.0)
    tl.store(trust_out + pixel, total, mask=inside)
    tl.store(position_out + pixel, pulled / total, mask=inside)
    at = pixel + 2 * number * small
    tl.store(picture_out + at, red, mask=inside)
    tl.store(picture_out + at + small, green, mask=inside)
    tl.store(picture_out + at + 2 * small, blue, mask=inside)


@triton.jit
def _likeness(picture, at, area, red, green, blue, mask, SIGMA: tl.constexpr, LEAK: tl.constexpr):
    """How much the pixel at `at` belongs to one of that colour, 0..1."""
    far = tl.abs(tl.load(picture + at, mask=mask, other=0.0) - red)
    far = tl.maximum(far, tl.abs(tl.load(picture + at + area, mask=mask, other=0.0) - green))
    far = tl.maximum(far, tl.abs(tl.load(picture + at + 2 * area, mask=mask, other=0.0) - blue))
    return tl.exp(far / -SIGMA) + LEAK


@triton.jit
def _start(
    coarse, coarse_picture, trust, position, picture, answer, across, down, pixels, height, width, rows, columns,
    FIRST: tl.constexpr, STRENGTH: tl.constexpr, SIGMA: tl.constexpr, LEAK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pixel, inside, line, column, number, row = _pixels_of_program(pixels, height, width, BLOCK)
    area = tl.cast(height, tl.int64) * width
    at = pixel + 2 * number * area
    red = tl.load(picture + at, mask=inside, other=0.0)
    green = tl.load(picture + at + area, mask=inside, other=0.0)
    blue = tl.load(picture + at + 2 * area, mask=inside, other=0.0)
    right, below = inside & (column + 1 < width), inside & (row + 1 < height)
    tie = _likeness(picture, at + 1, area, red, green, blue, right, SIGMA, LEAK)
    tl.store(across + pixel - line, STRENGTH * tie, mask=right)
    tie = _likeness(picture, at + width, area, red, green, blue, below, SIGMA, LEAK)
    tl.store(down + pixel - number * width, STRENGTH * tie, mask=below)
    if not FIRST:
        small = tl.cast(rows, tl.int64) * columns
        weights = tl.zeros([BLOCK], tl.float32)
        total = weights
        for corner in tl.static_range(4):
            # The coarse pixel that this one lies in, and those that it lies next to.
            y = row // 2 + (corner // 2) * (2 * (row % 2) - 1)
            x = column // 2 + (corner % 2) * (2 * (column % 2) - 1)
            y, x = tl.minimum(tl.maximum(y, 0), rows - 1), tl.minimum(tl.maximum(x, 0), columns - 1)
            there = number * small + y * columns + x
            share = (0.75 - 0.5 * (corner // 2)) * (0.75 - 0.5 * (corner % 2))
            like = _likeness(coarse_picture, there + 2 * number * small, small, red, green, blue, inside, SIGMA, LEAK)
            weights += share * like
            total += share * like * tl.load(coarse + there, mask=inside, other=0.0)
        weight = tl.load(trust + pixel, mask=inside, other=1.0)
        pulled = weight * tl.load(position + pixel, mask=inside, other=0.0) + STRENGTH * total / weights
        tl.store(answer + pixel, pulled / (weight + STRENGTH), mask=inside)


@triton.jit
def _iterate(
    answer, before, position, trust, across, down, out, pixels, height, width, momentum, gain, BLOCK: tl.constexpr
):
    pixel, inside, line, column, picture, row = _pixels_of_program(pixels, height, width, BLOCK)
    own = tl.load(answer + pixel, mask=inside, other=0.0)
    weight = tl.load(trust + pixel, mask=inside, other=1.0)
    pull = weight * (tl.load(position + pixel, mask=inside, other=0.0) - own)
    right, left = inside & (column + 1 < width), inside & (column > 0)
    below, above = inside & (row + 1 < height), inside & (row > 0)
    beside, under = pixel - line, pixel - picture * width  # `across` has one column less, `down` one row
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


def downsample(trust: Tensor, position: Tensor, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As `smoothing._downsample`."""
    maps = [x.contiguous() for x in (trust, position, picture)]
    batch, _, height, width = trust.shape
    rows, columns = (height + 1) // 2, (width + 1) // 2
    total, mean, colours = (x.new_empty((batch, x.shape[1], rows, columns)) for x in maps)
    sizes = (total.numel(), height, width, rows, columns)
    with torch.cuda.device_of(trust):
        _downsample[(triton.cdiv(sizes[0], BLOCK),)](*maps, total, mean, colours, *sizes, BLOCK=BLOCK)
    return total, mean, colours


def start(
    coarse: tuple[Tensor, Tensor] | None, trust: Tensor, position: Tensor, picture: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `smoothing._start`."""
    trust, position, picture = (x.contiguous() for x in (trust, position, picture))
    batch, _, height, width = trust.shape
    before = (position, picture) if coarse is None else (coarse[0].contiguous(), coarse[1].contiguous())
    answer = position if coarse is None else torch.empty_like(position)
    across, down = trust.new_empty((batch, 1, height, width - 1)), trust.new_empty((batch, 1, height - 1, width))
    sizes = (trust.numel(), height, width, *before[0].shape[-2:])
    settings = {"STRENGTH": STRENGTH, "SIGMA": COLOUR_SIGMA, "LEAK": LEAK, "BLOCK": BLOCK}
    with torch.cuda.device_of(trust):
        _start[(triton.cdiv(sizes[0], BLOCK),)](
            *before, trust, position, picture, answer, across, down, *sizes, FIRST=coarse is None, **settings
        )
    return answer, across, down


def iterate(
    answer: Tensor, before: Tensor, position: Tensor, trust: Tensor, across: Tensor, down: Tensor,
    momentum: float, gain: float,
) -> Tensor:  # fmt: skip
    """As `smoothing._iterate`."""
    maps = [x.contiguous() for x in (answer, before, position, trust, across, down)]
    out = torch.empty_like(maps[0])
    pixels, (height, width) = out.numel(), out.shape[-2:]
    with torch.cuda.device_of(out):
        _iterate[(triton.cdiv(pixels, BLOCK),)](*maps, out, pixels, height, width, momentum, gain, BLOCK=BLOCK)
    return out
