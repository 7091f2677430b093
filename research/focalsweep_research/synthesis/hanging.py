"""Cords, cards, balls and wires that hang before a wall."""

from __future__ import annotations

import itertools

from focalsweep_research.synthesis.layout import Frame, Ground, Setting, roll
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.props import blobs
from focalsweep_research.synthesis.stage import DEGREE, Spot, Stage, eye_at, spot


def hanging(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    """Cords, cards, balls and wires before a wall; they come from above the picture."""
    dice = palette.dice
    near = dice.scale(0.4, 2.0)
    far = min(near / max(frame.ratio, 0.1), 8.0)
    eye = eye_at(0, 0, 0, dice.between(-6, 6) * DEGREE, roll(dice), frame.reach)
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
