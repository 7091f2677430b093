"""Random scenes and cameras, described by numbers that the tracer reads.

Coordinates are the camera's: x right, y down, z along the optical axis, metres. All draws of a scene come from its own
NumPy generator, so a scene is the same whatever else is in its batch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

EMPTY, ELLIPSOID, BOX, SHEET, CYLINDER, CARD = range(6)
WAVES = 3
LIGHT = 10  # numbers that say how a scene is lit
SUN = 1e6  # metres: as far as light comes from in scenes without a lamp
THING_PX, ROOM_THING_PX = (5.0, 70.0), (10.0, 160.0)  # half the size of a thing, before its proportions
PLAINNESS, ROOM_PLAINNESS = (0.06, 0.15), (0.2, 0.6)  # share of surfaces without texture, and of those nearly so
SKY = 0.5  # share of scenes with lights whose background burns out too

Array = npt.NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Scenes:
    """B scenes of P solids. A solid's local frame has its own axes (rows of `axes`) and its centre as origin.

    Ellipsoids and boxes end at `half` along their axes, and so do cylinders, whose axis is local z. Sheets are endless:
    local z is the sum of `waves`, amplitude * sin(kx x + ky y + phase); without waves they are planes. Cards are flat
    rectangles across local z, there only where the sum of their waves is at least half[2]: fences, leaves, letters.
    """

    kind: Tensor  # B P, int32
    centre: Tensor  # B P 3
    axes: Tensor  # B P 3 3
    half: Tensor  # B P 3
    waves: Tensor  # B P WAVES 4: amplitude, kx, ky, phase
    texture: Tensor  # B P, int32: number in the atlas
    mapping: Tensor  # B P 3: texels a metre, offset in texels
    tint: Tensor  # B P 3: albedo where the texture is 1
    contrast: Tensor  # B P: 0 is the texture's mean everywhere
    gloss: Tensor  # B P 2: strength of the highlight, its exponent
    light: Tensor  # B LIGHT: the lamp's place 3, share of ambient light, the lamp's radius, strength of shadows and of
    # ambient occlusion 0..1, where up is 3 (nowhere: ambient light comes from everywhere alike)

    @property
    def extent(self) -> Tensor:  # B P 3
        """`half`, without the number that cuts out cards."""
        flat = (self.kind == CARD)[..., None] & (torch.arange(3, device=self.kind.device) == 2)
        return torch.where(flat, 1.0, self.half)

    def one(self, number: int) -> Scenes:
        """A batch of that scene alone."""
        return Scenes(**{field.name: getattr(self, field.name)[number : number + 1] for field in fields(self)})

    def to(self, device: torch.device) -> Scenes:
        return Scenes(**{field.name: getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)})


@dataclass(frozen=True)
class View:
    """Where a scene must lie to be seen: inverse depths, and the picture's size."""

    near: float  # 1/m
    far: float  # 1/m
    focal_px: float
    height: int
    width: int


def random_scene(rng: Rng, view: View, textures: int, solids: int, room: bool = False) -> dict[str, Array]:
    """The fields of `Scenes` for one scene of up to `solids` solids: sheets behind, things before them.

    A `room` is what photos indoors show: larger things, and most surfaces nearly plain.
    """
    scene = empty_scene(solids)
    count = 0
    for _ in range(rng.choice([1, 2, 2, 3])):
        _add_sheet(rng, view, scene, count)
        count += 1
    things = int(rng.integers(2, solids - count + 1))
    _add_things(rng, view, scene, slice(count, count + things), ROOM_THING_PX if room else THING_PX)
    count += things
    scene["texture"][:count] = rng.integers(0, textures, count)
    _paint(rng, view, scene, count, ROOM_PLAINNESS if room else PLAINNESS)
    direction = rng.standard_normal(3) * [1, 1, 0.5] + [0, -1.0, -1.5]
    scene["light"][:4] = [*(direction / np.linalg.norm(direction) * SUN), rng.uniform(0.3, 0.9)]
    return scene


def stack_scenes(scenes: list[dict[str, Array]]) -> Scenes:
    """Scenes as one batch of float32 tensors, with room for the solids of the largest."""
    most = max(len(scene["kind"]) for scene in scenes)
    scenes = [_with_room(scene, most) for scene in scenes]
    batch = {}
    for field in fields(Scenes):
        array = np.stack([scene[field.name] for scene in scenes])
        integer = field.name in ("kind", "texture")
        batch[field.name] = torch.from_numpy(array.astype(np.int32 if integer else np.float32))
    return Scenes(**batch)


def empty_scene(solids: int) -> dict[str, Array]:
    """The fields of a scene with room for `solids` solids and none of them there."""
    return {
        "kind": np.zeros(solids),
        "centre": np.zeros((solids, 3)),
        "axes": np.tile(np.eye(3), (solids, 1, 1)),
        "half": np.ones((solids, 3)),
        "waves": np.zeros((solids, WAVES, 4)),
        "texture": np.zeros(solids),
        "mapping": np.ones((solids, 3)),
        "tint": np.ones((solids, 3)),
        "contrast": np.ones(solids),
        "gloss": np.tile([0.0, 1.0], (solids, 1)),
        "light": np.zeros(LIGHT),
    }


def _with_room(scene: dict[str, Array], solids: int) -> dict[str, Array]:
    missing = solids - len(scene["kind"])
    if not missing:
        return scene
    more = empty_scene(missing)
    return {name: values if name == "light" else np.concatenate([values, more[name]]) for name, values in scene.items()}


