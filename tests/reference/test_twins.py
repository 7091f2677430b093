"""The twins against closed forms, SciPy and scikit-image: an oracle has to be checked before it judges."""

from functools import partial

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter
from scipy.special import j1, jv
from skimage.restoration import wiener as skimage_wiener

from . import twins

FOCUS_DISTANCES = np.array([0.3, 0.5, 1.0])
CAMERA = {"focal_length": 0.025, "f_number": 4.0, "pixel_pitch": 3e-5}


def assert_agree(actual: ArrayLike, expected: ArrayLike, tolerance: float) -> None:
    """Largest absolute difference at most `tolerance`; shapes equal, everything finite."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shapes differ: {actual.shape} and {expected.shape}"
    assert np.isfinite(actual).all(), "actual is not finite"
    assert np.isfinite(expected).all(), "expected is not finite"
    worst = np.abs(actual - expected).max()
    assert worst <= tolerance, f"largest difference {worst:.3g} exceeds {tolerance:.3g}"


def kernel_otf(kernel: np.ndarray, height: int, width: int) -> np.ndarray:
    """Full-plane DFT of an odd centred kernel, its centre moved to pixel (0, 0)."""
    padded = np.zeros((height, width))
    padded[: kernel.shape[0], : kernel.shape[1]] = kernel
    return np.fft.fft2(np.roll(padded, (-(kernel.shape[0] // 2), -(kernel.shape[1] // 2)), axis=(0, 1)))


def textured_stack(
    coc_px: np.ndarray, noise_std: float, channels: int = 2, height: int = 48, width: int = 44, seed: int = 0
) -> np.ndarray:
    """F C H W: noise with a 1/|f|^2 power spectrum, blurred circularly by each frame's disk, plus noise."""
    rng = np.random.default_rng(seed)
    fy, fx = twins.frequencies(height, width)
    radial = np.sqrt(fy**2 + fx**2)
    radial[0, 0] = np.inf
    frames = np.empty((len(coc_px), channels, height, width))
    for channel in range(channels):
        spectrum = np.fft.fft2(rng.standard_normal((height, width))) / radial
        for frame, coc in enumerate(coc_px):
            blurred = np.fft.ifft2(spectrum * twins.disk_otf(coc, fy, fx)).real
            frames[frame, channel] = blurred + noise_std * rng.standard_normal((height, width))
    return frames


def test_comparison_fails_on_a_planted_error() -> None:
    image = np.random.default_rng(0).random((16, 18))
    fy, fx = twins.frequencies(16, 18)
    restored = twins.wiener(image, twins.disk_otf(3.0, fy, fx), 0.01)
    assert_agree(restored, restored.copy(), 0.0)
    one_wrong_column = restored + 1e-6 * (np.arange(18) == 7)
    slightly_wrong_blur = twins.wiener(image, twins.disk_otf(3.001, fy, fx), 0.01)
    for planted in (one_wrong_column, slightly_wrong_blur):
        with pytest.raises(AssertionError, match="largest difference"):
            assert_agree(planted, restored, 1e-9)
    with pytest.raises(AssertionError, match="shapes differ"):
        assert_agree(restored[:1], restored, 1e-9)
    with pytest.raises(AssertionError, match="not finite"):
        assert_agree(np.where(restored == restored.max(), np.nan, restored), restored, 1e-9)


def test_coc_is_zero_in_focus_and_linear_in_inverse_depth() -> None:
    assert_agree(twins.coc_px(FOCUS_DISTANCES, FOCUS_DISTANCES, **CAMERA), np.zeros(3), 0.0)
    f, n, pitch = CAMERA.values()
    inverse = np.linspace(0.0, 8.0, 33)
    with np.errstate(divide="ignore"):
        depth = 1 / inverse
    for d_f in FOCUS_DISTANCES:
        slope = f / n * f * d_f / (d_f - f) / pitch
        assert_agree(twins.coc_px(depth, d_f, **CAMERA), slope * np.abs(1 / d_f - inverse), 1e-10)


