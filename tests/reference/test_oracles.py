"""The fast physics against independent oracles: scikit-image's Wiener-Hunt filter, SciPy's Bessel functions, twins."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from scipy.special import j1, jv
from skimage.restoration import wiener as skimage_wiener

from focalsweep import Camera, DepthGrid, Disk, FocalStack, PaperCost, ReblurCost, cost_volume
from focalsweep.optics.psf import jinc
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.costs import gaussian_blur, gaussian_taps
from focalsweep.sweep.deconvolution import fourier_grid, transfer_functions, wiener_filter
from focalsweep.sweep.statistics import haar_details, noise_from_detail, stack_statistics
from tests.reference import twins

CPU = torch.device("cpu")
FOCUS_DISTANCES = [0.5, 0.62, 0.8, 1.1, 2.0]
DEPTHS = [0.45, 0.55, 0.7, 1.0, 1.8, 4.0, 30.0]
BALANCE = 0.01


def random_images(*shape: int, seed: int = 0) -> np.ndarray:
    """Smooth structure and a little noise, low enough in contrast that the paper's tanh does not saturate."""
    rng = np.random.default_rng(seed)
    smooth = gaussian_filter(rng.standard_normal(shape), (0,) * (len(shape) - 2) + (2, 2))
    return np.clip(0.45 + 0.3 * smooth + 0.002 * rng.standard_normal(shape), 0.05, 0.95)


def camera(scale: float = 1.0) -> Camera:
    """Blurs of up to about 6 px over `DEPTHS`."""
    return Camera(focal_length=0.025, f_number=2.8, pixel_pitch=6e-5 * scale)


def twin_coc(frames: int, lens: Camera) -> np.ndarray:
    """D F."""
    return twins.coc_px(
        np.array(DEPTHS)[:, None],
        np.array(FOCUS_DISTANCES[:frames]),
        lens.focal_length,
        lens.f_number,
        lens.pixel_pitch,
    )


def apply_filter(image: torch.Tensor, filter_: torch.Tensor) -> torch.Tensor:
    return torch.fft.ifft2(torch.fft.fft2(image) * filter_).real


# scikit-image


@pytest.mark.parametrize("size", [(32, 36), (31, 37)], ids=["even", "odd"])
@pytest.mark.parametrize("plane", range(0, len(DEPTHS), 2))
def test_wiener_filter_agrees_with_scikit_image(size: tuple[int, int], plane: int) -> None:
    """Every plane and frame, with the same transfer function of the whole plane."""
    images = random_images(3, *size)
    grid = fourier_grid(*size, CPU, torch.float32)
    laplacian = np.zeros(size)
    laplacian[0, 0], laplacian[0, [1, -1]], laplacian[[1, -1], 0] = 4, -1, -1
    for frame, coc in enumerate(twin_coc(3, camera())[plane]):
        otf = transfer_functions(Disk(), torch.tensor(coc), grid)
        ours = apply_filter(torch.from_numpy(images[frame]).float(), wiener_filter(otf, grid, BALANCE))
        theirs = skimage_wiener(
            images[frame], otf.double().numpy(), BALANCE, reg=np.fft.fft2(laplacian), is_real=False, clip=False
        )
        np.testing.assert_allclose(ours.numpy(), theirs.real, rtol=0, atol=1e-5)


