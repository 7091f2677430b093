"""Four walls, floor and ceiling about the lens, in which furniture is put; lengths before the room is scaled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from focalsweep_research.rooms import surfaces
from focalsweep_research.rooms.furniture import FLOOR, fixed, put, standing
from focalsweep_research.rooms.solids import Array, Rng, Solid, about_z, box, quad

WALLS = ("back wall", "left wall", "right wall", "front wall")  # the front wall is behind the camera
SKIRTING = (0.012, 0.08)  # deep and high


@dataclass(frozen=True, eq=False)
class Sight:
    """Where the camera is and what it sees: `axes` are rows right, up, forward; tangents of the half angles."""

    eye: Array
    axes: Array
    half_width: float
    half_height: float

    def ray(self, u: float, v: float) -> Array:
        """Of length 1 along the axis; u and v from -1 to 1 over the picture."""
        across, up = u * self.half_width, v * self.half_height
        return np.asarray(across * self.axes[0] + up * self.axes[1] + self.axes[2])

    def rays(self, count: int = 9) -> Array:
        steps = np.linspace(-1, 1, count)
        return np.array([self.ray(u, v) for u in steps for v in steps])

    def project(self, points: Array) -> Array:
        """u, v and depth."""
        across, up, depth = self.axes @ (points - self.eye).T
        ahead = np.where(np.abs(depth) < 1e-9, 1e-9, depth)
        return np.stack([across / ahead / self.half_width, up / ahead / self.half_height, depth], 1)

    def sees(self, points: Array, margin: float = 0.0) -> Array:
        """Of each point, whether it lies in the picture, or so far beside it."""
        u, v, depth = self.project(points).T
        return np.asarray((depth > 0) & (np.abs(u) < 1 + margin) & (np.abs(v) < 1 + margin))


@dataclass(frozen=True)
class Shell:
    """A room turned by `yaw` about z; its bounds are distances from the eye in its own frame."""

    yaw: float
    left: float
    right: float
    front: float
    back: float
    height: float

    def world(self, x: float, y: float, z: float = 0.0) -> Array:
        return np.asarray(about_z(self.yaw) @ np.array([x, y, z]))

    @property
    def outline(self) -> Array:
        corners = (
            (-self.left, -self.front),
            (self.right, -self.front),
            (self.right, self.back),
            (-self.left, self.back),
        )
        return np.array([self.world(*corner)[:2] for corner in corners])

    def wall(self, name: str) -> tuple[Array, float, float]:
        """The middle of its foot, the yaw of furniture that stands with its back to it, and its width."""
        across, deep = self.left + self.right, self.front + self.back
        middle_x, middle_y = (self.right - self.left) / 2, (self.back - self.front) / 2
        if name == "back wall":
            return self.world(middle_x, self.back), self.yaw, across
        if name == "front wall":
            return self.world(middle_x, -self.front), self.yaw + math.pi, across
        if name == "left wall":
            return self.world(-self.left, middle_y), self.yaw + math.pi / 2, deep
        return self.world(self.right, middle_y), self.yaw - math.pi / 2, deep

    def hit(self, eye_height: float, ray: Array) -> tuple[str, float]:
        """What of the shell a ray from the lens meets first, and how many times its length away."""
        x, y, _ = about_z(-self.yaw) @ ray
        z = float(ray[2])
        ways = {
            "left wall": -self.left / x if x < 0 else math.inf,
            "right wall": self.right / x if x > 0 else math.inf,
            "front wall": -self.front / y if y < 0 else math.inf,
            "back wall": self.back / y if y > 0 else math.inf,
            FLOOR: -eye_height / z if z < 0 else math.inf,
            "ceiling": (self.height - eye_height) / z if z > 0 else math.inf,
        }
        name = min(ways, key=lambda key: ways[key])
        return name, ways[name]


def draw_shell(rng: Rng, sight: Sight, farthest: float, height: float) -> Shell:
    """A room whose farthest point in the picture is at about this depth: a wall, or a corner."""
    yaw = math.radians(rng.uniform(-50, 50))
    left, right, back = rng.uniform(0.7, 1.8), rng.uniform(0.7, 1.8), rng.uniform(1.0, 2.0)
    front = rng.uniform(0.6, 1.6)
    rays, eye_height = sight.rays(), float(sight.eye[2])

    def shell(size: float) -> Shell:
        return Shell(yaw, max(size * left, 0.5), max(size * right, 0.5), front, size * back, height)

    low, high = 0.2, 4.0
    for _ in range(20):
        size = (low + high) / 2
        depth = max(shell(size).hit(eye_height, ray)[1] for ray in rays)
        low, high = (size, high) if depth < farthest else (low, size)
    return shell(low)


def build_shell(rng: Rng, shell: Shell, opened: bool) -> list[Solid]:
    """Floor, walls with skirting, ceiling; opened: without the ceiling and the wall behind the camera."""
    corners = shell.outline
    ground = np.c_[corners, np.zeros(4)]
    above = np.c_[corners, np.full(4, shell.height)]
    parts = [quad(FLOOR, ground, surfaces.floor(rng))]
    paint, other, white = surfaces.wall(rng), surfaces.wall(rng), surfaces.plain(rng, 0.6, 0.82, 0.05)
    skirted = rng.random() < 0.75
    if not opened:
        parts.append(quad("ceiling", above[::-1], surfaces.ceiling(rng)))
    ends = {"front wall": (0, 1), "right wall": (1, 2), "back wall": (2, 3), "left wall": (3, 0)}
    for name, (i, k) in ends.items():
        accent = name == "back wall" and rng.random() < 0.4
        if opened and name == "front wall":
            continue
        parts.append(quad(name, [ground[i], ground[k], above[k], above[i]], other if accent else paint))
        if skirted:
            foot, yaw, width = shell.wall(name)
            strip = box(f"skirting of the {name}", (width, *SKIRTING), white).moved((0, -SKIRTING[0] / 2, 0))
            parts += put([fixed(standing(strip, FLOOR), name)], yaw, foot)
    return parts
