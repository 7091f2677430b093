"""Upsampling along a picture's edges: steps, planes, bounds, infinity, and a slow twin."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from focalsweep import linear_to_srgb
from focalsweep.sweep import upsampling
from focalsweep.sweep.upsampling import FullSizeMaps, upsample_guided
from tests.errors import assert_one_sentence, message_of

GRAY = 0.2


def upsample(inverse: Tensor, guide: Tensor, factor: int, std: Tensor | None = None) -> FullSizeMaps:
    """From the coarse inverse depth h w and the full-size guide H W C."""
    depth = 1 / inverse
    return upsample_guided(
        depth, 0.01 * depth if std is None else std, torch.ones_like(depth), shrink(guide, factor), guide
    )


def shrink(values: Tensor, factor: int) -> Tensor:
    """Means of blocks, over the first two axes."""
    height, width = values.shape[0] // factor, values.shape[1] // factor
    return values.reshape(height, factor, width, factor, *values.shape[2:]).mean((1, 3))


def bilinear(inverse: Tensor, factor: int) -> Tensor:
    whole = torch.nn.functional.interpolate(inverse[None, None], scale_factor=factor, mode="bilinear")
    return whole[0, 0]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def centres(coarse: int, factor: int) -> Tensor:
    """Where full-size pixels lie among the coarse ones."""
    return (torch.arange(coarse * factor, dtype=torch.float64) + 0.5) / factor - 0.5


def plane(height: int, width: int, factor: int) -> tuple[Tensor, Tensor]:
    """Inverse depth of a tilted plane, coarse and at full size."""

    def values(rows: Tensor, columns: Tensor) -> Tensor:
        return (0.7 + 0.03 * rows[:, None] - 0.02 * columns).float()

    coarse = values(torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64))
    return coarse, values(centres(height, factor), centres(width, factor))


# Edges


def step(shift: float, slant: float) -> tuple[Tensor, Tensor]:
    """A step in inverse depth from 2 to 1 across 64 x 96 px, and every pixel's distance from it (left is negative)."""
    rows, columns = torch.arange(64.0)[:, None], torch.arange(96.0)
    distance = (columns + 0.5 - (40 + shift) - slant * (rows - 32)) / math.hypot(1, slant)
    return torch.where(distance < 0, 2.0, 1.0), distance


@pytest.mark.parametrize("slant", [0.0, 0.35, -1.0])
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
@pytest.mark.parametrize("textured", [False, True])
def test_a_step_stays_within_a_pixel_of_the_edge_in_the_picture(shift: int, slant: float, textured: bool) -> None:
    truth, distance = step(shift, slant)
    guide = torch.where(truth == 2.0, 0.6, 0.1)[..., None] * torch.tensor([1.0, 0.8, 0.5])
    if textured:
        guide = guide * (1 + 0.1 * (noise(64, 96, 1) - 0.5))
    coarse = shrink(truth, 4)  # with mixed pixels on the edge, as a real one has
    inner = (slice(8, -8), slice(8, -8))  # a slope at the border is known from one side only
    found = (1 / upsample(coarse, guide, 4).depth - truth).abs()[inner]
    linear = (bilinear(coarse, 4) - truth).abs()[inner]
    away = distance.abs()[inner] > 1
    assert found[away].max() < 0.1, "the step is more than a pixel off"
    assert linear[away].max() > 0.12  # 1.5 px from an edge between coarse pixels: 1/2 - 1.5/4 of the step
    assert found.mean() < 0.1 * linear.mean()


def test_an_edge_in_the_picture_alone_makes_no_step() -> None:
    coarse, truth = plane(16, 24, 4)
    guide = torch.where(torch.arange(96) < 42, 0.6, 0.1)[None, :, None].expand(64, 96, 3).contiguous()
    found = 1 / upsample(coarse, guide, 4).depth
    torch.testing.assert_close(found[4:-4, 4:-4], truth[4:-4, 4:-4], rtol=1e-5, atol=0)


# Planes and constants


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("textured", [False, True])
def test_a_plane_is_kept(factor: int, textured: bool) -> None:
    coarse, truth = plane(9, 11, factor)
    guide = noise(9 * factor, 11 * factor, 3) if textured else torch.full((9 * factor, 11 * factor, 3), GRAY)
    found = 1 / upsample(coarse, guide, factor).depth
    edge = factor // 2  # beyond the outermost coarse centres the value is held
    inner = (slice(edge, 9 * factor - edge), slice(edge, 11 * factor - edge))
    torch.testing.assert_close(found[inner], truth[inner], rtol=2e-6, atol=0)
    assert found.min() >= coarse.min()
    assert found.max() <= coarse.max()


