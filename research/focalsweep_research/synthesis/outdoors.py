"""Ground with waves, hills and sky, or a wall at the end; trees, fences, houses, people."""

from __future__ import annotations

import math

from focalsweep_research.synthesis.garden import OUTDOORS
from focalsweep_research.synthesis.layout import Frame, Ground, Setting, standing
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.stage import DEGREE, Dice, Stage, Wave, spot

SKY_M, SUN_M = 5000.0, 1500.0  # the sun is before the sheet of the sky, or it would be lit from behind


def outdoor(stage: Stage, frame: Frame, palette: Palette) -> Setting:
    dice = palette.dice
    height = dice.scale(0.3, 1.8)
    eye, near = standing(dice, frame, height)
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
