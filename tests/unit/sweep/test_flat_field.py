"""Field curvature from planes: what was put in comes out, within its error bars, whatever else is in the picture."""

from __future__ import annotations

import numpy as np
import pytest

from focalsweep.sweep.flat_field import FlatField, Seen, fit_flat_field

HALF = (0.003, 0.004)  # metres: half the height and width of the sensor
CORNER = 0.005


def curve(radius: np.ndarray) -> np.ndarray:
    """Flat, and steep at the rim, as phones have it: 1/m."""
    return 0.5 * (radius / CORNER) ** 6


def seen(
    plane: tuple[float, float, float], *, clutter: float = 0.0, noise: float = 0.01, seed: int = 0, marked: bool = False
) -> Seen:
    """A plane (1/m on the axis, and what is added at the right and the lower border); `clutter` of it is not there."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:120, 0:160]
    down, right = ((at.ravel() + 0.5) / half / 10 for at, half in ((rows, 6), (columns, 8)))
    down, right = (down - 1) * HALF[0], (right - 1) * HALF[1]
    inverse = plane[0] + plane[1] * right / HALF[1] + plane[2] * down / HALF[0] + curve(np.hypot(right, down))
    smooth = np.kron(rng.standard_normal((15, 20)), np.ones((8, 8))).ravel()  # errors go together
    inverse = inverse + noise * smooth
    top = rows.ravel() < clutter * 120
    steps = np.kron(rng.uniform(0.3, 2.5, (15, 20)), np.ones((8, 8))).ravel()
    inverse = np.where(top, steps, inverse)
    block = (rows.ravel() // 12) * 100 + columns.ravel() // 12
    return Seen(right, down, inverse, block, 2.0, marked)


def worst(found: FlatField) -> float:
    """Of the error of the curvature over the radii, 1/m."""
    return float(np.abs(np.array(found.curvature.dioptres) - curve(np.array(found.curvature.radii))).max())


@pytest.mark.parametrize("plane", [(1.2, 0.0, 0.0), (1.2, 0.3, 0.7), (0.8, -0.5, 0.2)])
@pytest.mark.parametrize("clutter", [0.0, 0.45])
def test_curvature_of_one_stack(plane: tuple[float, float, float], clutter: float) -> None:
    found = fit_flat_field([seen(plane, clutter=clutter)])
    assert worst(found) < 0.02  # of 0.5 in the corners
    assert found.on_axis[0].value == pytest.approx(plane[0], abs=0.01)
    assert found.planes[0][1:] * [HALF[1], HALF[0]] == pytest.approx(plane[1:], abs=0.02)
    assert found.flat[0] == pytest.approx(1 - clutter, abs=0.1)  # some clutter lies on it
    assert found.spread[0] == pytest.approx(0.01, rel=0.3)


def test_error_bars_hold() -> None:
    off = []
    for seed in range(12):
        found = fit_flat_field([seen((1.0, 0.2, 0.4), noise=0.02, seed=seed)])
        bent = found.curvature
        off.append((np.array(bent.dioptres) - curve(np.array(bent.radii))) / np.array(bent.std))
    assert 0.2 < np.sqrt(np.mean(np.square(off))) < 1.3


def test_more_stacks_make_it_surer() -> None:
    stacks = [seen((1.0, 0.2, 0.4), noise=0.03, seed=1), seen((1.6, -0.4, 0.0), noise=0.03, seed=2)]
    both = fit_flat_field(stacks)
    assert [axis.value for axis in both.on_axis] == pytest.approx([1.0, 1.6], abs=0.03)
    assert worst(both) < 0.03
    alone = fit_flat_field(stacks[:1])
    assert both.on_axis[0].std < alone.on_axis[0].std


def test_the_seed_does_not_matter() -> None:
    one, other = (fit_flat_field([seen((1.0, 0.2, 0.4), clutter=0.4)], seed=seed) for seed in (0, 1))
    assert one.curvature.dioptres == pytest.approx(other.curvature.dioptres, abs=2e-3)


def test_what_is_not_flat_shows() -> None:
    assert fit_flat_field([seen((1.0, 0.2, 0.4), clutter=1.0)]).flat[0] < 0.3
    wavy = seen((1.0, 0.0, 0.0))
    wavy = Seen(wavy.right, wavy.down, 1.2 + 0.5 * np.sin(wavy.right * 3e3), wavy.block, 2.0, True)
    assert fit_flat_field([wavy]).flat[0] < 0.6


def test_the_curvature_ends_where_nothing_is_seen() -> None:
    whole = seen((1.0, 0.2, 0.4))
    inner = whole.radius < 0.6 * CORNER
    part = Seen(*(values[inner] for values in (whole.right, whole.down, whole.inverse_depth, whole.block)), 2.0)
    assert fit_flat_field([part]).curvature.radii[-1] == pytest.approx(0.6 * CORNER, rel=0.02)


def test_departure_keeps_the_curvature() -> None:
    stack = seen((1.0, 0.2, 0.4), noise=0.0)
    found = fit_flat_field([stack])
    assert np.abs(found.departure(0, stack) - curve(stack.radius)).max() < 0.03
