"""PSFs: unit sum, variance, kernels against quadrature."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalsweep import Disk, Gaussian
from focalsweep.optics.psf import find_psf, jinc
from tests.errors import assert_one_sentence, message_of
from tests.reference import twins

ZERO = torch.zeros((), dtype=torch.float64)


def double(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def axis_variance(kernel: torch.Tensor) -> float:
    """Per-axis variance in pixels^2 of a centred kernel K K."""
    offset = torch.arange(kernel.shape[-1], dtype=kernel.dtype) - kernel.shape[-1] // 2
    return (kernel.sum(0) * offset.square()).sum().item()


@given(st.floats(0, 40))
def test_disk_kernel_sums_to_one(coc: float) -> None:
    kernel = Disk().kernel(double(coc))
    assert kernel.sum().item() == pytest.approx(1, abs=1e-9)
    assert kernel.min().item() >= -1e-9
    assert kernel.shape[-1] == 2 * math.ceil(coc / 2) + 1


@pytest.mark.parametrize("coc", [0.0, 0.3, 0.999, 1.0, 1.7, 3.0, 4.6, 9.3])
def test_disk_kernel_against_quadrature(coc: float) -> None:
    kernel = Disk().kernel(double(coc), radius_px=6)
    exact = torch.from_numpy(twins.disk_kernel_exact(coc, 13))
    torch.testing.assert_close(kernel, exact, rtol=0, atol=1e-9)


def test_disk_kernel_of_many_blurs_and_either_sign() -> None:
    cocs = torch.tensor([[0.0, 2.0], [-2.0, 5.0]])
    kernels = Disk().kernel(cocs)
    assert kernels.shape == (2, 2, 7, 7)
    assert kernels.dtype == torch.float32
    torch.testing.assert_close(kernels[0, 1], kernels[1, 0])
    torch.testing.assert_close(kernels[1, 1], Disk().kernel(cocs[1, 1]))


@pytest.mark.parametrize("psf", [Disk(), Gaussian()], ids=["disk", "gaussian"])
@pytest.mark.parametrize("coc", [1.0, 6.0, 13.7])
def test_curvature_of_the_otf_is_the_disk_variance(psf: Disk | Gaussian, coc: float) -> None:
    """H(f) = 1 - 2 pi^2 variance f^2 + ...: c^2 / 16 for the disk, and for the Gaussian with k = 1/4."""
    f = 1e-4 / coc
    for fy, fx in ((f, 0.0), (0.0, f)):
        drop = 1 - psf(double(coc), double(fy), double(fx)).item()
        assert drop / (2 * math.pi**2 * f**2) == pytest.approx(coc**2 / 16, rel=1e-4)
    assert psf(double(coc), ZERO, ZERO).item() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("coc", [4.0, 8.0, 12.0])
def test_kernels_have_the_variance_of_blur_and_pixel(coc: float) -> None:
    # A Gaussian cut at 4 sigma lacks 0.1 % of its variance; that of a sampled disk wobbles with its size.
    assert axis_variance(Gaussian().kernel(double(coc))) == pytest.approx(coc**2 / 16 + 1 / 12, rel=5e-3)
    assert axis_variance(Disk().kernel(double(coc))) == pytest.approx(coc**2 / 16 + 1 / 12, rel=4e-2)


@pytest.mark.parametrize("k", [0.2, 0.25, 0.3])
def test_gaussian_otf_against_the_twin(k: float) -> None:
    fy, fx = twins.frequencies(13, 16)
    otf = Gaussian(k)(double(5.3), torch.from_numpy(fy), torch.from_numpy(fx))
    torch.testing.assert_close(otf, torch.from_numpy(twins.gaussian_otf(5.3, fy, fx, k)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "tolerance",
    [2e-7, 1e-12],
)
def test_disk_otf_against_the_twin(tolerance: float) -> None:
    fy, fx = twins.frequencies(13, 16)
    for coc in (-7.1, 0.0, 0.02, 2.5, 31.0):
        otf = Disk()(double(coc), torch.from_numpy(fy), torch.from_numpy(fx))
        torch.testing.assert_close(otf, torch.from_numpy(twins.disk_otf(abs(coc), fy, fx)), rtol=0, atol=tolerance)


def test_gaussian_kernel_sums_to_one_and_needs_a_width() -> None:
    for coc in (0.0, 0.4, 3.0, 11.0):
        assert Gaussian(0.3).kernel(double(coc)).sum().item() == pytest.approx(1, abs=1e-12)
    assert_one_sentence(message_of(lambda: Gaussian(0.0), ValueError), "k", "0")


def test_jinc_is_even() -> None:
    x = torch.linspace(0, 30, 301, dtype=torch.float64)
    assert torch.equal(jinc(x), jinc(-x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jinc_is_one_at_zero(dtype: torch.dtype) -> None:
    assert jinc(torch.zeros(3, dtype=dtype)).tolist() == [1.0] * 3


def test_psf_by_name() -> None:
    assert find_psf("disk") == Disk()
    assert find_psf("gaussian") == Gaussian()
    assert find_psf(torch.add) is torch.add
    assert_one_sentence(message_of(lambda: find_psf("hexagon"), ValueError), "'hexagon'", "disk", "gaussian")


def test_the_table_of_the_disk_is_as_exact_as_the_function() -> None:
    x = torch.linspace(-300, 300, 20001)
    exact = jinc(x.double())  # by the integral
    torch.testing.assert_close(jinc(x), exact.float(), atol=2e-6, rtol=0)
    beyond = torch.linspace(0, 600, 2001)  # beyond its end
    torch.testing.assert_close(jinc(beyond), jinc(beyond.double()).float(), atol=2e-6, rtol=0)
    assert float(jinc(torch.zeros(2000)).sub(1).abs().max()) == 0