@pytest.mark.parametrize("coc", [0.6, 2.0, 3.7, 6.1])
def test_wiener_filter_with_a_spatial_kernel_agrees_with_scikit_image(coc: float) -> None:
    image = random_images(40, 44)
    kernel = Disk().kernel(torch.tensor(coc, dtype=torch.float64))
    # scikit-image puts the kernel's centre at pixel (0, 0) and chooses its own Laplacian: the usual one.
    theirs = skimage_wiener(image, kernel.numpy(), BALANCE, clip=False)
    side = kernel.shape[-1]
    padded = torch.zeros(40, 44)
    padded[:side, :side] = kernel.float()
    otf = torch.fft.fft2(padded.roll((-(side // 2), -(side // 2)), (0, 1)))
    ours = apply_filter(
        torch.from_numpy(image).float(), wiener_filter(otf, fourier_grid(40, 44, CPU, torch.float32), BALANCE)
    )
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=1e-5)


# SciPy


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_jinc_agrees_with_scipy(dtype: torch.dtype, tolerance: float) -> None:
    x = np.concatenate([np.logspace(-12, 0, 200), np.linspace(1e-3, 60, 4001), np.logspace(1.8, 3, 200)])
    given = torch.from_numpy(x).to(dtype)
    exact = given.double().numpy()
    np.testing.assert_allclose(jinc(given).numpy(), 2 * j1(exact) / exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_gradient_of_jinc_agrees_with_scipy(dtype: torch.dtype, tolerance: float) -> None:
    x = np.concatenate(
        [-np.logspace(-6, 1, 100), np.logspace(-12, 0, 200), np.linspace(0.4, 0.6, 101), np.linspace(1, 80, 999)]
    )
    given = torch.from_numpy(x).to(dtype).requires_grad_()
    jinc(given).sum().backward()
    assert given.grad is not None
    exact = given.detach().double().numpy()
    np.testing.assert_allclose(given.grad.numpy(), -2 * jv(2, exact) / exact, rtol=0, atol=tolerance)


def test_gradient_of_jinc_passes_gradcheck() -> None:
    x = torch.cat([torch.linspace(-3, 3, 24), torch.tensor([0.01, 0.499, 0.501, 17.0, 55.0])]).double().requires_grad_()
    assert torch.autograd.gradcheck(jinc, (x,))
    at_zero = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    jinc(at_zero).sum().backward()
    assert at_zero.grad is not None
    assert at_zero.grad.item() == 0


# The loop twins

ABLATIONS = {
    "full": {},
    "no neighbourhood": {"neighbourhood_sigma_px": 0.0},
    "no outlier removal": {"outlier_removal": False},
    "no normalisation": {"normalise": False},
    "bare": {"neighbourhood_sigma_px": 0.0, "outlier_removal": False, "normalise": False},
    "other numbers": {"neighbourhood_sigma_px": 1.7, "balance": 0.03, "c_max": 0.5, "f_1": 0.99},
}


def as_stack(images: np.ndarray, dtype: torch.dtype) -> FocalStack:
    return FocalStack(torch.from_numpy(images).to(dtype), FOCUS_DISTANCES[: len(images)], camera())


@pytest.mark.parametrize(
    ("frames", "channels", "size"),
    [(2, 1, (21, 26)), (3, 3, (19, 23)), (5, 3, (24, 17))],
    ids=["2 gray", "3 RGB", "5 RGB"],
)
@pytest.mark.parametrize("switches", ABLATIONS.values(), ids=ABLATIONS.keys())
def test_paper_cost_agrees_with_its_twin(frames: int, channels: int, size: tuple[int, int], switches: dict) -> None:
    images = random_images(frames, channels, *size)
    expected = twins.paper_cost(twins.srgb_encode(images), twin_coc(frames, camera()), **switches)
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 3e-4)):
        ours = cost_volume(as_stack(images, dtype), DEPTHS, PaperCost(**switches), padding="circular")
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours.numpy(), expected, rtol=tolerance, atol=tolerance * expected.max())


def test_paper_cost_of_linear_light() -> None:
    images = random_images(3, 3, 18, 20)
    cost = PaperCost(display_encoded=False)
    ours = cost_volume(as_stack(images, torch.float64), DEPTHS, cost, padding="circular")
    expected = twins.paper_cost(images, twin_coc(3, camera()))
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("window_sigma_px", [0.0, 2.0])
@pytest.mark.parametrize(
    ("frames", "channels", "size"),
    [(2, 1, (21, 26)), (3, 3, (19, 23)), (5, 3, (24, 17))],
    ids=["2 gray", "3 RGB", "5 RGB"],
)
def test_reblur_cost_agrees_with_its_twin(
    frames: int, channels: int, size: tuple[int, int], window_sigma_px: float
) -> None:
    images = random_images(frames, channels, *size)
    cost = ReblurCost(noise_std=0.02, squash=False, window_sigma_px=window_sigma_px)
    for dtype, tolerance in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        stack = as_stack(images, dtype)
        power = stack_statistics(stack.as_batch().images, 0.02).texture_power[0] * cost.prior_looseness
        expected = twins.reblur_misfit(
            images, twin_coc(frames, camera()), 0.02, power.double().numpy(), window_sigma_px=window_sigma_px
        )
        ours = cost_volume(stack, DEPTHS, cost, padding="circular")
        np.testing.assert_allclose(ours.numpy(), expected, rtol=tolerance, atol=tolerance * expected.mean())


def test_log_determinant_is_the_same_at_every_pixel() -> None:
    images = random_images(3, 1, 16, 18)
    stack = as_stack(images, torch.float64)
    plain, full = (
        cost_volume(stack, DEPTHS, ReblurCost(noise_std=0.02, squash=False, log_determinant=on), padding="circular")
        for on in (False, True)
    )
    term = (full - plain).numpy()
    power = stack_statistics(stack.as_batch().images, 0.02).texture_power[0].numpy() * ReblurCost().prior_looseness
    fy, fx = twins.frequencies(16, 18)
    damping = 0.02**2 * (fy**2 + fx**2) / power[0]
    damping[0, 0] = damping[0, 1]
    for plane, cocs in enumerate(twin_coc(3, camera())):
        total = sum(twins.disk_otf(coc, fy, fx) ** 2 for coc in cocs)
        np.testing.assert_allclose(term[plane], np.log1p(total / damping).mean(), rtol=1e-6)


def test_magnification_enters_the_cost_as_blur() -> None:
    images = random_images(3, 1, 16, 18)
    magnification = np.array([1.0, 0.9, 1.2])
    stack = FocalStack(torch.from_numpy(images), FOCUS_DISTANCES[:3], camera(), magnification=magnification)
    ours = cost_volume(stack, DEPTHS, PaperCost(), padding="circular")
    expected = twins.paper_cost(twins.srgb_encode(images), twin_coc(3, camera()) * magnification)
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [(32, 32), (33, 41), (2, 2)])
def test_noise_estimate_agrees_with_its_twin(size: tuple[int, int]) -> None:
    image = random_images(*size, seed=3)
    diagonal, _, _ = haar_details(torch.from_numpy(image)[None, None, None])
    ours = noise_from_detail(diagonal).item()
    # torch takes the lower of two middle values, NumPy their mean: bound it by the twin with either middle value.
    magnitudes = np.sort(np.abs(diagonal.numpy().ravel()))
    count = len(magnitudes)
    assert ours == pytest.approx(magnitudes[(count - 1) // 2] / 0.6745)
    between = (magnitudes[count // 2] - magnitudes[(count - 1) // 2]) / 2 / 0.6745
    assert ours == pytest.approx(twins.estimate_noise_std(image) - between, rel=1e-9)


def test_noise_of_a_stack_is_that_of_the_plainest_frame() -> None:
    rng = np.random.default_rng(0)
    texture = rng.standard_normal((3, 64, 64)) * 0.1
    frames = np.stack([texture, 0 * texture, 0.5 * texture]) + 0.5 + 0.01 * rng.standard_normal((3, 3, 64, 64))
    statistics = stack_statistics(torch.from_numpy(frames)[None], None)
    assert statistics.noise_std.item() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("sigma_px", [0.0, 0.4, 1.0, 2.0])
def test_gaussian_window_agrees_with_its_twin(sigma_px: float) -> None:
    np.testing.assert_allclose(gaussian_taps(sigma_px), twins.gaussian_window(sigma_px), rtol=1e-12)
    for size in ((17, 22), (5, 40), (3, 2)):  # narrower than the window too
        image = random_images(*size, seed=1)
        ours = gaussian_blur(torch.from_numpy(image), sigma_px).numpy()
        np.testing.assert_allclose(ours, twins.gaussian_blur(image, sigma_px), rtol=1e-10)
        if sigma_px:
            np.testing.assert_allclose(ours, gaussian_filter(image, sigma_px), rtol=1e-10)


@pytest.mark.parametrize("spacing", ["inverse depth", "depth"])
def test_parabola_agrees_with_its_twin(spacing: str) -> None:
    make = DepthGrid.uniform_in_inverse_depth if spacing == "inverse depth" else DepthGrid.uniform_in_depth
    planes = make(0.3, 3.0, 9)
    costs = np.random.default_rng(0).random((9, 12, 13))
    costs[:, 0, :] = np.linspace(0, 1, 9)[:, None]  # the minimum at an end
    costs[:, 1, :] = np.linspace(1, 0, 9)[:, None]
    costs[:, 2, :] = 0.5  # flat
    expected = twins.argmin_depth(costs, planes.inverse_depths.numpy())
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        minimum = find_minimum(torch.from_numpy(costs)[None].to(dtype), planes.as_batch(1))
        np.testing.assert_allclose(minimum.inverse_depth[0].numpy(), expected, rtol=tolerance)
        assert torch.equal(minimum.plane[0], torch.from_numpy(costs.argmin(0)))
