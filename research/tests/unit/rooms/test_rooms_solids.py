"""Boxes, outlines, contacts and poses by closed forms."""

import math

import numpy as np
import pytest

from focalsweep_research.rooms.arranging import Face, lean_on
from focalsweep_research.rooms.solids import (
    Surface,
    about_z,
    box,
    collide,
    contains,
    overlap,
    resting_poses,
    slide_until_touching,
    stands,
    tilted,
    turned,
)

GREY = Surface("", np.full((4, 4, 3), 128, np.uint8))
SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])


def test_a_box_stands_on_the_origin_and_faces_outwards() -> None:
    solid = box("box", (2, 4, 6), GREY)
    assert (solid.bottom, solid.top) == (0, 6)
    np.testing.assert_allclose(solid.middle, [0, 0, 3], atol=1e-12)
    corners = solid.vertices[solid.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (np.einsum("fx,fx->f", normals, corners.mean(1) - [0, 0, 3]) > 0).all()
    assert stands(solid) and solid.has_flat_top()


def test_uv_in_metres_only_where_the_surface_repeats() -> None:
    tiled = box("box", (2, 4, 6), Surface("wood", GREY.pixels, tile=1.0))
    assert np.ptp(tiled.uv[:4], axis=0).tolist() == [4, 6]
    assert np.ptp(box("box", (2, 4, 6), GREY).uv, axis=0).tolist() == [1, 1]


def test_polygons() -> None:
    assert contains(SQUARE, [0.5, 0.5]) and not contains(SQUARE, [1.1, 0.5])
    assert contains(SQUARE[::-1], [0.5, 0.5]) and not contains(SQUARE[::-1], [0.5, -0.1])
    assert not contains(SQUARE, [0.95, 0.5], margin=0.1)
    assert overlap(SQUARE, SQUARE + 0.9) and not overlap(SQUARE, SQUARE + np.array([1.0, 0]))
    diamond = np.array([[1.5, 1], [1, 1.5], [0.8, 1.3], [1.3, 0.8]])
    assert not overlap(SQUARE, diamond), "their bounding boxes overlap, they do not"


@pytest.mark.parametrize("angle", [0.0, 0.3, 2.0, -1.2])
def test_what_slides_until_it_touches_does_not_collide(angle: float) -> None:
    still = turned(box("a", (1, 2, 1), GREY), about_z(0.4)).moved((5, 3, 0))
    moved = slide_until_touching(turned(box("b", (0.5, 0.3, 1), GREY), about_z(1.0)), still, angle)
    assert not collide(moved, still)
    towards = -1e-3 * np.array([math.cos(angle), math.sin(angle), 0])
    assert collide(moved.moved(towards), still)


def test_a_slab_that_leans_touches_floor_and_face() -> None:
    face = Face("wall", np.array([0.0, 2.0, 0]), 0.0, 4.0, 2.0)
    slab = lean_on(box("slab", (0.3, 0.02, 1.0), GREY), face, 0.5, 0.25, math.radians(15))
    assert slab.bottom == pytest.approx(0.25)
    assert slab.vertices[:, 1].max() == pytest.approx(2.0, abs=2e-4)
    floor_contact = slab.vertices[slab.vertices[:, 2].argmin(), 1]
    assert floor_contact < slab.middle[1] < 2.0, "gravity presses it against the wall"
    assert slab.middle[0] == pytest.approx(0.5)


def test_poses_of_a_box_are_its_faces() -> None:
    solid = box("box", (1, 2, 3), GREY)
    poses = resting_poses(solid.vertices)
    assert [area for area, _ in poses] == pytest.approx([6, 6, 3, 3, 2, 2])
    for area, rotation in poses:
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-9)
        assert np.ptp(solid.vertices @ rotation.T, axis=0)[2] == pytest.approx(6 / area)
    assert not stands(tilted(solid, 0.3))
