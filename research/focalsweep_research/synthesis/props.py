"""Things to set down on a table: each stands with its foot at a spot, about `size` metres in radius."""

from __future__ import annotations

import math
from collections.abc import Callable

from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.stage import Dice, Spot, Stage, Wave

Prop = Callable[[Stage, Spot, float, Palette], None]


def bars(dice: Dice, pitch: float) -> tuple[list[Wave], float]:
    """The waves and threshold of upright bars, `pitch` metres apart."""
    return [(1.0, 2 * math.pi / pitch, 0.0, dice.between(0, 6.28))], dice.between(-0.4, 0.8)


def lattice(dice: Dice, pitch: float) -> tuple[list[Wave], float]:
    """Two crossed waves: dots where few are kept, a net where most are."""
    k = 2 * math.pi / pitch
    turn = dice.pick([0.0, math.pi / 4, dice.between(0, 1.5)])
    a, b = k * math.cos(turn), k * math.sin(turn)
    return [(1.0, a, b, 0.0), (1.0, -b, a, 0.0)], dice.between(-0.9, 0.6)


def blobs(dice: Dice, pitch: float) -> tuple[list[Wave], float]:
    """Waves in three random directions: leaves, or letters that nobody can read."""
    waves = []
    for _ in range(3):
        k, turn = 2 * math.pi / pitch * dice.scale(0.6, 1.7), dice.between(0, 2 * math.pi)
        waves.append((1.0, k * math.cos(turn), k * math.sin(turn), dice.between(0, 2 * math.pi)))
    return waves, dice.between(-0.3, 0.7)


def frond(dice: Dice, width: float) -> tuple[list[Wave], float]:
    """A leaf or a spray of them: round within a card of that width, cut into by a third wave."""
    k, turn = 2 * math.pi / width * dice.scale(2, 9), dice.between(0, 2 * math.pi)
    long = math.pi / width
    narrow = long * dice.scale(1, 2.5)
    cut = (dice.between(0.3, 1.5), k * math.cos(turn), k * math.sin(turn), dice.between(0, 2 * math.pi))
    return [(2.0, long, 0.0, math.pi / 2), (2.0, 0.0, narrow, math.pi / 2), cut], dice.between(2.0, 3.0)


def leaves(dice: Dice, width: float, pitch: float) -> tuple[list[Wave], float]:
    """Foliage on a card."""
    return frond(dice, width) if dice.chance(0.75) else blobs(dice, pitch)


