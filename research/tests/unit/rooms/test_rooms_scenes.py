"""Rooms obey gravity, are the same for the same seed, and show the depths that they were drawn for."""

import itertools
import math

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from focalsweep_research.benchmark.objects import Library, make_library
from focalsweep_research.rooms.arranging import surface_points
from focalsweep_research.rooms.cameras import CAMERAS, blur_px_per_dioptre
from focalsweep_research.rooms.furniture import FLOOR
from focalsweep_research.rooms.renderer import PlannedStack, RoomsConfig, all_stacks, plan
from focalsweep_research.rooms.scenes import Room
from focalsweep_research.rooms.solids import Array, Solid, collide, contains, outline

LIBRARY = make_library("test")
TOUCH = 2e-4


def planned(stack: tuple[str, int], library: Library = LIBRARY) -> PlannedStack:
    return plan(RoomsConfig(seed=3), library, stack)


def distance(a: Solid, b: Solid) -> float:
    """Of points all over either from the convex hull of the other, about: what touches has 0, what overlaps less."""

    def of_points(points: Array, solid: Solid) -> float:
        corners = solid.vertices
        if len(corners) == 4:  # a wall: the side that it faces
            normal = np.cross(corners[1] - corners[0], corners[3] - corners[0])
            return float(np.abs((points - corners[0]) @ normal / np.linalg.norm(normal)).min())
        equations = ConvexHull(corners).equations
        return float((points @ equations[:, :3].T + equations[:, 3]).max(1).min())

    from_b = of_points(surface_points(b), a) if len(a.vertices) > 4 else math.inf
    return max(-1e-6, min(of_points(surface_points(a), b), from_b))


def floating(room: Room) -> list[str]:
    """Names of what nothing holds."""
    by_name = {solid.name: solid for solid in room.solids}
    assert len(by_name) == len(room.solids), "every solid has a name of its own"
    found = []
    for solid in room.solids:
        holders = [by_name[name] for name in solid.holders]
        if solid.held == "stands":
            below = outline(np.concatenate([holder.footprint for holder in holders]))
            rests = abs(solid.bottom - max(holder.top for holder in holders)) < 1e-6
            held = rests and contains(below, solid.middle[:2], -1e-6)
        elif solid.held == "leans":
            held = abs(solid.bottom - holders[0].top) < 1e-6 and abs(distance(solid, holders[1])) < TOUCH
        elif solid.held == "fixed":
            held = distance(solid, holders[0]) < 1e-3
        else:
            held = solid.name == FLOOR or "wall" in solid.name or solid.name == "ceiling"
        if not held:
            found.append(solid.name)
    return found


def test_nothing_floats_or_goes_through_another() -> None:
    room = planned(("phone", 0)).room
    assert floating(room) == []
    things = [solid for solid in room.solids if solid.held in ("stands", "leans")]
    assert not any(collide(a, b) for a, b in itertools.combinations(things, 2))


def test_what_floats_is_found() -> None:
    room = planned(("phone", 0)).room
    place, thing = next((i, solid) for i, solid in enumerate(room.solids) if solid.held == "stands")
    room.solids[place] = thing.moved((0, 0, 0.01))
    assert thing.name in floating(room)


@pytest.mark.slow
@pytest.mark.parametrize("camera", [camera.name for camera in CAMERAS])
def test_gravity_in_many_rooms(camera: str) -> None:
    kinds = set()
    for number in range(1, 5):
        room = planned((camera, number)).room
        assert floating(room) == []
        kinds |= {solid.held for solid in room.solids}
        assert sum(solid.held != "" for solid in room.solids) > 4
    assert kinds >= {"", "stands", "fixed"}


def test_a_stack_is_the_same_every_time() -> None:
    one, again, other = (planned(stack) for stack in (("slr", 2), ("slr", 2), ("slr", 3)))
    assert one.config.focus_distances == again.config.focus_distances != other.config.focus_distances
    assert [solid.name for solid in one.room.solids] == [solid.name for solid in again.room.solids]
    for a, b in zip(one.room.solids, again.room.solids, strict=True):
        np.testing.assert_array_equal(a.vertices, b.vertices)
        np.testing.assert_array_equal(a.surface.pixels, b.surface.pixels)
    smaller = plan(RoomsConfig(samples=4, seed=3, reduction=4), LIBRARY, ("slr", 2))
    assert smaller.config.size == (96, 128)
    assert smaller.config.focus_distances == one.config.focus_distances


def test_blur_over_the_range_of_each_camera() -> None:
    """At full size, from the nearest to the farthest depth that a camera's scenes are drawn for."""
    expected = {"phone": (5.5, 15), "slr": (6, 32), "paper": (4.5, 7)}
    for camera in CAMERAS:
        rng = np.random.default_rng(0)
        least, most = expected[camera.name]
        for near in camera.nearest:
            config = camera.config(near, camera.farthest[1], 1, 0, rng)
            blur = blur_px_per_dioptre(config) * (1 / near - 1 / camera.farthest[1])
            assert least < blur < most, camera.name
            distances = config.focus_distances
            assert list(distances) == sorted(distances) and len(distances) in (5, 7)


def test_all_stacks() -> None:
    stacks = all_stacks()
    assert len(set(stacks)) == len(stacks) == 60
    assert {name for name, _ in stacks[:3]} == {camera.name for camera in CAMERAS}


def test_nothing_is_nearer_in_the_picture() -> None:
    for stack in (("phone", 1), ("paper", 0)):
        made = planned(stack)
        seen = [
            made.room.sight.project(solid.vertices)[made.room.sight.sees(solid.vertices), 2]
            for solid in made.room.solids
        ]
        nearest = made.room.scale * min(depth.min() for depth in seen if len(depth))
        assert nearest > 0.99 * made.config.near
