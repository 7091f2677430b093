"""The paper's cost volume as a straightforward NumPy, SciPy and scikit-image script: the slow rival.

It follows the manner of the paper's released code: display-encoded images,
spatial disk kernels with a dead zone below one pixel and a clamp, one call of scikit-image's Wiener-Hunt
deconvolution per plane, frame and channel, no padding. One difference: the Gaussian acts within each channel
only, where the released code also blurs across the colour axis by accident.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from skimage.restoration import wiener

Array = NDArray[np.float64]

BALANCE = 0.01
NEIGHBOURHOOD_SIGMA_PX = 1.0
C_MAX = 0.3
F_1 = 0.999


def disk_kernel(diameter_px: float) -> Array:
    """Disk with exact pixel-area coverage, odd square, sums to 1; a delta below one pixel diameter.

    The area of the quarter disk left of x and below y, 0 <= x, y <= r, is y x_c + P(x) - P(x_c), where
    x_c = min(x, sqrt(r^2 - y^2)) and P(u) = (u sqrt(r^2 - u^2) + r^2 asin(u / r)) / 2. Continued as an odd
    function of x and of y, its second difference over the pixel corners is the covered area of each pixel.
    """
    if diameter_px < 1.0:
        return np.ones((1, 1))
    r = diameter_px / 2
    half = int(np.ceil(r - 0.5))
    edges = np.arange(-half, half + 2) - 0.5
    clipped = np.clip(np.abs(edges), 0.0, r)
    x, y = clipped[None, :], clipped[:, None]
    x_c = np.minimum(x, np.sqrt(r**2 - y**2))

    def area_under_arc(u: Array) -> Array:
        return (u * np.sqrt(r**2 - u**2) + r**2 * np.arcsin(u / r)) / 2

    quarter = y * x_c + area_under_arc(x) - area_under_arc(x_c)
    signed = np.sign(edges)[None, :] * np.sign(edges)[:, None] * quarter
    coverage: Array = np.diff(np.diff(signed, axis=0), axis=1)
    coverage /= coverage.sum()
    return coverage


def paper_cost_volume(
    images: Array,  # F H W 3
    focus_distances: Array,  # F
    depths: Array,  # D
    focal_length: float,
    f_number: float,
    pixel_pitch: float,
    max_coc_px: float = 10.0,
) -> Array:
    """Cost volume of the paper (Eqs. 5 to 10), D H W in [0, 1].

    Args:
        images: F H W 3, display-encoded, in [0, 1].
        focus_distances: F, metres.
        depths: D, metres.
        focal_length: metres.
        f_number: the aperture is focal_length / f_number.
        pixel_pitch: metres per pixel.
        max_coc_px: larger circles of confusion are clamped to this diameter.
    """
    height, width, channel_count = images.shape[1:]
    cost: Array = np.empty((len(depths), height, width))
    for plane, depth in enumerate(depths):
        deblurred = np.empty_like(images)
        for frame, focus_distance in enumerate(focus_distances):
            blur_at_infinity = focal_length**2 / (f_number * (focus_distance - focal_length))
            coc_px = abs(depth - focus_distance) / depth * blur_at_infinity / pixel_pitch
            kernel = disk_kernel(min(coc_px, max_coc_px))
            for channel in range(channel_count):
                deblurred[frame, ..., channel] = wiener(  # type: ignore[no-untyped-call]
                    images[frame, ..., channel], kernel, balance=BALANCE, clip=False
                )
        # Sigma 0 on the last axis: blur within each channel.
        sigma = (NEIGHBOURHOOD_SIGMA_PX, NEIGHBOURHOOD_SIGMA_PX, 0)
        mean = gaussian_filter(deblurred.mean(axis=0), sigma)
        variance = gaussian_filter(((deblurred - mean) ** 2).mean(axis=0), sigma)
        cost[plane] = np.sqrt(variance).sum(axis=-1)
    cost = np.tanh(np.log((1 + F_1) / (1 - F_1)) / (2 * C_MAX) * cost)
    lowest, highest = cost.min(axis=0), cost.max(axis=0)
    normalised: Array = (cost - lowest) / (highest - lowest + 1e-8)
    return normalised
