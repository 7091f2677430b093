"""One or two things that fill the picture, carpets, boards with many parts, rows of books."""

from __future__ import annotations

import math

from focalsweep_research.synthesis.layout import Frame, Ground, Setting, eye_above, roll
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.props import FLAT_LYING, ON_TABLES
from focalsweep_research.synthesis.stage import DEGREE, Dice, Eye, Stage, eye_at, spot
from focalsweep_research.synthesis.table_tops import put_on_table


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
        put_on_table(stage, ground, wide, (99.0, 99.0), dice.pick(FLAT_LYING + ON_TABLES), palette)
    return Setting(eye, (0.5 * eye.z, 2 * eye.z))


def _above(dice: Dice, frame: Frame, down: float) -> tuple[Eye, float]:
    """A camera close to the ground that looks down at it, and how much of it is in sight across the picture."""
    wide = dice.scale(0.08, 0.4)
    away = wide / 2 / frame.reach_x
    return eye_above(dice, frame, away, down), wide


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
    eye = eye_at(0, -away, dice.between(0.1, 0.3), dice.between(-12, 6) * DEGREE, roll(dice), frame.reach)
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
