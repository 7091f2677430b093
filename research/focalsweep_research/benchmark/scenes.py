"""The scenes of the rendered benchmark: objects on a table, in a room or in mid-air before textured walls.

A scene is a plain description that depends on nothing but the random generator and the library; `renderer.py` renders
it. The frame of a room: metres, the lens at the origin, x to the right, y away from the camera, z up. Lengths grow
with the depth range asked for, and objects are scaled to a share of the picture, as in DefocusNet's data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from focalsweep_research.benchmark.objects import Library

Array = npt.NDArray[np.float64]
Rng = np.random.Generator

MOST_TRIES = 30
NEAR_MARGIN = 1.04  # nothing stands nearer than this times the near end of the depth range
VERSION = 2  # of the layout: another one means other scenes for the same seed
DESIGN_FAR = 3.0  # metres: lengths of a room below are for this range, and scale with it


@dataclass(frozen=True)
class View:
    """What the camera sees: tangents of the half angles, and the depths that scenes should fill."""

    half_width: float
    half_height: float
    near: float
    far: float


@dataclass(frozen=True)
class Material:
    """kind: "diffuse", "plastic" or "metal"; a texture by name, or one colour (linear light) where that is ""."""

    kind: str
    texture: str
    colour: tuple[float, float, float]
    roughness: float
    own_texture: bool = False  # that which came with the mesh


@dataclass(frozen=True, eq=False)
class Thing:
    """A mesh in place: rotation, then scaling of its unit sphere to `radius`, then `centre`."""

    name: str
    rotation: Array  # 3 3
    centre: Array
    radius: float
    material: Material


@dataclass(frozen=True, eq=False)
class Plane:
    """A large rectangle through `centre`; its texture repeats, mirrored, every `tile` metres."""

    centre: Array
    right: Array
    up: Array
    half: tuple[float, float]
    tile: float
    material: Material

    @property
    def normal(self) -> Array:
        return np.cross(self.right, self.up)


@dataclass(frozen=True, eq=False)
class Lamp:
    """A square that shines on `target`, where it gives about `irradiance`."""

    centre: Array
    target: Array
    half: float
    irradiance: float
    colour: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene, and the camera's axes in it: rows right, up, forward."""

    kind: str
    axes: Array
    planes: list[Plane]
    things: list[Thing]
    lamps: list[Lamp]
    sky: str  # "": an even sky of `sky_colour`
    sky_colour: tuple[float, float, float]
    sky_turn_deg: float

    @property
    def textures(self) -> list[str]:
        """Names of the library's textures on anything, in sight or not."""
        materials = [plane.material for plane in self.planes] + [thing.material for thing in self.things]
        return sorted({material.texture for material in materials if material.texture})


def draw_scene(rng: Rng, library: Library, view: View) -> Scene:
    kind = str(rng.choice(["table", "room", "mid-air"], p=[0.45, 0.2, 0.35]))
    unit = view.far / DESIGN_FAR
    pitch_deg = rng.uniform(*{"table": (8, 32), "room": (0, 18), "mid-air": (-12, 25)}[kind])
    roll_deg = float(np.clip(rng.normal(0, 3 if kind != "mid-air" else 10), -20, 20))
    axes = camera_axes(math.radians(pitch_deg), math.radians(roll_deg))
    height = unit * _log_uniform(rng, *{"table": (0.14, 0.5), "room": (0.25, 0.8), "mid-air": (0.25, 0.8)}[kind])
    # The lowest ray of the picture must not meet the table before the near end of the range.
    reach = abs(axes[2, 2]) + (view.half_height + view.half_width * abs(math.sin(math.radians(roll_deg))))
    height = max(height, 1.2 * NEAR_MARGIN * view.near * reach)
    planes, edge = draw_room(rng, library, view, kind, math.radians(pitch_deg), height, unit)
    things = draw_things(rng, library, view, axes, planes, kind, height, edge)
    lamps = [draw_lamp(rng, view, axes, planes) for _ in range(rng.integers(1, 3))]
    sky = str(rng.choice(library.skies)) if library.skies and rng.random() < 0.5 else ""
    tint = 1 + rng.uniform(-0.15, 0.15, 3)
    return Scene(kind, axes, planes, things, lamps, sky, _triple(tint * rng.uniform(0.15, 0.6)), rng.uniform(0, 360))


