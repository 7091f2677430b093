"""What stands in rooms, in life size."""

from __future__ import annotations

import math
from collections.abc import Callable

from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.props import FLAT_LYING, ON_TABLES, bag, ball, beast, books, leaves
from focalsweep_research.synthesis.stage import Dice, Paint, Spot, Stage

Furniture = Callable[[Stage, Spot, Palette], None]


def litter(stage: Stage, at: Spot, width: float, depth: float, most: int, palette: Palette) -> None:
    """Small things on a surface, as many as there are solids left for."""
    dice = palette.dice
    for k in range(most):
        size = min(dice.scale(0.03, 0.12), 0.4 * depth, 0.4 * width / most)
        x = ((k + 0.5) / most - 0.5) * width
        here = at.at(x, dice.between(-0.5, 0.5) * max(0.0, depth - 2 * size), 0.0, dice.between(0, 6.28))
        prop = dice.pick(ON_TABLES)
        if prop not in FLAT_LYING and not stage.attempt(lambda: prop(stage, here, size, palette)):  # noqa: B023
            return


def table(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    top = palette.thing() if dice.chance(0.4) else paint
    width, depth, height = dice.between(0.6, 1.6), dice.between(0.5, 0.9), dice.pick([0.45, 0.74, 0.74])
    leg, thick = dice.between(0.02, 0.06), dice.between(0.02, 0.05)
    for x in (-0.5, 0.5):
        for y in (-0.5, 0.5):
            stage.box(at, x * (width - leg), y * (depth - leg), 0, (leg, leg, height), paint)
    stage.box(at, 0, 0, height, (width, depth, thick), top)
    litter(stage, at.at(0, 0, height + thick), width, depth, dice.count(0, 4), palette)


def chair(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    seat, back, leg = 0.45, dice.between(0.35, 0.6), dice.between(0.02, 0.04)
    width, depth = 0.42, 0.42
    for x in (-0.5, 0.5):
        stage.box(at, x * (width - leg), -0.5 * (depth - leg), 0, (leg, leg, seat), paint)
        stage.box(at, x * (width - leg), 0.5 * (depth - leg), 0, (leg, leg, seat + back), paint)
    stage.box(at, 0, 0, seat - 0.02, (width, depth, 0.04), palette.fabric() if dice.chance(0.4) else paint)
    if dice.chance(0.5):
        high = dice.between(0.15, back - 0.1)
        stage.box(at, 0, 0.5 * depth - leg / 2, seat + back - high, (width, 0.02, high), paint)
    else:
        for k in range(3):
            z = seat + back * (0.25 + 0.32 * k)
            stage.box(at, 0, 0.5 * depth - leg / 2, z, (width, 0.02, 0.04), paint)


def stool(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    height = dice.between(0.4, 0.75)
    for k in range(3):
        x, y = math.cos(2.1 * k), math.sin(2.1 * k)
        stage.rod(at, (0.2 * x, 0.2 * y, 0.0), (0.12 * x, 0.12 * y, height), 0.015, paint)
    stage.cylinder(at, 0, 0, height, 0.18, 0.04, paint)


def bookcase(stage: Stage, at: Spot, palette: Palette) -> None:
    """Two sides, boards, a back, and rows of books and boxes."""
    dice, paint = palette.dice, palette.thing()
    width, depth, height = dice.between(0.6, 1.2), dice.between(0.22, 0.35), dice.between(0.8, 2.0)
    for x in (-0.5, 0.5):
        stage.box(at, x * (width - 0.02), 0, 0, (0.02, depth, height), paint)
    stage.box(at, 0, 0.5 * depth - 0.005, 0, (width, 0.01, height), paint)
    floors = max(2, round(height / dice.between(0.28, 0.42)))
    for k in range(floors + 1):
        stage.box(at, 0, 0, k * (height - 0.02) / floors, (width, depth, 0.02), paint)
    gap = height / floors - 0.02
    for k in range(floors):
        x, end = -0.5 * width + 0.03, 0.5 * width - 0.03
        while x < end and dice.chance(0.85):
            room = stage.attempt(
                lambda: _shelved(stage, at, x, end, k * (height - 0.02) / floors + 0.02, depth, gap, palette)  # noqa: B023
            )
            if not room:
                return
            x += dice.between(0.1, 0.4)


def _shelved(
    stage: Stage, at: Spot, x: float, end: float, z: float, depth: float, gap: float, palette: Palette
) -> None:
    """A block of books, or something round."""
    dice = palette.dice
    width = min(dice.between(0.05, 0.3), end - x)
    if dice.chance(0.2) and width > 0.06:
        stage.cylinder(
            at,
            x + width / 2,
            -0.05 * depth,
            z,
            min(width, 0.8 * depth) / 2,
            gap * dice.between(0.4, 0.9),
            palette.print(),
        )
        return
    deep = depth * dice.between(0.6, 0.9)
    stage.box(
        at, x + width / 2, 0.48 * (depth - deep), z, (width, deep, gap * dice.between(0.5, 0.95)), palette.print()
    )


def sofa(stage: Stage, at: Spot, palette: Palette) -> None:
    """An armchair or a sofa: boxes, rounded by cushions."""
    dice, cloth = palette.dice, palette.fabric() if palette.dice.chance(0.6) else palette.thing()
    width, depth = dice.between(0.8, 2.0), 0.85
    stage.box(at, 0, 0, 0, (width, depth, 0.3), cloth)
    stage.box(at, 0, 0.5 * depth - 0.1, 0, (width, 0.2, 0.75), cloth)
    for x in (-0.5, 0.5):
        stage.box(at, x * (width - 0.18), 0, 0, (0.18, depth, 0.52), cloth)
        stage.rod(at, (x * (width - 0.18), -0.5 * depth, 0.52), (x * (width - 0.18), 0.5 * depth, 0.52), 0.1, cloth)
    seats = 1 if width < 1.1 else 2
    each = (width - 0.36) / seats
    for k in range(seats):
        x = (k + 0.5) * each - 0.5 * width + 0.18
        stage.ball(at, x, -0.05, 0.24, (1.15 * each, 0.75, 0.24), cloth)
    if dice.chance(0.6):
        stage.ball(at, dice.between(-0.3, 0.3) * width, 0.12, 0.42, (0.42, 0.16, 0.4), palette.fabric())


def floor_lamp(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    height = dice.between(1.2, 1.7)
    stage.cylinder(at, 0, 0, 0, 0.14, 0.03, paint)
    stage.rod(at, (0, 0, 0.02), (0, 0, height), 0.012, paint)
    shade = palette.shining() if dice.chance(0.3) and not palette.hard else palette.thing()
    stage.cylinder(at, 0, 0, height - 0.05, dice.between(0.12, 0.25), dice.between(0.2, 0.35), shade)


def pot_plant(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, pot, leaf = palette.dice, palette.thing(), green(palette)
    height, trunk = dice.between(0.2, 0.45), dice.between(0.3, 1.1)
    stage.cylinder(at, 0, 0, 0, 0.6 * height, height, pot)
    foliage(stage, at.at(0, 0, height - 0.03), trunk, dice.between(0.3, 0.6), dice.count(3, 7), leaf, dice)


def green(palette: Palette) -> Paint:
    tone, hue = palette.dice.between(0.15, 0.7), palette.dice.between(0.4, 1.0)
    paint = palette.outdoors() if palette.dice.chance(0.6) else palette.thing()
    return paint._replace(red=hue * tone, green=tone, blue=0.4 * tone)


def foliage(stage: Stage, at: Spot, trunk: float, size: float, sprays: int, leaf: Paint, dice: Dice) -> None:
    """Cards with leaves cut out, on stems that part from the top of the trunk."""
    stage.rod(at, (0, 0, 0), (0, 0, trunk), 0.03 * size + 0.01 * trunk, leaf._replace(green=leaf.red * 0.7))
    pitch = size * dice.scale(0.07, 0.3)
    for _ in range(sprays):
        turn, reach = dice.between(0, 6.28), size * dice.between(0.0, 0.6)
        centre = (reach * math.cos(turn), reach * math.sin(turn), trunk + size * dice.between(-0.15, 0.7))
        width = size * dice.between(0.7, 1.4)
        waves, threshold = leaves(dice, width, pitch)
        stage.card(
            at, centre, (width, width), leaf, waves, threshold, (dice.between(0, 6.28), dice.between(0.5, 2.6), 0.0)
        )


def cupboard(stage: Stage, at: Spot, palette: Palette) -> None:
    """A chest with doors or drawers, and knobs."""
    dice, paint = palette.dice, palette.thing()
    front = paint if dice.chance(0.6) else palette.thing()
    width, depth, height = dice.between(0.5, 1.4), dice.between(0.35, 0.6), dice.pick([0.5, 0.8, 0.9, 1.9])
    stage.box(at, 0, 0, 0.04, (width, depth, height - 0.04), paint)
    stage.box(at, 0, 0.02, 0, (width - 0.06, depth - 0.06, 0.05), paint)
    columns, rows = dice.count(1, 2), dice.count(1, 3)
    for i in range(columns):
        for k in range(rows):
            w, h = width / columns - 0.02, (height - 0.04) / rows - 0.02
            x, z = ((i + 0.5) / columns - 0.5) * width, 0.05 + k * (height - 0.04) / rows
            stage.box(at, x, -0.5 * depth, z, (w, 0.03, h), front)
            stage.ball(at, x, -0.5 * depth - 0.03, z + 0.5 * h, (0.035, 0.04, 0.035), paint)
    litter(stage, at.at(0, 0, height), width, depth, dice.count(0, 3), palette)


def bed(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, wood = palette.dice, palette.thing()
    width = dice.between(0.9, 1.6)
    stage.box(at, 0, 0, 0.0, (width, 2.0, 0.25), wood)
    stage.box(at, 0, 0.98, 0.0, (width, 0.04, dice.between(0.6, 1.0)), wood)
    stage.box(at, 0, -0.02, 0.25, (width - 0.04, 1.9, 0.2), palette.fabric())
    stage.box(at, 0, -0.35, 0.44, (width + 0.02, 1.35, 0.04), palette.fabric())
    stage.ball(at, 0, 0.7, 0.41, (0.7 * width, 0.45, 0.2), palette.fabric())


def crates(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, z, width = palette.dice, 0.0, palette.dice.between(0.3, 0.7)
    for _ in range(dice.count(1, 3)):
        height = width * dice.between(0.4, 1)
        stage.box(at, 0, 0, z, (width, width * dice.between(0.7, 1), height), palette.print(), dice.between(-0.3, 0.3))
        z, width = z + height, width * dice.between(0.7, 0.97)


def rucksack(stage: Stage, at: Spot, palette: Palette) -> None:
    bag(stage, at, palette.dice.between(0.18, 0.28), palette)


def play_ball(stage: Stage, at: Spot, palette: Palette) -> None:
    ball(stage, at, palette.dice.scale(0.05, 0.25), palette)


def animal(stage: Stage, at: Spot, palette: Palette) -> None:
    beast(stage, at, palette.dice.scale(0.12, 0.5), palette)


def pile(stage: Stage, at: Spot, palette: Palette) -> None:
    books(stage, at, palette.dice.between(0.15, 0.3), palette)


def person(stage: Stage, at: Spot, palette: Palette) -> None:
    dice, trousers, coat, skin = palette.dice, palette.fabric(), palette.thing(), palette.plain(0.3, 0.8)
    tall = dice.between(1.0, 1.9)
    hip, neck = 0.48 * tall, 0.83 * tall
    for side in (-1, 1):
        foot = (0.08 * side * tall, dice.between(-0.1, 0.1) * tall, 0.0)
        stage.rod(at, foot, (0.05 * side * tall, 0, hip), 0.045 * tall, trousers)
        hand = (
            side * dice.between(0.12, 0.25) * tall,
            dice.between(-0.25, 0.05) * tall,
            dice.between(0.42, 0.6) * tall,
        )
        stage.rod(at, (0.1 * side * tall, 0, 0.78 * tall), hand, 0.03 * tall, coat)
    stage.ball(at, 0, 0, hip - 0.03 * tall, (0.25 * tall, 0.16 * tall, neck - hip + 0.05 * tall), coat)
    stage.cylinder(at, 0, 0, neck - 0.03 * tall, 0.03 * tall, 0.06 * tall, skin)
    stage.ball(at, 0, 0, neck, (0.11 * tall, 0.13 * tall, 0.17 * tall), skin)


def broom(stage: Stage, at: Spot, palette: Palette) -> None:
    """A stick that leans on the wall behind it."""
    dice = palette.dice
    tall, out = dice.between(0.9, 1.6), dice.between(0.15, 0.35)
    aside = dice.between(-0.2, 0.2)
    radius = dice.scale(0.008, 0.03)
    stage.rod(at, (0, 0.3 - out, 0.02), (aside, 0.3 - radius, tall), radius, palette.thing())
    if dice.chance(0.6):
        stage.box(at, 0, 0.3 - out, 0, (0.3, 0.06, 0.08), palette.thing())


# Radius of the footprint, and whether it stands with its back to a wall.
IN_ROOMS: tuple[tuple[Furniture, float, bool], ...] = (
    *((table, 0.8, False), (table, 0.8, False), (chair, 0.3, False), (chair, 0.3, False), (stool, 0.22, False)),
    *((bookcase, 0.6, True), (sofa, 0.8, True), (sofa, 0.8, False), (floor_lamp, 0.2, True), (pot_plant, 0.3, True)),
    *((cupboard, 0.6, True), (cupboard, 0.6, True), (bed, 1.0, True), (crates, 0.4, False), (rucksack, 0.25, False)),
    *((play_ball, 0.15, False), (animal, 0.3, False), (pile, 0.2, False), (person, 0.3, False), (broom, 0.15, True)),
)
# How far from the wall the middle is of what stands with its back to it.
DEEP: dict[Furniture, float] = {
    **{bookcase: 0.18, sofa: 0.45, floor_lamp: 0.2, pot_plant: 0.3},
    **{cupboard: 0.33, bed: 1.0, broom: 0.3},
}
