"""Random worlds: the same for the same seed, valid, held up by something, and where the view asks for them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from focalsweep_research.synthesis.scenes import (
    BOX,
    CARD,
    CYLINDER,
    ELLIPSOID,
    EMPTY,
    SHEET,
    Array,
    Scenes,
    View,
    stack_scenes,
)
from focalsweep_research.synthesis.tracer import depth
from focalsweep_research.synthesis.worlds import random_world

SOLIDS, TEXTURES, WORLDS = 56, 20, 80
World = dict[str, Array]


def view_of(number: int) -> View:
    rng = np.random.default_rng([1, number])
    near = 1 / np.exp(rng.uniform(np.log(0.1), np.log(2)))
    height, width = (24, 24) if number % 2 else (20, 32)
    return View(near, near * rng.uniform(0, 0.7), width / 2 / np.tan(rng.uniform(0.13, 0.57)), height, width)


def world_of(number: int, solids: int = SOLIDS) -> World:
    return random_world(np.random.default_rng([2, number]), view_of(number), TEXTURES, solids)


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [world_of(number) for number in range(WORLDS)]


@pytest.fixture(scope="module")
def inverse_depths() -> list[tuple[float, float]]:
    """The far and near end of what the tracer sees of each world, times 1 / view.near."""
    ends = []
    for number in range(WORLDS):
        view = view_of(number)
        focal_px = torch.tensor([view.focal_px], dtype=torch.float32)
        seen = 1 / depth(stack_scenes([world_of(number)]), focal_px, (view.height, view.width))
        ends.append((float(seen.min()) / view.near, float(seen.max()) / view.near))
    return ends


def test_the_same_seed_gives_the_same_world(worlds: list[World]) -> None:
    again = world_of(7)
    assert all(np.array_equal(again[name], worlds[7][name]) for name in again)
    assert not np.array_equal(worlds[7]["centre"], worlds[8]["centre"])


def test_fields_are_those_of_scenes(worlds: list[World]) -> None:
    stacked = stack_scenes(worlds[:2])
    assert {field.name for field in fields(Scenes)} == set(worlds[0])
    assert stacked.kind.shape == (2, SOLIDS)


def test_fields_are_valid(worlds: list[World]) -> None:
    for world in worlds:
        there = world["kind"] != EMPTY
        assert set(np.unique(world["kind"])) <= {EMPTY, ELLIPSOID, BOX, SHEET, CYLINDER, CARD}
        assert all(np.isfinite(values).all() for values in world.values())
        identity = world["axes"] @ world["axes"].swapaxes(1, 2)
        assert np.allclose(identity, np.eye(3), atol=1e-9)
        assert np.allclose(np.linalg.det(world["axes"]), 1)
        assert (world["half"][..., :2] > 0).all()
        assert (world["half"][world["kind"] != CARD] > 0).all()
        assert ((world["texture"] >= 0) & (world["texture"] < TEXTURES)).all()
        assert (world["mapping"][there, 0] > 0).all()
        assert (world["tint"][there] > 0).all()
        assert ((world["contrast"] >= 0) & (world["contrast"] <= 1)).all()
        assert ((world["gloss"][:, 0] >= 0) & (world["gloss"][:, 0] <= 1)).all()
        assert ((world["gloss"][there, 1] >= 4) & (world["gloss"][there, 1] <= 200)).all()
        light = world["light"]
        assert 0 < light[3] < 1
        assert light[4] > 0
        assert np.isclose(np.linalg.norm(light[7:]), 1)


def test_numbers_of_solids_vary_up_to_the_most(worlds: list[World]) -> None:
    counts = np.array([(world["kind"] != EMPTY).sum() for world in worlds])
    assert counts.min() <= 12
    assert counts.max() == SOLIDS
    assert counts.std() > 10
    assert all((world_of(number, 9)["kind"] != EMPTY).sum() <= 9 for number in range(40))


def test_too_few_solids_are_refused() -> None:
    with pytest.raises(ValueError, match="solids must be at least"):
        world_of(0, 3)


def test_every_kind_of_solid_is_used(worlds: list[World]) -> None:
    kinds = np.concatenate([world["kind"] for world in worlds])
    for kind in (ELLIPSOID, BOX, SHEET, CYLINDER, CARD):
        assert (kinds == kind).sum() > 20


def test_many_surfaces_are_plain_and_some_shine(worlds: list[World]) -> None:
    contrast = np.concatenate([world["contrast"][world["kind"] != EMPTY] for world in worlds])
    gloss = np.concatenate([world["gloss"][world["kind"] != EMPTY, 0] for world in worlds])
    assert 0.2 < (contrast <= 0.06).mean() < 0.7
    assert 0.05 < (gloss > 0).mean() < 0.4


def test_something_is_in_sight_everywhere_and_where_the_view_asks(inverse_depths: list[tuple[float, float]]) -> None:
    far, near = np.array(inverse_depths).T
    assert (far > 0).all()  # no ray is lost
    assert ((near > 0.7) & (near < 1.5)).mean() >= 0.9
    assert near.max() < 6


def test_the_far_end_follows_the_view(inverse_depths: list[tuple[float, float]]) -> None:
    far, near = np.array(inverse_depths).T
    asked = np.array([view_of(number).far / view_of(number).near for number in range(WORLDS)])
    seen = far / near
    assert np.median(seen[asked > 0.45]) > 1.5 * np.median(seen[asked < 0.2])


def test_the_first_solid_is_the_sheet_behind_all(worlds: list[World]) -> None:
    assert all(world["kind"][0] == SHEET for world in worlds)
    backmost = []
    for number, world in enumerate(worlds):
        view = view_of(number)
        focal_px = torch.tensor([view.focal_px], dtype=torch.float32)
        alone = {**world, "kind": np.where(np.arange(SOLIDS) == 0, world["kind"], EMPTY)}
        seen, wall = (depth(stack_scenes([w]), focal_px, (view.height, view.width)) for w in (world, alone))
        backmost.append(bool((wall.min() > 0) & torch.isclose(seen, wall)[seen >= 0.8 * seen.max()].any()))
    assert np.mean(backmost) > 0.8


def test_solids_are_held_by_others(worlds: list[World]) -> None:
    assert np.mean([share_held(world) for world in worlds]) > 0.99


def test_what_floats_is_found(worlds: list[World]) -> None:
    lifted = []
    for world in worlds:
        up, things = world["light"][7:], (world["kind"] != SHEET) & (world["kind"] != EMPTY)
        size = np.linalg.norm(world["half"], axis=1)[:, None]
        lifted.append({**world, "centre": world["centre"] + up * 2.5 * size * things[:, None]})
    assert np.mean([share_held(world) for world in lifted]) < 0.7


def share_held(world: World) -> float:
    """The share of solids that touch a sheet, a solid that does, and so on; or that come from above the picture."""
    there = np.flatnonzero(world["kind"] != EMPTY).tolist()
    sheets = [i for i in there if world["kind"][i] == SHEET]
    things = [i for i in there if world["kind"][i] != SHEET]
    points = {i: surface_points(world, i) for i in things}
    held = {i for i in things if any(reaches(world, points[i], sheet) for sheet in sheets)}
    held |= {i for i in things if ((points[i] @ world["light"][7:]) > 1.2 * np.abs(points[i][:, 2])).any()}
    waiting, last = set(things) - held, set(held)
    while last:
        last = {i for i in waiting if any(touch(world, points, i, j) for j in last)}
        held, waiting = held | last, waiting - last
    return len(held) / len(things) if things else 1.0


def surface_points(world: World, i: int) -> Array:
    """Points all over a solid, in the camera's coordinates."""
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 7)] * 3), -1).reshape(-1, 3)
    kind, half = world["kind"][i], world["half"][i].copy()
    if kind == CARD:
        half[2] = 0
        points = grid
    else:
        points = grid[np.abs(grid).max(1) == 1]
        if kind == ELLIPSOID:
            points = points / np.linalg.norm(points, axis=1, keepdims=True)
        elif kind == CYLINDER:
            points = points[np.abs(points[:, 2]) == 1]
            across = np.abs(points[:, :2]).max(1, keepdims=True)
            points[:, :2] *= across / np.maximum(np.linalg.norm(points[:, :2], axis=1, keepdims=True), 1e-9)
            points = np.concatenate([points * [1, 1, t] for t in np.linspace(0, 1, 8)])
    return np.asarray(world["centre"][i] + (points * half) @ world["axes"][i])


