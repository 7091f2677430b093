"""What stands outdoors, in life size."""

from __future__ import annotations

import math

from focalsweep_research.synthesis.furniture import (
    Furniture,
    animal,
    crates,
    foliage,
    green,
    person,
    play_ball,
    rucksack,
)
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.props import bars, lattice, leaves
from focalsweep_research.synthesis.scenes import BOX
from focalsweep_research.synthesis.stage import UPRIGHT, Spot, Stage


def tree(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, bark = palette.dice, palette.outdoors()._replace(red=0.35, green=0.25, blue=0.18)
    trunk, radius, size = dice.between(1.5, 4), dice.between(0.06, 0.25), dice.between(1.2, 3.5)
    stage.cylinder(at, 0, 0, -0.2, radius, trunk + 0.2, bark)
    for _ in range(dice.count(1, 3)):
        turn, low = dice.between(0, 6.28), dice.between(0.6, 1.0) * trunk
        end = (0.4 * size * math.cos(turn), 0.4 * size * math.sin(turn), trunk + 0.4 * size)
        stage.rod(at, (0, 0, low), end, 0.35 * radius, bark)
    if dice.chance(0.8):
        foliage(stage, at.at(0, 0, trunk - 0.1), 0.2 * size, size, dice.count(5, 10), green(palette), dice)


def bush(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, leaf = palette.dice, green(palette)
    size = dice.between(0.4, 1.3)
    dark = leaf._replace(red=leaf.red * 0.4, green=leaf.green * 0.4, blue=leaf.blue * 0.4)
    stage.ball(at, 0, 0, -0.1 * size, (0.7 * size, 0.7 * size, 0.75 * size), dark)
    pitch = size * dice.scale(0.06, 0.25)
    for _ in range(dice.count(5, 11)):
        turn, reach = dice.between(0, 6.28), size * dice.between(0.15, 0.45)
        waves, threshold = leaves(dice, 0.9 * size, pitch)
        centre = (reach * math.cos(turn), reach * math.sin(turn), size * dice.between(0.25, 0.75))
        tilt = (dice.between(0, 6.28), dice.between(0.6, 2.2), 0.0)
        stage.card(at, centre, (0.9 * size, 0.9 * size), leaf, waves, threshold, tilt)


def grass(stage: Stage, at: Spot, palette: Palette) -> None:
    """Tufts: cards cut into blades."""
    dice, leaf = palette.dice, green(palette)
    for _ in range(dice.count(2, 4)):
        waves, threshold = bars(dice, dice.between(0.015, 0.05))
        width, tall = dice.between(0.15, 0.5), dice.between(0.1, 0.35)
        x, y = dice.between(-0.2, 0.2), dice.between(-0.2, 0.2)
        tilt = (dice.between(0, 6.28), UPRIGHT + dice.between(-0.3, 0.3), 0.0)
        stage.card(at, (x, y, 0.45 * tall), (width, tall), leaf, waves, threshold, tilt)


def fence(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, paint = palette.dice, palette.outdoors() if palette.dice.chance(0.6) else palette.thing()
    length, tall = dice.between(2, 8), dice.between(0.7, 1.6)
    waves, threshold = (
        bars(dice, dice.between(0.06, 0.25)) if dice.chance(0.6) else lattice(dice, dice.between(0.05, 0.2))
    )
    stage.card(at, (0, 0, 0.5 * tall), (length, tall), paint, waves, threshold)
    for z in (0.25 * tall, 0.8 * tall):
        stage.box(at, 0, 0.03, z, (length, 0.03, 0.06), paint)
    posts = dice.count(2, 4)
    for k in range(posts):
        stage.box(at, (k / (posts - 1) - 0.5) * length, 0.06, -0.1, (0.09, 0.09, tall + 0.15), paint)


def post(stage: Stage, at: Spot, palette: Palette) -> None:
    """A post, often with a notice on it."""
    dice, paint = palette.dice, palette.thing()
    tall = dice.between(0.6, 3)
    stage.cylinder(at, 0, 0, -0.1, dice.scale(0.02, 0.1), tall + 0.1, paint)
    if dice.chance(0.5):
        wide = dice.between(0.3, 0.8)
        stage.box(at, 0, -0.03, 0.75 * tall, (wide, 0.04, min(wide, 0.24 * tall)), palette.print())


def rock(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, paint = palette.dice, palette.outdoors()
    for _ in range(dice.count(1, 3)):
        size = dice.scale(0.15, 0.9)
        x, y, z = dice.between(-0.5, 0.5) * size, dice.between(-0.5, 0.5) * size, -0.35 * size
        stage.ball(
            at, x, y, z, (size, size * dice.between(0.6, 1), size * dice.between(0.6, 1)), paint, dice.between(0, 3)
        )


def bench(stage: Stage, at: Spot, palette: Palette) -> None:
    paint = palette.thing()
    for x in (-0.6, 0.6):
        stage.box(at, x, 0, -0.05, (0.06, 0.4, 0.48), paint)
    for k in range(3):
        stage.box(at, 0, -0.15 + 0.15 * k, 0.43, (1.5, 0.11, 0.03), paint)
        if k < 2:
            stage.box(at, 0, 0.2, 0.55 + 0.17 * k, (1.5, 0.03, 0.11), paint)
    for x in (-0.6, 0.6):
        stage.box(at, x, 0.22, 0, (0.06, 0.04, 0.85), paint)


def low_wall(stage: Stage, at: Spot, palette: Palette) -> None:
    dice = palette.dice
    stage.box(
        at, 0, 0, -0.1, (dice.between(1.5, 6), dice.between(0.2, 0.4), dice.between(0.5, 1.3)), palette.outdoors()
    )


def house(stage: Stage, at: Spot, palette: Palette) -> None:
    """A box with doors and windows, under two slabs."""
    dice, paint = palette.dice, palette.wall() if palette.dice.chance(0.5) else palette.outdoors()
    width, depth, tall = dice.between(4, 9), dice.between(3, 6), dice.between(2.5, 5)
    stage.box(at, 0, 0, -0.2, (width, depth, tall + 0.2), paint)
    roof, slope = palette.outdoors(), dice.between(0.4, 0.8)
    half = 0.58 * depth / math.cos(slope)
    for side in (-1, 1):
        centre = (0.0, side * 0.27 * depth, tall + 0.26 * depth * math.tan(slope))
        stage.add(BOX, at, centre, (0.53 * width, half / 2, 0.06), roof, (0.0, -side * slope, 0.0))
    stage.box(at, 0, 0, tall, (width, 0.55 * depth, 0.23 * depth * math.tan(slope)), paint)
    stage.box(at, dice.between(-0.3, 0.3) * width, -0.5 * depth, 0, (0.95, 0.06, 2.05), palette.thing())
    for k in range(dice.count(1, 3)):
        x = (k / 3 - 0.3) * width
        stage.box(at, x, -0.5 * depth, 0.42 * tall, (0.9, 0.06, 1.1), palette.plain(0.02, 0.3))


OUTDOORS: tuple[tuple[Furniture, float], ...] = (
    *((tree, 0.4), (tree, 0.4), (bush, 0.5), (bush, 0.5), (grass, 0.3), (grass, 0.3), (fence, 1.5), (fence, 1.5)),
    *((post, 0.2), (post, 0.2), (rock, 0.5), (rock, 0.5), (bench, 0.8), (low_wall, 1.5), (house, 4.0)),
    *((person, 0.3), (person, 0.3), (animal, 0.4), (crates, 0.4), (rucksack, 0.25), (play_ball, 0.2)),
)
