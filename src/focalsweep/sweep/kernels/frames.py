"""What is done to the frames and the lens before the sweep: transfer functions, padding, noise and texture."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import libdevice

from focalsweep.sweep.kernels.maps import BLOCK, launch_grid


@triton.jit
def _disk_otf_kernel(coc, out, rows, columns, height, width, BLOCK: tl.constexpr):
    """2 J1(x) / x over one quadrant of frequencies, x = pi * coc * |f|; one blur for each program row."""
    blur = tl.program_id(0)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    fy = (index // columns).to(tl.float32) / height
    fx = (index % columns).to(tl.float32) / width
    x = tl.abs(tl.load(coc + blur)) * 3.141592653589793 * tl.sqrt(fy * fy + fx * fx)
    otf = tl.where(x < 1e-3, 1.0, 2 * libdevice.j1(x) / tl.maximum(x, 1e-3))
    tl.store(out + blur.to(tl.int64) * rows * columns + index, otf, mask=index < rows * columns)


def disk_quadrant_otf(signed_coc_px: Tensor, height: int, width: int) -> Tensor:
    """The disk's OTF over the quadrant of frequencies up to the highest: (...) to (..., height//2+1, width//2+1)."""
    rows, columns = height // 2 + 1, width // 2 + 1
    coc = signed_coc_px.contiguous()
    out = torch.empty((*coc.shape, rows, columns), device=coc.device, dtype=torch.float32)
    _disk_otf_kernel[launch_grid(rows * columns, coc.numel())](coc, out, rows, columns, height, width, BLOCK=BLOCK)
    return out


@triton.jit
def _light(pointer, mask, ENCODE: tl.constexpr):
    """A pixel, display-encoded (sRGB) on request."""
    value = tl.load(pointer, mask=mask, other=0.0)
    if ENCODE:
        power = 1.055 * tl.exp2(tl.log2(tl.maximum(value, 0.0031308)) / 2.4) - 0.055
        value = tl.where(value <= 0.0031308, 12.92 * value, power)
    return value


@triton.jit
def _fade(position, area, length):
    """Where a padded position mirrors to at the far border and at the near one, and the share of the latter."""
    extra = tl.maximum(length - area, 1)
    k = tl.maximum(position - area, 0)
    t = (k.to(tl.float32) + 0.5) / extra
    beyond = position >= area
    far = tl.where(beyond, tl.maximum(area - 1 - k, 0), position)
    near = tl.where(beyond, tl.minimum(extra - 1 - k, area - 1), position)
    return far, near, tl.where(beyond, t * t * (3.0 - 2.0 * t), 0.0)


