"""Slow, readable twins of the physics and of both costs: the oracle for the fast code.

NumPy and SciPy only, float64, explicit loops over planes, frames and channels. Nothing is imported from the
package under test. Axes: F frame, D depth plane, C channel, H, W. Lengths are metres, blur is a diameter in
pixels (`coc_px`), frequencies are cycles per pixel. Every filter wraps around (no padding); every Gaussian
window mirrors the image at half a sample. Equation numbers are those of the paper.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.special import j1

Array = NDArray[np.float64]


def coc_px(
    depth: ArrayLike,
    focus_distance: ArrayLike,
    focal_length: ArrayLike,
    f_number: ArrayLike,
    pixel_pitch: ArrayLike,
) -> Array:
    """Diameter of the circle of confusion in pixels (Eq. 1).

        c = |d - d_f| / d * f^2 / (N (d_f - f)) / pixel_pitch

    Limits: f^2 / (N (d_f - f)) / pitch for d = inf, f^2 / (N d) / pitch for d_f = inf, 0 for both.

    Args:
        depth, focus_distance, focal_length, f_number, pixel_pitch: any shapes that broadcast; metres, except
            the f-number.

    Returns:
        The broadcast shape, pixels.
    """
    arguments = (depth, focus_distance, focal_length, f_number, pixel_pitch)
    broadcast = np.broadcast(*(np.asarray(argument, dtype=np.float64) for argument in arguments))
    diameters = np.empty(broadcast.shape)
    for index, (d, d_f, f, n, pitch) in zip(np.ndindex(broadcast.shape), broadcast, strict=True):
        if np.isinf(d) and np.isinf(d_f):
            on_sensor = 0.0
        elif np.isinf(d):
            on_sensor = f**2 / (n * (d_f - f))
        elif np.isinf(d_f):
            on_sensor = f**2 / (n * d)
        else:
            on_sensor = abs(d - d_f) / d * f**2 / (n * (d_f - f))
        diameters[index] = on_sensor / pitch
    return diameters


def frequencies(height: int, width: int) -> tuple[Array, Array]:
    """Frequencies of the full-plane DFT in cycles per pixel, in `np.fft.fftfreq` order.

    Returns:
        fy (H 1) and fx (1 W), each in [-1/2, 1/2).
    """
    fy: Array = np.fft.fftfreq(height).reshape(height, 1).astype(np.float64)
    fx: Array = np.fft.fftfreq(width).reshape(1, width).astype(np.float64)
    return fy, fx


def disk_otf(coc_px: float, fy: Array, fx: Array) -> Array:
    """Transfer function of a uniform disk of diameter `coc_px`.

        H(f) = 2 J1(x) / x,   x = pi * coc_px * |f|,   H = 1 at x = 0

    Args:
        coc_px: diameter, pixels.
        fy, fx: H 1 and 1 W (or any shapes that broadcast), cycles per pixel.

    Returns:
        H W, real.
    """
    x = np.pi * coc_px * np.sqrt(fy**2 + fx**2)
    otf = np.ones_like(x)
    away_from_zero = x > 0
    otf[away_from_zero] = 2 * j1(x[away_from_zero]) / x[away_from_zero]
    return otf


def gaussian_otf(coc_px: float, fy: Array, fx: Array, k: float = 0.25) -> Array:
    """Transfer function of a Gaussian with sigma = k * coc_px (k = 1/4 has the disk's variance).

        H(f) = exp(-2 pi^2 sigma^2 |f|^2)

    Args:
        coc_px: diameter, pixels.
        fy, fx: H 1 and 1 W (or any shapes that broadcast), cycles per pixel.
        k: sigma per diameter.

    Returns:
        H W, real.
    """
    sigma_px = k * coc_px
    return np.exp(-2 * np.pi**2 * sigma_px**2 * (fy**2 + fx**2))


def disk_kernel(coc_px: float, size: int, oversample: int = 41) -> Array:
    """Area-sampled disk by brute force: the share of `oversample`^2 points of each pixel inside the disk.

        k[y, x] = number of points (u, v) of pixel (y, x) with u^2 + v^2 <= (coc_px / 2)^2,   over its own sum

    The centre of the middle pixel is the origin. An even `oversample` would leave a vanishing disk empty.

    Args:
        coc_px: diameter, pixels.
        size: odd side length of the kernel; what lies outside is cut off before normalising.
        oversample: odd number of points along each side of a pixel.

    Returns:
        size size, sums to 1.
    """
    if size % 2 == 0 or oversample % 2 == 0:
        raise ValueError(f"size and oversample must be odd: got {size} and {oversample}")
    radius = coc_px / 2
    half = size // 2
    within_pixel = (np.arange(oversample) - oversample // 2) / oversample
    kernel: Array = np.zeros((size, size))
    for row in range(size):
        for column in range(size):
            v = (row - half + within_pixel).reshape(oversample, 1)
            u = (column - half + within_pixel).reshape(1, oversample)
            kernel[row, column] = np.count_nonzero(u**2 + v**2 <= radius**2)
    kernel /= kernel.sum()
    return kernel


def disk_kernel_exact(coc_px: float, size: int) -> Array:
    """Area-sampled disk by quadrature: the overlap of each pixel square with the disk.

        k[y, x] = integral over u in [x - 1/2, x + 1/2] of the length of [y - 1/2, y + 1/2] inside [-s, s],
        s(u) = sqrt((coc_px / 2)^2 - u^2),   divided by the kernel's own sum

    Args:
        coc_px: diameter, pixels; 0 gives a delta.
        size: odd side length of the kernel; what lies outside is cut off before normalising.

    Returns:
        size size, sums to 1.
    """
    if size % 2 == 0:
        raise ValueError(f"size must be odd: got {size}")
    radius = coc_px / 2
    half = size // 2
    kernel = np.zeros((size, size))
    if radius == 0:
        kernel[half, half] = 1.0
        return kernel
    for row in range(size):
        bottom, top = row - half - 0.5, row - half + 0.5

        def length_inside(u: float, bottom: float = bottom, top: float = top) -> float:
            s = float(np.sqrt(max(radius**2 - u**2, 0.0)))
            return max(min(top, s) - max(bottom, -s), 0.0)

        # The integrand has a kink where the circle crosses the top or the bottom of this row of pixels.
        kinks = [np.sqrt(radius**2 - v**2) for v in (bottom, top) if abs(v) < radius]
        for column in range(size):
            left = max(column - half - 0.5, -radius)
            right = min(column - half + 0.5, radius)
            if left >= right:
                continue
            inner = [kink for k in kinks for kink in (-k, k) if left < kink < right]
            edges = [left, *sorted(inner), right]
            for start, stop in pairwise(edges):
                kernel[row, column] += quad(length_inside, start, stop, epsabs=1e-12, epsrel=1e-12)[0]
    kernel /= kernel.sum()
    return kernel


def wiener(image: Array, otf: NDArray[np.generic], balance: float) -> Array:
    """Wiener-Hunt deconvolution with a Laplacian regulariser and circular boundary (Eq. 6).

        X = conj(H) / (|H|^2 + balance |L|^2) * I,   L = DFT of [[0, -1, 0], [-1, 4, -1], [0, -1, 0]]

    Args:
        image: H W, real.
        otf: H W, full plane in `np.fft.fft2` order, real or complex.
        balance: weight of the regulariser.

    Returns:
        H W, real.
    """
    height, width = image.shape
    laplacian = np.zeros((height, width))
    # The centre sits at pixel (0, 0), its neighbours wrap around; += serves images one or two pixels wide.
    for dy, dx, value in ((0, 0, 4.0), (0, 1, -1.0), (0, -1, -1.0), (1, 0, -1.0), (-1, 0, -1.0)):
        laplacian[dy % height, dx % width] += value
    laplacian_otf = np.fft.fft2(laplacian)
    filter_ = np.conj(otf) / (np.abs(otf) ** 2 + balance * np.abs(laplacian_otf) ** 2)
    return np.fft.ifft2(filter_ * np.fft.fft2(image)).real


def gaussian_window(sigma_px: float) -> Array:
    """Taps of a sampled Gaussian, radius int(4 sigma + 0.5), as in `scipy.ndimage.gaussian_filter`.

        w[k] = exp(-k^2 / (2 sigma^2)) / sum

    Returns:
        2 radius + 1 taps that sum to 1; a single 1 for sigma 0.
    """
    radius = int(4 * sigma_px + 0.5)
    if sigma_px == 0:
        return np.ones(1)
    offsets = np.arange(-radius, radius + 1, dtype=np.float64)
    taps: Array = np.exp(-(offsets**2) / (2 * sigma_px**2))
    taps /= taps.sum()
    return taps


def gaussian_blur(image: Array, sigma_px: float) -> Array:
    """Separable Gaussian blur, mirrored at half a sample: d c b a | a b c d | d c b a.

        out[y, x] = sum_j sum_k w[j] w[k] image[y + j, x + k]

    Args:
        image: H W.
        sigma_px: standard deviation, pixels; 0 returns the image.

    Returns:
        H W.
    """
    taps = gaussian_window(sigma_px)
    radius = len(taps) // 2
    height, width = image.shape
    rows = np.pad(image, ((radius, radius), (0, 0)), mode="symmetric")
    down = np.zeros((height, width))
    for k, weight in enumerate(taps):
        down += weight * rows[k : k + height, :]
    columns = np.pad(down, ((0, 0), (radius, radius)), mode="symmetric")
    both = np.zeros((height, width))
    for k, weight in enumerate(taps):
        both += weight * columns[:, k : k + width]
    return both


def srgb_encode(linear: ArrayLike) -> Array:
    """Linear light to display values, IEC 61966-2-1; the same two branches below 0 and above 1.

        12.92 v                      for v <= 0.0031308
        1.055 v^(1/2.4) - 0.055      above

    Args:
        linear: any shape.

    Returns:
        The same shape.
    """
    linear = np.asarray(linear, dtype=np.float64)
    encoded = np.empty_like(linear)
    dark = linear <= 0.0031308
    encoded[dark] = 12.92 * linear[dark]
    encoded[~dark] = 1.055 * linear[~dark] ** (1 / 2.4) - 0.055
    return encoded


def paper_cost(
    images: Array,
    coc_px: Array,
    balance: float = 0.01,
    neighbourhood_sigma_px: float = 1.0,
    outlier_removal: bool = True,
    normalise: bool = True,
    c_max: float = 0.3,
    f_1: float = 0.999,
) -> Array:
    """The paper's cost volume (Eqs. 5 to 10) with the disk OTF, circular boundary, no padding.

        deblurred_i = Wiener-Hunt(I_i, disk OTF of coc_px[d, i])
        mu          = gauss * mean_i deblurred_i
        rho         = sqrt(gauss * mean_i (deblurred_i - mu)^2),   C = sum over channels of rho
        C          <- tanh(a C),   a = log((1 + f_1) / (1 - f_1)) / (2 C_max)
        C          <- (C - min_d C) / (max_d C - min_d C + 1e-8)

    Args:
        images: F C H W, display-encoded.
        coc_px: D F, diameters in pixels.
        balance: weight of the Laplacian regulariser.
        neighbourhood_sigma_px: sigma of both Gaussians; 0 switches both off.
        outlier_removal: apply the tanh.
        normalise: apply the min-max over planes.
        c_max, f_1: the tanh reaches f_1 at cost c_max.

    Returns:
        D H W.
    """
    frame_count, channel_count, height, width = images.shape
    plane_count = coc_px.shape[0]
    fy, fx = frequencies(height, width)
    cost = np.zeros((plane_count, height, width))
    for plane in range(plane_count):
        for channel in range(channel_count):
            deblurred = np.empty((frame_count, height, width))
            for frame in range(frame_count):
                otf = disk_otf(coc_px[plane, frame], fy, fx)
                deblurred[frame] = wiener(images[frame, channel], otf, balance)
            mu = gaussian_blur(deblurred.mean(axis=0), neighbourhood_sigma_px)
            squared_deviation = np.zeros((height, width))
            for frame in range(frame_count):
                squared_deviation += (deblurred[frame] - mu) ** 2
            variance = gaussian_blur(squared_deviation / frame_count, neighbourhood_sigma_px)
            cost[plane] += np.sqrt(variance)
    if outlier_removal:
        a = np.log((1 + f_1) / (1 - f_1)) / (2 * c_max)
        cost = np.tanh(a * cost)
    if normalise:
        lowest = cost.min(axis=0)
        highest = cost.max(axis=0)
        for plane in range(plane_count):
            cost[plane] = (cost[plane] - lowest) / (highest - lowest + 1e-8)
    return cost


def reblur_latent(images: Array, otfs: NDArray[np.generic], noise_std: float, texture_power: ArrayLike) -> Array:
    """The sharp image that explains all frames best at one plane (circular boundary).

        X_c = sum_i conj(H_i) I_ic / (sum_i |H_i|^2 + lambda_c)
        lambda_c(f) = noise_std^2 / S_c(f) = noise_std^2 |f|^2 / texture_power_c

    At f = 0 the prior is silent (lambda = 0) and X is the frames' mean.

    Args:
        images: F C H W.
        otfs: F H W, full plane in `np.fft.fft2` order.
        noise_std: scalar, in units of the images.
        texture_power: C values; S_c(f) = texture_power_c / |f|^2.

    Returns:
        C H W, real.
    """
    frame_count, channel_count, height, width = images.shape
    power = np.asarray(texture_power, dtype=np.float64)
    if power.shape != (channel_count,):
        raise ValueError(f"texture_power must have shape ({channel_count},): got {power.shape}")
    fy, fx = frequencies(height, width)
    latent = np.empty((channel_count, height, width))
    for channel in range(channel_count):
        numerator = np.zeros((height, width), dtype=np.complex128)
        denominator = noise_std**2 * (fy**2 + fx**2) / power[channel]
        for frame in range(frame_count):
            numerator += np.conj(otfs[frame]) * np.fft.fft2(images[frame, channel])
            denominator += np.abs(otfs[frame]) ** 2
        latent[channel] = np.fft.ifft2(numerator / denominator).real
    return latent


def reblur_misfit(
    images: Array,
    coc_px: Array,
    noise_std: float,
    texture_power: ArrayLike,
    window_sigma_px: float = 2.0,
) -> Array:
    """Windowed misfit of the latent image of every plane, in units of the noise variance (disk OTF).

        E[d] = gauss * sum_c [ sum_i (h_i * x_c - i_ic)^2 + (sqrt(lambda_c) filtered x_c)^2 ] / noise_std^2

    with x_c and lambda_c of `reblur_latent`; filters wrap around, the window mirrors.

    Args:
        images: F C H W.
        coc_px: D F, diameters in pixels.
        noise_std: scalar, in units of the images.
        texture_power: C values.
        window_sigma_px: sigma of the window, pixels; 0 means none.

    Returns:
        D H W.
    """
    frame_count, channel_count, height, width = images.shape
    plane_count = coc_px.shape[0]
    power = np.asarray(texture_power, dtype=np.float64)
    fy, fx = frequencies(height, width)
    misfit = np.empty((plane_count, height, width))
    for plane in range(plane_count):
        otfs = np.stack([disk_otf(coc_px[plane, frame], fy, fx) for frame in range(frame_count)])
        latent = reblur_latent(images, otfs, noise_std, power)
        squares = np.zeros((height, width))
        for channel in range(channel_count):
            spectrum = np.fft.fft2(latent[channel])
            for frame in range(frame_count):
                reblurred = np.fft.ifft2(otfs[frame] * spectrum).real
                squares += (reblurred - images[frame, channel]) ** 2
            root_lambda = noise_std * np.sqrt((fy**2 + fx**2) / power[channel])
            squares += np.fft.ifft2(root_lambda * spectrum).real ** 2
        misfit[plane] = gaussian_blur(squares, window_sigma_px) / noise_std**2
    return misfit


def estimate_noise_std(image: Array) -> float:
    """Noise of one channel from its finest diagonal Haar details (robust median, Donoho).

        std = median |detail| / 0.6745,   detail = (a - b - c + d) / 2 on separate blocks [[a, b], [c, d]]

    Args:
        image: H W; an odd last row or column is left out.

    Returns:
        Standard deviation, in units of the image.
    """
    height, width = image.shape
    details = []
    for row in range(0, height - 1, 2):
        for column in range(0, width - 1, 2):
            a, b = image[row, column], image[row, column + 1]
            c, d = image[row + 1, column], image[row + 1, column + 1]
            details.append((a - b - c + d) / 2)
    return float(np.median(np.abs(details)) / 0.6745)


def argmin_depth(cost: Array, inverse_depths: ArrayLike) -> Array:
    """Inverse depth of the lowest plane, refined by a parabola through it and its two neighbours.

    The parabola through (x_0, y_0), (x_1, y_1), (x_2, y_2), with any spacing, has its vertex at (Lagrange)

        x = [y_0 (x_1^2 - x_2^2) + y_1 (x_2^2 - x_0^2) + y_2 (x_0^2 - x_1^2)]
            / (2 [y_0 (x_1 - x_2) + y_1 (x_2 - x_0) + y_2 (x_0 - x_1)])

    computed with x and y relative to (x_1, y_1) against cancellation, and clamped to [x_0, x_2]. The lowest
    plane is the first of equals; end planes and a flat triple stay unrefined.

    Args:
        cost: D H W.
        inverse_depths: D values, strictly monotonic, 1/m.

    Returns:
        H W, 1/m.
    """
    inverse = np.asarray(inverse_depths, dtype=np.float64)
    plane_count, height, width = cost.shape
    if inverse.shape != (plane_count,):
        raise ValueError(f"inverse_depths must have shape ({plane_count},): got {inverse.shape}")
    refined = np.empty((height, width))
    for row in range(height):
        for column in range(width):
            lowest = int(np.argmin(cost[:, row, column]))
            x_1, y_1 = inverse[lowest], cost[lowest, row, column]
            refined[row, column] = x_1
            if lowest in (0, plane_count - 1):
                continue
            x_0, y_0 = inverse[lowest - 1] - x_1, cost[lowest - 1, row, column] - y_1
            x_2, y_2 = inverse[lowest + 1] - x_1, cost[lowest + 1, row, column] - y_1
            if y_0 == 0 and y_2 == 0:
                continue
            step = (y_2 * x_0**2 - y_0 * x_2**2) / (2 * (y_2 * x_0 - y_0 * x_2))
            refined[row, column] = x_1 + np.clip(step, min(x_0, x_2), max(x_0, x_2))
    return refined
