"""Fused CUDA versions of the two costs (Triton). `costs.py` holds the plain versions, which are twin and fallback.

What plain torch spends on a GPU is bytes: every step writes the whole sweep (some 400 MB) and reads it again. Here each
cost is one pass that writes the filtered spectra, the inverse transforms, one pass that reads them, and small ones.
Real OTFs only; nothing here is differentiable.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import libdevice

BLOCK = 512


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


@triton.jit
def _load_complex(pointer, index, mask):
    """Complex numbers are moved as 64-bit words: one wide access each, and no shuffling between threads."""
    word = tl.load(pointer + index, mask=mask, other=0)
    return word.to(tl.int32).to(tl.float32, bitcast=True), (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _store_complex(pointer, index, real, imaginary, mask):
    low = real.to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    high = imaginary.to(tl.int32, bitcast=True).to(tl.int64) << 32
    tl.store(pointer + index, low | high, mask=mask)


@triton.jit
def _half_plane(index, height, width):
    """Frequencies of the left half of the plane, and where their negatives lie: real pictures have conjugates there."""
    half = width // 2 + 1
    y = index // half
    x = index % half
    opposite = tl.where(y == 0, 0, height - y) * width + tl.where(x == 0, 0, width - x)
    return y, x, y * width + x, opposite


@triton.jit
def _store_pair(out, at, opposite_at, even_real, even_imag, odd_real, odd_imag, mask, opposite_mask):
    """even + i odd at a frequency, conj(even) + i conj(odd) at its negative: two real pictures in one complex one."""
    _store_complex(out, at, even_real - odd_imag, even_imag + odd_real, mask)
    _store_complex(out, opposite_at, even_real + odd_imag, odd_real - even_imag, opposite_mask)


@triton.jit
def _reblur_spectra_kernel(
    spectra, otf, noise_std, texture_power, out,
    height, width, rows, columns, pairs, looseness,
    FRAMES: tl.constexpr, CHANNELS: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Residual spectra H x - I of all frames and the damped latent image, two planes packed as one complex map."""
    which = tl.program_id(0)  # stack * pairs + pair
    stack = which // pairs
    size = height * width
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = index < height * columns
    y, x, here, opposite = _half_plane(index, height, width)
    table = otf + which.to(tl.int64) * 2 * FRAMES * rows * columns + tl.where(y < rows, y, height - y) * columns + x
    channel = tl.arange(0, LANES)[:, None]  # LANES is CHANNELS rounded up to a power of two
    mask = (channel < CHANNELS) & inside[None, :]
    # Two columns hold their own negatives: each frequency there is stored once, so that results repeat to the bit.
    opposite_mask = mask & ((x != 0) & (2 * x != width))[None, :]
    at = channel * size + here[None, :]
    opposite_at = channel * size + opposite[None, :]
    power_0 = tl.zeros([BLOCK], tl.float32)
    power_1 = tl.zeros([BLOCK], tl.float32)
    real_0 = tl.zeros([LANES, BLOCK], tl.float32)
    imag_0 = tl.zeros([LANES, BLOCK], tl.float32)
    real_1 = tl.zeros([LANES, BLOCK], tl.float32)
    imag_1 = tl.zeros([LANES, BLOCK], tl.float32)
    for i in tl.static_range(FRAMES):
        h_0 = tl.load(table + i * rows * columns, mask=inside, other=0.0)
        h_1 = tl.load(table + (FRAMES + i) * rows * columns, mask=inside, other=0.0)
        power_0 += h_0 * h_0
        power_1 += h_1 * h_1
        real, imag = _load_complex(spectra, (stack * FRAMES + i) * CHANNELS * size + at, mask)
        real_0 += h_0[None, :] * real
        imag_0 += h_0[None, :] * imag
        real_1 += h_1[None, :] * real
        imag_1 += h_1[None, :] * imag
    sigma = tl.load(noise_std + stack)
    prior = tl.load(texture_power + stack * CHANNELS + channel, mask=channel < CHANNELS, other=1.0) * looseness
    fy = tl.where(y < rows, y, height - y).to(tl.float32) / height
    fx = x.to(tl.float32) / width
    damp = sigma * sigma / prior * (fy * fy + fx * fx)[None, :]
    gain_0 = 1.0 / (power_0[None, :] + damp)
    gain_1 = 1.0 / (power_1[None, :] + damp)
    real_0 *= gain_0
    imag_0 *= gain_0
    real_1 *= gain_1
    imag_1 *= gain_1
    base = which.to(tl.int64) * (FRAMES + 1) * CHANNELS * size
    target = base + FRAMES * CHANNELS * size
    root = tl.sqrt(damp)
    _store_pair(
        out, target + at, target + opposite_at,
        root * real_0, root * imag_0, root * real_1, root * imag_1, mask, opposite_mask,
    )  # fmt: skip
    for i in tl.static_range(FRAMES):
        h_0 = tl.load(table + i * rows * columns, mask=inside, other=0.0)[None, :]
        h_1 = tl.load(table + (FRAMES + i) * rows * columns, mask=inside, other=0.0)[None, :]
        real, imag = _load_complex(spectra, (stack * FRAMES + i) * CHANNELS * size + at, mask)
        target = base + i * CHANNELS * size
        _store_pair(
            out, target + at, target + opposite_at,
            h_0 * real_0 - real, h_0 * imag_0 - imag, h_1 * real_1 - real, h_1 * imag_1 - imag,
            mask, opposite_mask,
        )  # fmt: skip