def camera_axes(pitch: float, roll: float) -> Array:
    """Rows right, up, forward of a camera that looks along y, tilted down by `pitch` and turned by `roll`."""
    right, forward = np.array([1.0, 0, 0]), np.array([0, math.cos(pitch), -math.sin(pitch)])
    up = np.cross(right, forward)
    turned = math.cos(roll) * right + math.sin(roll) * up
    return np.stack([turned, np.cross(turned, forward), forward])


def draw_room(
    rng: Rng, library: Library, view: View, kind: str, pitch: float, height: float, unit: float
) -> tuple[list[Plane], float]:
    """Walls, floor and table, and how far the table reaches (y)."""
    back = unit * _log_uniform(rng, *{"table": (0.6, 3.0), "room": (1.0, 3.3), "mid-air": (0.4, 2.4)}[kind])
    back = max(back, 4 * view.near)  # room for objects
    yaw = math.radians(rng.uniform(-30, 30))
    large = 6 * unit
    across = 2 * view.half_width

    def wall(centre: Array, facing: float, top: float) -> Plane:
        """An upright plane turned about z, 0 faces the camera; the sky shines in over its top."""
        right = np.array([math.cos(facing), math.sin(facing), 0.0])
        tile = across * float(np.linalg.norm(centre)) * _log_uniform(rng, 0.25, 0.9)
        middle, half = centre + np.array([0, 0, (top - large) / 2]), (top + large) / 2
        return Plane(middle, right, np.array([0.0, 0, 1]), (large, half), tile, draw_material(rng, library, 0.12))

    def flat(level: float, end: float, tile: float) -> Plane:
        turn = rng.uniform(-math.pi, math.pi) if math.isinf(end) else rng.uniform(-0.25, 0.25)
        right = np.array([math.cos(turn), math.sin(turn), 0.0])
        up = np.array([-right[1], right[0], 0.0])
        centre = np.array([0.0, 0, level]) if math.isinf(end) else np.array([0.0, 0, level]) + (end - large) * up
        return Plane(centre, right, up, (large, large), tile, draw_material(rng, library, 0.08))

    # The highest ray of the picture, where it meets the back wall.
    sight = 1.3 * back * math.tan(max(0.1, math.atan(view.half_height) - pitch))
    planes = [wall(np.array([0.0, back, 0]), yaw, sight * rng.uniform(0.75, 1.5))]
    for side in (-1, 1):
        if rng.random() < 0.45:
            turn = side * (-math.pi / 2 + rng.uniform(-0.35, 0.35))
            aside = np.array([side * unit * rng.uniform(0.4, 1.4), 0.0, 0])
            planes.append(wall(aside, turn, sight * rng.uniform(0.75, 1.3)))
    edge = math.inf
    if kind == "table":
        edge = math.inf if rng.random() < 0.5 else unit * rng.uniform(0.5, 2.0)
        planes.append(flat(-height, edge, height * _log_uniform(rng, 0.4, 1.4)))
    if kind == "room" or not math.isinf(edge) or (kind == "mid-air" and rng.random() < 0.6):
        drop = 0.0 if math.isinf(edge) else unit * rng.uniform(0.35, 0.8)
        planes.append(flat(-height - drop, math.inf, (height + drop) * _log_uniform(rng, 0.4, 1.2)))
    return planes, edge


def draw_things(
    rng: Rng, library: Library, view: View, axes: Array, planes: list[Plane], kind: str, height: float, edge: float
) -> list[Thing]:
    """Objects at all depths, none through another, a wall or the camera; few close ones, which hide the rest."""
    things: list[Thing] = []
    count = int(rng.integers(12, 27))
    standing = {"table": 0.65, "room": 0.55, "mid-air": 0.0}[kind]
    covered, back = 0.0, float(planes[0].centre[1])
    for _ in range(count):
        name = str(rng.choice(library.objects))
        upright = rng.random() < standing
        rotation = _yaw(rng) if upright and rng.random() < 0.6 else random_rotation(rng)
        # One of each kind in every scene: the same shaders everywhere, which a GPU compiles only once.
        kind_of_it = ("metal", "plastic", "diffuse")[len(things)] if len(things) < 3 else ""
        material = draw_material(rng, library, 0.1, library.meshes_folder is not None, kind_of_it)
        vertices = library.mesh(name).vertices @ rotation.T
        for _ in range(MOST_TRIES):
            share = _log_uniform(rng, 0.16, 0.6)
            depth = _draw_depth(rng, view, back)
            radius = share * view.half_width * depth
            # A tilted view has corners nearer than its middle: what counts is depth along the axis.
            depth = max(depth, NEAR_MARGIN * view.near + radius)
            x, y = rng.uniform(-1.0, 1.0, 2)
            centre = depth * (x * view.half_width * axes[0] + y * view.half_height * axes[1] + axes[2])
            if upright:
                centre[2] = -height - radius * vertices[:, 2].min() + 0.0005 * radius
                seen = axes @ centre
                outside = abs(seen[1]) > view.half_height * seen[2] + 0.5 * radius or centre[1] > edge - radius
                if outside or seen[2] - radius < NEAR_MARGIN * view.near:
                    continue
            close = depth < min(4 * view.near, 0.5 * back)
            apart = all(np.linalg.norm(centre - other.centre) > 0.7 * (radius + other.radius) for other in things)
            if apart and _inside(centre, radius, planes, upright) and not (close and covered + share**2 > 0.4):
                covered += share**2 if close else 0.0
                things.append(Thing(name, rotation, centre, radius, material))
                break
    return things