def test_coc_limits_at_infinity() -> None:
    f, n, pitch = CAMERA.values()
    assert_agree(twins.coc_px(np.inf, 0.5, **CAMERA), f**2 / (n * (0.5 - f)) / pitch, 1e-12)
    assert_agree(twins.coc_px(1e12, 0.5, **CAMERA), twins.coc_px(np.inf, 0.5, **CAMERA), 1e-9)
    assert_agree(twins.coc_px(0.5, 1e12, **CAMERA), twins.coc_px(0.5, np.inf, **CAMERA), 1e-9)
    assert_agree(twins.coc_px(np.inf, np.inf, **CAMERA), 0.0, 0.0)
    assert twins.coc_px(np.ones((4, 1)), FOCUS_DISTANCES, **CAMERA).shape == (4, 3)


def test_otf_has_the_disk_variance_and_its_first_zero() -> None:
    # H(f) = 1 - 2 pi^2 variance f^2 near 0, variance c^2/16 per axis; the first zero is at f = 1.21967 / c.
    f = np.array([[1e-3]])
    zero = np.zeros((1, 1))
    for otf in (twins.disk_otf, twins.gaussian_otf):
        assert_agree((1 - otf(6.0, f, zero)) / (2 * np.pi**2 * f**2), [[36 / 16]], 1e-3)
        assert_agree(otf(0.0, *twins.frequencies(4, 5)), np.ones((4, 5)), 0.0)
        assert otf(6.0, zero, zero) == 1.0
    assert_agree(twins.disk_otf(6.0, np.array([[1.2196699 / 6.0]]), zero), [[0.0]], 1e-6)


@pytest.mark.parametrize("coc", [0.4, 1.0, 2.3, 5.0, 7.7])
def test_disk_kernels_agree_and_sum_to_one(coc: float) -> None:
    size = 11
    sampled, exact = twins.disk_kernel(coc, size), twins.disk_kernel_exact(coc, size)
    assert sampled.sum() == pytest.approx(1.0, abs=1e-12)
    assert exact.sum() == pytest.approx(1.0, abs=1e-12)
    # The counting error of a pixel is a few of its 41^2 points, divided by the disk's area.
    assert_agree(sampled, exact, 0.01 / max(np.pi * coc**2 / 4, 0.1))
    assert_agree(exact, exact.T, 1e-12)
    assert_agree(exact, exact[::-1], 1e-12)


def kernel_variance(coc: float) -> float:
    """Per-axis variance of the exact kernel, px^2."""
    kernel = twins.disk_kernel_exact(coc, 15)
    return float((kernel.sum(axis=0) * (np.arange(15) - 7) ** 2).sum())


@pytest.mark.parametrize("coc", [7.5, 8.2, 9.1, 10.0, 12.3])
def test_exact_kernel_has_the_variance_of_disk_and_pixel(coc: float) -> None:
    # Within 1 % from 7.5 px on; smaller disks feel the sampling (3 % at 4 px, 12 % at 2.3 px), see below.
    assert kernel_variance(coc) == pytest.approx(coc**2 / 16 + 1 / 12, rel=0.01)


@pytest.mark.parametrize("coc", [0.5, 1.0, 2.3, 4.0, 6.4, 9.1])
def test_exact_kernel_has_the_variance_of_disk_and_pixel_after_sampling(coc: float) -> None:
    # Poisson: sampling adds -g''(k) / (4 pi^2) for every whole k but 0, where g(f) = jinc(c f) sinc(f),
    # sinc(k) = 0, sinc'(k) = (-1)^k / k, sinc''(k) = -2 (-1)^k / k^2, jinc'(u) = -2 J2(pi u) / u.
    k = np.arange(1, 20001)
    jinc = 2 * j1(np.pi * coc * k) / (np.pi * coc * k)
    jinc_slope = -2 * jv(2, np.pi * coc * k) / (coc * k)
    curvature = np.where(k % 2 == 0, 1.0, -1.0) * (2 * coc * jinc_slope / k - 2 * jinc / k**2)
    aliased = -2 * curvature.sum() / (4 * np.pi**2)
    assert kernel_variance(coc) == pytest.approx(coc**2 / 16 + 1 / 12 + aliased, abs=1e-7)