@triton.jit
def _energy_kernel(maps, out, height, width, area_height, area_width, scale, MAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Sum of squares over the maps of a pair: real parts are the even plane's, imaginary parts the odd one's."""
    pair = tl.program_id(0).to(tl.int64)
    area = area_height * area_width
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < area
    source = pair * MAPS * height * width + (index // area_width) * width + index % area_width
    even = tl.zeros([BLOCK], tl.float32)
    odd = tl.zeros([BLOCK], tl.float32)
    for m in range(MAPS):
        real, imag = _load_complex(maps, source + m * height * width, mask)
        even += real * real
        odd += imag * imag
    tl.store(out + pair * 2 * area + index, even * scale, mask=mask)
    tl.store(out + (pair * 2 + 1) * area + index, odd * scale, mask=mask)


@triton.jit
def _wiener_spectra_kernel(
    spectra, otf, out,
    height, width, rows, columns, pairs, balance,
    FRAMES: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Every frame deconvolved at two planes at once: (W_even + i W_odd) I, W = H / (H^2 + balance L^2)."""
    which = tl.program_id(0)
    stack = which // pairs
    size = height * width
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < size
    y = index // width
    x = index % width
    y = tl.where(y < rows, y, height - y)  # the OTF is even: one quadrant stands for all
    x = tl.where(x < columns, x, width - x)
    table = otf + which.to(tl.int64) * 2 * FRAMES * rows * columns + y * columns + x
    turn = 6.283185307179586
    laplacian = 4.0 - 2.0 * tl.cos(turn * y.to(tl.float32) / height) - 2.0 * tl.cos(turn * x.to(tl.float32) / width)
    damp = balance * laplacian * laplacian
    for i in tl.static_range(FRAMES):
        h_0 = tl.load(table + i * rows * columns, mask=mask, other=0.0)
        h_1 = tl.load(table + (FRAMES + i) * rows * columns, mask=mask, other=0.0)
        w_0 = h_0 / (h_0 * h_0 + damp)
        w_1 = h_1 / (h_1 * h_1 + damp)
        for c in tl.static_range(CHANNELS):
            real, imag = _load_complex(spectra, ((stack * FRAMES + i) * CHANNELS + c) * size + index, mask)
            target = ((which.to(tl.int64) * FRAMES + i) * CHANNELS + c) * size + index
            _store_complex(out, target, w_0 * real - w_1 * imag, w_0 * imag + w_1 * real, mask)


@triton.jit
def _mean_variance_kernel(
    maps, mean_out, variance_out,
    height, width, area_height, area_width, scale,
    FRAMES: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Mean and variance over the frames of a pair of planes, one channel for each program row."""
    which = tl.program_id(0).to(tl.int64)  # pair * CHANNELS + channel
    pair = which // CHANNELS
    channel = which % CHANNELS
    area = area_height * area_width
    size = height * width
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < area
    source = (pair * FRAMES * CHANNELS + channel) * size + (index // area_width) * width + index % area_width
    # Welford's update: one pass, and no difference of large squares.
    mean_0 = tl.zeros([BLOCK], tl.float32)
    mean_1 = tl.zeros([BLOCK], tl.float32)
    total_0 = tl.zeros([BLOCK], tl.float32)
    total_1 = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(FRAMES):
        real, imag = _load_complex(maps, source + i * CHANNELS * size, mask)
        real *= scale
        imag *= scale
        delta_0 = real - mean_0
        delta_1 = imag - mean_1
        mean_0 += delta_0 / (i + 1)
        mean_1 += delta_1 / (i + 1)
        total_0 += delta_0 * (real - mean_0)
        total_1 += delta_1 * (imag - mean_1)
    even = (pair * 2 * CHANNELS + channel) * area + index
    odd = even + CHANNELS * area
    tl.store(mean_out + even, mean_0, mask=mask)
    tl.store(mean_out + odd, mean_1, mask=mask)
    tl.store(variance_out + even, total_0 / FRAMES, mask=mask)
    tl.store(variance_out + odd, total_1 / FRAMES, mask=mask)


@triton.jit
def _mirrored(position, length):
    position = tl.where(position < 0, -1 - position, position)
    return tl.where(position >= length, 2 * length - 1 - position, position)


@triton.jit
def _blur_kernel(
    source, taps, out, mean, variance, noise_std,
    height, width, planes, slope,
    RADIUS: tl.constexpr, ALONG_ROWS: tl.constexpr, MODE: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A Gaussian along one axis with mirrored borders, and what follows it at the same pixel.

    MODE 0: nothing. 1: variance + (mean - blurred)^2. 2: sum over channels of the square root. 3: the same, then
    tanh(slope * sum). 4: over the noise variance of the map's stack.
    """
    which = tl.program_id(0).to(tl.int64)
    size = height * width
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < size
    y = index // width
    x = index % width
    result = tl.zeros([BLOCK], tl.float32)
    for c in tl.static_range(CHANNELS):
        plane = source + (which * CHANNELS + c) * size
        total = tl.zeros([BLOCK], tl.float32)
        for k in tl.static_range(-RADIUS, RADIUS + 1):
            if ALONG_ROWS:  # noqa: SIM108
                shifted = y * width + _mirrored(x + k, width)
            else:
                shifted = _mirrored(y + k, height) * width + x
            total += tl.load(taps + RADIUS + k) * tl.load(plane + shifted, mask=mask, other=0.0)
        if MODE == 1:
            deviation = tl.load(mean + which * size + index, mask=mask, other=0.0) - total
            total = tl.load(variance + which * size + index, mask=mask, other=0.0) + deviation * deviation
        if MODE == 2 or MODE == 3:
            total = tl.sqrt(tl.maximum(total, 1e-19))
        if MODE == 4:
            sigma = tl.load(noise_std + which // planes)
            total = total / (sigma * sigma)
        result += total
    if MODE == 3:
        result = 1.0 - 2.0 / (tl.exp(2.0 * slope * result) + 1.0)
    tl.store(out + which * size + index, result, mask=mask)


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
def _finish_kernel(costs, out, planes, size, scale, MINMAX: tl.constexpr, BLOCK: tl.constexpr):
    """Over the planes of each pixel: min-max, or the excess x over the minimum as x / (x + scale)."""
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = index < size
    base = tl.program_id(0).to(tl.int64) * planes * size + index
    low = tl.full([BLOCK], float("inf"), tl.float32)
    high = tl.full([BLOCK], float("-inf"), tl.float32)
    for d in range(planes):
        value = tl.load(costs + base + d * size, mask=mask, other=0.0)
        low = tl.minimum(low, value)
        high = tl.maximum(high, value)
    for d in range(planes):
        excess = tl.load(costs + base + d * size, mask=mask, other=0.0) - low
        result = excess / (high - low + 1e-8) if MINMAX else excess / (excess + scale)
        tl.store(out + base + d * size, result, mask=mask)


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


def _rows_of_pixels(images: Tensor) -> Tensor:
    """Maps H W with neighbouring pixels of a row side by side, copied only where they are not."""
    images = images if images.stride(-1) == 1 else images.contiguous()
    return images.reshape(-1, *images.shape[-2:])


def _words(tensor: Tensor) -> Tensor:
    """Complex numbers as 64-bit words."""
    return tensor.view(torch.int64)


def pad_periodic(images: Tensor, height: int, width: int, encode: bool) -> Tensor:
    """The fused `deconvolution.pad_periodic`; the extension must not exceed the image. Rows may be strided."""
    *outer, area_height, area_width = images.shape
    flat = _rows_of_pixels(images)
    out = torch.empty((*outer, height, width), device=images.device)
    _pad_kernel[_grid(height * width, flat.shape[0])](
        flat, out, area_height, area_width, height, width, flat.stride(1), flat.stride(0), ENCODE=encode, BLOCK=BLOCK
    )
    return out


def finish(costs: Tensor, squash_scale: float | None) -> Tensor:
    """B D H W: min-max over the planes, or the squashed excess where a scale is given."""
    batch, planes, height, width = costs.shape
    out = torch.empty_like(costs)
    _finish_kernel[_grid(height * width, batch)](
        costs, out, planes, height * width, squash_scale or 0.0, MINMAX=squash_scale is None, BLOCK=BLOCK
    )
    return out


def _grid(size: int, maps: int) -> tuple[int, int]:
    """Maps first: CUDA takes two thousand million programs along the first axis, but only 65535 along the second."""
    return maps, triton.cdiv(size, BLOCK)


def disk_quadrant_otf(signed_coc_px: Tensor, height: int, width: int) -> Tensor:
    """The disk's OTF over the quadrant of frequencies up to the highest: (...) to (..., height//2+1, width//2+1)."""
    rows, columns = height // 2 + 1, width // 2 + 1
    coc = signed_coc_px.contiguous()
    out = torch.empty((*coc.shape, rows, columns), device=coc.device, dtype=torch.float32)
    _disk_otf_kernel[_grid(rows * columns, coc.numel())](coc, out, rows, columns, height, width, BLOCK=BLOCK)
    return out


def _blur(
    maps: Tensor, taps: Tensor, along_rows: bool, mode: int = 0, channels: int = 1, mean: Tensor | None = None,
    variance: Tensor | None = None, noise_std: Tensor | None = None, planes: int = 1, slope: float = 0.0,
) -> Tensor:  # fmt: skip
    height, width = maps.shape[-2:]
    count = maps.shape[0] // channels
    out = torch.empty((count, height, width), device=maps.device)
    _blur_kernel[_grid(height * width, count)](
        maps, taps, out, mean, variance, noise_std, height, width, planes, slope,
        RADIUS=taps.numel() // 2, ALONG_ROWS=along_rows, MODE=mode, CHANNELS=channels, BLOCK=BLOCK,
    )  # fmt: skip
    return out


SPECTRA_BLOCK = 128


def reblur_energy(
    spectra: Tensor,  # B F C h w complex64
    otf: Tensor,  # B D F, a quadrant of frequencies, float32
    noise_std: Tensor,  # B
    texture_power: Tensor,  # B C
    looseness: float,
    area: tuple[int, int],
    taps: Tensor,
) -> Tensor:  # B D H W
    """The fused `ReblurCost.evaluate`."""
    batch, frames, channels, height, width = spectra.shape
    pairs = otf.shape[1] // 2
    maps = (frames + 1) * channels
    filtered = torch.empty((batch * pairs * maps, height, width), device=spectra.device, dtype=torch.complex64)
    rows, columns = otf.shape[-2:]
    _reblur_spectra_kernel[batch * pairs, triton.cdiv(height * columns, SPECTRA_BLOCK)](
        _words(spectra), otf, noise_std, texture_power, _words(filtered),
        height, width, rows, columns, pairs, looseness,
        FRAMES=frames, CHANNELS=channels, LANES=triton.next_power_of_2(channels), BLOCK=SPECTRA_BLOCK,
    )  # fmt: skip
    pixels = _words(torch.fft.ifft2(filtered, norm="forward"))
    energy = torch.empty((batch * pairs * 2, *area), device=spectra.device)
    scale = 1 / (height * width) ** 2
    _energy_kernel[_grid(area[0] * area[1], batch * pairs)](
        pixels, energy, height, width, area[0], area[1], scale, MAPS=maps, BLOCK=BLOCK
    )
    energy = _blur(_blur(energy, taps, False), taps, True, mode=4, noise_std=noise_std, planes=2 * pairs)
    return energy.view(batch, 2 * pairs, *area)


def paper_deviation(
    spectra: Tensor,  # B F C h w complex64
    otf: Tensor,  # B D F, a quadrant of frequencies, float32
    balance: float,
    area: tuple[int, int],
    taps: Tensor,
    slope: float | None,  # tanh(slope * cost); None for no outlier removal
) -> Tensor:  # B D H W
    """The fused `PaperCost.evaluate`."""
    batch, frames, channels, height, width = spectra.shape
    pairs = otf.shape[1] // 2
    maps = batch * pairs * frames * channels
    filtered = torch.empty((maps, height, width), device=spectra.device, dtype=torch.complex64)
    rows, columns = otf.shape[-2:]
    _wiener_spectra_kernel[_grid(height * width, batch * pairs)](
        _words(spectra), otf, _words(filtered), height, width, rows, columns, pairs, balance,
        FRAMES=frames, CHANNELS=channels, BLOCK=BLOCK,
    )  # fmt: skip
    pixels = _words(torch.fft.ifft2(filtered, norm="forward"))
    mean = torch.empty((batch * pairs * 2 * channels, *area), device=spectra.device)
    variance = torch.empty_like(mean)
    _mean_variance_kernel[_grid(area[0] * area[1], batch * pairs * channels)](
        pixels, mean, variance, height, width, area[0], area[1], 1 / (height * width),
        FRAMES=frames, CHANNELS=channels, BLOCK=BLOCK,
    )  # fmt: skip
    deviation = _blur(_blur(mean, taps, False), taps, True, mode=1, mean=mean, variance=variance)
    bounded = {"mode": 2} if slope is None else {"mode": 3, "slope": slope}
    cost = _blur(_blur(deviation, taps, False), taps, True, channels=channels, **bounded)
    return cost.view(batch, 2 * pairs, *area)
