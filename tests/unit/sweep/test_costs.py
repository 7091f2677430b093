"""Both costs: their finishing steps, statistics and gradients."""

import math

import pytest
import torch

from focalsweep import Camera, Disk, FocalStack, Gaussian, PaperCost, ReblurCost, cost_volume
from focalsweep.sweep.costs import find_cost, gaussian_blur, gaussian_taps
from focalsweep.sweep.deconvolution import fourier_grid
from focalsweep.sweep.statistics import NOISE_FLOOR, haar_details, stack_statistics
from tests.errors import assert_one_sentence, message_of

CAMERA = Camera(focal_length=0.05, f_number=4.0, pixel_pitch=2e-4)
DEPTHS = [0.7, 1.1, 2.5]
DISTANCES = [0.8, 1.2, 2.0]


def images(frames: int = 3, channels: int = 2, height: int = 8, width: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return 0.3 + 0.3 * torch.rand((frames, channels, height, width), dtype=torch.float64, generator=generator)


def test_min_max_runs_from_0_to_1() -> None:
    volume = cost_volume(FocalStack(images(), DISTANCES, CAMERA), DEPTHS, PaperCost())
    torch.testing.assert_close(volume.amin(0), torch.zeros(8, 9, dtype=torch.float64))
    torch.testing.assert_close(volume.amax(0), torch.ones(8, 9, dtype=torch.float64), rtol=0, atol=1e-4)


def test_min_max_of_equal_costs_is_0() -> None:
    assert torch.equal(PaperCost().finish(torch.full((1, 4, 2, 2), 0.3)), torch.zeros(1, 4, 2, 2))


def test_tanh_reaches_f_1_at_c_max() -> None:
    cost = PaperCost(c_max=0.4, f_1=0.95)
    assert math.tanh(cost._slope * 0.4) == pytest.approx(0.95, rel=1e-12)


def test_squash_keeps_the_scale() -> None:
    costs = torch.tensor([5.0, 6.0, 15.0, 1e6])[None, :, None, None]
    squashed = ReblurCost(squash_scale=10.0).finish(costs).flatten()
    torch.testing.assert_close(squashed, torch.tensor([0.0, 1 / 11, 0.5, 1.0]), rtol=1e-4, atol=1e-7)
    assert ReblurCost(squash=False).finish(costs) is costs


def test_flat_pictures_leave_every_plane_possible() -> None:
    flat = FocalStack(torch.full((3, 3, 16, 16), 0.4), DISTANCES, CAMERA)
    assert cost_volume(flat, DEPTHS, "reblur").max() < 0.01


def test_reach_is_the_radius_of_the_windows() -> None:
    assert ReblurCost(window_sigma_px=2.0).reach_px == 8
    assert PaperCost(neighbourhood_sigma_px=1.0).reach_px == 8
    assert PaperCost(neighbourhood_sigma_px=0.0).reach_px == 0
    assert ReblurCost(window_sigma_px=2.0).effective_pixels == pytest.approx(4 * math.pi * 2.0**2, rel=1e-3)
    assert sum(gaussian_taps(1.3)) == pytest.approx(1)


def test_noise_of_white_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = 0.5 + 0.03 * torch.randn((2, 3, 3, 96, 96), generator=generator)
    statistics = stack_statistics(noise, None)
    assert statistics.noise_std.shape == (2,)
    assert statistics.texture_power.shape == (2, 3)
    assert statistics.noise_std.tolist() == pytest.approx([0.03] * 2, rel=0.06)


def test_noise_has_a_floor_and_may_be_given() -> None:
    flat = torch.full((1, 2, 3, 8, 8), 0.5)
    assert stack_statistics(flat, None).noise_std.item() == pytest.approx(NOISE_FLOOR)
    assert stack_statistics(flat, 0.04).noise_std.item() == pytest.approx(0.04)
    assert bool((stack_statistics(flat, None).texture_power > 0).all())


def test_texture_power_is_that_of_the_prior() -> None:
    """A random field with the power spectrum S0 / |f|^2 up to the Nyquist square is read as about S0."""
    power = 2e-4
    generator = torch.Generator().manual_seed(0)
    fy, fx = torch.fft.fftfreq(256)[:, None], torch.fft.fftfreq(256)
    squared = fy * fy + fx * fx
    squared[0, 0] = torch.inf
    spectrum = torch.fft.fft2(torch.randn((1, 1, 1, 256, 256), generator=generator)) * (power / squared).sqrt()
    field = 0.5 + torch.fft.ifft2(spectrum).real
    measured = stack_statistics(field.repeat(1, 2, 1, 1, 1), 1e-5).texture_power.item()
    # Pixel differences see sin^2(pi f) instead of (pi f)^2: less than the continuous gradient by about 40 %.
    assert 0.4 * power < measured < 1.2 * power


def test_statistics_need_two_pixels() -> None:
    message = message_of(lambda: haar_details(torch.ones(1, 2, 3, 1, 9)), ValueError)
    assert_one_sentence(message, "2 x 2 px", "1 x 9")


def test_gaussian_psf_and_its_name_agree() -> None:
    stack = FocalStack(images(), DISTANCES, CAMERA)
    by_name, by_value = (cost_volume(stack, DEPTHS, PaperCost(psf=psf)) for psf in ("gaussian", Gaussian(0.25)))
    assert torch.equal(by_name, by_value)
    disk = cost_volume(stack, DEPTHS, PaperCost())
    assert not torch.allclose(by_name, disk)


def test_a_callable_psf_equals_the_disk_it_wraps() -> None:
    disk = PaperCost()
    wrapped = PaperCost(psf=lambda coc, fy, fx: torch.complex(d := _disk(coc, fy, fx), torch.zeros_like(d)))
    stack = FocalStack(images(), DISTANCES, CAMERA)
    torch.testing.assert_close(
        cost_volume(stack, DEPTHS, wrapped), cost_volume(stack, DEPTHS, disk), rtol=1e-6, atol=1e-9
    )
    reblur, wrapped_reblur = ReblurCost(noise_std=0.02), ReblurCost(noise_std=0.02, psf=wrapped.psf)
    torch.testing.assert_close(cost_volume(stack, DEPTHS, wrapped_reblur), cost_volume(stack, DEPTHS, reblur))


@pytest.mark.parametrize("size", [(12, 10), (11, 13), (12, 9)])
def test_reblur_with_a_lopsided_psf_is_its_formula(size: tuple[int, int]) -> None:
    """Two spots, one of them 2 rows and 1 column away, blurred: the formula over all frequencies, plane by plane."""

    def spots(coc: torch.Tensor, fy: torch.Tensor, fx: torch.Tensor) -> torch.Tensor:
        second = torch.exp(-2j * math.pi * (2 * fy + fx))
        return (0.7 + 0.3 * second) * torch.exp(-0.1 * coc.square() * (fy * fy + 3 * fx * fx))

    pictures = images(height=size[0], width=size[1])[None]
    grid = fourier_grid(*size, pictures.device, pictures.dtype)
    coc = torch.tensor([[[1.0, -2.0, 4.0], [0.5, 3.0, 2.5]]], dtype=torch.float64)
    cost = ReblurCost(psf=spots, noise_std=0.02, window_sigma_px=0.0)
    statistics = cost.measure(pictures)
    spectra = torch.fft.fft2(pictures)
    root = cost.damping_root(grid.magnitude, statistics)[0]
    energy = torch.zeros(1, 2, *size, dtype=torch.float64)
    for plane in range(2):
        otf = spots(coc[0, plane, :, None, None], grid.fy, grid.fx)[:, None]
        latent = (otf.conj() * spectra[0]).sum(0) / (otf.abs().square().sum(0) + root.square())
        misfits = torch.fft.ifft2(otf * latent).real - pictures[0]
        prior = torch.fft.ifft2(root * latent).real
        energy[0, plane] = misfits.square().sum((0, 1)) + prior.square().sum(0)
    torch.testing.assert_close(cost.evaluate(spectra, coc, grid, size, statistics), energy / 0.02**2)


def _disk(coc: torch.Tensor, fy: torch.Tensor, fx: torch.Tensor) -> torch.Tensor:
    return Disk()(coc, fy, fx)


def test_cost_by_name() -> None:
    assert find_cost("paper") == PaperCost()
    assert find_cost("reblur") == ReblurCost()
    assert_one_sentence(message_of(lambda: find_cost("sharpness"), ValueError), "'sharpness'", "paper", "reblur")


# Gradients

COSTS = {
    "paper, bare": PaperCost(outlier_removal=False, normalise=False),
    "paper, tanh": PaperCost(normalise=False),
    "paper, no neighbourhood": PaperCost(neighbourhood_sigma_px=0.0, outlier_removal=False, normalise=False),
    "paper, min-max": PaperCost(outlier_removal=False),
    "paper": PaperCost(),
    "reblur, no squash": ReblurCost(noise_std=0.05, squash=False),
    "reblur": ReblurCost(noise_std=0.05),
    "reblur, log determinant": ReblurCost(noise_std=0.05, squash=False, log_determinant=True),
}


GRADIENT_CASES = [
    *((name, 2, "circular") for name in COSTS),
    *((name, 3, "mirror") for name in ("paper, bare", "paper", "reblur, no squash", "reblur")),
]


@pytest.mark.parametrize(("name", "frames", "padding"), GRADIENT_CASES)
def test_gradients(name: str, frames: int, padding: str) -> None:
    """In the images, in the focus distances and in the focal length, against finite differences."""
    pictures = images(frames, channels=1).requires_grad_()
    distances = torch.tensor(DISTANCES[:frames], dtype=torch.float64, requires_grad=True)
    focal_length = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)

    def some_costs(pictures: torch.Tensor, distances: torch.Tensor, focal_length: torch.Tensor) -> torch.Tensor:
        stack = FocalStack(pictures, distances, Camera(focal_length, 4.0, 2e-4))
        return cost_volume(stack, DEPTHS, COSTS[name], padding=padding)[:, ::3, ::4]

    assert torch.autograd.gradcheck(some_costs, (pictures, distances, focal_length), eps=1e-7, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["reblur, no squash", "reblur"])
