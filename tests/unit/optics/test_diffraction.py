"""The OTF of a defocused objective against wave optics on a grid, and its limits in closed form."""

import math

import numpy as np
import pytest
import torch

from focalsweep.optics.diffraction import MOST_WAVES, Diffraction
from focalsweep.optics.psf import Disk

WAVELENGTH, SIDE = 0.55e-6, 384


def cone_px(psf: Diffraction, height: float) -> torch.Tensor:
    aperture = 2 * math.tan(math.asin(psf.numerical_aperture))
    return torch.tensor(aperture * height / psf.pixel_size, dtype=torch.float64)


@pytest.mark.parametrize("numerical_aperture", [0.1, 0.4, 0.7])
@pytest.mark.parametrize("depths_of_field", [0.3, 1.0, 3.0])
def test_it_is_the_angular_spectrums(numerical_aperture: float, depths_of_field: float) -> None:
    """The pupil's field on a grid, carried out of focus, squared, transformed: over the same in focus."""
    psf = Diffraction(numerical_aperture, WAVELENGTH / (6 * numerical_aperture), WAVELENGTH)
    height = depths_of_field * WAVELENGTH / numerical_aperture**2
    frequency = np.fft.fftfreq(SIDE, psf.pixel_size)
    sines = (frequency[:, None] ** 2 + frequency**2) * WAVELENGTH**2
    soft = np.clip((numerical_aperture - np.sqrt(sines)) * SIDE * psf.pixel_size / WAVELENGTH + 0.5, 0, 1)

    def seen(defocus: float) -> np.ndarray:
        field = np.fft.ifft2(soft * np.exp(2j * math.pi / WAVELENGTH * defocus * np.sqrt(np.maximum(0, 1 - sines))))
        return np.asarray(np.fft.fft2(np.abs(field) ** 2)[0].real)

    expected = seen(height) / seen(0.0)
    below = (frequency >= 0) & (frequency < 0.85 * 2 * numerical_aperture / WAVELENGTH)
    asked = torch.from_numpy(frequency[below] * psf.pixel_size)
    found = psf(cone_px(psf, height), torch.zeros_like(asked), asked)
    np.testing.assert_allclose(found.numpy(), expected[below], atol=0.03)


def test_in_focus_it_is_one_and_at_frequency_zero() -> None:
    psf = Diffraction(0.3, 0.4e-6, WAVELENGTH)
    frequencies = torch.linspace(0, 0.7, 50, dtype=torch.float64)
    zero = torch.zeros_like(frequencies)
    torch.testing.assert_close(psf(torch.tensor(0.0), zero, frequencies), torch.ones_like(zero))
    blurs = torch.linspace(-80, 80, 41, dtype=torch.float64)
    torch.testing.assert_close(
        psf(blurs, torch.tensor(0.0), torch.tensor(0.0)), torch.ones_like(blurs), rtol=0, atol=1e-6
    )
    assert torch.equal(psf(blurs[..., None], zero, frequencies), psf(-blurs[..., None], zero, frequencies))


def test_far_out_of_focus_it_is_the_cone() -> None:
    """A small aperture's light fills its cone evenly: a uniform disk, and beyond the table exactly that."""
    psf = Diffraction(0.1, 3e-6, WAVELENGTH)
    waves = lambda count: count * WAVELENGTH / (1 - math.sqrt(1 - 0.1**2))  # noqa: E731
    frequencies = torch.linspace(0, 0.05, 40, dtype=torch.float64)
    zero = torch.zeros_like(frequencies)
    for count, tolerance in ((0.9 * MOST_WAVES, 0.05), (1.5 * MOST_WAVES, 1e-12)):
        blur = cone_px(psf, waves(count))
        torch.testing.assert_close(
            psf(blur, zero, frequencies), Disk()(blur, zero, frequencies), rtol=0, atol=tolerance
        )
