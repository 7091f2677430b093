"""Tables with small things on them, that stand, lie, lean, are stacked and touch."""

from __future__ import annotations

import math

from focalsweep_research.synthesis.furniture import DEEP, IN_ROOMS
from focalsweep_research.synthesis.layout import Frame, Ground, Setting, eye_above
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.props import FLAT_LYING, ON_TABLES, SOLID_COLOURS, Prop
from focalsweep_research.synthesis.stage import DEGREE, UPRIGHT, Stage, spot


def table_top(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    dice = palette.dice
    wide = dice.scale(0.25, 1.4)  # metres in sight across the picture, at the middle of the table
    away = wide / 2 / frame.reach_x
    down = dice.between(70, 90) if dice.chance(0.12) else dice.between(10, 55)
    eye = eye_above(dice, frame, away, down)
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
        put_on_table(stage, ground, wide, limits, dice.pick(props), palette, crowd)
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


def put_on_table(
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
