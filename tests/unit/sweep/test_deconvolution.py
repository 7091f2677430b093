"""The Fourier side of the sweep."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalsweep import Disk, Gaussian
from focalsweep.sweep.deconvolution import (
    add_squares,
    fast_length,
    fourier_grid,
    half_plane_samples,
    inverse_pairs,
    latent_gain,
    latent_spectrum,
    mirror_ends,
    pack_pairs,
    pad_periodic,
    quadrant_functions,
    transfer_functions,
    triton_serves,
    unpack_pairs,
    wiener_filter,
)
from tests.reference import twins

CPU = torch.device("cpu")
SIZES = [(12, 16), (13, 17), (12, 9)]


@given(st.integers(1, 3000))
def test_fast_length_is_the_smallest(least: int) -> None:
    def smooth(n: int) -> bool:
        for factor in (2, 3, 5):
            while n % factor == 0:
                n //= factor
        return n == 1

    expected = next(n for n in range(max(2, least), 2 * least + 3) if n % 2 == 0 and smooth(n))
    assert fast_length(least) == expected


@pytest.mark.parametrize("size", SIZES)
def test_grid_against_numpy(size: tuple[int, int]) -> None:
    grid = fourier_grid(*size, CPU, torch.float64)
    fy, fx = twins.frequencies(*size)
    np.testing.assert_allclose(grid.magnitude.numpy() ** 2, fy**2 + fx**2, rtol=1e-14)
    laplacian = np.zeros(size)
    laplacian[0, 0], laplacian[0, [1, -1]], laplacian[[1, -1], 0] = 4, -1, -1
    np.testing.assert_allclose(grid.squared_laplacian.numpy(), np.abs(np.fft.fft2(laplacian)) ** 2, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("psf", [Disk(), Gaussian()], ids=["disk", "gaussian"])
def test_quadrant_stands_for_the_whole_plane(size: tuple[int, int], psf: Disk | Gaussian) -> None:
    """The unfolded quarter equals the PSF asked for every frequency, at even and odd sizes."""
    grid = fourier_grid(*size, CPU, torch.float64)
    coc = torch.tensor([[0.0, 3.0], [-5.5, 9.0]], dtype=torch.float64)
    whole = psf(coc[..., None, None], grid.fy, grid.fx)
    torch.testing.assert_close(transfer_functions(psf, coc, grid), whole, rtol=0, atol=1e-14)
    assert quadrant_functions(psf, coc, grid).shape == (2, 2, size[0] // 2 + 1, size[1] // 2 + 1)


def test_any_callable_is_a_psf() -> None:
    """A shift is a complex OTF: the wiener filter without regulariser undoes it."""

    def shift(coc_px: torch.Tensor, fy: torch.Tensor, fx: torch.Tensor) -> torch.Tensor:
        return torch.exp(-2j * torch.pi * coc_px * (fy + 2 * fx))

    grid = fourier_grid(12, 15, CPU, torch.float64)
    image = torch.rand(12, 15, dtype=torch.float64)
    otf = transfer_functions(shift, torch.tensor(3.0), grid)
    moved = torch.fft.ifft2(torch.fft.fft2(image) * otf).real
    torch.testing.assert_close(moved, image.roll((3, 6), (0, 1)))
    back = torch.fft.ifft2(torch.fft.fft2(moved) * wiener_filter(otf, grid, 0.0)).real
    torch.testing.assert_close(back, image)


@pytest.mark.parametrize("size", SIZES)
def test_samples_spread_over_the_half_plane(size: tuple[int, int]) -> None:
    """A round PSF from its radii, a real one and a complex one that are not round: all equal the PSF asked directly."""

    def square(coc_px: torch.Tensor, fy: torch.Tensor, fx: torch.Tensor) -> torch.Tensor:
        return torch.sinc(coc_px * fy) * torch.sinc(coc_px * fx)

    def flat(coc_px: torch.Tensor, fy: torch.Tensor, fx: torch.Tensor) -> torch.Tensor:
        return torch.sinc(coc_px * fx)

    def shift(coc_px: torch.Tensor, fy: torch.Tensor, fx: torch.Tensor) -> torch.Tensor:
        return torch.exp(-2j * torch.pi * coc_px * (fy + 2 * fx))

    grid = fourier_grid(*size, CPU, torch.float64)
    coc = torch.tensor([[0.0, 3.0], [-5.5, 9.0]], dtype=torch.float64)
    spectra = torch.fft.fft2(torch.rand(size, dtype=torch.float64))
    for psf in (Disk(), square, flat, shift):
        samples = half_plane_samples(psf, coc, grid)
        otf = samples.spread(samples.otf)
        expected = (psf(coc[..., None, None], grid.fy, grid.fx) * spectra)[..., : size[0] // 2 + 1, :]
        product = otf * samples.half_plane(spectra)
        product = product if product.is_complex() else torch.view_as_complex(product)
        torch.testing.assert_close(product, expected, rtol=0, atol=1e-12)
        magnitude = samples.spread(samples.magnitude)
        whole = grid.magnitude[: size[0] // 2 + 1]
        torch.testing.assert_close(magnitude if psf is shift else magnitude[..., 1], whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("as_real", [False, True])
def test_squares_of_pictures_from_half_their_spectra(size: tuple[int, int], as_real: bool) -> None:
    pictures = torch.rand(2, 3, 2, *size, dtype=torch.float64)
    half = torch.fft.fft2(pictures)[..., : size[0] // 2 + 1, :]
    maps = torch.ones(2, 3, 11, 8, dtype=torch.float64)
    add_squares(maps, torch.view_as_real(half) if as_real else half, size[0])
    torch.testing.assert_close(maps, 1 + pictures.square().sum(2)[..., :11, :8])


@pytest.mark.parametrize("complex_planes", [False, True])
def test_two_planes_ride_in_one_transform(complex_planes: bool) -> None:
    planes = torch.rand(2, 4, 3, 12, 15, dtype=torch.float64)
    spectra = torch.fft.fft2(planes)
    packed = pack_pairs(spectra) if complex_planes else torch.fft.fft2(pack_pairs(planes))
    assert packed.shape == (2, 2, 3, 12, 15)
    pairs = inverse_pairs(packed, (11, 9))
    back = unpack_pairs(pairs.movedim(2, 0)[0])
    torch.testing.assert_close(back, planes[:, :, 0, :11, :9])


@pytest.mark.parametrize("size", SIZES)
def test_wiener_against_the_twin(size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).random(size)
    fy, fx = twins.frequencies(*size)
    otf = twins.disk_otf(3.3, fy, fx)
    filter_ = wiener_filter(torch.from_numpy(otf), fourier_grid(*size, CPU, torch.float64), 0.02)
    ours = torch.fft.ifft2(torch.fft.fft2(torch.from_numpy(image)) * filter_).real
    np.testing.assert_allclose(ours.numpy(), twins.wiener(image, otf, 0.02), atol=1e-12)


def test_latent_image_against_the_twin() -> None:
    rng = np.random.default_rng(0)
    images = rng.random((3, 2, 12, 15))
    fy, fx = twins.frequencies(12, 15)
    otfs = np.stack([twins.disk_otf(coc, fy, fx) for coc in (0.0, 2.0, 5.0)])
    power = np.array([1e-3, 4e-3])
    damping = torch.from_numpy(0.02**2 * (fy**2 + fx**2) / power[:, None, None])[None]
    spectra = torch.fft.fft2(torch.from_numpy(images))[None]
    otf = torch.from_numpy(otfs)[None, None]
    ours = torch.fft.ifft2(latent_spectrum(spectra, otf, latent_gain(otf, damping))).real[0, 0]
    np.testing.assert_allclose(ours.numpy(), twins.reblur_latent(images, otfs, 0.02, power), atol=1e-12)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (5, 5), (12, 7)])
def test_mirror_against_numpy(before: int, after: int) -> None:
    image = torch.rand(5, 8)
    ahead, behind = mirror_ends(image, -2, before, after)
    expected = np.pad(image.numpy(), ((before, after), (0, 0)), mode="symmetric")
    np.testing.assert_array_equal(torch.cat([ahead, image, behind], -2).numpy(), expected)


@pytest.mark.parametrize("target", [(20, 24), (13, 17), (48, 50), (13, 20)])
def test_padding_keeps_the_picture_and_meets_its_borders(target: tuple[int, int]) -> None:
    image = torch.linspace(0, 1, 17, dtype=torch.float64).expand(2, 13, 17) + torch.linspace(0, 1, 13)[:, None]
    padded = pad_periodic(image, *target)
    assert padded.shape == (2, *target)
    assert torch.equal(padded[:, :13, :17], image)
    assert padded.min() >= image.min()
    assert padded.max() <= image.max()
    if target[1] > 17:  # with the picture's own wrap around, the step is 1 over the rows
        across = torch.cat([padded, padded[..., :1]], -1).diff(dim=-1).abs()
        assert across.max() < 0.6
        assert (padded[:, :13, 17] - image[..., -1]).abs().max() < 0.1
        assert (padded[:, :13, -1] - image[..., 0]).abs().max() < 0.1


def test_padding_of_a_constant_is_the_constant() -> None:
    assert torch.equal(pad_periodic(torch.full((7, 9), 0.25), 12, 20), torch.full((12, 20), 0.25))


def test_triton_never_serves_the_cpu() -> None:
    assert not triton_serves(torch.ones(2))


def test_grids_outlive_inference_mode() -> None:
    with torch.inference_mode():
        _ = fourier_grid(10, 346, CPU, torch.float32).magnitude
    weight = torch.ones(10, 346, requires_grad=True)
    (fourier_grid(10, 346, CPU, torch.float32).magnitude * weight).sum().backward()
