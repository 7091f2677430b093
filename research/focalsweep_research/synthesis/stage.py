"""Where a world is built: solids are set down in metres with gravity, and later seen from a camera.

World coordinates: x right, y away from the camera, z up. A solid is turned by Euler angles yaw, tilt, spin: spin about
its own z, then tilt about x, then yaw about the vertical. A card or sheet of tilt pi/2 stands upright and faces -y.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from focalsweep_research.synthesis.scenes import BOX, CARD, CYLINDER, ELLIPSOID, SHEET, WAVES

UPRIGHT = math.pi / 2
DEGREE = math.pi / 180
PROBES = 9  # rays a side, to find out what is in sight

Array = npt.NDArray[np.float64]
T = TypeVar("T")
Wave = tuple[float, float, float, float]  # amplitude, kx, ky, phase
Point = tuple[float, float, float]


class Dice:
    """Random numbers out of a pool: one draw from NumPy costs more than setting down a solid."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._pool: list[float] = []

    def unit(self) -> float:
        if not self._pool:
            self._pool = self._rng.random(512).tolist()
        return self._pool.pop()

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.unit()

    def scale(self, low: float, high: float) -> float:
        """Even in the logarithm."""
        return low * math.exp(math.log(high / low) * self.unit())

    def chance(self, share: float) -> bool:
        return self.unit() < share

    def count(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int((high - low + 1) * self.unit())

    def pick(self, options: Sequence[T]) -> T:
        return options[int(len(options) * self.unit())]


class Paint(NamedTuple):
    """What a surface looks like."""

    texture: int
    texels_a_px: float
    offset_u: float
    offset_v: float
    red: float
    green: float
    blue: float
    contrast: float
    gloss: float
    exponent: float


class Spot(NamedTuple):
    """A place to build at: its origin, and its turn about the vertical."""

    x: float
    y: float
    z: float
    yaw: float
    cos: float
    sin: float

    def at(self, x: float, y: float, z: float = 0.0, yaw: float = 0.0) -> Spot:
        """A spot given in this one's coordinates."""
        there = self.point(x, y, z)
        turn = self.yaw + yaw
        return Spot(*there, turn, math.cos(turn), math.sin(turn))

    def point(self, x: float, y: float, z: float) -> Point:
        return self.x + self.cos * x - self.sin * y, self.y + self.sin * x + self.cos * y, self.z + z


def spot(x: float, y: float, z: float = 0.0, yaw: float = 0.0) -> Spot:
    return Spot(x, y, z, yaw, math.cos(yaw), math.sin(yaw))


class FullError(Exception):
    """No solid is left for what is being built."""


@dataclass
class Stage:
    """Solids in world coordinates, up to `limit`. All lengths below are whole widths, depths and heights in metres."""

    limit: int
    rows: list[tuple[float, ...]] = field(default_factory=list)
    waves: dict[int, Sequence[Wave]] = field(default_factory=dict)

    def attempt(self, build: Callable[[], object]) -> bool:
        """Builds all of something or, if too few solids are left, nothing."""
        before = len(self.rows)
        try:
            build()
        except FullError:
            del self.rows[before:]
            self.waves = {i: waves for i, waves in self.waves.items() if i < before}
            return False
        return True

    def add(
        self,
        kind: int,
        at: Spot,
        centre: Point,
        half: Point,
        paint: Paint,
        turn: Point = (0.0, 0.0, 0.0),  # yaw, tilt, spin
        waves: Sequence[Wave] = (),
    ) -> None:
        if len(self.rows) >= self.limit:
            raise FullError
        if waves:
            self.waves[len(self.rows)] = waves
        self.rows.append((kind, *at.point(*centre), *half, at.yaw + turn[0], turn[1], turn[2], *paint))

    def box(
        self, at: Spot, x: float, y: float, z: float, size: Point, paint: Paint, yaw: float = 0.0
    ) -> None:  # z: of its bottom
        half = (size[0] / 2, size[1] / 2, size[2] / 2)
        self.add(BOX, at, (x, y, z + half[2]), half, paint, (yaw, 0.0, 0.0))

    def leaning_box(self, at: Spot, x: float, y: float, z: float, size: Point, paint: Paint, tilt: float) -> None:
        """Its lowest edge lies at height z and x, y; it leans towards +y for a negative tilt."""
        half = (size[0] / 2, size[1] / 2, size[2] / 2)
        sin, cos = math.sin(tilt), math.cos(tilt)
        # The lowest edge is (y, z) = (-/+ half y, -half z) in the box's own frame.
        edge = -half[1] if sin > 0 else half[1]
        centre = (x, y - (edge * cos + half[2] * sin), z - (edge * sin - half[2] * cos))
        self.add(BOX, at, centre, half, paint, (0.0, tilt, 0.0))

    def ball(self, at: Spot, x: float, y: float, z: float, size: Point, paint: Paint, yaw: float = 0.0) -> None:
        """An ellipsoid whose lowest point is at height z."""
        half = (size[0] / 2, size[1] / 2, size[2] / 2)
        self.add(ELLIPSOID, at, (x, y, z + half[2]), half, paint, (yaw, 0.0, 0.0))

    def cylinder(self, at: Spot, x: float, y: float, z: float, radius: float, height: float, paint: Paint) -> None:
        self.add(CYLINDER, at, (x, y, z + height / 2), (radius, radius, height / 2), paint)

    def rod(self, at: Spot, start: Point, end: Point, radius: float, paint: Paint) -> None:
        """A cylinder from point to point."""
        dx, dy, dz = (b - a for a, b in zip(start, end, strict=True))
        length = math.sqrt(dx * dx + dy * dy + dz * dz)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, (start[2] + end[2]) / 2)
        turn = (math.atan2(dx, -dy), math.atan2(math.hypot(dx, dy), dz), 0.0)
        self.add(CYLINDER, at, middle, (radius, radius, length / 2), paint, turn)

    def card(
        self,
        at: Spot,
        centre: Point,
        size: tuple[float, float],
        paint: Paint,
        waves: Sequence[Wave] = (),
        threshold: float = 0.0,
        turn: Point = (0.0, UPRIGHT, 0.0),
    ) -> None:
        self.add(CARD, at, centre, (size[0] / 2, size[1] / 2, threshold), paint, turn, waves)

    def floor(self, z: float, paint: Paint, waves: Sequence[Wave] = ()) -> None:
        self.add(SHEET, spot(0, 0, z), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), paint, (0.0, 0.0, 0.0), waves)

    def wall(self, at: Spot, paint: Paint, lean: float = 0.0) -> None:
        """Endless, through the spot along its x; lean > 0 tips its top away."""
        self.add(SHEET, at, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), paint, (0.0, UPRIGHT - lean, 0.0))


