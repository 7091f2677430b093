"""Points and triangles of planes, steps and holes, against closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest

from focalsweep import Camera, FocalStack, RelativeLens, estimate_depth
from focalsweep.lenses import StageLens
from focalsweep.optics.thin_lens import image_distance
from focalsweep.results.geometry import (
    measure_distance,
    point_cloud,
    projection_px,
    sample_rows_and_columns,
)
from tests.errors import assert_one_sentence, message_of
from tests.unit.results.scenes import scene, stepped, tilted

FACING = np.full((40, 60), 0.5)  # 2 m away: 60 x 40 px of 20 mm, at a lens of 100 px


def test_a_plane_that_faces_the_camera_has_its_size() -> None:
    points = point_cloud(scene(FACING)).points
    assert points.shape == (2400, 3)
    # From the first pixel's centre to the last one's: 59 and 39 steps of 2 m / 100.
    np.testing.assert_allclose(np.ptp(points, axis=0), [59 * 0.02, 39 * 0.02, 0], atol=1e-6)
    np.testing.assert_allclose(points.mean(0), [0, 0, 2], atol=1e-6)
    np.testing.assert_allclose(points[0], [-0.59, -0.39, 2], atol=1e-6)  # row 0, column 0: left and up


@pytest.mark.parametrize("normal", [(0.6, 0.0, 0.8), (0.0, -0.6, 0.8), (0.48, 0.6, 0.64), (0.0, 0.9397, 0.3420)])
def test_a_tilted_plane_is_flat(normal: tuple[float, float, float]) -> None:
    result = scene(tilted(40, 60, normal, offset=1.5), std=np.zeros((40, 60), np.float32))
    points = point_cloud(result).points.astype(np.float64)
    np.testing.assert_allclose(points @ normal, 1.5, rtol=1e-5)


def test_points_without_a_place_are_left_out() -> None:
    inverse = np.full((40, 60), 0.5)
    inverse[0] = 0  # infinity
    inverse[1] = 1 / 500  # beyond 100 times the nearest
    inverse[2] = 1 / 150
    result = scene(inverse)
    result.confidence[3] = np.nan
    result.std[4] = 1.1  # more than half of 2 m
    assert len(point_cloud(result).points) == 36 * 60
    assert len(point_cloud(result, farthest=100.0).points) == 35 * 60
    assert len(point_cloud(result, farthest=1000.0).points) == 37 * 60


def test_colours_are_those_of_the_pixel() -> None:
    result = scene(FACING)
    cloud = point_cloud(result)
    index = 7 * 60 + 11
    linear = result.all_in_focus[7, 11].astype(np.float64)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    np.testing.assert_allclose(cloud.colours[index], encoded * 255, atol=0.51)
    gray = point_cloud(scene(FACING, all_in_focus=np.full((40, 60, 1), 0.25, np.float32)))
    assert gray.colours.shape == (2400, 3)
    assert (gray.colours == 137).all()


@pytest.mark.parametrize(("most", "step"), [(2400, 1), (2399, 2), (600, 2), (599, 3), (1, 60)])
def test_the_cap_is_kept_by_striding(most: int, step: int) -> None:
    result = scene(FACING)
    rows, columns = sample_rows_and_columns(result, most)
    assert len(rows) * len(columns) <= most
    assert all(np.diff(axis).tolist() == [step] * (len(axis) - 1) for axis in (rows, columns))
    points = point_cloud(result, most_points=most).points
    assert len(points) == len(rows) * len(columns)
    np.testing.assert_allclose(points[:, 2], 2)


def test_default_caps() -> None:
    large = scene(np.full((1500, 1000), 0.5))
    assert 0.2e6 < len(point_cloud(large).points) <= 1_000_000


def test_nothing_known_is_said() -> None:
    result = scene(FACING, confidence=np.full((40, 60), 0.3, np.float32))
    assert len(point_cloud(result).points) == 0
    for bad in (-0.1, 1.5, math.nan):
        assert_one_sentence(
            message_of(lambda bad=bad: point_cloud(result, least_confidence=bad), ValueError), "between 0 and 1"
        )


def test_projection_distance_stands_behind_the_lens() -> None:
    assert projection_px(scene(FACING)) == pytest.approx(100)  # a lens focused far: the focal length
    close = scene(FACING, projection_distance=0.1)
    assert projection_px(close) == pytest.approx(200)
    np.testing.assert_allclose(np.ptp(point_cloud(close).points, axis=0), [59 * 0.01, 39 * 0.01, 0], atol=1e-6)


def test_projection_distance_of_a_stack() -> None:
    assert image_distance(0.1, 0.05).item() == pytest.approx(0.1)  # at twice the focal length: life size
    assert image_distance(math.inf, 0.05).item() == pytest.approx(0.05)
    frames = np.random.default_rng(0).random((2, 1, 16, 16), dtype=np.float32)
    focus = np.array([0.2, 0.3])
    camera = Camera(0.05, 4.0, 1e-4)
    for share, expected in ((0.05, 0.05), (0.07, 0.07)):  # every frame registered to one image distance
        stack = FocalStack(frames, focus, camera, magnification=share * (focus - 0.05) / (focus * 0.05))
        assert estimate_depth(stack, "argmin").projection_distance == pytest.approx(expected)


def test_a_distance_in_a_plane_that_faces_the_camera() -> None:
    """Steps of 2 m / 100 between pixels; a depth that is exact leaves no error."""
    result = scene(FACING, std=np.zeros(FACING.shape, np.float32))
    assert measure_distance(result, (3, 10), (3, 50)) == (pytest.approx(40 * 0.02, rel=1e-6), 0)
    assert measure_distance(result, (0, 10), (30, 50)) == (pytest.approx(50 * 0.02, rel=1e-6), 0)
    assert measure_distance(result, (3, 1), (3, 1)) == (0.0, 0.0)


def test_the_error_of_a_distance_is_that_of_drawn_depths() -> None:
    result = scene(stepped(40, 60, column=30, near=1.0, far=1.3))
    result.std[:] = 0
    result.std[5, 5], result.std[35, 55] = 0.004, 0.008
    distance, error = measure_distance(result, (5, 5), (35, 55))
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(1500):
        depth = result.depth.copy()
        depth[5, 5] += random.normal() * 0.004
        depth[35, 55] += random.normal() * 0.008
        drawn.append(measure_distance(replace(result, depth=depth), (5, 5), (35, 55))[0])
    assert np.mean(drawn) == pytest.approx(distance, abs=0.001)
    assert np.std(drawn) == pytest.approx(error, rel=0.06)
    result.depth[5, 5] = np.inf
    assert math.isnan(measure_distance(result, (5, 5), (35, 55))[0])


def test_points_without_a_unit_are_a_relief_as_wide_as_one() -> None:
    """Heights are linear in inverse depth, a fifth of the width in all."""
    ramp = np.linspace(0.2, 0.9, 60) * np.ones((40, 1))
    points = point_cloud(scene(ramp, camera=RelativeLens(40.0))).points.reshape(40, 60, 3)
    assert np.ptp(points[..., 0]) == pytest.approx(59 / 60)
    assert np.ptp(points[..., 1]) == pytest.approx(39 / 60)
    assert np.ptp(points[..., 2]) == pytest.approx(0.2, rel=0.02)
    np.testing.assert_allclose(np.diff(points[0, :, 2], 2), 0, atol=1e-6)
    assert points[0, -1, 2] < points[0, 0, 2]  # near is towards the viewer, against z


def test_points_of_a_stage_are_micrometres() -> None:
    heights = np.linspace(-3e-5, 5e-5, 60) * np.ones((40, 1))
    fields = {
        "depth": heights.astype(np.float32),
        "camera": StageLens(40.0),
        "std": np.full((40, 60), 1e-6, np.float32),
    }
    known = point_cloud(scene(np.ones((40, 60)), **fields | {"camera": StageLens(40.0, pixel_size=2e-6)}))
    np.testing.assert_allclose(np.ptp(known.points, axis=0), [59 * 2, 39 * 2, 80], rtol=1e-5)
    np.testing.assert_allclose(known.std, 1)
    free = point_cloud(scene(np.ones((40, 60)), **fields)).points  # the size of a pixel is not known
    np.testing.assert_allclose(np.ptp(free[:, 2]), 80, rtol=1e-5)
    assert np.ptp(free[:, 0]) == pytest.approx(5 * 80, rel=0.05)