@triton.jit
def _pad_kernel(
    images, out,
    area_height, area_width, height, width, row_stride, map_stride,
    ENCODE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`pad_periodic`: each pixel of the extension fades between the mirror images of two borders, both ways."""
    which = tl.program_id(0)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < height * width
    y_far, y_near, y_fade = _fade(index // width, area_height, height)
    x_far, x_near, x_fade = _fade(index % width, area_width, width)
    source = images + which.to(tl.int64) * map_stride
    far = _light(source + y_far * row_stride + x_far, mask, ENCODE)
    near = _light(source + y_near * row_stride + x_far, mask, ENCODE)
    at_far = far + y_fade * (near - far)
    far = _light(source + y_far * row_stride + x_near, mask, ENCODE)
    near = _light(source + y_near * row_stride + x_near, mask, ENCODE)
    at_near = far + y_fade * (near - far)
    tl.store(out + which.to(tl.int64) * height * width + index, at_far + x_fade * (at_near - at_far), mask=mask)


def _rows_of_pixels(images: Tensor) -> Tensor:
    """Maps H W with neighbouring pixels of a row side by side, copied only where they are not."""
    images = images if images.stride(-1) == 1 else images.contiguous()
    return images.reshape(-1, *images.shape[-2:])


def pad_periodic(images: Tensor, height: int, width: int, encode: bool) -> Tensor:
    """The fused `deconvolution.pad_periodic`; the extension must not exceed the image. Rows may be strided."""
    *outer, area_height, area_width = images.shape
    flat = _rows_of_pixels(images)
    out = torch.empty((*outer, height, width), device=images.device)
    _pad_kernel[launch_grid(height * width, flat.shape[0])](
        flat, out, area_height, area_width, height, width, flat.stride(1), flat.stride(0), ENCODE=encode, BLOCK=BLOCK
    )
    return out


@triton.jit
def _detail_kernel(
    images, noise, gradient,
    rows, columns, row_step, column_step, row_stride, map_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """For one picture: the median magnitude of its finest diagonal detail, and its mean squared gradient."""
    which = tl.program_id(0)
    index = tl.arange(0, BLOCK)
    count = rows * columns
    mask = index < count
    corner = images + which.to(tl.int64) * map_stride
    corner += (index // columns) * row_step * row_stride + (index % columns) * column_step
    a = tl.load(corner, mask=mask, other=0.0)
    b = tl.load(corner + 1, mask=mask, other=0.0)
    c = tl.load(corner + row_stride, mask=mask, other=0.0)
    d = tl.load(corner + row_stride + 1, mask=mask, other=0.0)
    squares = (b - a) * (b - a) + (d - c) * (d - c) + (c - a) * (c - a) + (d - b) * (d - b)
    tl.store(gradient + which, tl.sum(squares, 0) / 2 / count)
    # Magnitudes order as their bits do: the median's bits are found from the highest down.
    bits = tl.where(mask, (tl.abs(a - b - c + d) / 2).to(tl.int32, bitcast=True), 0x7FFFFFFF)
    median = tl.full([], 0, tl.int32)
    for k in range(31):
        candidate = median | (1 << (30 - k))
        below = tl.sum((bits < candidate).to(tl.int32), 0)
        median = tl.where(below <= (count - 1) // 2, candidate, median)
    tl.store(noise + which, median.to(tl.float32, bitcast=True) / 0.6745)


@triton.jit
def _combine_kernel(
    noise, gradient, noise_std, texture_power, given, floor,
    FRAMES: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr, FRAME_LANES: tl.constexpr,
):  # fmt: skip
    """One stack: the least noise of its frames, the strongest gradient (see `costs.stack_statistics`)."""
    stack = tl.program_id(0)
    frame = tl.arange(0, FRAME_LANES)[:, None]
    channel = tl.arange(0, LANES)[None, :]
    mask = (frame < FRAMES) & (channel < CHANNELS)
    at = (stack * FRAMES + frame) * CHANNELS + channel
    least = tl.min(tl.load(noise + at, mask=mask, other=float("inf")), 0)
    lane = tl.arange(0, LANES)
    measured = tl.sqrt(tl.sum(tl.where(lane < CHANNELS, least * least, 0.0), 0) / CHANNELS)
    sigma = tl.where(given > 0, given, tl.maximum(measured, floor))
    strongest = tl.max(tl.load(gradient + at, mask=mask, other=0.0), 0)
    power = tl.maximum(strongest - 4 * sigma * sigma, 0.1 * sigma * sigma) / 39.47841760435743
    tl.store(noise_std + stack, sigma)
    tl.store(texture_power + stack * CHANNELS + lane, power, mask=lane < CHANNELS)


def stack_statistics(
    images: Tensor, steps: tuple[int, int], given: float | None, floor: float
) -> tuple[Tensor, Tensor]:
    """The fused `costs.stack_statistics`: noise B and texture power B C of images B F C H W."""
    batch, frames, channels, height, width = images.shape
    flat = _rows_of_pixels(images)
    rows, columns = (height - 2) // steps[0] + 1, (width - 2) // steps[1] + 1
    noise, gradient = torch.empty((2, flat.shape[0]), device=images.device)
    _detail_kernel[(flat.shape[0],)](
        flat, noise, gradient, rows, columns, steps[0], steps[1], flat.stride(1), flat.stride(0),
        BLOCK=triton.next_power_of_2(rows * columns), num_warps=8,
    )  # fmt: skip
    noise_std = torch.empty(batch, device=images.device)
    texture_power = torch.empty((batch, channels), device=images.device)
    _combine_kernel[(batch,)](
        noise, gradient, noise_std, texture_power, given or 0.0, floor, FRAMES=frames, CHANNELS=channels,
        LANES=triton.next_power_of_2(channels), FRAME_LANES=triton.next_power_of_2(frames), num_warps=1,
    )  # fmt: skip
    return noise_std, texture_power
