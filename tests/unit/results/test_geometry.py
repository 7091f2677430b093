"""Points and triangles of planes, steps and holes, against closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest

from focalsweep import Camera, FocalStack, estimate_depth
from focalsweep.optics.thin_lens import image_distance
from focalsweep.results.geometry import (
    NothingKnownError,
    measure_distance,
    point_cloud,
    projection_px,
    sample_rows_and_columns,
    surface_mesh,
)
from tests.errors import assert_one_sentence, message_of
from tests.unit.results.scenes import scene, stepped, tilted

FACING = np.full((40, 60), 0.5)  # 2 m away: 60 x 40 px of 20 mm, at a lens of 100 px


def normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = (points[faces[:, i]].astype(np.float64) for i in range(3))
    crossed = np.cross(b - a, c - a)
    return crossed / np.linalg.norm(crossed, axis=1, keepdims=True)


def test_a_plane_that_faces_the_camera_has_its_size() -> None:
    points = point_cloud(scene(FACING)).points
    assert points.shape == (2400, 3)
    # From the first pixel's centre to the last one's: 59 and 39 steps of 2 m / 100.
    np.testing.assert_allclose(np.ptp(points, axis=0), [59 * 0.02, 39 * 0.02, 0], atol=1e-6)
    np.testing.assert_allclose(points.mean(0), [0, 0, 2], atol=1e-6)
    np.testing.assert_allclose(points[0], [-0.59, -0.39, 2], atol=1e-6)  # row 0, column 0: left and up


def test_the_mesh_of_a_plane_has_its_size_and_faces_the_camera() -> None:
    mesh = surface_mesh(scene(FACING))
    assert len(mesh.faces) == 2 * 59 * 39
    corners = mesh.points[mesh.faces].astype(np.float64)
    area = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum()
    assert area == pytest.approx(59 * 39 * 0.02**2, rel=1e-5)
    np.testing.assert_allclose(normals(mesh.points, mesh.faces), np.tile([0, 0, -1], (len(mesh.faces), 1)), atol=1e-4)


@pytest.mark.parametrize("normal", [(0.6, 0.0, 0.8), (0.0, -0.6, 0.8), (0.48, 0.6, 0.64), (0.0, 0.9397, 0.3420)])
def test_a_tilted_plane_is_whole_and_keeps_its_normal(normal: tuple[float, float, float]) -> None:
    result = scene(tilted(40, 60, normal, offset=1.5), std=np.zeros((40, 60), np.float32))
    points = point_cloud(result).points.astype(np.float64)
    np.testing.assert_allclose(points @ normal, 1.5, rtol=1e-5)
    mesh = surface_mesh(result)
    assert len(mesh.faces) == 2 * 59 * 39
    found = normals(mesh.points, mesh.faces)
    np.testing.assert_allclose(found, np.tile(-np.array(normal), (len(found), 1)), atol=5e-3)


def columns_of_faces(result, **options) -> tuple[np.ndarray, np.ndarray]:
    """The leftmost and the rightmost column of each face."""
    mesh = surface_mesh(result, **options)
    columns = mesh.texture_coordinates[:, 0] * result.depth.shape[1] - 0.5
    return columns[mesh.faces].min(1).round(), columns[mesh.faces].max(1).round()


@pytest.mark.parametrize("far", [1.05, 1.3, 20.0])
def test_no_face_bridges_a_step(far: float) -> None:
    left, right = columns_of_faces(scene(stepped(40, 60, 23, far=far)))
    assert not np.any((left < 23) & (right >= 23))
    assert len(left) == 2 * 39 * (22 + 36)  # and every other face is there


def test_a_step_within_the_noise_is_bridged() -> None:
    result = scene(stepped(40, 60, 23, far=1.02))
    assert len(surface_mesh(result).faces) == 2 * 39 * 58
    noisy = scene(stepped(40, 60, 23, far=1.02), std=np.full((40, 60), 0.02, np.float32))
    assert len(surface_mesh(noisy).faces) == 2 * 39 * 59


def test_a_blurred_step_is_cut_though_its_std_is_large() -> None:
    ramp = np.interp(np.arange(60), [28, 33], [1.0, 0.5]) * np.ones((40, 1))  # 1 to 2 m over 5 px
    left, right = columns_of_faces(scene(ramp, std=np.full((40, 60), 0.2, np.float32)))
    assert not np.any((left < 33) & (right > 28))


def test_a_step_on_a_slope_is_cut() -> None:
    inverse = tilted(40, 60, (0.6, 0, 0.8), 1.5)
    inverse[:, 30:] -= 0.05
    left, right = columns_of_faces(scene(inverse))
    assert not np.any((left < 30) & (right >= 30))
    assert len(left) == 2 * 39 * 58


def test_a_lone_missing_point_takes_its_four_quads_down_to_one_triangle_each() -> None:
    confidence = np.ones((40, 60), np.float32)
    confidence[20, 30] = 0.2
    result = scene(FACING, confidence=confidence)
    mesh = surface_mesh(result)
    assert len(mesh.points) == 2399
    assert len(mesh.faces) == 2 * 59 * 39 - 4
    assert len(surface_mesh(result, least_confidence=0.1).faces) == 2 * 59 * 39


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
    assert np.isfinite(surface_mesh(result).points).all()


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


def test_a_strided_mesh_keeps_its_geometry() -> None:
    normal = (0.48, 0.6, 0.64)
    mesh = surface_mesh(scene(tilted(90, 120, normal, 1.5)), most_vertices=1000)
    assert len(mesh.points) <= 1000
    np.testing.assert_allclose(mesh.points.astype(np.float64) @ normal, 1.5, rtol=1e-5)
    np.testing.assert_allclose(normals(mesh.points, mesh.faces) @ normal, -1, atol=1e-4)


def test_default_caps() -> None:
    large = scene(np.full((1500, 1000), 0.5))
    assert 0.2e6 < len(point_cloud(large).points) <= 1_000_000
    assert 0.1e6 < len(surface_mesh(large).points) <= 300_000


def test_nothing_known_is_said() -> None:
    result = scene(FACING, confidence=np.full((40, 60), 0.3, np.float32))
    assert len(point_cloud(result).points) == 0
    assert_one_sentence(message_of(lambda: surface_mesh(result), NothingKnownError), "0.5", "least_confidence")
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
