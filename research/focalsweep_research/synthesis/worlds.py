"""Worlds like ours: rooms, tables, outdoors, close-ups and hanging things, with gravity, corners and lamps.

A world is built in life size around a camera that looks along +y, then scaled so that what is nearest in sight lies
where the view asks for it. The far end follows from the view's share of far to near inverse depth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from focalsweep_research.synthesis.furniture import DEEP, IN_ROOMS, ON_WALLS, OUTDOORS, skirting
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.props import FLAT_LYING, ON_TABLES, SOLID_COLOURS, Prop, blobs
from focalsweep_research.synthesis.scenes import CARD, SHEET, View, empty_scene
from focalsweep_research.synthesis.stage import (
    DEGREE,
    UPRIGHT,
    Array,
    Dice,
    Eye,
    Seen,
    Spot,
    Stage,
    Wave,
    eye_at,
    look,
    spot,
    wave_array,
)

HARD = 0.14  # share of worlds in which nearly all is plain
FEWEST = 6  # solids that every setting may use
SKY_M, SUN_M = 5000.0, 1500.0
LAMPS = 8  # places tried for a lamp
TRIES, WANTED = 6, (0, 2, 3, 4, 5, 6)  # compositions tried until that many things are in sight


@dataclass(frozen=True)
class Frame:
    """What the picture asks of a world: half its angles of view as tangents, and inverse depth of far over near."""

    reach_x: float
    reach_y: float
    ratio: float

    @property
    def reach(self) -> tuple[float, float]:
        return self.reach_x, self.reach_y


@dataclass
class Ground:
    """Which places are taken: circles on the ground, and walls (spots whose y points into them)."""

    eye: Eye
    walls: list[Spot] = field(default_factory=list)
    circles: list[tuple[float, float, float]] = field(default_factory=list)

    def claim(self, x: float, y: float, radius: float, gap: float = 0.0, backed: bool = False) -> bool:
        """Takes a circle if it is free, or says that it is not; what is `backed` may touch walls."""
        if math.hypot(x - self.eye.x, y - self.eye.y) < radius + gap:
            return False
        for wall in self.walls:
            if self.distance(wall, x, y) < (0.0 if backed else radius):
                return False
        for other_x, other_y, other in self.circles:
            if math.hypot(x - other_x, y - other_y) < 0.9 * (radius + other):
                return False
        self.circles.append((x, y, radius))
        return True

    @staticmethod
    def distance(wall: Spot, x: float, y: float) -> float:
        return (wall.x - x) * -wall.sin + (wall.y - y) * wall.cos

    def wall_at(self, u: float) -> tuple[Spot, float, float] | None:
        """The wall behind a column of the picture: itself, where along it, and its depth."""
        dx, dy, _ = self.eye.ray(u, 0)
        best: tuple[Spot, float, float] | None = None
        for wall in self.walls:
            rate = dx * -wall.sin + dy * wall.cos
            if rate <= 1e-3:
                continue
            depth = self.distance(wall, self.eye.x, self.eye.y) / rate
            if best is None or depth < best[2]:
                x, y = self.eye.x + depth * dx - wall.x, self.eye.y + depth * dy - wall.y
                best = wall, x * wall.cos + y * wall.sin, depth
        return best


@dataclass(frozen=True)
class Setting:
    """A world's camera, and where its light may come from."""

    eye: Eye
    lamp_heights: tuple[float, float]
    sunny: bool = False


def random_world(rng: np.random.Generator, view: View, textures: int, solids: int) -> dict[str, Array]:
    """The fields of `Scenes` for one world of up to `solids` solids, at least FEWEST.

    As in `random_scene` the first solid is the sheet behind all: a wall, or the sky.
    """
    if solids < FEWEST:
        raise ValueError(f"solids must be at least {FEWEST}: {solids} are given")
    dice = Dice(rng)
    frame = Frame(view.width / 2 / view.focal_px, view.height / 2 / view.focal_px, view.far / view.near)
    hard = dice.chance(HARD)
    palette = Palette(dice, textures, hard)
    most = solids if dice.chance(0.4) else dice.count(FEWEST, solids)
    compose = _choose(dice, frame, hard)
    wanted = dice.pick(WANTED)
    for _ in range(TRIES):
        stage = Stage(most)
        setting = compose(stage, frame, palette)
        seen = look(stage, setting.eye)
        if seen.things >= wanted and len(stage.rows) >= FEWEST - 2:
            break
    return _fields(stage, seen, _light(dice, setting, seen), view, solids)


