"""What is fixed to walls: spots of a wall have x along it and y into it."""

from __future__ import annotations

from collections.abc import Callable

from focalsweep_research.synthesis.furniture import litter
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.stage import Spot, Stage

Fixture = Callable[[Stage, Spot, float, Palette], None]  # at a spot of the wall on the floor; the room's height


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
