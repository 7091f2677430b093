"""How a world is laid out: what the picture asks for, where its camera stands, and which places are taken."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from focalsweep_research.synthesis.stage import DEGREE, UPRIGHT, Dice, Eye, Spot, eye_at


@dataclass(frozen=True)
class Frame:
    """What the picture asks of a world: half its angles of view as tangents, and inverse depth of far over near."""

    reach_x: float
    reach_y: float
    ratio: float

    @property
    def reach(self) -> tuple[float, float]:
        return self.reach_x, self.reach_y


@dataclass
class Ground:
    """Which places are taken: circles on the ground, and walls (spots whose y points into them)."""

    eye: Eye
    walls: list[Spot] = field(default_factory=list)
    circles: list[tuple[float, float, float]] = field(default_factory=list)

    def claim(self, x: float, y: float, radius: float, gap: float = 0.0, backed: bool = False) -> bool:
        """Takes a circle if it is free, or says that it is not; what is `backed` may touch walls."""
        if math.hypot(x - self.eye.x, y - self.eye.y) < radius + gap:
            return False
        for wall in self.walls:
            if self.distance(wall, x, y) < (0.0 if backed else radius):
                return False
        for other_x, other_y, other in self.circles:
            if math.hypot(x - other_x, y - other_y) < 0.9 * (radius + other):
                return False
        self.circles.append((x, y, radius))
        return True

    @staticmethod
    def distance(wall: Spot, x: float, y: float) -> float:
        return (wall.x - x) * -wall.sin + (wall.y - y) * wall.cos

    def wall_at(self, u: float) -> tuple[Spot, float, float] | None:
        """The wall behind a column of the picture: itself, where along it, and its depth."""
        dx, dy, _ = self.eye.ray(u, 0)
        best: tuple[Spot, float, float] | None = None
        for wall in self.walls:
            rate = dx * -wall.sin + dy * wall.cos
            if rate <= 1e-3:
                continue
            depth = self.distance(wall, self.eye.x, self.eye.y) / rate
            if best is None or depth < best[2]:
                x, y = self.eye.x + depth * dx - wall.x, self.eye.y + depth * dy - wall.y
                best = wall, x * wall.cos + y * wall.sin, depth
        return best


@dataclass(frozen=True)
class Setting:
    """A world's camera, and where its light may come from."""

    eye: Eye
    lamp_heights: tuple[float, float]
    sunny: bool = False


def standing(dice: Dice, frame: Frame, height: float) -> tuple[Eye, float]:
    """A camera at a height, level or looking down, and the depth of the nearest ground in sight."""
    pitch = dice.between(-6, 10) if dice.chance(0.25) else dice.between(-35, -3)
    eye = eye_at(0, 0, height, pitch * DEGREE, roll(dice), frame.reach)
    half = math.atan(frame.reach_y)
    lowest = max(half - pitch * DEGREE, 0.12)
    return eye, height / math.sin(min(lowest, UPRIGHT)) * math.cos(half)


def eye_above(dice: Dice, frame: Frame, away: float, down: float) -> Eye:
    """A camera that looks at the origin from `away` metres, `down` degrees below the horizon."""
    angle = down * DEGREE
    return eye_at(0, -away * math.cos(angle), away * math.sin(angle), -angle, roll(dice), frame.reach)


def roll(dice: Dice) -> float:
    return dice.between(-1, 1) ** 3 * 10 * DEGREE
