"""Adaptive cost aggregation on a GPU (Triton), with its gradient: `aggregation.py` is its plain twin."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 16  # pixels a program
NEIGHBOURS = 9
CENTRE = tl.constexpr(4)


@triton.jit
def _places(offsets, pixel, inside, height, width, dilation, j: tl.constexpr):
    """Rows of the table at the four corners around neighbour j of each pixel, and the parts down and to the right."""
    column = pixel % width
    row = (pixel // width) % height
    first = pixel - row * width - column
    down = tl.zeros_like(pixel).to(tl.float32)
    right = tl.zeros_like(down)
    if j != CENTRE:
        down = tl.load(offsets + pixel * 18 + 2 * j, mask=inside, other=0.0)
        right = tl.load(offsets + pixel * 18 + 2 * j + 1, mask=inside, other=0.0)
    whole_down, whole_right = tl.floor(down), tl.floor(right)
    top = (row + (j // 3 - 1) * dilation).to(tl.float32) + whole_down
    left = (column + (j % 3 - 1) * dilation).to(tl.float32) + whole_right
    bottom_row, right_column = height - 1.0, width - 1.0
    above = tl.minimum(tl.maximum(top, 0.0), bottom_row).to(tl.int64)
    below = tl.minimum(tl.maximum(top + 1, 0.0), bottom_row).to(tl.int64)
    before = tl.minimum(tl.maximum(left, 0.0), right_column).to(tl.int64)
    behind = tl.minimum(tl.maximum(left + 1, 0.0), right_column).to(tl.int64)
    a, b = first + above * width + before, first + above * width + behind
    c, d = first + below * width + before, first + below * width + behind
    return a, b, c, d, down - whole_down, right - whole_right


@triton.jit
def _gather(
    table, offsets, weights, out, pixels, height, width, planes, dilation, BLOCK: tl.constexpr, PLANES: tl.constexpr
):
    pixel = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < pixels
    plane = tl.arange(0, PLANES)[None, :]
    mask = inside[:, None] & (plane < planes)
    total = tl.zeros([BLOCK, PLANES], tl.float32)
    for j in tl.static_range(9):
        a, b, c, d, down, right = _places(offsets, pixel, inside, height, width, dilation, j)
        weight = tl.load(weights + pixel * 9 + j, mask=inside, other=0.0)
        upper, lower = weight * (1 - down), weight * down
        total += (upper * (1 - right))[:, None] * tl.load(table + a[:, None] * planes + plane, mask=mask, other=0.0)
        total += (upper * right)[:, None] * tl.load(table + b[:, None] * planes + plane, mask=mask, other=0.0)
        total += (lower * (1 - right))[:, None] * tl.load(table + c[:, None] * planes + plane, mask=mask, other=0.0)
        total += (lower * right)[:, None] * tl.load(table + d[:, None] * planes + plane, mask=mask, other=0.0)
    tl.store(out + pixel[:, None] * planes + plane, total, mask=mask)


@triton.jit
def _spread(table, to_table, place, share, gradient, planes, plane, mask):
    """Adds a corner's part of the gradient to the table's; returns the gradient along the corner's value."""
    at = place[:, None] * planes + plane
    value = tl.load(table + at, mask=mask, other=0.0)
    tl.atomic_add(to_table + at, share[:, None] * gradient, mask=mask, sem="relaxed")
    return tl.sum(value * gradient, 1)


@triton.jit
def _gather_backward(
    table, offsets, weights, gradients, to_table, to_offsets, to_weights,
    pixels, height, width, planes, dilation, BLOCK: tl.constexpr, PLANES: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = pixel < pixels
    plane = tl.arange(0, PLANES)[None, :]
    mask = inside[:, None] & (plane < planes)
    gradient = tl.load(gradients + pixel[:, None] * planes + plane, mask=mask, other=0.0)
    for j in tl.static_range(9):
        a, b, c, d, down, right = _places(offsets, pixel, inside, height, width, dilation, j)
        weight = tl.load(weights + pixel * 9 + j, mask=inside, other=0.0)
        upper, lower = weight * (1 - down), weight * down
        along_a = _spread(table, to_table, a, upper * (1 - right), gradient, planes, plane, mask)
        along_b = _spread(table, to_table, b, upper * right, gradient, planes, plane, mask)
        along_c = _spread(table, to_table, c, lower * (1 - right), gradient, planes, plane, mask)
        along_d = _spread(table, to_table, d, lower * right, gradient, planes, plane, mask)
        above, below = along_a + right * (along_b - along_a), along_c + right * (along_d - along_c)
        tl.store(to_weights + pixel * 9 + j, above + down * (below - above), mask=inside)
        if j != CENTRE:
            to_right = (1 - down) * (along_b - along_a) + down * (along_d - along_c)
            tl.store(to_offsets + pixel * 18 + 2 * j, weight * (below - above), mask=inside)
            tl.store(to_offsets + pixel * 18 + 2 * j + 1, weight * to_right, mask=inside)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, volume: Tensor, offsets: Tensor, weights: Tensor, dilation: int) -> Tensor:
        batch, planes, height, width = volume.shape
        tables = [maps.movedim(1, -1).contiguous() for maps in (volume, offsets.float(), weights.float())]
        ctx.save_for_backward(*tables)
        ctx.dilation, ctx.types = dilation, (offsets.dtype, weights.dtype)
        out = torch.empty((batch, height, width, planes), device=volume.device)
        pixels = batch * height * width
        _gather[(triton.cdiv(pixels, BLOCK),)](
            *tables, out, pixels, height, width, planes, dilation, BLOCK, triton.next_power_of_2(planes)
        )
        return out.movedim(-1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        table, offsets, weights = ctx.saved_tensors
        batch, height, width, planes = table.shape
        to_table, to_offsets, to_weights = torch.zeros_like(table), torch.zeros_like(offsets), torch.empty_like(weights)
        pixels = batch * height * width
        _gather_backward[(triton.cdiv(pixels, BLOCK),)](
            table, offsets, weights, gradient.movedim(1, -1).contiguous(), to_table, to_offsets, to_weights,
            pixels, height, width, planes, ctx.dilation, BLOCK, triton.next_power_of_2(planes),
        )  # fmt: skip
        offsets_type, weights_type = ctx.types
        to_volume, to_offsets, to_weights = (maps.movedim(-1, 1) for maps in (to_table, to_offsets, to_weights))
        return to_volume, to_offsets.to(offsets_type), to_weights.to(weights_type), None


def aggregate(volume: Tensor, offsets: Tensor, weights: Tensor, dilation: int) -> Tensor:
    """See `aggregation.aggregate`; single precision on CUDA. Sums of the gradient come in no fixed order."""
    return _Aggregate.apply(volume, offsets, weights, dilation)  # type: ignore[no-any-return,no-untyped-call]
