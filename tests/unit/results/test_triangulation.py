"""Triangles over a grid: whole, without cracks, no farther off than allowed, and no more than allowed."""

import numpy as np
import pytest

from focalsweep.results.triangulation import OwnError, border, point_errors, triangles

TILE = 16
SIZE = (3 * TILE + 1, 5 * TILE + 1)


def rough(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=SIZE).cumsum(0).cumsum(1).astype(np.float32)


def bend(values: np.ndarray) -> OwnError:
    return lambda place, first, last, _: np.abs(values[place] - (first + last) / 2)


def areas(faces: np.ndarray) -> np.ndarray:
    row, column = np.divmod(faces, SIZE[1])
    return 0.5 * (
        (column[:, 1] - column[:, 0]) * (row[:, 2] - row[:, 0])
        - (row[:, 1] - row[:, 0]) * (column[:, 2] - column[:, 0])
    )  # fmt: skip


@pytest.mark.parametrize("tolerance", [0.0, 1.0, 10.0, 1e9])
def test_the_grid_is_covered_once_and_without_cracks(tolerance: float) -> None:
    faces = triangles(point_errors(rough(), bend(rough()), TILE), TILE, tolerance, 10**9)
    assert (areas(faces) < 0).all()  # counter-clockwise, seen with rows downwards
    assert areas(faces).sum() == -(SIZE[0] - 1) * (SIZE[1] - 1)
    edges, times = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), 1), axis=0, return_counts=True)
    around = border(SIZE, faces)
    assert set(times.tolist()) <= {1, 2}
    ends = np.sort(np.stack([around, np.roll(around, -1)], -1), 1)
    assert {tuple(edge) for edge in edges[times == 1]} == {
        tuple(edge) for edge in ends
    }  # open at the grid's edge alone
    if tolerance == 1e9:
        assert len(faces) == 2 * 3 * 5


def test_flat_is_two_triangles_a_tile_and_a_peak_is_kept() -> None:
    row, column = np.indices(SIZE)
    plane = (0.3 * row - 0.7 * column).astype(np.float32)
    assert len(triangles(point_errors(plane, bend(plane), TILE), TILE, 1e-3, 10**9)) == 30
    plane[21, 40] += 5
    faces = triangles(point_errors(plane, bend(plane), TILE), TILE, 1e-3, 10**9)
    assert 21 * SIZE[1] + 40 in faces
    assert len(faces) < 120


def test_no_more_than_asked_for_and_the_worst_first() -> None:
    errors = point_errors(rough(), bend(rough()), TILE)
    faces = triangles(errors, TILE, 0.0, 1000)
    assert 900 < len(faces) <= 1000
    kept = np.unique(faces)
    others = np.setdiff1d(np.arange(errors.size), kept)
    inside = np.setdiff1d(kept, np.ravel_multi_index(np.ix_(range(0, SIZE[0], TILE), range(0, SIZE[1], TILE)), SIZE))
    assert errors.ravel()[inside].min() >= errors.ravel()[others].max()


def test_a_forced_point_is_there() -> None:
    forced = np.zeros(SIZE, bool)
    forced[7, 33] = True
    flat = np.zeros(SIZE, np.float32)
    assert 7 * SIZE[1] + 33 in triangles(point_errors(flat, bend(flat), TILE, forced), TILE, 1.0, 10**9)