def _choose(dice: Dice, frame: Frame, hard: bool) -> Callable[[Stage, Frame, Palette], Setting]:
    """Outdoors is mostly for views that reach far, close-ups for those that do not."""
    far = frame.ratio < 0.2
    outdoors = 0.0 if hard else 0.36 if far else 0.1
    shares = (0.38, 0.33, outdoors, 0.04 if far else 0.12, 0.07)
    options = (room, table_top, outdoor, close_up, hanging)
    at = dice.unit() * sum(shares)
    for share, option in zip(shares, options, strict=True):
        at -= share
        if at < 0:
            return option
    return room


def _standing(dice: Dice, frame: Frame, height: float) -> tuple[Eye, float]:
    """A camera at a height, level or looking down, and the depth of the nearest ground in sight."""
    pitch = dice.between(-6, 10) if dice.chance(0.25) else dice.between(-35, -3)
    eye = eye_at(0, 0, height, pitch * DEGREE, _roll(dice), frame.reach)
    half = math.atan(frame.reach_y)
    lowest = max(half - pitch * DEGREE, 0.12)
    return eye, height / math.sin(min(lowest, UPRIGHT)) * math.cos(half)


def _roll(dice: Dice) -> float:
    return dice.between(-1, 1) ** 3 * 10 * DEGREE


def _eye_above(dice: Dice, frame: Frame, away: float, down: float) -> Eye:
    """A camera that looks at the origin from `away` metres, `down` degrees below the horizon."""
    angle = down * DEGREE
    return eye_at(0, -away * math.cos(angle), away * math.sin(angle), -angle, _roll(dice), frame.reach)


