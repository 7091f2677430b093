"""Both costs at pairs of planes: spectra in, one map for each plane out."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from focalsweep.sweep.kernels.maps import BLOCK, blur, launch_grid

SPECTRA_BLOCK = 128


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


def _words(tensor: Tensor) -> Tensor:
    """Complex numbers as 64-bit words."""
    return tensor.view(torch.int64)


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
    _energy_kernel[launch_grid(area[0] * area[1], batch * pairs)](
        pixels, energy, height, width, area[0], area[1], scale, MAPS=maps, BLOCK=BLOCK
    )
    energy = blur(blur(energy, taps, False), taps, True, mode=4, noise_std=noise_std, planes=2 * pairs)
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
    _wiener_spectra_kernel[launch_grid(height * width, batch * pairs)](
        _words(spectra), otf, _words(filtered), height, width, rows, columns, pairs, balance,
        FRAMES=frames, CHANNELS=channels, BLOCK=BLOCK,
    )  # fmt: skip
    pixels = _words(torch.fft.ifft2(filtered, norm="forward"))
    mean = torch.empty((batch * pairs * 2 * channels, *area), device=spectra.device)
    variance = torch.empty_like(mean)
    _mean_variance_kernel[launch_grid(area[0] * area[1], batch * pairs * channels)](
        pixels, mean, variance, height, width, area[0], area[1], 1 / (height * width),
        FRAMES=frames, CHANNELS=channels, BLOCK=BLOCK,
    )  # fmt: skip
    deviation = blur(blur(mean, taps, False), taps, True, mode=1, mean=mean, variance=variance)
    bounded = {"mode": 2} if slope is None else {"mode": 3, "slope": slope}
    cost = blur(blur(deviation, taps, False), taps, True, channels=channels, **bounded)
    return cost.view(batch, 2 * pairs, *area)
