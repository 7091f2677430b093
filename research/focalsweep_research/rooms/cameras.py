"""The three cameras of `rooms`, and the depths that a stack of each shows.

Pictures are reduced copies of those of the whole sensor: a pixel is as many micrometres wide as the sensor's width over
the picture's pixels. With a constant field of view the blur, in pixels, is `blur_px_per_dioptre` times the distance
from the focus in dioptres:

    phone   6.8 mm f/1.85, 8.5 mm wide, 512 px:   1.51 px a dioptre, scenes from 0.10 to 0.22 m on: 6 to 15 px
    slr     50 mm f/2.8, 22.3 mm wide, 512 px:   20.5 px a dioptre, scenes from 0.55 to 1.2 m on: 7 to 30 px
    paper   2.9 mm f/1, 3.1 mm wide, 256 px:      0.69 px a dioptre, scenes from 0.1 m on: 5 to 7 px
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from focalsweep.types import Camera
from focalsweep_research.benchmark.renderer import RenderConfig

Rng = np.random.Generator
Range = tuple[float, float]


@dataclass(frozen=True)
class RoomCamera:
    """Ranges are drawn from evenly in the logarithm; lengths are metres.

    Args:
        focal_length, f_number, sensor_width: of the lens and the whole sensor.
        size: rows and columns of the pictures.
        focus_distances: of the frames; without them `frames` are spread over the scene's dioptres.
        nearest, farthest: what a scene shows, about.
        scale: of the rooms and all in them: the paper's camera sees no farther than 3 m, so its rooms are smaller.
    """

    name: str
    focal_length: float
    f_number: float
    sensor_width: float
    size: tuple[int, int]
    nearest: Range
    farthest: Range
    scale: Range = (1.0, 1.0)
    frames: int = 5
    focus_distances: tuple[float, ...] = ()

    def reduced(self, by: int) -> RoomCamera:
        """Pictures of so many times fewer pixels a side, for a quick look."""
        return replace(self, size=(max(8, self.size[0] // by), max(8, self.size[1] // by)))

    def config(self, near: float, far: float, samples: int, seed: int, rng: Rng) -> RenderConfig:
        """For a scene between these depths."""
        pitch = self.sensor_width / self.size[1]
        return RenderConfig(
            Camera(self.focal_length, self.f_number, pitch),
            self.focus_distances or spread_focus(near, far, self.frames, rng),
            self.size,
            samples,
            seed,
            near,
            far,
        )


def blur_px_per_dioptre(config: RenderConfig) -> float:
    return config.aperture * config.focal_px


def spread_focus(near: float, far: float, frames: int, rng: Rng) -> tuple[float, ...]:
    """Distances in about equal steps of inverse depth, to the millimetre, as one who turns the ring would take them."""
    places = (np.arange(frames) + 0.5 + rng.uniform(-0.2, 0.2, frames)) / frames
    inverse = 1 / near + places * (1 / far - 1 / near)
    return tuple(np.round(1 / inverse, 3).tolist())


PHONE = RoomCamera("phone", 6.8e-3, 1.85, 8.5e-3, (384, 512), (0.10, 0.22), (2.5, 5.5))
SLR = RoomCamera("slr", 50e-3, 2.8, 22.3e-3, (384, 512), (0.55, 1.2), (2.0, 3.4), frames=7)
PAPER = RoomCamera(
    "paper", 2.9e-3, 1.0, 3.1e-3, (256, 256), (0.10, 0.13), (1.6, 2.9), (0.45, 0.6),
    focus_distances=(0.1, 0.15, 0.3, 0.7, 1.5),
)  # fmt: skip
CAMERAS = (PHONE, SLR, PAPER)
