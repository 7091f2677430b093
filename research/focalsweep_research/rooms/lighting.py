"""Windows and lamps: rectangles that shine, out of the picture, large enough for soft shadows.

A window is its light alone: frames beside it would be as bright as it, and paths that find them by chance are noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from focalsweep_research.rooms.building import Shell, Sight
from focalsweep_research.rooms.solids import Array, Rng, about_z

OUT_OF_WALL = 0.004


@dataclass(frozen=True, eq=False)
class Light:
    """A rectangle that shines to one side: centre, half of its sides, the direction that it faces, radiance in RGB."""

    centre: Array
    right: Array
    up: Array
    normal: Array
    radiance: tuple[float, float, float]

    @property
    def corners(self) -> Array:
        return np.array([self.centre + x * self.right + y * self.up for x in (-1, 1) for y in (-1, 1)])


def draw_lights(rng: Rng, shell: Shell, sight: Sight) -> list[Light]:
    """One window or two, or a lamp, or both."""
    lights: list[Light] = []
    wanted = rng.choice(["window", "windows", "lamp", "both"], p=[0.4, 0.2, 0.2, 0.2])
    windows = {"window": 1, "windows": 2, "lamp": 0, "both": 1}[str(wanted)]
    for _ in range(windows):
        found = _window(rng, shell, sight)
        if found is not None and not any(np.allclose(found.normal, light.normal) for light in lights):
            lights.append(found)
    if wanted in ("lamp", "both") or not lights:
        lights.append(_ceiling_lamp(rng, shell, 0.5 if lights else 1.0))
    return lights


def _window(rng: Rng, shell: Shell, sight: Sight) -> Light | None:
    for _ in range(30):
        wall = str(rng.choice(["left wall", "right wall", "front wall", "back wall"], p=[0.35, 0.35, 0.2, 0.1]))
        foot, yaw, width = shell.wall(wall)
        size = (min(rng.uniform(0.8, 1.8), 0.8 * width), rng.uniform(0.9, 1.4))
        sill = rng.uniform(0.7, 0.9)
        if sill + size[1] > shell.height - 0.1:
            continue
        along = rng.uniform(-0.5, 0.5) * (width - size[0] - 0.15)
        matrix = about_z(yaw)
        inward = -matrix[:, 1]
        centre = foot + matrix @ [along, 0, 0] + [0, 0, sill + size[1] / 2] + OUT_OF_WALL * inward
        tint = np.array([0.97, 1.0, 1.05]) * (1 + rng.uniform(-0.06, 0.06, 3))
        light = Light(
            centre,
            matrix[:, 0] * size[0] / 2,
            np.array([0, 0, size[1] / 2]),
            inward,
            _radiance(tint * rng.uniform(3, 6)),
        )
        if not sight.sees(_spread(light), 0.1).any():
            return light
    return None


def _ceiling_lamp(rng: Rng, shell: Shell, strength: float) -> Light:
    half = rng.uniform(0.15, 0.4)
    place = shell.world(
        rng.uniform(-0.4, 0.4) * shell.left, rng.uniform(-0.3, 0.5) * shell.back, shell.height - OUT_OF_WALL
    )
    turn = about_z(rng.uniform(0, math.pi))
    tint = np.array([1.06, 1.0, 0.88]) * (1 + rng.uniform(-0.08, 0.08, 3))
    radiance = _radiance(tint * strength * rng.uniform(1.5, 2.5) / half**2)
    return Light(place, half * turn[:, 0], -half * turn[:, 1], np.array([0, 0, -1.0]), radiance)


def _spread(light: Light) -> Array:
    steps = np.linspace(-1, 1, 5)
    return np.array([light.centre + x * light.right + y * light.up for x in steps for y in steps])


def _radiance(values: Array) -> tuple[float, float, float]:
    red, green, blue = np.maximum(values, 0.01).tolist()
    return red, green, blue