def test_exact_kernel_of_a_disk_inside_one_pixel_is_a_delta() -> None:
    delta = np.zeros((3, 3))
    delta[1, 1] = 1.0
    for coc in (0.0, 0.5, 1.0):
        assert_agree(twins.disk_kernel_exact(coc, 3), delta, 1e-12)
        assert_agree(twins.disk_kernel(coc, 3), delta, 1e-12)


def test_exact_kernel_transforms_into_disk_times_pixel() -> None:
    # Area sampling = disk times the pixel's sinc, folded over at the sampling rate: equal at low frequencies.
    fy, fx = twins.frequencies(64, 64)
    low = np.sqrt(fy**2 + fx**2) < 0.1
    expected = twins.disk_otf(6.0, fy, fx) * np.sinc(fy) * np.sinc(fx)
    actual = kernel_otf(twins.disk_kernel_exact(6.0, 9), 64, 64)
    assert_agree(actual.real[low], expected[low], 5e-3)


@pytest.mark.parametrize(("height", "width"), [(32, 40), (31, 27)])
def test_wiener_agrees_with_scikit_image(height: int, width: int) -> None:
    image = np.random.default_rng(1).random((height, width))
    for coc in (0.5, 3.3, 6.0):
        kernel = twins.disk_kernel(coc, 9)
        expected = skimage_wiener(image, kernel, 0.01, clip=False)
        assert_agree(twins.wiener(image, kernel_otf(kernel, height, width), 0.01), expected, 1e-10)


def test_gaussian_blur_agrees_with_scipy() -> None:
    image = np.random.default_rng(2).random((13, 30))
    for sigma in (0.6, 1.0, 2.0, 4.0):
        assert_agree(twins.gaussian_blur(image, sigma), gaussian_filter(image, sigma, mode="reflect"), 1e-12)
        assert twins.gaussian_window(sigma).sum() == pytest.approx(1.0, abs=1e-12)
    assert_agree(twins.gaussian_blur(image, 0.0), image, 0.0)


def test_srgb_curve() -> None:
    # 0.2140411 is the linear light of display value 0.5.
    actual = twins.srgb_encode([-0.001, 0.0, 0.0031308, 0.2140411, 1.0, 2.0])
    assert_agree(actual, [-0.01292, 0.0, 0.04045, 0.5, 1.0, 1.055 * 2 ** (1 / 2.4) - 0.055], 1e-5)


def test_paper_cost_without_blur_is_the_deviation_of_the_frames() -> None:
    rng = np.random.default_rng(3)
    images = rng.random((3, 2, 12, 10))
    plain = partial(twins.paper_cost, images, np.zeros((1, 3)), 0.0, 0.0, normalise=False)
    actual = plain(outlier_removal=False)
    assert_agree(actual[0], images.std(axis=0).sum(axis=0), 1e-12)
    a = np.arctanh(0.999) / 0.3
    assert_agree(plain(outlier_removal=True), np.tanh(a * actual), 1e-12)


def test_paper_cost_is_normalised_over_planes() -> None:
    coc = np.array([[1.0, 3.0, 5.0], [2.0, 2.0, 2.0], [5.0, 3.0, 1.0]])
    cost = twins.paper_cost(0.1 * textured_stack(coc[0], 0.0), coc)
    assert cost.shape == (3, 48, 44)
    assert_agree(cost.min(axis=0), np.zeros((48, 44)), 0.0)
    assert (cost.max(axis=0) <= 1.0).all()
    assert np.median(cost.max(axis=0)) > 0.99


