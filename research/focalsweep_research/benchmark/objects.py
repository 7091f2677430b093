"""What benchmark scenes are made of: objects, textures and skies, from folders or generated, split into train and test.

A library holds only what its split may see: the rule goes by the place in the sorted list of names, so it is the same
on every machine, and the one for textures is that of the generator (`held_atlas`): a network trained on generated
scenes has not seen the textures of the test stacks either.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from focalsweep_research.synthesis.textures import procedural

Array = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
Rng = np.random.Generator

SPLITS = ("train", "test")
PROCEDURAL_OBJECTS = 60
PROCEDURAL_TEXTURES = 200
LEAST_TEXTURE_PX = 24


@dataclass(frozen=True, eq=False)
class Mesh:
    """A surface within the unit sphere about the origin, z up; uv has its origin at the lower left of the texture."""

    name: str
    vertices: Array  # V 3
    uv: Array  # V 2
    faces: npt.NDArray[np.uint32]  # F 3
    smooth: bool
    texture: Path | None  # None: takes one from the library
    reach: float = 0.1  # metres: the radius of that sphere before the mesh was scaled


@dataclass(frozen=True)
class Library:
    """The objects, textures and skies of one split, by name; the files are read when they are asked for."""

    split: str
    objects: tuple[str, ...]
    textures: tuple[str, ...]
    skies: tuple[str, ...]
    meshes_folder: Path | None
    textures_folder: Path | None
    skies_folder: Path | None

    def mesh(self, name: str) -> Mesh:
        return read_mesh(self.meshes_folder, name) if self.meshes_folder else procedural_mesh(name)

    def texture(self, name: str) -> Pixels:
        """H W 3, 8-bit sRGB."""
        if name.startswith("procedural_") or self.textures_folder is None:
            return procedural_texture(name)
        return read_texture(self.textures_folder, name)

    def sky(self, name: str) -> Path:
        assert self.skies_folder is not None
        return self.skies_folder / f"{name}.hdr"


def make_library(
    split: str, meshes: Path | None = None, textures: Path | None = None, skies: Path | None = None
) -> Library:
    """What stacks of a split are made of.

    Args:
        split: "train" or "test"; the two have no object, texture or sky in common.
        meshes: folder of NAME.npz (vertices, uv, faces; metres, z up) and NAME.jpg; without it objects are generated.
        textures: folder of pictures with an index.csv (name, box_x0, box_y0, box_x1, box_y1); joins generated ones.
        skies: folder of equirectangular NAME.hdr; without it the light is lamps and an even sky.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, but is {split!r}")
    kinds = ("box", "ball", "sheet", "can")
    generated = [f"{kinds[i % len(kinds)]}_{i:02d}" for i in range(PROCEDURAL_OBJECTS)]
    objects = _names(meshes, "npz", "--meshes") if meshes else generated
    patterns = [f"procedural_{i:03d}" for i in range(PROCEDURAL_TEXTURES)]
    maps = _names(skies, "hdr", "--skies") if skies else []
    library = Library(
        split,
        _part(objects, split, 5),
        (*_part(list(_boxes(textures)) if textures else [], split, 5), *_part(patterns, split, 5)),
        _part(maps, split, 3),
        meshes,
        textures,
        skies,
    )
    if not library.objects:
        raise ValueError(f"{meshes} has {len(objects)} meshes, but the split by object needs at least 5: add some")
    return library


def _part(names: list[str], split: str, every: int) -> tuple[str, ...]:
    """Every fifth (third, ...) is for the test, the others for training."""
    return tuple(name for i, name in enumerate(names) if (i % every == every - 1) == (split == "test"))


def _names(folder: Path, ending: str, flag: str) -> list[str]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{flag} {folder} is no folder: check the path")
    names = sorted(path.stem for path in folder.glob(f"*.{ending}"))
    if not names:
        raise FileNotFoundError(f"{flag} {folder} has no .{ending} files: give a folder of them")
    return names


@lru_cache(maxsize=512)
def read_mesh(folder: Path, name: str) -> Mesh:
    path = folder / f"{name}.npz"
    try:
        with np.load(path) as file:
            vertices, uv, faces = (np.asarray(file[key]) for key in ("vertices", "uv", "faces"))
    except KeyError as error:
        raise ValueError(f"{path} has no array {error}: it must have vertices, uv and faces") from None
    except (OSError, ValueError):
        raise ValueError(f"{path} cannot be read as a mesh: is it truncated or of another type?") from None
    fits = vertices.ndim == uv.ndim == faces.ndim == 2 and vertices.shape[1] == faces.shape[1] == 3
    if not fits or uv.shape != (len(vertices), 2) or faces.size == 0 or faces.min() < 0 or faces.max() >= len(vertices):
        shapes = f"{vertices.shape}, {uv.shape}, {faces.shape}"
        raise ValueError(f"{path} must have vertices V 3, uv V 2 and faces F 3 that count vertices, but has {shapes}")
    texture = folder / f"{name}.jpg"
    if not texture.is_file():
        raise FileNotFoundError(f"{texture} is missing: every mesh needs its texture beside it")
    mesh = _unit(name, vertices, uv, faces, smooth=False, texture=texture)
    return replace(mesh, reach=_reach(vertices))


def _unit(name: str, vertices: Any, uv: Any, faces: Any, smooth: bool, texture: Path | None = None) -> Mesh:
    vertices = np.asarray(vertices, np.float64)
    centred = vertices - (vertices.min(0) + vertices.max(0)) / 2
    reach = _reach(vertices)
    if not 0 < reach < np.inf:
        raise ValueError(f"{name}: the vertices of a mesh must be finite and not all in one place")
    return Mesh(name, centred / reach, np.asarray(uv, np.float64), np.asarray(faces, np.uint32), smooth, texture)


