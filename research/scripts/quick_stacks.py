"""Focal stacks by the layered renderer, a fraction of a second each: rooms of NYU, and flat textured things.

For questions that take hundreds of stacks. Focus distances, lens, blur, noise and unit of length are drawn for each.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalsweep.optics.light import srgb_to_linear
from focalsweep.results.layered import render_layered
from focalsweep.types import Camera, FocalStack

Array = NDArray[np.float32]
HEIGHT, WIDTH = 240, 318
CAMERAS = (
    (0.0068, 0.0098, (1.7, 2.2)),
    (0.035, 0.0236, (2.0, 5.6)),
    (0.05, 0.036, (1.8, 8.0)),
    (0.085, 0.036, (2.8, 8.0)),
)
"""Focal length and width of the sensor in metres, and f-numbers: a phone, and larger cameras."""
SLICES = 60
LEAST_TEXTURE_PX = 100


@dataclass(frozen=True, eq=False)
class QuickStack:
    name: str
    stack: FocalStack
    depth: Tensor  # H W, metres


def quick_stack(data: Path, seed: int) -> QuickStack:
    """Even seeds are rooms, odd ones textured boxes over a floor; `data` has nyu/ and textures/."""
    rng = np.random.default_rng(seed)
    picture, depth = room_picture(data / "nyu", rng) if seed % 2 == 0 else boxes_picture(data / "textures", rng)
    frames = int(rng.integers(3, 9))
    near, far = np.quantile(1 / depth, [0.98, 0.02])
    span = near - far
    places = np.linspace(0, 1, frames) ** float(rng.choice([1, 1, 0.7, 1.4])) + rng.normal(0, 0.1 / frames, frames)
    inverse = np.clip(near + 0.05 * span - 1.1 * span * places, 0.02 * near, None)
    inverse = np.sort(inverse - 1e-4 * np.arange(frames))[::-1].copy()
    focal, sensor, stops = CAMERAS[rng.integers(len(CAMERAS))]
    camera = Camera(focal, float(np.exp(rng.uniform(*np.log(stops)))), sensor / WIDTH)
    # The scene is as far as gives the blur; no lens is focused much nearer than five times its focal length.
    slope = focal**2 / (camera.f_number * camera.pixel_pitch)  # px for each dioptre
    scale = max(slope * (inverse[0] - inverse[-1]) / float(rng.uniform(4, 18)), 5 * focal * inverse[0])
    focus = torch.from_numpy(1 / inverse) * scale
    magnification = 1 - focal / focus  # as registered frames have it
    metres = torch.from_numpy(depth * scale)
    images = render_layered(
        srgb_to_linear(torch.from_numpy(picture).movedim(-1, 0)), metres, camera, focus,
        slice_thickness=float(metres.max() - metres.min()) / SLICES, dilation_px=2, magnification=magnification,
    )  # fmt: skip
    noise = float(rng.choice([0.002, 0.005, 0.01]))
    grain = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    images = (images + noise * grain * (0.3 + images).sqrt()).clamp(0, 1)
    return QuickStack(
        f"{'boxes' if seed % 2 else 'room'}{seed}", FocalStack(images, focus, camera, magnification), metres
    )


def room_picture(folder: Path, rng: np.random.Generator) -> tuple[Array, Array]:
    import cv2

    files = sorted(folder.glob("*/*_rgb.jpg"))
    file = files[rng.integers(len(files))]
    steps = cv2.imread(str(file.with_name(file.name.replace("_rgb.jpg", "_depth.png"))), cv2.IMREAD_UNCHANGED)
    inside = (slice(48, 468), slice(44, 600))  # without the white frame
    picture: Any = cv2.resize(_read(file)[inside], (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    depth = (np.asarray(steps, dtype=np.float32)[inside] + 0.5) / 25.5
    return picture, np.asarray(cv2.resize(depth, (WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST), np.float32)


def boxes_picture(folder: Path, rng: np.random.Generator) -> tuple[Array, Array]:
    """A floor that rises into the distance, and upright things on it."""
    with (folder / "index.csv").open(newline="") as file:
        known = list(csv.DictReader(file))
    picture = _texture(folder, known, rng, HEIGHT, WIDTH)
    near, far = 1.0, float(rng.uniform(2, 4))
    down = np.linspace(0, 1, HEIGHT)[:, None] * np.ones((1, WIDTH))
    inverse = 1 / far + (0.7 / near - 1 / far) * rng.uniform(0.2, 1) * down
    for _ in range(rng.integers(2, 5)):
        height, width = int(rng.integers(40, 120)), int(rng.integers(40, 130))
        top, left = int(rng.integers(0, HEIGHT - height)), int(rng.integers(0, WIDTH - width))
        place = (slice(top, top + height), slice(left, left + width))
        inverse[place] = rng.uniform(inverse[top + height - 1, left], 1 / near)
        picture[place] = _texture(folder, known, rng, height, width)
    return picture, (1 / inverse).astype(np.float32)


def _texture(folder: Path, known: list[dict[str, str]], rng: np.random.Generator, height: int, width: int) -> Array:
    """A cut of a texture without its filler, mirrored where it is too small."""
    import cv2

    while True:
        row = known[rng.integers(len(known))]
        top, bottom, left, right = (int(row[f"box_{end}"]) for end in ("y0", "y1", "x0", "x1"))
        if min(bottom - top, right - left) >= LEAST_TEXTURE_PX:
            break
    cut: Any = _read(folder / f"{row['name']}.jpg")[top:bottom, left:right]
    if max(height / cut.shape[0], width / cut.shape[1]) > 1:
        cut = np.concatenate([cut, cut[:, ::-1]], 1)
        cut = np.concatenate([cut, cut[::-1]], 0)
    times = 1.01 * max(height / cut.shape[0], width / cut.shape[1])
    cut = cv2.resize(cut, None, fx=times, fy=times, interpolation=cv2.INTER_AREA)
    resized: Array = np.asarray(cut, dtype=np.float32)[:height, :width]
    return resized.clip(0, 1)


def _read(path: Path) -> Array:
    import cv2

    stored: Any = cv2.imread(str(path))
    return np.asarray(stored[..., ::-1], dtype=np.float32) / np.float32(255)