def _draw_depth(rng: Rng, view: View, back: float) -> float:
    """Evenly in inverse depth, in the logarithm of depth or in depth: the rest of the scene tends to be far."""
    near, far = 1.1 * NEAR_MARGIN * view.near, min(0.95 * view.far, back)
    kind = rng.random()
    if kind < 0.5:
        return float(1 / rng.uniform(1 / far, 1 / near))
    return _log_uniform(rng, near, far) if kind < 0.85 else float(rng.uniform(near, far))


def _inside(centre: Array, radius: float, planes: list[Plane], upright: bool) -> bool:
    """Before every wall and above every floor; what stands may touch the floor."""
    for plane in planes:
        normal = plane.normal * math.copysign(1, -plane.normal @ plane.centre)  # towards the camera
        if upright and abs(normal[2]) > 0.5:
            continue
        if (centre - plane.centre) @ normal < 0.8 * radius:
            return False
    return True


def draw_material(rng: Rng, library: Library, plain: float, own: bool = False, kind: str = "") -> Material:
    """Mostly matte and textured, some glossy, some metal; a share `plain` has no texture at all."""
    drawn = str(rng.choice(["diffuse", "plastic", "metal"], p=[0.6, 0.3, 0.1]))
    texture = str(rng.choice(library.textures))
    if own and rng.random() < 0.85:
        texture = ""
    colour = _triple(rng.uniform(0.15, 0.75) * (1 + rng.uniform(-0.35, 0.35, 3)))
    bare = rng.random() < plain
    shown = "" if bare else texture
    return Material(kind or drawn, shown, colour, rng.uniform(0.15, 0.4), own_texture=own and not bare and not shown)


def draw_lamp(rng: Rng, view: View, axes: Array, planes: list[Plane]) -> Lamp:
    """Above or beside the camera, out of its sight and within the walls, turned to a place before it."""
    unit = view.far / DESIGN_FAR
    back = float(planes[0].centre[1]) / unit
    out = math.hypot(view.half_width, view.half_height) + 0.35
    half = unit * rng.uniform(0.15, 0.45)
    for _ in range(200):
        direction = rng.normal(0, 1, 3)
        direction[2] = abs(direction[2]) + 0.4
        direction /= np.linalg.norm(direction)
        centre = unit * rng.uniform(0.8, 1.8) * direction
        right, up, forward = axes @ direction
        if (forward < 0.1 or math.hypot(right, up) > out * forward) and _inside(centre, 0.5 * half, planes, False):
            break
    else:  # a narrow room: from behind the camera
        centre = unit * np.array([0.0, -1.0, 0.8])
    target = unit * np.array([rng.uniform(-0.3, 0.3), rng.uniform(0.3, 1.0) * min(1.3, back), -0.1])
    return Lamp(centre, target, half, _log_uniform(rng, 0.8, 4.0), _triple(1 + rng.uniform(-0.25, 0.25, 3)))


def random_rotation(rng: Rng) -> Array:
    """Uniform over all rotations (a random unit quaternion)."""
    w, x, y, z = (q := rng.normal(0, 1, 4)) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _yaw(rng: Rng) -> Array:
    angle = rng.uniform(0, 2 * math.pi)
    return np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1.0]])


def _log_uniform(rng: Rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def _triple(values: Array) -> tuple[float, float, float]:
    red, green, blue = np.clip(values, 0.02, 2.0).tolist()
    return red, green, blue