def test_misfit_sums_to_its_closed_form() -> None:
    # Putting the minimiser back into the quadratic: sum over frequencies of
    # sum_i |I_i|^2 - |sum_i conj(H_i) I_i|^2 / (sum_i |H_i|^2 + lambda), and the window keeps the sum.
    coc = np.array([[1.0, 4.0, 6.5], [3.0, 3.0, 0.0]])
    noise_std, power = 0.05, np.array([0.7, 2.0])
    images = textured_stack(coc[0], noise_std)
    height, width = images.shape[-2:]
    fy, fx = twins.frequencies(height, width)
    misfit = twins.reblur_misfit(images, coc, noise_std, power)
    for plane in range(2):
        otfs = np.stack([twins.disk_otf(c, fy, fx) for c in coc[plane]])
        total = 0.0
        for channel in range(2):
            spectra = np.fft.fft2(images[:, channel])
            lam = noise_std**2 * (fy**2 + fx**2) / power[channel]
            explained = np.abs((otfs * spectra).sum(axis=0)) ** 2 / ((otfs**2).sum(axis=0) + lam)
            total += ((np.abs(spectra) ** 2).sum(axis=0) - explained).sum() / (height * width)
        assert misfit[plane].sum() == pytest.approx(total / noise_std**2, rel=1e-9)


def test_latent_image_is_the_texture_where_one_frame_is_sharp() -> None:
    images = textured_stack(np.array([0.0, 4.0]), 0.0)
    fy, fx = twins.frequencies(*images.shape[-2:])
    otfs = np.stack([twins.disk_otf(c, fy, fx) for c in (0.0, 4.0)])
    assert_agree(twins.reblur_latent(images, otfs, 1e-6, [1.0, 1.0]), images[0], 1e-6)


@pytest.mark.parametrize("true_plane", [2, 5, 9])
def test_misfit_is_minimal_at_the_true_plane(true_plane: int) -> None:
    inverse_depths = np.linspace(0.8, 3.6, 12)
    coc = twins.coc_px(1 / inverse_depths[:, None], FOCUS_DISTANCES[None, :], **CAMERA)
    noise_std = 0.02
    images = textured_stack(coc[true_plane], noise_std, seed=true_plane)
    misfit = twins.reblur_misfit(images, coc, noise_std, [1.0, 1.0])
    assert misfit.mean(axis=(1, 2)).argmin() == true_plane
    error = np.abs(twins.argmin_depth(misfit, inverse_depths) - inverse_depths[true_plane])
    assert np.median(error) < inverse_depths[1] - inverse_depths[0]


def test_noise_estimate() -> None:
    rng = np.random.default_rng(4)
    ramp = np.add.outer(np.linspace(0, 3, 201), np.linspace(0, 2, 151))
    assert twins.estimate_noise_std(ramp) == pytest.approx(0.0, abs=1e-12)
    noisy = ramp + 0.03 * rng.standard_normal(ramp.shape)
    assert twins.estimate_noise_std(noisy) == pytest.approx(0.03, rel=0.05)


@pytest.mark.parametrize("direction", [1, -1])
def test_argmin_finds_the_vertex_of_a_parabola(direction: int) -> None:
    inverse_depths = np.array([0.0, 0.3, 0.5, 1.1, 1.4, 2.0])[::direction]
    vertices = np.array([[0.31, 0.6, 1.0], [1.2, 1.45, 0.41]])
    cost = (inverse_depths[:, None, None] - vertices) ** 2 * 3.0 + 0.7
    assert_agree(twins.argmin_depth(cost, inverse_depths), vertices, 1e-12)


def test_argmin_leaves_end_planes_and_flat_costs() -> None:
    inverse_depths = np.array([0.1, 0.4, 0.5])
    pixels = [[0.0, 1.0, 2.0], [2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [3.0, 0.0, 3.0]]
    cost = np.array(pixels).T.reshape(3, 1, 5)
    # The fourth pixel's vertex is midway between its two equal planes, the fifth's between the ends.
    assert_agree(twins.argmin_depth(cost, inverse_depths), [[0.1, 0.5, 0.1, 0.45, 0.3]], 1e-12)