def _reach(vertices: Any) -> float:
    """From the middle of the bounding box to the farthest vertex."""
    vertices = np.asarray(vertices, np.float64)
    return float(np.linalg.norm(vertices - (vertices.min(0) + vertices.max(0)) / 2, axis=1).max())


@lru_cache(maxsize=4)
def _boxes(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """Name -> the part of the picture without filler: y0, y1, x0, x1."""
    path = folder / "index.csv"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: a folder of textures needs its index of boxes")
    try:
        with path.open(newline="") as file:
            keys = ("box_y0", "box_y1", "box_x0", "box_x1")
            boxes = {row["name"]: tuple(int(row[key]) for key in keys) for row in csv.DictReader(file)}
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} must have the columns name, box_x0, box_y0, box_x1, box_y1, in pixels") from None
    return boxes  # type: ignore[return-value]


@lru_cache(maxsize=512)
def read_texture(folder: Path, name: str) -> Pixels:
    y0, y1, x0, x1 = _boxes(folder)[name]
    path = folder / f"{name}.jpg"
    part = read_picture(path)[y0:y1, x0:x1]
    if min(part.shape[:2]) < LEAST_TEXTURE_PX:
        size = f"{part.shape[1]} x {part.shape[0]}"
        raise ValueError(f"{path}: its box in index.csv has {size} px, not {LEAST_TEXTURE_PX} a side: correct it")
    return np.ascontiguousarray(part)


def read_picture(path: Path) -> Pixels:
    """H W 3, 8-bit sRGB."""
    import cv2

    pixels = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if pixels is None:
        raise ValueError(f"{path} cannot be read as a picture: is it missing, truncated or of another type?")
    return np.ascontiguousarray(pixels[..., ::-1])


@lru_cache(maxsize=512)
def procedural_texture(name: str) -> Pixels:
    linear = procedural(np.random.default_rng([271, int(name.rsplit("_", 1)[1])]))
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(255 * np.clip(encoded, 0, 1)), np.uint8)


@lru_cache(maxsize=PROCEDURAL_OBJECTS)
def procedural_mesh(name: str) -> Mesh:
    """A box, a ball (an ellipsoid with bumps), a bent sheet, or a can, of random proportions."""
    kind, number = name.rsplit("_", 1)
    makers: dict[str, Callable[[Rng], tuple[Array, Array, Any]]] = {
        "box": _box,
        "ball": _ball,
        "sheet": _sheet,
        "can": _can,
    }
    vertices, uv, faces = makers[kind](np.random.default_rng([314, int(number)]))
    return _unit(name, vertices, uv, faces, smooth=kind != "box")


def _grid(points: Array) -> tuple[Array, Array, Any]:
    """A grid of points (rows, columns, 3) as a mesh whose texture covers it once."""
    rows, columns = points.shape[:2]
    v, u = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, columns), indexing="ij")
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    first = np.stack([corner, corner + 1, corner + columns], 1)
    second = np.stack([corner + 1, corner + columns + 1, corner + columns], 1)
    return points.reshape(-1, 3), np.stack([u, v], -1).reshape(-1, 2), np.concatenate([first, second])


def _box(rng: Rng) -> tuple[Array, Array, Any]:
    half = rng.uniform(0.25, 1.0, 3)
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    vertices: list[Array] = []
    uv, faces = [], []
    for axis in range(3):
        for side in (-1, 1):
            corners = np.empty((4, 3))
            corners[:, axis], corners[:, (axis + 1) % 3] = side, side * square[:, 0]
            corners[:, (axis + 2) % 3] = square[:, 1]
            faces += [[4 * len(vertices) + i for i in face] for face in ((0, 1, 2), (0, 2, 3))]
            vertices.append(corners * half)
            uv.append((square + 1) / 2)
    return np.concatenate(vertices), np.concatenate(uv), faces


def _ball(rng: Rng) -> tuple[Array, Array, Any]:
    turns, heights = (
        np.linspace(0, 2 * np.pi, 65),
        np.linspace(-0.499, 0.499, 33) * np.pi,
    )  # open by a hair at the poles
    latitude, longitude = np.meshgrid(heights, turns, indexing="ij")
    bumps = 1 + rng.uniform(0, 0.15) * np.sin(rng.integers(2, 6) * longitude) * np.cos(latitude) ** 2
    ring = np.cos(latitude)
    directions = np.stack([ring * np.cos(longitude), ring * np.sin(longitude), np.sin(latitude)], -1)
    return _grid(directions * bumps[..., None] * rng.uniform(0.5, 1.0, 3))


def _sheet(rng: Rng) -> tuple[Array, Array, Any]:
    v, u = np.meshgrid(np.linspace(-1, 1, 25), np.linspace(-1, 1, 25), indexing="ij")
    angle, waves = rng.uniform(0, np.pi), rng.uniform(0.5, 3.5)
    bend = rng.uniform(0.05, 0.4) * np.sin(waves * (u * np.cos(angle) + v * np.sin(angle)) + rng.uniform(0, 6))
    return _grid(np.stack([u * rng.uniform(0.5, 1), bend, v * rng.uniform(0.5, 1)], -1))


def _can(rng: Rng) -> tuple[Array, Array, Any]:
    radii = np.array([0.003, 0.98, 1, 1, 0.98, 0.003]) * rng.uniform([1, 1, 1, 0.6, 0.5, 1], 1)
    heights = np.array([-1, -1, -0.97, 0.9, 1, 1]) * rng.uniform(0.6, 1.8)
    angle = np.linspace(0, 2 * np.pi, 49)
    rings = [np.stack([r * np.cos(angle), r * np.sin(angle), 0 * angle], -1) for r in radii]
    return _grid(np.stack(rings) + heights[:, None, None] * [0, 0, 1])