@dataclass(frozen=True)
class Eye:
    """The camera in the world: where it is, its axes (rows right, down, forward), and the tangents of half its view."""

    x: float
    y: float
    z: float
    axes: tuple[Point, Point, Point]
    reach_x: float
    reach_y: float

    def ray(self, u: float, v: float) -> Point:
        """The direction to a place in the picture, -1..1 from left to right and from top to bottom; depth is 1."""
        right, down, forward = self.axes
        a, b = u * self.reach_x, v * self.reach_y
        return (
            forward[0] + a * right[0] + b * down[0],
            forward[1] + a * right[1] + b * down[1],
            forward[2] + a * right[2] + b * down[2],
        )

    def on_floor(self, u: float, v: float, z: float = 0.0) -> tuple[float, float, float] | None:
        """x, y and depth where a line of sight meets the height z, or None where it does not."""
        dx, dy, dz = self.ray(u, v)
        if dz * (z - self.z) <= 0:
            return None
        depth = (z - self.z) / dz
        return self.x + depth * dx, self.y + depth * dy, depth

    def at_depth(self, u: float, v: float, depth: float) -> Point:
        dx, dy, dz = self.ray(u, v)
        return self.x + depth * dx, self.y + depth * dy, self.z + depth * dz


def eye_at(x: float, y: float, z: float, pitch: float, roll: float, reach: tuple[float, float]) -> Eye:
    """A camera that looks along +y, raised by `pitch` (negative: down) and rolled, in radians."""
    sin, cos = math.sin(pitch), math.cos(pitch)
    s, c = math.sin(roll), math.cos(roll)
    right, down = (1.0, 0.0, 0.0), (0.0, sin, -cos)
    rolled_right = (c * right[0] + s * down[0], c * right[1] + s * down[1], c * right[2] + s * down[2])
    rolled_down = (c * down[0] - s * right[0], c * down[1] - s * right[1], c * down[2] - s * right[2])
    return Eye(x, y, z, (rolled_right, rolled_down, (0.0, cos, sin)), *reach)


