"""Textures for generated scenes: procedural ones of many kinds, and pictures from a folder if one is given.

An atlas holds all of them with their halved copies (mip levels), as 8-bit square roots of linear light packed into one
integer a texel, so that a tracer fetches a texel with one load.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

SIZE = 256  # texels a side, of the finest level
LEVELS = 6
TEXELS = sum((SIZE >> level) ** 2 for level in range(LEVELS))

Array = npt.NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Atlas:
    """T textures; texel (y, x) of level l of texture t is at t * TEXELS + level_start(l) + y * (SIZE >> l) + x."""

    words: Tensor  # T * TEXELS, int32: r | g << 8 | b << 16
    means: Tensor  # T 3, linear light

    @property
    def count(self) -> int:
        return len(self.words) // TEXELS

    def to(self, device: torch.device) -> Atlas:
        return Atlas(self.words.to(device), self.means.to(device))


def make_atlas(count: int, seed: int, pictures: list[Array] | None = None) -> Atlas:
    """`count` procedural textures, and the pictures (SIZE SIZE 3, linear light)."""
    textures = [*(procedural(np.random.default_rng([seed, i])) for i in range(count)), *(pictures or [])]
    means = np.stack([texture.mean((0, 1)) for texture in textures])
    words = np.concatenate([_pack(texture) for texture in textures])
    return Atlas(torch.from_numpy(words), torch.from_numpy(means.astype(np.float32)))


def _pack(texture: Array) -> npt.NDArray[np.int32]:
    """All levels of a texture, SIZE SIZE 3 in linear light, as integers."""
    levels = []
    for _ in range(LEVELS):
        code = np.rint(255 * np.sqrt(np.clip(texture, 0, 1))).astype(np.int32)
        levels.append((code[..., 0] | code[..., 1] << 8 | code[..., 2] << 16).ravel())
        texture = (texture[0::2, 0::2] + texture[0::2, 1::2] + texture[1::2, 0::2] + texture[1::2, 1::2]) / 4
    return np.concatenate(levels)


def procedural(rng: Rng) -> Array:
    """A tileable texture, SIZE SIZE 3 in linear light: a pattern between two or three colours, and fine grain."""
    kinds: list[Callable[[Rng], Array]] = [_clouds, _clouds, _stripes, _checks, _dots, _cells, _glyphs, _weave, _wood]
    pattern = kinds[rng.integers(len(kinds))](rng)
    dark, bright = _colours(rng)
    texture = dark + (bright - dark) * pattern[..., None]
    if rng.random() < 0.5:
        accent = _clouds(rng)[..., None] > rng.uniform(0.55, 0.8)
        texture = np.where(accent, texture * rng.uniform(0.3, 1.0, 3) + 0.2 * rng.random(3), texture)
    grain = _noise(rng, rng.uniform(0.0, 1.2)) * rng.choice([0.0, 0.03, 0.1])
    return np.asarray(np.clip(texture * (1 + grain[..., None]), 0.0, 1.0))


def _colours(rng: Rng) -> tuple[Array, Array]:
    base = rng.uniform(0.1, 0.7, 3)
    contrast = rng.uniform(0.2, 0.8)
    tint = rng.uniform(-0.25, 0.25, 3)
    return np.clip(base - contrast / 2 - tint, 0.01, 1), np.clip(base + contrast / 2 + tint, 0.01, 1)


def _noise(rng: Rng, slope: float) -> Array:
    """Tileable noise with amplitudes 1 / frequency^slope, mean 0, std 1."""
    f = np.hypot(np.fft.fftfreq(SIZE)[:, None], np.fft.fftfreq(SIZE))
    f[0, 0] = np.inf
    values = np.fft.ifft2(np.fft.fft2(rng.standard_normal((SIZE, SIZE))) / f**slope).real
    return np.asarray((values - values.mean()) / values.std())


def _clouds(rng: Rng) -> Array:
    return np.asarray(np.clip(0.5 + 0.25 * _noise(rng, rng.uniform(0.6, 1.8)), 0, 1))


def _grid(rng: Rng, most: int) -> tuple[Array, Array]:
    """Coordinates 0..1 with whole repeats (it stays tileable), a little warped."""
    y, x = np.meshgrid(np.arange(SIZE) / SIZE, np.arange(SIZE) / SIZE, indexing="ij")
    repeats = rng.integers(2, most, 2)
    warp = rng.choice([0.0, 0.01, 0.03])
    return y * repeats[0] + warp * repeats[0] * _noise(rng, 2.0), x * repeats[1] + warp * repeats[1] * _noise(rng, 2.0)


def _stripes(rng: Rng) -> Array:
    y, x = _grid(rng, 24)
    phase = np.sin(2 * np.pi * (x if rng.random() < 0.5 else np.floor(y) + x))
    sharpness = rng.choice([1.0, 4.0, 40.0])
    return np.asarray(0.5 + 0.5 * np.tanh(sharpness * (phase - rng.uniform(-0.6, 0.6))))


def _checks(rng: Rng) -> Array:
    y, x = _grid(rng, 20)
    squares = (np.floor(y) + np.floor(x)) % 2
    shade = rng.random((64, 64))[np.floor(y).astype(int) % 64, np.floor(x).astype(int) % 64]
    return np.asarray(squares * (1 - 0.5 * shade) if rng.random() < 0.5 else shade)


def _dots(rng: Rng) -> Array:
    y, x = _grid(rng, 22)
    radius = rng.uniform(0.15, 0.45)
    distance = np.hypot(y % 1 - 0.5, x % 1 - 0.5)
    return np.asarray(1 / (1 + np.exp((distance - radius) * rng.uniform(20, 80))))


def _cells(rng: Rng) -> Array:
    """The nearest of some scattered points: stones, leather, terrazzo."""
    points = rng.random((rng.integers(20, 160), 2))
    y, x = np.meshgrid(np.arange(SIZE) / SIZE, np.arange(SIZE) / SIZE, indexing="ij")
    nearest, second, owner = np.full((SIZE, SIZE), 9.0), np.full((SIZE, SIZE), 9.0), np.zeros((SIZE, SIZE), int)
    for i, (py, px) in enumerate(points):
        dy, dx = np.abs(y - py), np.abs(x - px)
        distance = np.hypot(np.minimum(dy, 1 - dy), np.minimum(dx, 1 - dx))
        closer = distance < nearest
        second = np.where(closer, nearest, np.minimum(second, distance))
        owner, nearest = np.where(closer, i, owner), np.minimum(nearest, distance)
    border = np.clip((second - nearest) * rng.uniform(30, 120), 0, 1)
    return np.asarray(border * rng.random(len(points))[owner] if rng.random() < 0.7 else border)


def _glyphs(rng: Rng) -> Array:
    """Lines of random strokes: print."""
    page = np.ones((SIZE, SIZE))
    height = int(rng.integers(7, 20))
    for top in range(1, SIZE - height, height + int(rng.integers(2, 8))):
        left = int(rng.integers(0, 10))
        while left < SIZE - height:
            width = int(rng.integers(3, height))
            if rng.random() > 0.15:
                glyph = rng.random((height // 2 + 1, width // 2 + 1)) < 0.45
                block = np.kron(glyph, np.ones((2, 2)))[:height, :width]
                page[top : top + height, left : left + width] = 1 - block
            left += width + int(rng.integers(1, 4))
    return page if rng.random() < 0.7 else 1 - page


def _weave(rng: Rng) -> Array:
    y, x = _grid(rng, 48)
    over = (np.floor(y) + np.floor(x)) % 2
    return np.asarray(np.where(over > 0, np.abs(np.sin(np.pi * y)), np.abs(np.sin(np.pi * x))) * rng.uniform(0.6, 1.0))


def _wood(rng: Rng) -> Array:
    rings = _noise(rng, 2.2) * rng.uniform(2, 6)
    fibre = np.repeat(_noise(rng, 0.3)[:, :: SIZE // 16], SIZE // 16, axis=1)
    return np.asarray(np.clip(0.5 + 0.35 * np.sin(2 * np.pi * rings) + 0.1 * fibre, 0, 1))


def read_pictures(folder: Path, keep: Callable[[int], bool] = lambda _: True) -> list[Array]:
    """The pictures of a folder with an index.csv (name and the box without filler), each cut and resized to SIZE.

    `keep` chooses by position in the index, for held-out ones.
    """
    import cv2

    pictures = []
    with (folder / "index.csv").open(newline="") as file:
        rows = [row for i, row in enumerate(csv.DictReader(file)) if keep(i)]
    for row in rows:
        path = folder / f"{row['name']}.jpg"
        pixels = cv2.imread(str(path))
        if pixels is None:
            raise ValueError(f"{path} cannot be read as a picture: is it truncated or of another type?")
        y0, y1, x0, x1 = (int(row[key]) for key in ("box_y0", "box_y1", "box_x0", "box_x1"))
        side = min(y1 - y0, x1 - x0)
        square = cv2.resize(pixels[y0 : y0 + side, x0 : x0 + side], (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        encoded = square[..., ::-1].astype(np.float64) / 255
        pictures.append(np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4))
    return pictures