def test_a_plane_is_kept_by_a_factor_that_is_no_integer() -> None:
    coarse, _ = plane(20, 30, 1)
    guide = noise(53, 77, 3)
    small = noise(20, 30, 3, seed=1)
    maps = upsample_guided(1 / coarse, 0.01 / coarse, torch.ones_like(coarse), small, guide)
    rows = (torch.arange(53) + 0.5) * 20 / 53 - 0.5
    columns = (torch.arange(77) + 0.5) * 30 / 77 - 0.5
    truth = 0.7 + 0.03 * rows[:, None] - 0.02 * columns
    torch.testing.assert_close(1 / maps.depth[2:-2, 2:-2], truth[2:-2, 2:-2], rtol=1e-5, atol=0)


def test_constants_stay() -> None:
    flat = torch.full((6, 8), 1.7)
    maps = upsample_guided(flat, 0.1 * flat, 0.3 * torch.ones_like(flat), noise(6, 8, 3), noise(24, 32, 3, seed=1))
    assert (1 / maps.depth == 1 / flat[0, 0]).all() or (maps.depth - 1.7).abs().max() < 3e-7
    torch.testing.assert_close(maps.std, torch.full((24, 32), 0.17), rtol=1e-4, atol=0)
    torch.testing.assert_close(maps.confidence, torch.full((24, 32), 0.3), rtol=1e-5, atol=0)


def test_a_single_coarse_pixel() -> None:
    one = torch.full((1, 1), 2.0)
    maps = upsample_guided(one, 0.1 * one, one / 2, torch.full((1, 1, 1), GRAY), noise(3, 5, 1))
    torch.testing.assert_close(maps.depth, torch.full((3, 5), 2.0))


# Bounds


@pytest.mark.parametrize("factor", [2, 4])
def test_nothing_overshoots_its_coarse_neighbours(factor: int) -> None:
    coarse = 0.2 + noise(12, 14) ** 3
    found = (1 / upsample(coarse, noise(12 * factor, 14 * factor, 3, seed=1), factor).depth).numpy()
    rows, columns = (centres(size, factor).floor().long().numpy() for size in (12, 14))
    for i in range(12 * factor):
        for j in range(14 * factor):
            near = coarse[
                np.clip(range(rows[i] - 1, rows[i] + 3), 0, 11)[:, None],
                np.clip(range(columns[j] - 1, columns[j] + 3), 0, 13),
            ]
            assert near.min() * (1 - 1e-6) <= found[i, j] <= near.max() * (1 + 1e-6)


def test_infinity_gives_no_nan() -> None:
    inverse = torch.where(torch.arange(12) < 6, 1.0, 0.0).expand(10, 12).contiguous()
    depth = 1 / inverse
    std = torch.where(torch.isinf(depth), torch.inf, 0.02)  # as argmin has it
    for guide in (torch.full((40, 48, 3), GRAY), noise(40, 48, 3)):
        maps = upsample_guided(depth, std, torch.ones_like(depth), shrink(guide, 4), guide)
        for values in maps:
            assert not torch.isnan(values).any()
        assert torch.isinf(maps.depth[:, 36:]).all()
        assert torch.isinf(maps.std[:, 36:]).all()
        torch.testing.assert_close(maps.depth[:, :12], torch.ones(40, 12))
        torch.testing.assert_close(maps.std[:, :12], torch.full((40, 12), 0.02), rtol=1e-4, atol=0)
    nowhere = torch.full((4, 4), math.inf)
    maps = upsample_guided(nowhere, nowhere, torch.ones(4, 4), noise(4, 4, 3), noise(8, 8, 3))
    assert torch.isinf(maps.depth).all()
    assert torch.isinf(maps.std).all()


def test_the_error_bar_grows_where_neighbours_disagree() -> None:
    truth, distance = step(0, 0.0)
    maps = upsample(shrink(truth, 4), torch.full((64, 96, 3), GRAY), 4, std=torch.full((16, 24), 1e-3))
    assert (maps.std[distance.abs() < 2] > 0.05).all()  # the picture does not say on which side
    assert (maps.std[distance.abs() > 14] < 2e-3).all()


def test_doubtful_pixels_count_less() -> None:
    inverse = torch.ones(8, 8)
    inverse[4, 4] = 2.0
    guide = torch.full((32, 32, 3), GRAY)
    sure = torch.ones(8, 8)
    doubtful = sure.clone()
    doubtful[4, 4] = 0.0
    found = [
        (1 / upsample_guided(1 / inverse, 0.01 / inverse, who, shrink(guide, 4), guide).depth).amax().item()
        for who in (sure, doubtful)
    ]
    assert found[0] > 1.3
    assert found[1] < 1.05


# The slow twin


