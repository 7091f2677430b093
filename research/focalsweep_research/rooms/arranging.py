"""Things put into a room so that gravity would leave them there: none floats, none is within another."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from focalsweep_research.benchmark.objects import Library, read_picture
from focalsweep_research.rooms import surfaces
from focalsweep_research.rooms.building import Shell, Sight
from focalsweep_research.rooms.furniture import fixed, standing
from focalsweep_research.rooms.solids import (
    Array,
    Rng,
    Solid,
    Surface,
    about_z,
    box,
    collide,
    contains,
    resting_poses,
    slide_until_touching,
    stands,
    tilted,
    turned,
)

TRIES = 25
LARGEST = 0.42  # of the picture's width that a thing may take
GAP = 1e-4  # between things that stand side by side


@dataclass(frozen=True, eq=False)
class Face:
    """An upright face that things may lean on: the middle of its foot, the yaw of what has its back to it."""

    holder: str
    foot: Array
    yaw: float
    width: float
    height: float

    @property
    def ahead(self) -> Array:
        """Into the face."""
        return about_z(self.yaw)[:2, 1]


@dataclass(frozen=True, eq=False)
class Support:
    """A level part that things may stand on, within its outline, and what stands up around it."""

    holder: str
    level: float
    outline: Array
    clearance: float = math.inf
    faces: tuple[Face, ...] = ()


@dataclass(eq=False)
class Arrangement:
    """A room that fills; lengths before it is scaled. `near`: nothing in the picture is nearer."""

    rng: Rng
    library: Library
    sight: Sight
    shell: Shell
    near: float
    solids: list[Solid] = field(default_factory=list)
    things: list[Solid] = field(default_factory=list)
    supports: dict[str, Support] = field(default_factory=dict)
    count: int = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind} {self.count}"

    def add(self, parts: list[Solid]) -> bool:
        """All parts of a piece of furniture, or none where it does not fit."""
        if not all(contains(self.shell.outline, part.footprint, -1e-3) and self.fits(part) for part in parts):
            return False
        self.solids += parts
        return True

    def fits(self, solid: Solid) -> bool:
        """Whether it goes through nothing, and is not too near in the picture."""
        if any(other.held and collide(solid, other) for other in self.solids):
            return False
        points = surface_points(solid)
        inside = np.abs(points - self.sight.eye).max(1).min() > 0.3 * self.near
        depth = self.sight.project(points)[:, 2]
        return bool(inside and not np.logical_and(self.sight.sees(points, 0.05), depth < self.near).any())

    def on_top(self, solid: Solid, clearance: float = math.inf, faces: tuple[Face, ...] = ()) -> Support:
        """A level that things may be put on from now on."""
        support = Support(solid.name, solid.top, solid.top_outline(), clearance, faces)
        self.supports[solid.name] = support
        return support

    # Things, one at a time; each says whether it found a place.

    def put_thing(self, support: Support) -> bool:
        """A mesh, a box or some books: in a place of its own, beside another, on it, or leaning."""
        kind = self.rng.random()
        if kind < 0.18 and support.faces:
            return self.lean(support)
        if kind < 0.36 and self.stack(support):
            return True
        if kind < 0.48 and support.clearance > 0.12:
            return self.lay_books(support)
        beside = [thing for thing in self.things if thing.holders[0] == support.holder]
        other = beside[self.rng.integers(len(beside))] if beside and kind < 0.72 else None
        for _ in range(TRIES):
            spot = self.spot(support)
            if spot is None:
                return False
            place, depth = spot
            if other is not None:
                depth = float(self.sight.project(other.middle[None])[0, 2])
            thing = self.draw_thing(support, depth)
            thing = standing(thing, support.holder).moved((*place[:2], support.level))
            if other is not None:
                thing = slide_until_touching(thing, other, self.rng.uniform(0, 2 * math.pi))
            if self.keep(thing, support):
                return True
        return False

    def keep(self, thing: Solid, support: Support) -> bool:
        """Take it in where it stands well and is in sight."""
        stands_on = contains(support.outline, thing.footprint, -0.02 * np.ptp(thing.footprint, axis=0).min())
        low = thing.top - support.level < support.clearance
        if not (stands_on and low and self.in_sight(thing) and self.fits(thing)):
            return False
        self.solids.append(thing)
        self.things.append(thing)
        return True

    def in_sight(self, thing: Solid) -> bool:
        """Part of it in the picture, and not too much of the picture."""
        u, _, depth = self.sight.project(thing.vertices).T
        return bool(
            self.sight.sees(thing.vertices).any() and (depth > 0.3 * self.near).all() and np.ptp(u) < 2 * 1.15 * LARGEST
        )

    def spot(self, support: Support) -> tuple[Array, float] | None:
        """A place of a support in the picture, evenly in inverse depth, and its depth."""
        depths = self.sight.project(np.c_[support.outline, np.full(len(support.outline), support.level)])[:, 2]
        nearest, farthest = max(1.02 * self.near, depths.min()), depths.max()
        if farthest <= nearest:
            return None
        drop = support.level - self.sight.eye[2]
        right, up, forward = self.sight.axes
        for _ in range(4 * TRIES):
            depth = 1 / self.rng.uniform(1 / farthest, 1 / nearest)
            across = self.rng.uniform(-1, 1) * self.sight.half_width
            along = (drop / depth - across * right[2] - forward[2]) / up[2]
            if not -1.2 < along / self.sight.half_height < 1.0:
                continue
            place = self.sight.eye + depth * (across * right + along * up + forward)
            if contains(support.outline, place[:2]):
                return place, float(depth)
        return None

    def draw_thing(self, support: Support, depth: float) -> Solid:
        """On the origin: a mesh as it stands by itself, or a box; of a size that leaves room in the picture."""
        rng = self.rng
        largest = LARGEST * 2 * self.sight.half_width * depth
        room = min(largest, 0.9 * support.clearance)
        if rng.random() < 0.72:
            solid = self.posed_mesh()
        elif rng.random() < 0.5:
            solid = self.carton(rng.uniform(0.04, 0.3, 3))
        else:
            solid = self.book(upright=bool(rng.random() < 0.5))
        solid = turned(solid, about_z(rng.uniform(0, 2 * math.pi)))
        extent = np.ptp(solid.vertices, axis=0)
        scale = min(1.0, room / max(extent[:2].max(), 0.8 * extent[2])) * rng.uniform(0.75, 1.0)
        return scaled(solid, scale)

    def posed_mesh(self) -> Solid:
        name = str(self.rng.choice(self.library.objects))
        mesh = self.library.mesh(name)
        texture = read_picture(mesh.texture) if mesh.texture else self.library.texture(
            str(self.rng.choice(self.library.textures))
        )  # fmt: skip
        rough = float(self.rng.uniform(0.2, 0.4)) if self.rng.random() < 0.25 else 0.0
        surface = Surface(name, np.clip(texture, 8, 240), roughness=rough)
        solid = Solid(self.name("mesh"), mesh.vertices * mesh.reach, mesh.uv, mesh.faces, surface)
        if self.rng.random() < 0.25 or not stands(solid):
            poses = _poses(self.library.meshes_folder, name, self.library)
            if poses:
                areas = np.array([area for area, _ in poses])
                solid = turned(solid, poses[self.rng.choice(len(poses), p=areas / areas.sum())][1])
        return on_origin(solid)

    def carton(self, size: Array) -> Solid:
        return box(self.name("box"), size, surfaces.packaging(self.rng, self.library))

    def book(self, upright: bool) -> Solid:
        thick, deep, high = self.rng.uniform((0.012, 0.12, 0.17), (0.045, 0.2, 0.29))
        size = (thick, deep, high) if upright else (deep, high, thick)
        return box(self.name("book"), size, surfaces.packaging(self.rng, self.library))

    def stack(self, support: Support) -> bool:
        """Another thing on one that stands there and has a flat top."""
        below = [thing for thing in self.things if thing.holders[0] == support.holder and thing.has_flat_top()]
        if not below:
            return False
        base = below[self.rng.integers(len(below))]
        depth = float(self.sight.project(base.middle[None])[0, 2])
        top = base.top_outline()
        for _ in range(TRIES // 3):
            thing = self.draw_thing(support, depth)
            size = 1.05 * np.ptp(top, axis=0).min() / np.ptp(thing.footprint, axis=0).max()
            thing = standing(scaled(thing, min(1.0, size)), base.name)
            thing = thing.moved([*(top.mean(0) - thing.middle[:2]), base.top])
            whole = np.ptp(thing.vertices, axis=0).max() > 0.25 * np.ptp(base.vertices, axis=0).max()
            above = Support(base.name, base.top, support.outline, support.clearance - (base.top - support.level))
            if whole and contains(top, thing.middle[:2], 0.0) and self.keep(thing, above):
                return True
        return False

    def lay_books(self, support: Support) -> bool:
        """A pile of two to five, each turned a little against the one below."""
        spot = self.spot(support)
        if spot is None:
            return False
        place, depth = spot
        scale = min(1.0, LARGEST * 2 * self.sight.half_width * depth / 0.3)
        yaw, holder, level = self.rng.uniform(0, math.pi), support.holder, support.level
        size = math.inf
        kept = 0
        for _ in range(self.rng.integers(2, 6)):
            book = self.book(upright=False)
            size = min(size, np.ptp(book.vertices[:, :2]) * self.rng.uniform(0.9, 1.0))
            book = scaled(book, scale * size / np.ptp(book.vertices[:, :2]))
            book = turned(book, about_z(yaw + self.rng.uniform(-0.2, 0.2))).moved((*place[:2], level))
            base = replace(support, holder=holder, level=level, clearance=support.clearance - (level - support.level))
            if not self.keep(standing(book, holder), base):
                break
            holder, level, kept = book.name, book.top, kept + 1
        return kept > 0

    def lean(self, support: Support) -> bool:
        """A book, a board or a flat parcel on a face beside the support."""
        for _ in range(TRIES):
            face = support.faces[self.rng.integers(len(support.faces))]
            along = self.rng.uniform(-0.5, 0.5) * face.width
            foot = face.foot[:2] + along * about_z(face.yaw)[:2, 0]
            depth = float(self.sight.project(np.array([[*foot, support.level]]))[0, 2])
            if depth < self.near:
                continue
            size = min(0.9 * face.height, 0.9 * support.clearance, LARGEST * 2 * self.sight.half_width * depth)
            height = size * self.rng.uniform(0.5, 1.0)
            shape = (height * self.rng.uniform(0.55, 1.2), min(0.05, height * self.rng.uniform(0.05, 0.14)), height)
            slab = box(self.name("slab"), shape, surfaces.packaging(self.rng, self.library))
            slab = lean_on(slab, face, along, support.level, math.radians(self.rng.uniform(9, 24)))
            slab = replace(slab, held="leans", holders=(support.holder, face.holder))
            if self.keep(slab, support):
                return True
        return False

    def fill_board(self, support: Support, yaw: float) -> None:
        """A row of standing books on a board of a shelf, the last leaning on them, and things beside it."""
        rng = self.rng
        along = about_z(yaw)[:2, 0]
        reach = support.outline @ along
        middle = support.outline.mean(0)
        if rng.random() < 0.6:
            start = rng.uniform(reach.min() + 0.01, reach.mean())
            last = None
            for _ in range(rng.integers(3, 10)):
                book = turned(self.book(upright=True), about_z(yaw))
                places = book.footprint @ along
                step = start - places.min()
                deeper = about_z(yaw)[:2, 1] * rng.uniform(-0.01, 0.02)
                book = book.moved([*(middle + deeper + (step - (middle + deeper) @ along) * along), support.level])
                if self.keep(standing(book, support.holder), support):
                    last = book
                start = float((book.footprint @ along).max()) + GAP
            if last is not None and rng.random() < 0.7:
                self.lean_book(last, support, yaw)
        for _ in range(rng.integers(1, 5)):
            self.put_thing(support)

    def lean_book(self, row: Solid, support: Support, yaw: float) -> None:
        """A book beside a row of them, its top against the last."""
        along = about_z(yaw)[:2, 0]
        end = float((row.footprint @ along).max())
        across = about_z(yaw)[:2, 1]
        foot = end * along + float(row.middle[:2] @ across) * across
        face = Face(row.name, np.array([*foot, support.level]), yaw + math.pi / 2, 0.1, row.top - row.bottom)
        thick, deep, high = self.rng.uniform((0.012, 0.12, 0.5), (0.04, 0.17, 0.9))
        shape = (deep, thick, high * face.height)
        slab = box(self.name("book"), shape, surfaces.packaging(self.rng, self.library))
        slab = lean_on(slab, face, 0.0, support.level, math.radians(self.rng.uniform(10, 25)))
        self.keep(replace(slab, held="leans", holders=(support.holder, row.name)), support)


def lean_on(slab: Solid, face: Face, along: float, level: float, angle: float) -> Solid:
    """A slab (thin along y) on the origin, tilted until its upper edge lies on the face, its lower one on the level."""
    slab = turned(tilted(slab, angle), about_z(face.yaw))
    reach = float((slab.vertices[:, :2] @ face.ahead).max())
    sideways = about_z(face.yaw)[:2, 0]
    here = face.foot[:2] + along * sideways
    return slab.moved([*(here - (reach + GAP) * face.ahead), level - slab.bottom])


def hang(parts: list[Solid], wall: str, foot: Array, yaw: float, along: float, height: float) -> list[Solid]:
    """Parts whose wall is at y = 0, on the wall at this place along it and this height."""
    matrix = about_z(yaw)
    place = np.array([*(foot[:2] + along * matrix[:2, 0]), height])
    return [fixed(turned(part, matrix).moved(place), part.holders[0] if part.holders else wall) for part in parts]


def scaled(solid: Solid, by: float) -> Solid:
    return replace(solid, vertices=solid.vertices * by)


def on_origin(solid: Solid) -> Solid:
    """With its centre of mass above the origin, standing on z = 0."""
    return solid.moved([*-solid.middle[:2], -solid.bottom])


def surface_points(solid: Solid, count: int = 7) -> Array:
    """Its vertices; of a solid of few faces, points all over them."""
    if len(solid.faces) > 50:
        return solid.vertices
    steps = [(i / count, k / count) for i in range(count + 1) for k in range(count + 1 - i)]
    weights = np.array([(1 - a - b, a, b) for a, b in steps])
    return np.asarray(np.einsum("pc,fcx->fpx", weights, solid.vertices[solid.faces]).reshape(-1, 3))


@lru_cache(maxsize=512)
def _poses(folder: Path | None, name: str, library: Library) -> tuple[tuple[float, Array], ...]:
    """The three largest faces that a mesh lies on by itself."""
    return tuple(resting_poses(library.mesh(name).vertices)[:3])