def reaches(world: World, points: Array, sheet: int) -> bool:
    """Whether a solid crosses a sheet or nearly rests on it."""
    local = (points - world["centre"][sheet]) @ world["axes"][sheet].T
    amplitude, kx, ky, phase = world["waves"][sheet].T[:, :, None]
    height = local[:, 2] - (amplitude * np.sin(kx * local[:, 0] + ky * local[:, 1] + phase)).sum(0)
    return bool(np.abs(height).min() <= slack(points) or (height.min() < 0 < height.max()))


def slack(points: Array) -> float:
    return float(0.03 * np.ptp(points, axis=0).max())


def touch(world: World, points: dict[int, Array], i: int, j: int) -> bool:
    return distance(world, points[i], j) <= slack(points[i]) or distance(world, points[j], i) <= slack(points[j])


def distance(world: World, points: Array, j: int) -> float:
    """How near points come to a solid (0 inside): exact for boxes and cards, about that for round ones."""
    local = np.abs((points - world["centre"][j]) @ world["axes"][j].T)
    kind, half = world["kind"][j], world["half"][j].copy()
    if kind == CARD:
        half[2] = 0
    if kind == ELLIPSOID:
        share = np.linalg.norm(local / half, axis=1)
        return float(np.maximum(0, (1 - 1 / share) * np.linalg.norm(local, axis=1)).min())
    if kind == CYLINDER:
        side = np.linalg.norm(local[:, :2], axis=1) - half[0]
        return float(np.hypot(np.maximum(side, 0), np.maximum(local[:, 2] - half[2], 0)).min())
    return float(np.linalg.norm(np.maximum(local - half, 0), axis=1).min())