def room(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    dice = palette.dice
    height = dice.scale(0.4, 1.7)
    eye, near = _standing(dice, frame, height)
    near = min(near, dice.between(1, 4))
    far = min(max(near / max(frame.ratio, 0.08), 1.5 * near, 1.6), 10.0)
    ground = Ground(eye)
    ceiling = max(dice.between(2.3, 3.2), height + 0.4)
    stage.floor(0, palette.ground())
    _add_walls(stage, ground, frame, far, palette)
    if dice.chance(0.7):
        stage.floor(ceiling, palette.wall())
    if dice.chance(0.6):
        here = ground.wall_at(0.0)
        if here is not None:
            stage.attempt(lambda: skirting(stage, here[0].at(here[1], 0), ceiling, palette))
    if dice.chance(0.3) and len(stage.rows) < stage.limit:
        place = eye.on_floor(dice.between(-0.5, 0.5), dice.between(-0.3, 0.8))
        if place is not None and place[2] < far:
            size = (dice.between(0.8, 2.5), dice.between(0.6, 1.8), dice.between(0.006, 0.02))
            stage.box(spot(place[0], place[1], 0, ground.walls[0].yaw), 0, 0, 0, size, palette.fabric())
    for _ in range(dice.count(2, 16)):
        if dice.chance(0.3):
            _hang_on_wall(stage, ground, ceiling, palette)
        else:
            _furnish(stage, ground, near, far, palette)
    return Setting(eye, (max(0.6 * ceiling, height), ceiling - 0.1))


def _add_walls(stage: Stage, ground: Ground, frame: Frame, far: float, palette: Palette) -> None:
    """One to three walls; the corner, or the middle of the only wall, at depth `far`."""
    dice, half_view = palette.dice, math.atan(frame.reach_x)
    yaw = dice.between(-8, 8) * DEGREE if dice.chance(0.35) else dice.pick([-1, 1]) * dice.between(10, 50) * DEGREE
    u = dice.between(-0.9, 0.9)
    corner = abs(yaw) + half_view > 62 * DEGREE or dice.chance(0.65)
    side = 1.0 if yaw > 0 else -1.0
    paint = palette.wall()
    eye = ground.eye
    flat = math.hypot(eye.axes[2][0], eye.axes[2][1])
    x, y = u * frame.reach_x * far, far * max(flat, 0.5)
    aside = side * math.cos(yaw) * x + abs(math.sin(yaw)) * y  # from the camera to the second wall
    if aside < 0.5:
        x = side * abs(x)
    ground.walls.append(spot(x, y, 0, yaw))
    if corner:
        ground.walls.append(spot(x, y, 0, yaw - side * UPRIGHT))
        if dice.chance(0.25):
            away = dice.between(1.0, 3.5)
            ground.walls.append(spot(-side * away, 0, 0, yaw + side * UPRIGHT))
    for k, wall in enumerate(ground.walls):
        stage.wall(wall, paint if k == 0 or dice.chance(0.65) else palette.wall())


def _hang_on_wall(stage: Stage, ground: Ground, ceiling: float, palette: Palette) -> None:
    dice = palette.dice
    found = ground.wall_at(dice.between(-0.95, 0.95))
    if found is not None:
        wall, along, _ = found
        here = wall.at(along, 0)
        if all(math.hypot(here.x - x, here.y - y) > 0.8 for x, y, radius in ground.circles if radius == 0):
            ground.circles.append((here.x, here.y, 0.0))
            fixture = dice.pick(ON_WALLS)
            stage.attempt(lambda: fixture(stage, here, ceiling, palette))


def _furnish(stage: Stage, ground: Ground, near: float, far: float, palette: Palette) -> None:
    """One piece of furniture where it is in sight and free, its back to a wall if it has one."""
    dice = palette.dice
    piece, radius, backed = dice.pick(IN_ROOMS)
    for _ in range(4):
        u = dice.between(-0.95, 0.95)
        found = ground.wall_at(u) if backed else None
        if found is not None:
            wall, along, _ = found
            here = wall.at(along, -DEEP[piece])
        else:
            place = ground.eye.on_floor(u, dice.between(-0.6, 1.1), dice.pick([0.0, 0.0, 0.35]))
            if place is None or place[2] > far:
                depth = 1 / dice.between(1 / near, 1 / far)
                place = ground.eye.at_depth(u, 0, depth)
            yaw = ground.walls[0].yaw + dice.count(0, 3) * UPRIGHT
            here = spot(place[0], place[1], 0, yaw if dice.chance(0.6) else dice.between(0, 6.28))
        if ground.claim(here.x, here.y, radius, 0.35 * near, found is not None):
            stage.attempt(lambda: piece(stage, here, palette))  # noqa: B023
            return


def table_top(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    dice = palette.dice
    wide = dice.scale(0.25, 1.4)  # metres in sight across the picture, at the middle of the table
    away = wide / 2 / frame.reach_x
    down = dice.between(70, 90) if dice.chance(0.12) else dice.between(10, 55)
    eye = _eye_above(dice, frame, away, down)
    back = min(max((0.75 * away / max(frame.ratio, 0.05) - away) / math.cos(min(down, 70) * DEGREE), 0.25 * wide), 5.0)
    ground = Ground(eye, [spot(0, back, 0, dice.between(-25, 25) * DEGREE)])
    limits = 99.0, 99.0  # half the table's width, and its end
    if dice.chance(0.55):
        limits = _add_table(stage, ground, wide, palette)
    else:
        stage.floor(0, palette.ground())
    stage.wall(ground.walls[0], palette.wall())
    if frame.reach_x > 0.3 and dice.chance(0.3):
        side = dice.pick([-1.0, 1.0])
        wall = spot(side * dice.between(0.4, 1.2) * wide, back, 0, ground.walls[0].yaw - side * UPRIGHT)
        if ground.distance(wall, eye.x, eye.y) > 0.3 * wide:
            ground.walls.append(wall)
            stage.wall(wall, palette.wall())
    props = SOLID_COLOURS if dice.chance(0.2) else ON_TABLES
    crowd = (dice.between(-0.5, 0.5), dice.between(-0.4, 0.7), dice.between(0.3, 1.2))
    for _ in range(dice.count(4, 22)):
        _put_on_table(stage, ground, wide, limits, dice.pick(props), palette, crowd)
    if limits[1] < 90 and back > limits[1] + 1:
        piece, radius, backed = dice.pick(IN_ROOMS)
        x, y = dice.between(-0.6, 0.6) * (back + away) * frame.reach_x, back - (DEEP[piece] if backed else radius)
        stage.attempt(lambda: piece(stage, spot(x, y, -0.75, 0.0), palette))
    return Setting(eye, (0.4 * away, 1.6 * away))


def _add_table(stage: Stage, ground: Ground, wide: float, palette: Palette) -> tuple[float, float]:
    """A table with an end, and the floor below it."""
    dice = palette.dice
    half, end = wide * dice.between(0.45, 1.2), wide * dice.between(0.2, 0.8)
    end = min(end, ground.walls[0].y)
    front = ground.eye.y - 0.3
    size = (2 * half, end - front, dice.between(0.02, 0.05))
    top = palette.ground()
    stage.box(spot(0, (end + front) / 2), 0, 0, -size[2], size, top)
    stage.floor(-0.75, palette.ground())
    leg = dice.between(0.02, 0.06)
    for x in (-0.9, 0.9):
        stage.box(spot(x * half, end - 0.1 * wide), 0, 0, -0.75, (leg, leg, 0.75 - size[2]), top)
    return half, end


def _put_on_table(
    stage: Stage,
    ground: Ground,
    wide: float,
    limits: tuple[float, float],
    prop: Prop,
    palette: Palette,
    crowd: tuple[float, float, float] = (0.0, 0.1, 0.9),
) -> None:
    """A small thing where it is in sight and free; two of them may touch.

    `crowd` is where in the picture things stand, and how far around that.
    """
    dice = palette.dice
    size = wide * dice.scale(0.04, 0.22)
    u, v, spread = crowd
    for _ in range(4):
        place = ground.eye.on_floor(u + spread * dice.between(-1, 1), v + spread * dice.between(-1, 1))
        if place is None or abs(place[0]) > limits[0] - size or place[1] > limits[1] - size:
            continue
        gap = 0.2 * abs(ground.eye.z) if ground.eye.z < 3 * size else 0.0
        if ground.claim(place[0], place[1], size * (0.5 if prop in FLAT_LYING else 1.0), gap):
            here = spot(place[0], place[1], 0, dice.between(0, 6.28))
            stage.attempt(lambda: prop(stage, here, size, palette))  # noqa: B023
            return


def outdoor(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    dice = palette.dice
    height = dice.scale(0.3, 1.8)
    eye, near = _standing(dice, frame, height)
    near = min(near, dice.between(1.5, 6))
    far = min(max(near / max(frame.ratio, 0.02), 2 * near, 4.0), 80.0)
    ground = Ground(eye)
    waves = _hilly(dice, near) if dice.chance(0.5) else []
    stage.floor(0, palette.outdoors(), waves)
    if frame.ratio > 0.2 and dice.chance(0.8):
        ground.walls.append(spot(0, far, 0, dice.between(-25, 25) * DEGREE))
        stage.wall(ground.walls[0], palette.outdoors())
    else:
        sky = palette.shining()._replace(contrast=dice.pick([0.0, 0.0, dice.between(0, 0.5)]), texels_a_px=0.3)
        stage.wall(spot(0, SKY_M), sky)
        for _ in range(dice.count(0, 2)):
            distance, u = far * dice.between(2, 10), dice.between(-1, 1) * frame.reach_x
            broad, tall = distance * dice.between(0.4, 1.5), distance * dice.between(0.05, 0.3)
            stage.ball(
                spot(u * distance, distance + broad), 0, 0, -tall / 2, (2 * broad, 2 * broad, tall), palette.outdoors()
            )
    for _ in range(dice.count(3, 16)):
        piece, radius = dice.pick(OUTDOORS)
        depth = 1 / dice.between(1 / (1.3 * near), 1 / far)
        x, y, _ = eye.at_depth(dice.between(-1, 1), 0, depth)
        if ground.claim(x, y, radius, 0.7 * near):
            here = spot(x, y, _height(waves, x, y) - 0.02, dice.between(-0.8, 0.8))
            stage.attempt(lambda: piece(stage, here, palette))  # noqa: B023
    return Setting(eye, (1.0, 1.0), sunny=True)


def _hilly(dice: Dice, near: float) -> list[Wave]:
    """Waves gentle enough for the tracer's Newton steps."""
    waves = []
    for _ in range(3):
        k, turn = 2 * math.pi / (near * dice.scale(1.0, 8.0)), dice.between(0, 6.28)
        waves.append((dice.between(0.01, 0.06) / k, k * math.cos(turn), k * math.sin(turn), dice.between(0, 6.28)))
    return waves


def _height(waves: list[Wave], x: float, y: float) -> float:
    return sum(a * math.sin(kx * x + ky * y + phase) for a, kx, ky, phase in waves)


def close_up(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    return palette.dice.pick([_surface, _board, _large_things, _book_row])(stage, frame, palette)


def _surface(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    """A carpet, a wall or a table fills the picture, tilted; a few things lie on it."""
    dice = palette.dice
    eye, wide = _above(dice, frame, dice.between(25, 80))
    stage.floor(0, dice.pick([palette.fabric, palette.ground, palette.wall])())
    stage.wall(spot(0, 4 * wide + eye.z * 2, 0, 0), palette.wall())
    ground = Ground(eye)
    for _ in range(dice.count(0, 4)):
        _put_on_table(stage, ground, wide, (99.0, 99.0), dice.pick(FLAT_LYING + ON_TABLES), palette)
    return Setting(eye, (0.5 * eye.z, 2 * eye.z))


def _above(dice: Dice, frame: Frame, down: float) -> tuple[Eye, float]:
    """A camera close to the ground that looks down at it, and how much of it is in sight across the picture."""
    wide = dice.scale(0.08, 0.4)
    away = wide / 2 / frame.reach_x
    return _eye_above(dice, frame, away, down), wide


def _board(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    """A plate with many small parts in rows."""
    dice = palette.dice
    eye, wide = _above(dice, frame, dice.between(30, 85))
    stage.floor(0, palette.ground())
    stage.wall(spot(0, 3 * wide + eye.z), palette.wall())
    board = spot(0, 0, 0, dice.between(-0.6, 0.6))
    thick = 0.015 * wide
    stage.box(board, 0, 0, 0, (1.1 * wide, dice.between(0.6, 1.1) * wide, thick), palette.print())
    pitch = wide * dice.between(0.08, 0.16)
    parts = [palette.thing() for _ in range(3)]
    for _ in range(dice.count(8, 50)):
        x, y = dice.count(-4, 4) * pitch * 0.9, dice.count(-3, 3) * pitch * 0.9
        if math.hypot(x, y) > 0.5 * wide:
            continue
        long, broad, tall = (
            dice.between(0.2, 0.85) * pitch,
            dice.between(0.2, 0.8) * pitch,
            dice.scale(0.08, 0.9) * pitch,
        )
        if dice.chance(0.25):
            stage.attempt(lambda: stage.cylinder(board, x, y, thick, broad / 2, tall, dice.pick(parts)))  # noqa: B023
        else:
            stage.attempt(lambda: stage.box(board, x, y, thick, (long, broad, tall), dice.pick(parts)))  # noqa: B023
    return Setting(eye, (0.5 * eye.z, 2 * eye.z))


def _large_things(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    """One or two things fill most of the picture; a wall is close behind."""
    dice = palette.dice
    eye, wide = _above(dice, frame, dice.between(5, 35))
    stage.floor(0, palette.ground())
    stage.wall(spot(0, wide * dice.between(0.6, 2.5), 0, dice.between(-30, 30) * DEGREE), palette.wall())
    for x in [0.0] if dice.chance(0.5) else [-0.25, 0.3]:
        size = wide * dice.between(0.2, 0.35) * (1 if x == 0 else 0.7)
        here = spot(x * wide, dice.between(-0.2, 0.2) * wide, 0, dice.between(0, 6.28))
        prop = dice.pick(ON_TABLES)
        stage.attempt(lambda: prop(stage, here, size, palette))  # noqa: B023
    return Setting(eye, (0.6 * wide, 2 * wide))


def _book_row(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    """Books on boards, seen from close by."""
    dice = palette.dice
    wide = dice.between(0.3, 0.9)
    away = wide / 2 / frame.reach_x
    eye = eye_at(0, -away, dice.between(0.1, 0.3), dice.between(-12, 6) * DEGREE, _roll(dice), frame.reach)
    shelf = spot(0, 0, 0, dice.between(-40, 40) * DEGREE)
    wood = palette.thing()
    gap = dice.between(0.22, 0.34)
    stage.wall(shelf.at(0, 0.25), wood)
    for z in (-gap, 0.0, gap):
        stage.box(shelf, 0, 0.1, z - 0.02, (4 * wide, 0.3, 0.02), wood)
    for z in (0.0, -gap, gap):
        x = -0.8 * wide
        while x < 0.8 * wide and len(stage.rows) < stage.limit:
            thick, deep = dice.between(0.01, 0.06), dice.between(0.12, 0.2)
            if dice.chance(0.88):
                size = (thick, deep, gap * dice.between(0.6, 0.92))
                stage.box(shelf, x + thick / 2, 0.24 - deep / 2 - dice.between(0, 0.05), z, size, palette.print())
            x += thick
    return Setting(eye, (0.2, 0.8))


def hanging(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    """Cords, cards, balls and wires before a wall; they come from above the picture."""
    dice = palette.dice
    near = dice.scale(0.4, 2.0)
    far = min(near / max(frame.ratio, 0.1), 8.0)
    eye = eye_at(0, 0, 0, dice.between(-6, 6) * DEGREE, _roll(dice), frame.reach)
    stage.wall(spot(0, far, 0, dice.between(-30, 30) * DEGREE), palette.wall())
    top = 4.5 * (frame.reach_y + 0.2) * far
    if dice.chance(0.4):
        stage.floor(-dice.between(0.5, 1.0) * (frame.reach_y + 0.1) * far, palette.ground())
    ground = Ground(eye)
    for _ in range(dice.count(2, 10)):
        depth = 1 / dice.between(1 / near, 1 / (0.95 * far))
        x, y, z = eye.at_depth(dice.between(-0.9, 0.9), dice.between(-0.7, 0.6), depth)
        size = depth * frame.reach_x * dice.scale(0.08, 0.7)
        if ground.claim(x, y, size) and y + size < far * 0.98:
            build = dice.pick([_hanging_card, _hanging_card, _hanging_ball, _slack_wire, _hanging_beads])
            stage.attempt(lambda: build(stage, spot(x, y, z, dice.between(-0.7, 0.7)), size, top, palette))  # noqa: B023
    if len(stage.rows) < 4:
        stage.attempt(lambda: _hanging_card(stage, spot(0, near, 0), near * frame.reach_x * 0.3, top, palette))
    return Setting(eye, (0.2 * far, 0.8 * far))


def _hanging_card(stage: Stage, at: Spot, size: float, top: float, palette: Palette) -> None:
    dice = palette.dice
    tall = size * dice.between(0.5, 1.6)
    waves, threshold = blobs(dice, size * dice.between(0.2, 0.6)) if dice.chance(0.5) else ([], 0.0)
    stage.card(at, (0, 0, -tall / 2), (1.6 * size, tall), palette.print(), waves, threshold)
    cord = palette.plain(0.02, 0.7)
    if waves:
        stage.box(at, 0, 0, 0, (1.6 * size, 0.05 * size, 0.05 * size), cord)
    for x in (-0.7, 0.7):
        stage.rod(at, (x * size, 0, -0.02 * size), (x * size, 0, top - at.z), 0.015 * size, cord)


def _hanging_ball(stage: Stage, at: Spot, size: float, top: float, palette: Palette) -> None:
    dice = palette.dice
    paint = palette.shining() if dice.chance(0.15) and not palette.hard else palette.thing()
    stage.ball(at, 0, 0, -size, (size, size, size * dice.between(0.7, 1.4)), paint)
    stage.rod(at, (0, 0, -0.4 * size), (0, 0, top - at.z), 0.03 * size, palette.plain(0.02, 0.7))


def _hanging_beads(stage: Stage, at: Spot, size: float, top: float, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    stage.rod(at, (0, 0, -size), (0, 0, top - at.z), 0.02 * size, palette.plain(0.02, 0.7))
    z = -size
    for _ in range(dice.count(2, 6)):
        bead = size * dice.between(0.15, 0.5)
        stage.ball(at, 0, 0, z, (bead,) * 3, paint)
        z += bead * dice.between(1.0, 2.5)


def _slack_wire(stage: Stage, at: Spot, size: float, top: float, palette: Palette) -> None:
    """From side to side of the picture, sagging."""
    dice, paint = palette.dice, palette.plain(0.02, 0.8)
    half, sag, parts = size * 6, size * dice.between(0.3, 2.5), dice.count(5, 9)
    points = []
    for k in range(parts + 1):
        s = 2 * k / parts - 1
        points.append((s * half, 0.0, sag * s * s))
    for start, end in itertools.pairwise(points):
        stage.rod(at, start, end, size * 0.03, paint)
    for x in (-half, half):
        stage.rod(at, (x, 0, sag), (x, 0, top - at.z), size * 0.03, paint)


def _light(dice: Dice, setting: Setting, seen: Seen) -> Array:
    """The numbers of `Scenes.light`, in the camera's coordinates and the world's metres."""
    to_camera = np.array(setting.eye.axes)
    up = to_camera @ [0, 0, 1]
    middle = float(np.median(seen.points[:, 2]))
    mood = dice.unit()
    if setting.sunny:
        turn = dice.between(-140, 140) if dice.chance(0.75) else dice.between(140, 220)  # from straight behind
        rise = dice.between(12, 75) * DEGREE
        turn *= DEGREE
        away = np.array([math.sin(turn) * math.cos(rise), -math.cos(turn) * math.cos(rise), math.sin(rise)])
        cloudy = mood < 0.3
        ambient, width = (dice.between(0.7, 0.95), 0.4) if cloudy else (dice.between(0.2, 0.5), dice.scale(0.005, 0.05))
        place, radius = to_camera @ away * SUN_M, width * SUN_M
    elif mood < 0.08:  # like a flash
        place = np.array([dice.between(-0.2, 0.2), dice.between(-0.3, 0.1), -dice.between(0.4, 1.0)]) * middle
        ambient, radius = dice.between(0.15, 0.4), dice.between(0.01, 0.08) * middle
    else:
        place = _lamp_place(dice, setting, seen, to_camera, middle)
        overcast = mood < 0.35
        ambient = dice.between(0.65, 0.9) if overcast else dice.between(0.2, 0.6)
        radius = float(np.linalg.norm(place)) * (dice.between(0.1, 0.35) if overcast else dice.scale(0.02, 0.25))
    return np.array([*place, ambient, radius, 1.0, dice.between(0.5, 1.0), *up])


def _lamp_place(dice: Dice, setting: Setting, seen: Seen, to_camera: Array, middle: float) -> Array:
    """Above and to a side, on this side of all walls, outside of things, and not so near to one place that it burns."""
    low, high = setting.lamp_heights
    tried = [
        (dice.between(-1.2, 1.2) * middle, dice.between(-0.6, 0.8) * middle, dice.between(low, high) - setting.eye.z)
        for _ in range(LAMPS)
    ]
    places = np.array(tried) @ to_camera.T
    local = np.einsum("pij,npj->npi", seen.axes, places[:, None] - seen.centre)  # N P 3
    sheets = seen.kind == SHEET
    own_side = -(seen.axes[:, 2] * seen.centre).sum(1)
    behind = (local[..., 2] * np.sign(own_side) < 0.05 * middle) & sheets
    half = np.where((seen.kind == CARD)[:, None], [1, 1, 0.0], 1.0) * seen.half
    inside = (np.abs(local) < half).all(-1) & ~sheets
    distance = np.linalg.norm(places[:, None] - seen.points, axis=-1)
    gain = (np.linalg.norm(places, axis=1)[:, None] / distance) ** 2
    typical = np.median(gain, axis=1)
    penalty = 10.0 * behind.any(1) + 5.0 * inside.any(1) + np.abs(np.log(typical)) + 0.1 * gain.max(1)
    fine = np.flatnonzero(penalty < 1.5)
    return np.asarray(places[fine[0] if len(fine) else penalty.argmin()])


def _fields(stage: Stage, seen: Seen, lamp: Array, view: View, solids: int) -> dict[str, Array]:
    """All of it scaled so that what is nearest in sight lies at the view's near end; the backmost sheet comes first."""
    scale = 1 / (view.near * seen.nearest)
    count = len(seen.kind)
    scene = empty_scene(solids)
    waves, cards = wave_array(stage), seen.kind == CARD
    waves[..., 1:3] /= scale
    waves[~cards, :, 0] *= scale
    half = seen.half * scale
    half[cards, 2] = seen.half[cards, 2]
    order = [seen.behind, *(i for i in range(count) if i != seen.behind)]
    scene["kind"][:count] = seen.kind[order]
    scene["centre"][:count] = seen.centre[order] * scale
    scene["axes"][:count] = seen.axes[order]
    scene["half"][:count] = half[order]
    scene["waves"][:count] = waves[order]
    paint = seen.paint[order]
    scene["texture"][:count] = paint[:, 0]
    scene["mapping"][:count, 0] = paint[:, 1] * view.focal_px / (seen.depth_of[order] * scale)
    scene["mapping"][:count, 1:] = paint[:, 2:4]
    scene["tint"][:count] = paint[:, 4:7]
    scene["contrast"][:count] = paint[:, 7]
    scene["gloss"][:count] = paint[:, 8:10]
    lamp[:3] *= scale
    lamp[4] *= scale
    scene["light"][:] = lamp
    return scene