@dataclass(frozen=True, eq=False)
class Seen:
    """A stage as the camera has it (still in the world's metres), and what a coarse grid of rays meets."""

    kind: Array  # P
    centre: Array  # P 3
    axes: Array  # P 3 3
    half: Array  # P 3
    paint: Array  # P 10, as Paint
    points: Array  # N 3: where rays end
    depth_of: Array  # P: typical depth of each solid in sight
    things: int  # how many solids are in sight, sheets aside
    behind: int  # the sheet in sight that is farthest, in the mean

    @property
    def nearest(self) -> float:
        return float(self.points[:, 2].min())


def look(stage: Stage, eye: Eye) -> Seen:
    rows = np.array(stage.rows)
    to_camera = np.array(eye.axes)
    centre = (rows[:, 1:4] - [eye.x, eye.y, eye.z]) @ to_camera.T
    axes = _axes(rows[:, 7:10]) @ to_camera.T
    kind, half = rows[:, 0], rows[:, 4:7]
    steps = (np.arange(PROBES) + 0.5) / PROBES * 2 - 1
    u, v = np.meshgrid(steps * eye.reach_x, steps * eye.reach_y)
    rays = np.stack([u.ravel(), v.ravel(), np.ones(u.size)])
    depths = _hits(kind, centre, axes, half, rays)
    owner, nearest = depths.argmin(0), depths.min(0)
    hit = np.isfinite(nearest)
    owner, nearest, rays = owner[hit], nearest[hit], rays[:, hit]
    times = np.bincount(owner, minlength=len(rows))
    total = np.bincount(owner, weights=nearest, minlength=len(rows))
    unseen = np.clip(centre[:, 2], nearest.min(), nearest.max())
    depth_of = np.where(times > 0, total / np.maximum(times, 1), unseen)
    in_sight = times > 0
    things = int((in_sight & (kind != SHEET)).sum())
    behind = int(np.where(kind == SHEET, np.where(in_sight, depth_of, 1e-9), 0).argmax())
    return Seen(kind, centre, axes, half, rows[:, 10:], (rays * nearest).T, depth_of, things, behind)


def _axes(turns: Array) -> Array:
    """Rows are a solid's own axes in the world, P 3 3."""
    (cy, ct, cs), (sy, st, ss) = np.cos(turns).T, np.sin(turns).T
    zero = np.zeros_like(cy)
    untilted = np.stack([cs, ss * ct, ss * st, -ss, cs * ct, cs * st, zero, -st, ct], 1).reshape(-1, 3, 3)
    about_vertical = np.stack([cy, sy, zero, -sy, cy, zero, zero, zero, zero + 1], 1).reshape(-1, 3, 3)
    return np.asarray(untilted @ about_vertical)


def _hits(kind: Array, centre: Array, axes: Array, half: Array, rays: Array) -> Array:
    """Depths where rays (3 N) meet solids, P N; all but sheets are taken for boxes."""
    half = np.where((kind == SHEET)[:, None], [1e9, 1e9, 1e-9], half)
    half[kind == CARD, 2] = 1e-9
    half = np.where((kind == ELLIPSOID)[:, None], 0.8 * half, half)[..., None]
    origin, direction = -(axes @ centre[..., None]), axes @ rays
    inverse = 1 / np.where(np.abs(direction) < 1e-12, 1e-12, direction)
    middle, spread = -origin * inverse, half * np.abs(inverse)
    enter, leave = (middle - spread).max(1), (middle + spread).min(1)
    return np.where((leave >= enter) & (enter > 1e-3), enter, np.inf)


def wave_array(stage: Stage) -> Array:
    """The waves of all solids, P WAVES 4."""
    waves = np.zeros((len(stage.rows), WAVES, 4))
    for i, own in stage.waves.items():
        waves[i, : len(own)] = own
    return waves