def mug(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    paint, dice = palette.thing(), palette.dice
    height, radius = size * dice.between(1.6, 2.4), 0.75 * size
    stage.cylinder(at, 0, 0, 0, radius, height, paint)
    if dice.chance(0.8):
        low, high, out, thick = 0.25 * height, 0.8 * height, 1.45 * radius, 0.1 * size
        stage.rod(at, (radius * 0.95, 0, high), (out, 0, high), thick, paint)
        stage.rod(at, (out, 0, high), (out, 0, low), thick, paint)
        stage.rod(at, (radius * 0.95, 0, low), (out, 0, low), thick, paint)


def can(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    height = size * palette.dice.scale(0.5, 4.0)
    stage.cylinder(at, 0, 0, 0, size, height, palette.print())
    if palette.dice.chance(0.5):
        rim = palette.dice.between(0.9, 1.04)
        stage.cylinder(at, 0, 0, height, size * rim, 0.12 * size, palette.thing())


def bottle(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    radius, height = 0.7 * size, size * dice.between(2, 4.5)
    stage.cylinder(at, 0, 0, 0, radius, height, paint)
    stage.ball(at, 0, 0, height - 0.8 * radius, (2 * radius, 2 * radius, 1.6 * radius), paint)
    neck = 0.3 * size
    stage.cylinder(at, 0, 0, height, neck, 1.4 * size, paint)
    stage.cylinder(at, 0, 0, height + 1.3 * size, neck * 1.2, 0.3 * size, palette.thing())
    if dice.chance(0.6):
        stage.cylinder(at, 0, 0, 0.25 * height, radius * 1.01, 0.5 * height, palette.print())


def package(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice = palette.dice
    stage.box(at, 0, 0, 0, (size * 1.4, size * dice.between(0.5, 1.4), size * dice.scale(0.3, 3.5)), palette.print())


def stack(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice, z, width = palette.dice, 0.0, size * 1.4
    for _ in range(dice.count(2, 4)):
        height = width * dice.between(0.3, 1)
        stage.box(at, 0, 0, z, (width, width * dice.between(0.7, 1), height), palette.thing(), dice.between(-0.4, 0.4))
        z, width = z + height, width * dice.between(0.6, 0.95)
    if dice.chance(0.4):
        stage.ball(at, 0, 0, z, (width * 0.7,) * 3, palette.thing())


def books(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice, z = palette.dice, 0.0
    for _ in range(dice.count(1, 5)):
        thick = size * dice.between(0.08, 0.35)
        width = size * dice.between(1.0, 1.5)
        stage.box(at, 0, 0, z, (width, width * 0.72, thick), palette.print(), dice.between(-0.35, 0.35))
        z += thick


def leaning_book(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A block, and a board that leans on it."""
    dice = palette.dice
    depth, height = 0.5 * size, size * dice.between(0.8, 1.6)
    stage.box(at, 0, 0.5 * size, 0, (size * dice.between(0.5, 1.2), depth, height), palette.thing())
    tilt = dice.between(0.15, 0.6)
    length = (height / math.cos(tilt)) * dice.between(0.8, 1.3)
    reach = min(height, length * math.cos(tilt)) * math.tan(tilt)  # along the ground, from the foot to where it rests
    thick = 0.12 * size
    foot = 0.25 * size - reach - thick / math.cos(tilt)
    board = (size * dice.between(0.7, 1.2), thick, length)
    stage.leaning_box(at, 0, foot + thick * math.cos(tilt), 0, board, palette.print(), -tilt)


def ball(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    stage.ball(at, 0, 0, 0, (1.6 * size,) * 3, palette.thing())


def fruit(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice = palette.dice
    height = 1.5 * size * dice.between(0.7, 1.2)
    stage.ball(at, 0, 0, 0, (1.5 * size, 1.5 * size * dice.between(0.8, 1.2), height), palette.thing())
    stage.rod(at, (0, 0, 0.93 * height), (0.1 * size, 0, 1.2 * height), 0.04 * size, palette.plain(0.05, 0.3))


def beast(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A toy on four legs."""
    dice, paint = palette.dice, palette.thing()
    other = palette.thing() if dice.chance(0.5) else paint
    leg, fat, stout = size * dice.between(0.5, 1.0), size * dice.between(0.5, 0.85), 0.13 * size
    for x in (-0.55, 0.55):
        for y in (-0.2, 0.2):
            stage.cylinder(at, x * size, y * size, 0, stout, leg + 0.3 * fat, other)
    stage.ball(at, 0, 0, leg, (1.8 * size, fat, fat), paint)
    head = 0.55 * size
    lift = leg + fat * dice.between(0.3, 0.9)
    stage.rod(at, (0.6 * size, 0, leg + 0.6 * fat), (0.95 * size, 0, lift + 0.5 * head), 0.18 * size, paint)
    stage.ball(at, 0.98 * size, 0, lift, (head * 1.3, head * 0.8, head), other)
    for y in (-0.15, 0.15):
        stage.rod(
            at,
            (0.85 * size, y * size, lift + 0.7 * head),
            (0.8 * size, 2 * y * size, lift + 1.4 * head),
            0.05 * size,
            other,
        )
    stage.rod(at, (-0.85 * size, 0, leg + 0.5 * fat), (-1.15 * size, 0, leg), 0.05 * size, paint)


def figure(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A toy that stands on its feet."""
    dice, cloth, skin = palette.dice, palette.thing(), palette.thing()
    leg, trunk, head = size * dice.between(0.6, 1.4), size * dice.between(0.9, 1.5), size * dice.between(0.5, 0.9)
    for x in (-0.2, 0.2):
        stage.cylinder(at, x * size, 0, 0, 0.15 * size, leg + 0.2 * trunk, cloth)
        hand = (3.2 * x * size, dice.between(-0.4, 0.2) * size, leg + trunk * dice.between(-0.1, 0.9))
        stage.rod(at, (1.6 * x * size, 0, leg + 0.75 * trunk), hand, 0.1 * size, skin)
    stage.ball(at, 0, 0, leg, (0.9 * size, 0.6 * size, trunk), cloth)
    stage.ball(at, 0, 0, leg + 0.93 * trunk, (head,) * 3, skin)


def pencils(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """Long thin things that lie about."""
    dice = palette.dice
    for _ in range(dice.count(1, 4)):
        turn, radius, length = dice.between(0, 6.28), size * dice.between(0.04, 0.1), size * dice.between(1, 2)
        x, y = length / 2 * math.cos(turn), length / 2 * math.sin(turn)
        ox, oy = dice.between(-0.4, 0.4) * size, dice.between(-0.4, 0.4) * size
        stage.rod(at, (ox - x, oy - y, radius), (ox + x, oy + y, radius), radius, palette.thing())


def pencil_cup(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice, height = palette.dice, 1.6 * size
    stage.cylinder(at, 0, 0, 0, 0.6 * size, height, palette.thing())
    for _ in range(dice.count(2, 5)):
        x, y = dice.between(-0.25, 0.25) * size, dice.between(-0.25, 0.25) * size
        top = (x * 2.4, y * 2.4, height * dice.between(1.4, 2.1))
        stage.rod(at, (x, y, 0.8 * height), top, size * dice.between(0.04, 0.09), palette.thing())


def wire(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A cord that winds over the table."""
    dice, paint = palette.dice, palette.plain(0.02, 0.8)
    radius, turn, x, y = size * dice.between(0.02, 0.08), dice.between(0, 6.28), 0.0, 0.0
    for _ in range(dice.count(3, 8)):
        turn += dice.between(-0.9, 0.9)
        to_x, to_y = x + 0.8 * size * math.cos(turn), y + 0.8 * size * math.sin(turn)
        stage.rod(at, (x, y, radius), (to_x, to_y, radius), radius, paint)
        x, y = to_x, to_y


def bowl(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A dish on a foot, with fruit heaped over its rim."""
    dice, paint = palette.dice, palette.thing()
    stage.cylinder(at, 0, 0, 0, 0.5 * size, 0.3 * size, paint)
    stage.cylinder(at, 0, 0, 0.25 * size, size, 0.35 * size, paint)
    one = palette.thing()
    for k in range(dice.count(0, 4)):
        x, y = 0.45 * size * math.cos(2.1 * k), 0.45 * size * math.sin(2.1 * k)
        lift = 0.55 if k < 3 else 1.05
        stage.ball(at, x * (k < 3), y * (k < 3), lift * size, (0.75 * size,) * 3, one)


def laptop(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice, shell = palette.dice, palette.thing()
    width, depth, thick = 2 * size, 1.3 * size, 0.07 * size
    stage.box(at, 0, 0, 0, (width, depth, thick), shell)
    stage.leaning_box(at, 0, depth / 2, thick, (width, thick, depth), shell, -dice.between(0.05, 0.5))


def desk_lamp(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    dice, paint = palette.dice, palette.thing()
    elbow = (dice.between(-0.5, 0.5) * size, 0.0, size * dice.between(1.6, 2.4))
    head = (elbow[0] + size * dice.between(0.8, 1.4), 0.0, elbow[2] + size * dice.between(-0.2, 0.8))
    stage.cylinder(at, 0, 0, 0, 0.6 * size, 0.15 * size, paint)
    stage.rod(at, (0, 0, 0.1 * size), elbow, 0.06 * size, paint)
    stage.rod(at, elbow, head, 0.06 * size, paint)
    shade = palette.shining() if dice.chance(0.2) and not palette.hard else paint
    stage.rod(
        at, (head[0], 0, head[2] + 0.15 * size), (head[0] + 0.25 * size, 0, head[2] - 0.4 * size), 0.35 * size, shade
    )


def plant(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A pot, stems, and leaves cut out of cards."""
    dice, pot, leaf = palette.dice, palette.thing(), palette.thing()
    green = dice.between(0.2, 0.7)
    leaf = leaf._replace(red=0.6 * green, green=green, blue=0.4 * green)
    height = size * dice.between(0.8, 1.6)
    stage.cylinder(at, 0, 0, 0, 0.6 * size, height, pot)
    for _ in range(dice.count(2, 4)):
        turn, reach, rise = dice.between(0, 6.28), size * dice.between(0.2, 0.8), size * dice.between(0.8, 2.4)
        x, y, z = reach * math.cos(turn), reach * math.sin(turn), height + rise
        stage.rod(at, (0, 0, 0.9 * height), (x, y, z), 0.04 * size, leaf)
        width = size * dice.between(0.8, 1.8)
        waves, threshold = leaves(dice, width, size * dice.between(0.25, 0.6))
        tilt = (dice.between(0, 6.28), dice.between(0.4, 2.2), 0.0)
        stage.card(at, (x, y, z), (width, width), leaf, waves, threshold, tilt)


def standing_card(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A picture in a frame, or a notice, that stands leaning back a little on a foot."""
    dice = palette.dice
    width, height = size * dice.between(1, 2), size * dice.between(1, 2)
    stage.leaning_box(at, 0, 0, 0, (width, 0.06 * size, height), palette.thing(), -dice.between(0.0, 0.35))
    stage.box(at, 0, 0.3 * size, 0, (0.3 * size, 0.6 * size, 0.1 * size), palette.thing())


def hammer(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A tool that lies: a grip and a head."""
    radius = 0.09 * size
    stage.rod(at, (-size, 0, radius), (0.7 * size, 0, radius), radius, palette.thing())
    stage.box(at, 0.75 * size, 0, 0, (0.3 * size, 0.9 * size, 0.28 * size), palette.thing())


def bag(stage: Stage, at: Spot, size: float, palette: Palette) -> None:
    """A rucksack: round, often dark, with straps and a pocket."""
    dice = palette.dice
    paint = palette.plain(0.02, 0.1) if dice.chance(0.6) and not palette.hard else palette.fabric()
    width, depth, height = 1.5 * size, size * dice.between(0.8, 1.1), size * dice.between(1.7, 2.3)
    stage.box(at, 0, 0, 0, (0.85 * width, 0.8 * depth, 0.6 * height), paint)
    stage.ball(at, 0, 0, 0, (width, depth, height), paint)
    stage.ball(at, 0, -0.4 * depth, 0.1 * height, (0.8 * width, 0.5 * depth, 0.45 * height), paint)
    for x in (-0.12, 0.12):
        stage.rod(at, (x * size, 0, 0.95 * height), (0, 0, 1.12 * height), 0.04 * size, paint)


ON_TABLES: tuple[Prop, ...] = (
    *(mug, can, bottle, package, package, stack, books, books, leaning_book, ball, fruit, fruit, beast, figure),
    *(pencils, pencil_cup, wire, bowl, laptop, desk_lamp, plant, standing_card, hammer, bag),
)
FLAT_LYING: tuple[Prop, ...] = (pencils, wire, hammer, books)
SOLID_COLOURS: tuple[Prop, ...] = (mug, ball, package, beast, figure, bag, stack)
