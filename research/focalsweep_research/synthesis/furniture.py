"""What stands in rooms and outdoors, in life size, and what is fixed to walls (whose x runs along, y into the wall)."""

from __future__ import annotations

import math
from collections.abc import Callable

from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.props import FLAT_LYING, ON_TABLES, bag, ball, bars, beast, books, lattice, leaves
from focalsweep_research.synthesis.scenes import BOX
from focalsweep_research.synthesis.stage import UPRIGHT, Dice, Paint, Spot, Stage

Furniture = Callable[[Stage, Spot, Palette], None]
Fixture = Callable[[Stage, Spot, float, Palette], None]  # at a spot of the wall on the floor; the room's height


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
DEEP: dict[Furniture, float] = {
    bookcase: 0.18,
    sofa: 0.45,
    floor_lamp: 0.2,
    pot_plant: 0.3,
    cupboard: 0.33,
    bed: 1.0,
    broom: 0.3,
}  # behind the middle


def skirting(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    stage.box(at, 0, -0.01, 0, (12.0, 0.02, palette.dice.between(0.06, 0.14)), palette.wall())


def door(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    paint, width, tall = palette.wall(), palette.dice.between(0.75, 0.95), min(2.05, height)
    for x in (-0.5, 0.5):
        stage.box(at, x * width, -0.02, 0, (0.08, 0.05, tall), paint)
    stage.box(at, 0, -0.02, tall, (width + 0.08, 0.05, 0.08), paint)
    stage.box(at, 0, -0.01, 0, (width, 0.03, tall), palette.thing() if palette.dice.chance(0.4) else paint)
    stage.rod(at, (0.42 * width, -0.07, 1.02), (0.28 * width, -0.07, 1.02), 0.01, palette.plain(0.2, 0.7))
    stage.rod(at, (0.42 * width, -0.07, 1.02), (0.42 * width, 0, 1.02), 0.01, palette.plain(0.2, 0.7))


def picture(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    dice = palette.dice
    size = dice.scale(0.15, 0.9)
    wide, tall, z = size, size * dice.between(0.6, 1.5), dice.between(1.0, 1.6)
    stage.box(at, 0, -0.01, z - tall / 2, (wide, 0.025, tall), palette.thing())
    inner = dice.between(0.75, 0.95)
    stage.box(at, 0, -0.015, z - inner * tall / 2, (inner * wide, 0.03, inner * tall), palette.print())


def window(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    """Bright panes in a frame with a sill."""
    dice, frame = palette.dice, palette.plain(0.6, 0.95)
    width, tall, low = dice.between(0.6, 1.6), dice.between(0.7, 1.3), dice.between(0.7, 1.0)
    pane = palette.plain(0.02, 0.9) if palette.hard or dice.chance(0.3) else palette.shining()
    stage.box(at, 0, -0.005, low, (width, 0.02, tall), pane)
    for x in (-0.5, 0.5) if dice.chance(0.5) else (-0.5, 0.0, 0.5):
        stage.box(at, x * width, -0.02, low, (0.06, 0.05, tall), frame)
    stage.box(at, 0, -0.02, low + tall, (width + 0.06, 0.05, 0.06), frame)
    stage.box(at, 0, -0.08, low - 0.04, (width + 0.15, 0.18, 0.04), frame)
    if dice.chance(0.5):
        litter(stage, at.at(0, -0.1, low), width, 0.12, dice.count(1, 3), palette)


def curtain(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    """Folds: a row of upright cylinders."""
    dice, cloth = palette.dice, palette.fabric() if palette.dice.chance(0.6) else palette.thing()
    folds, radius = dice.count(5, 12), dice.between(0.03, 0.06)
    low, high = dice.pick([0.0, 0.02, 0.8]), max(2.2, height - 0.1)
    stage.box(at, -0.75 * radius, -0.06, high, (1.5 * radius * folds + 0.2, 0.14, 0.04), palette.thing())
    for k in range(folds):
        x, y = (k - folds / 2) * 1.5 * radius, -0.09 - dice.between(-0.4, 0.4) * radius
        stage.cylinder(at, x, y, low, radius, high - low, cloth)


def radiator(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    dice, paint = palette.dice, palette.plain(0.6, 0.95)
    ribs = dice.count(5, 12)
    for k in range(ribs):
        stage.box(at, (k - ribs / 2) * 0.09, -0.07, 0.1, (0.06, 0.09, 0.55), paint)
    for z in (0.15, 0.55):
        stage.box(at, -0.045, -0.04, z, (ribs * 0.09, 0.08, 0.03), paint)
    stage.rod(at, (-0.5 * ribs * 0.09, -0.05, 0.12), (-0.5 * ribs * 0.09, -0.05, 0.0), 0.012, paint)


def shelf(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    width, z = dice.between(0.5, 1.4), dice.between(0.9, 1.6)
    stage.box(at, 0, -0.11, z, (width, 0.22, 0.025), paint)
    litter(stage, at.at(0, -0.12, z + 0.025), width, 0.18, dice.count(1, 6), palette)


def small_fixtures(stage: Stage, at: Spot, height: float, palette: Palette) -> None:
    """A switch, a socket, a clock."""
    dice = palette.dice
    stage.box(at, 0, -0.005, 1.05, (0.08, 0.012, 0.08), palette.plain(0.7, 0.95))
    stage.box(at, dice.between(-0.4, 0.4), -0.005, 0.28, (0.08, 0.012, 0.08), palette.plain(0.7, 0.95))
    if dice.chance(0.5):
        x, z = dice.between(-0.6, 0.6), dice.between(1.5, 1.9)
        stage.rod(at, (x, 0.0, z), (x, -0.04, z), dice.between(0.1, 0.18), palette.thing())


ON_WALLS: tuple[Fixture, ...] = (
    *(door, picture, picture, picture, window, window, curtain, radiator, shelf, shelf, small_fixtures),
)


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