def test_gradients_of_reblur_in_the_settings(name: str) -> None:
    """Without the images, whose gradient has a test of its own above."""
    distances = torch.tensor(DISTANCES, dtype=torch.float64, requires_grad=True)
    focal_length = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)

    def some_costs(distances: torch.Tensor, focal_length: torch.Tensor) -> torch.Tensor:
        stack = FocalStack(images(), distances, Camera(focal_length, 4.0, 2e-4))
        return cost_volume(stack, DEPTHS, COSTS[name])[:, ::3, ::4]

    assert torch.autograd.gradcheck(some_costs, (distances, focal_length), eps=1e-7, atol=2e-4, rtol=1e-3)


def test_gradient_reaches_the_planes() -> None:
    depths = torch.tensor(DEPTHS, dtype=torch.float64, requires_grad=True)
    stack = FocalStack(images(), DISTANCES, CAMERA)
    cost = ReblurCost(noise_std=0.05, squash=False)
    assert torch.autograd.gradcheck(
        lambda d: cost_volume(stack, d, cost)[:, ::3, ::4], (depths,), eps=1e-7, atol=2e-4, rtol=1e-3
    )


def test_the_window_of_opencv_is_that_of_torch() -> None:
    maps = torch.rand(2, 3, 21, 35)
    plain = gaussian_blur(maps.clone().requires_grad_(), 2.0)  # with a gradient: shifted copies
    assert plain.requires_grad
    torch.testing.assert_close(gaussian_blur(maps, 2.0), plain.detach(), atol=2e-6, rtol=0)
    turned = gaussian_blur(maps.mT, 2.0)  # in another order in memory
    torch.testing.assert_close(turned, gaussian_blur(maps, 2.0).mT, atol=2e-6, rtol=0)
    small = torch.rand(1, 1, 5, 7)  # narrower than the window
    expected = gaussian_blur(small.double(), 2.0).float()
    torch.testing.assert_close(gaussian_blur(small, 2.0), expected, atol=2e-6, rtol=0)