def twin(inverse: np.ndarray, spread: np.ndarray, sure: np.ndarray, small: np.ndarray, full: np.ndarray) -> np.ndarray:
    """Inverse depth, its std and confidence of every pixel, in loops; colours are sRGB."""
    height, width = inverse.shape
    rows, columns = full.shape[:2]

    def limited(before: float, after: float) -> float:
        return 0.0 if before * after <= 0 else min(before, after, key=abs)

    def slope(values: np.ndarray, i: int) -> float:
        steps = np.diff(values)
        return limited(steps[i - 1 if i > 0 else 1], steps[i if i < len(steps) else -2])

    def spline(t: float) -> float:
        t = abs(t)
        return 2 / 3 - t**2 + t**3 / 2 if t < 1 else max(0.0, 2 - t) ** 3 / 6

    members = [[[] for _ in range(width)] for _ in range(height)]
    for i in range(rows):
        for j in range(columns):
            a, b = i * height // rows, j * width // columns
            members[a][b].append(((full[i, j] - small[a, b]) ** 2).sum())
    trust = (sure + 0.02) / (1 + np.array([[np.mean(cell) for cell in line] for line in members]) / 0.05**2)
    out = np.empty((3, rows, columns))
    for i in range(rows):
        for j in range(columns):
            v, u = (i + 0.5) * height / rows - 0.5, (j + 0.5) * width / columns - 0.5
            weights, values, spreads, doubts, near = [], [], [], [], []
            for y in range(math.floor(v) - 1, math.floor(v) + 3):
                for x in range(math.floor(u) - 1, math.floor(u) + 3):
                    a, b = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
                    colour = math.exp(-((full[i, j] - small[a, b]) ** 2).sum() / (2 * 0.05**2)) + 1e-3
                    weights.append(spline(v - y) * spline(u - x) * colour * trust[a, b])
                    tilt = slope(inverse[:, b], a) * (v - a) + slope(inverse[a], b) * (u - b)
                    values.append(inverse[a, b] + tilt)
                    near.append(inverse[a, b])
                    spreads.append(spread[a, b])
                    doubts.append(sure[a, b])
            share = np.array(weights) / sum(weights)
            mean = share @ values
            variance = share @ (np.array(spreads) ** 2 + (np.array(values) - mean) ** 2)
            out[:, i, j] = min(max(mean, min(near)), max(near)), math.sqrt(variance), share @ doubts
    return out


def test_against_the_twin() -> None:
    inverse, sure = 0.5 + noise(5, 6).double(), noise(5, 6, seed=1).double()
    small, full = noise(5, 6, 3, seed=2), noise(13, 17, 3, seed=3)
    spread = 0.05 * noise(5, 6, seed=4).double() + 0.01
    encoded = (linear_to_srgb(small).double().numpy(), linear_to_srgb(full).double().numpy())
    expected = twin(inverse.numpy(), spread.numpy(), sure.numpy(), *encoded)
    maps = upsample_guided((1 / inverse).float(), (spread / inverse**2).float(), sure.float(), small, full)
    np.testing.assert_allclose(1 / maps.depth.numpy(), expected[0], rtol=1e-4)
    np.testing.assert_allclose(maps.std.numpy() / maps.depth.numpy() ** 2, expected[1], rtol=1e-3)
    np.testing.assert_allclose(maps.confidence.numpy(), expected[2], rtol=1e-4)


def test_bands_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = noise(40, 60, 3, seed=1)
    coarse = 0.5 + noise(10, 15)
    whole = upsample(coarse, guide, 4)
    for pixels in (60, 420, 1):
        monkeypatch.setattr(upsampling, "PIXELS_A_BAND", pixels)
        for part, all_at_once in zip(upsample(coarse, guide, 4), whole, strict=True):
            torch.testing.assert_close(part, all_at_once, rtol=1e-5, atol=0)


def test_scale_of_the_scene_makes_no_difference() -> None:
    guide = noise(24, 32, 3, seed=1)
    coarse = 0.5 + noise(6, 8)
    metres = upsample(coarse, guide, 4)
    halves = upsample(coarse * 2, guide, 4)
    torch.testing.assert_close(2 * halves.depth, metres.depth, rtol=1e-6, atol=0)
    torch.testing.assert_close(2 * halves.std, metres.std, rtol=1e-5, atol=0)


def test_bad_input() -> None:
    flat, small, full = torch.ones(4, 6), noise(4, 6, 3), noise(8, 12, 3)
    cases = [
        ((flat, flat, flat, small, noise(3, 12, 3)), ("guide_full", "3 x 12 px", "4 x 6 px")),
        ((flat, flat, flat, small, noise(8, 12, 1)), ("guide_full", "C=3")),
        ((flat, flat, flat, noise(5, 6, 3), full), ("guide_small", "H=4")),
        ((flat, flat[:2], flat, small, full), ("std", "H=4")),
        ((flat[None], flat, flat, small, full), ("depth", "H W")),
        ((flat * math.nan, flat, flat, small, full), ("depth", "positive")),
        ((flat * 0, flat, flat, small, full), ("depth", "positive")),
    ]
    for arguments, parts in cases:
        assert_one_sentence(message_of(lambda arguments=arguments: upsample_guided(*arguments), ValueError), *parts)