def _add_sheet(rng: Rng, view: View, scene: dict[str, Array], i: int) -> None:
    """A wall, floor or hillside.

    A plane's inverse depth is linear in the picture, u = a x + b y + c: choosing that chooses a X + b Y + c Z = 1.
    """
    span = view.near - view.far
    reach_x, reach_y = view.width / 2 / view.focal_px, view.height / 2 / view.focal_px
    if i == 0:  # something behind everything, everywhere
        middle = view.far + span * rng.uniform(0.02, 0.4)
        tilt = min(middle - view.far, view.near - middle) * rng.uniform(0, 0.7)  # in sight in the corners too
    else:
        middle = view.far + span * rng.uniform(-0.3, 0.6)
        tilt = (view.near - middle) * rng.uniform(0.3, 1.0)
    angle = rng.uniform(0, 2 * np.pi) if rng.random() < 0.5 else rng.choice([0.5, 1.5]) * np.pi
    a, b = tilt * np.cos(angle) / reach_x, tilt * np.sin(angle) / reach_y
    normal = np.array([a, b, max(middle, 0.02 * span)])
    scene["kind"][i] = SHEET
    scene["centre"][i] = normal / (normal @ normal)
    scene["axes"][i] = _frames(normal[None], rng)[0]
    depth = scene["centre"][i][2]
    if rng.random() < 0.4:
        for wave in scene["waves"][i]:
            length_px = np.exp(rng.uniform(np.log(40), np.log(400)))
            k = 2 * np.pi / (length_px / view.focal_px * depth)
            direction = rng.uniform(0, 2 * np.pi)
            slope = rng.uniform(0.02, 0.18)  # gentle enough for the tracer's Newton steps
            wave[:] = [slope / k, k * np.cos(direction), k * np.sin(direction), rng.uniform(0, 2 * np.pi)]


def _add_things(
    rng: Rng, view: View, scene: dict[str, Array], where: slice, half_px: tuple[float, float] = THING_PX
) -> None:
    """Ellipsoids and boxes anywhere in sight, their fronts at random inverse depths; one in four is thin."""
    count = where.stop - where.start
    depth = 1 / np.maximum(rng.uniform(view.far, view.near, count), 0.03 * view.near)
    middle = rng.uniform(-0.55, 0.55, (count, 2)) * [view.width / view.focal_px, view.height / view.focal_px]
    metres_a_px = (depth / view.focal_px)[:, None]
    low, high = np.log(half_px)
    size_px = np.exp(rng.uniform(low, high, (count, 1)) + rng.uniform(-0.6, 0.6, (count, 3)))
    thin_sides = np.where(rng.random(count) < 0.25, rng.integers(1, 3, count), 0)
    thin = rng.random((count, 3)).argsort(1) < thin_sides[:, None]
    half = np.where(thin, rng.uniform(0.6, 3.0, (count, 3)), size_px) * metres_a_px
    axes = _frames(rng.standard_normal((count, 3)), rng)
    extent = (np.abs(axes[:, :, 2]) * half).sum(1)
    scene["kind"][where] = np.where(rng.random(count) < 0.5, ELLIPSOID, BOX)
    scene["centre"][where] = np.concatenate([middle, np.ones((count, 1))], 1) * (depth + extent)[:, None]
    scene["axes"][where] = axes
    scene["half"][where] = half


def _paint(
    rng: Rng, view: View, scene: dict[str, Array], count: int, plainness: tuple[float, float] = PLAINNESS
) -> None:
    """Colours and texture coordinates: about one texel a pixel, give or take two octaves; some things are plain."""
    here = slice(count)
    octaves = np.exp(rng.uniform(np.log(0.3), np.log(2.5), count))
    scene["mapping"][here, 0] = view.focal_px / scene["centre"][here, 2] * octaves
    scene["mapping"][here, 1:] = rng.uniform(0, 4096, (count, 2))
    scene["tint"][here] = np.clip(rng.uniform(0.5, 1.1, (count, 1)) + rng.uniform(-0.25, 0.25, (count, 3)), 0.1, 1.2)
    plain, faint, clear = rng.random(count), rng.uniform(0.0, 0.15, count), rng.uniform(0.3, 1, count)
    scene["contrast"][here] = np.where(plain < plainness[0], 0.0, np.where(plain < plainness[1], faint, clear))


def light_up(rng: Rng, scene: dict[str, Array]) -> None:
    """One or two surfaces shine, far brighter than the rest: lamps, windows; often what is behind all, the sky.

    Of what burns out no frame tells the depth, so a network must learn where such things are.
    """
    there = np.flatnonzero(scene["kind"] != EMPTY)
    for i in rng.choice(there, min(len(there), int(rng.integers(1, 3))), replace=False):
        scene["tint"][i] *= np.exp(rng.uniform(np.log(2), np.log(12)))
        if rng.random() < 0.5:
            scene["contrast"][i] *= rng.uniform(0, 0.3)
    if rng.random() < SKY:
        scene["tint"][0] = scene["tint"][0].max() * np.exp(rng.uniform(np.log(8), np.log(30)))  # the sheet behind all
        scene["contrast"][0] *= rng.uniform(0, 0.3)


def _frames(third: Array, rng: Rng) -> Array:
    """Right-handed frames whose third axes are given (n 3, any length), turned at random about them; rows are axes."""
    third = third / np.linalg.norm(third, axis=1, keepdims=True)
    first = np.cross(third, rng.standard_normal(third.shape))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return np.stack([first, np.cross(third, first), third], 1)
