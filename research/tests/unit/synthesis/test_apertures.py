"""Aperture shapes: all have the disk's variance, and each has its own light."""

import math

import numpy as np
import pytest
import torch

from focalsweep_research.synthesis.apertures import Aperture, aperture_points, aperture_samples, draw_aperture
from focalsweep_research.synthesis.tracer import disk_samples

MANY = 4096


def radii(aperture: Aperture, count: int = MANY) -> torch.Tensor:
    return aperture_points(aperture, count)[:, :2].norm(dim=1)


def kurtosis(aperture: Aperture) -> float:
    """Mean of r^4 over the square of the mean of r^2: 4/3 of a disk, 2 of a Gaussian."""
    r = radii(aperture)
    return float(r.pow(4).mean() / r.square().mean().square())


def test_draws_are_the_generators_own() -> None:
    for seed in range(4):
        one, again = (aperture_samples(np.random.default_rng(seed), 48) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    others = [aperture_samples(np.random.default_rng(seed), 48)[2] for seed in (1, 2)]
    assert not torch.equal(*others)


def test_every_set_is_centred_and_has_the_variance_of_the_disk() -> None:
    for seed in range(60):
        sets = aperture_samples(np.random.default_rng(seed), 96)
        assert [samples.shape for samples in sets] == [(24, 4), (48, 4), (96, 4)]
        for samples in sets:
            points = samples[:, :2].double()
            torch.testing.assert_close(points.mean(0), torch.zeros(2).double(), atol=1e-6, rtol=0)
            torch.testing.assert_close(points.T @ points / len(points), torch.eye(2).double() / 4, atol=1e-6, rtol=0)
            assert float(samples[:, 2:].abs().max()) <= 0.5
            assert samples.dtype == torch.float32
            assert float(points.norm(dim=1).max()) < 2.2


def test_sets_are_never_empty() -> None:
    assert [len(samples) for samples in aperture_samples(np.random.default_rng(0), 2)] == [4, 4, 4]


def test_a_plain_aperture_is_the_disk() -> None:
    torch.testing.assert_close(aperture_points(Aperture(), 96), disk_samples(96), atol=0.02, rtol=0)
    turned = aperture_points(Aperture(turn=math.pi / 2), 96)
    torch.testing.assert_close(turned[:, 1], aperture_points(Aperture(), 96)[:, 0], atol=1e-6, rtol=0)


def test_exponents_lead_from_a_gaussian_to_the_disk() -> None:
    spread = [kurtosis(Aperture(exponent)) for exponent in (2.0, 4.0, 8.0, 32.0, math.inf)]
    assert spread == sorted(spread, reverse=True)
    assert spread[0] == pytest.approx(2, rel=0.02)
    assert spread[-1] == pytest.approx(4 / 3, rel=0.01)
    # A Gaussian of this variance (1/2 in r^2): half of the light lies within r^2 = ln 2 / 2.
    assert float((radii(Aperture(2.0)).square() < math.log(2) / 2).float().mean()) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("blades", [5, 6, 9])
def test_polygons_have_their_corners_and_even_light(blades: int) -> None:
    points = aperture_points(Aperture(blades=blades), MANY)
    angle = torch.atan2(points[:, 1], points[:, 0]) % (2 * math.pi / blades) - math.pi / blades
    r = points[:, :2].norm(dim=1)
    apothem = (r * torch.cos(angle)).max()  # no point lies beyond the straight sides
    assert float(r.max() / apothem) == pytest.approx(1 / math.cos(math.pi / blades), rel=0.02)
    inner = r < 0.9 * apothem
    area = math.pi * 0.81 / (blades * math.tan(math.pi / blades))
    assert float(inner.float().mean()) == pytest.approx(area, rel=0.02)
    corners = (angle.abs() > math.pi / blades / 2).float().mean()  # half of the angles, more of the area
    half = math.tan(math.pi / blades / 2) / math.tan(math.pi / blades)
    assert float(corners) == pytest.approx(1 - half, abs=0.01)
    rounded = radii(Aperture(blades=blades, rounding=1.0))
    torch.testing.assert_close(rounded, radii(Aperture()), atol=0.02, rtol=0)


def test_rims_are_brighter_or_darker() -> None:
    outer = [float((r > 0.85 * r.max()).float().mean()) for r in (radii(Aperture(rim=rim)) for rim in (-0.5, 0.0, 1.0))]
    assert outer[0] < outer[1] - 0.05 < outer[1] + 0.05 < outer[2]


def test_shares_are_as_told() -> None:
    draws = [draw_aperture(np.random.default_rng(seed)) for seed in range(500)]
    disks = [a for a in draws if a.exponent == math.inf and not a.blades]
    assert len(disks) / len(draws) == pytest.approx(0.4, abs=0.06)
    assert not any(a.rim for a in disks)
    assert {a.blades for a in draws} == {0, 5, 6, 7, 8, 9}
    exponents = [a.exponent for a in draws if a.exponent < math.inf]
    assert 2 <= min(exponents) < 2.3
    assert 28 < max(exponents) <= 32
    assert np.median(exponents) == pytest.approx(8, rel=0.3)
