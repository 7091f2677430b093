"""Rooms: a floor, one to three walls, a ceiling, furniture, and what hangs on walls."""

from __future__ import annotations

import math

from focalsweep_research.synthesis.fixtures import ON_WALLS, skirting
from focalsweep_research.synthesis.furniture import DEEP, IN_ROOMS
from focalsweep_research.synthesis.layout import Frame, Ground, Setting, standing
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.stage import DEGREE, UPRIGHT, Stage, spot


def room(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    dice = palette.dice
    height = dice.scale(0.4, 1.7)
    eye, near = standing(dice, frame, height)
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
