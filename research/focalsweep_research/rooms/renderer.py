"""The stacks of `evaluate rooms`, rendered: frames, depth, and where the scene has texture.

A stack is known by its camera's name and its number; it depends on these, the seed, the library and the settings alone.
Those of odd numbers have the flaws of photographs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from focalsweep.types import Camera
from focalsweep_research.benchmark.objects import Library
from focalsweep_research.benchmark.renderer import RenderConfig, Renderer, exposure, load_mitsuba
from focalsweep_research.benchmark.workers import Stack
from focalsweep_research.rooms.cameras import CAMERAS, RoomCamera
from focalsweep_research.rooms.plugins import room_spec
from focalsweep_research.rooms.scenes import Room, draw_room

STACKS = 20  # of each camera
WINDOW_PX = 9  # of the standard deviation that is called texture
SAMPLES = 100
PINHOLE = 200.0  # f-number of a lens that blurs nothing


@dataclass(frozen=True)
class RoomsConfig:
    """What all stacks have in common; `reduction` makes smaller pictures of the same scenes, for a quick look."""

    samples: int = SAMPLES
    seed: int = 0
    reduction: int = 1

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1 ray a pixel, but is {self.samples}")


@dataclass(frozen=True, eq=False)
class PlannedStack:
    """A stack before it is rendered."""

    camera: RoomCamera
    number: int
    config: RenderConfig
    room: Room

    @property
    def flawed(self) -> bool:
        return self.number % 2 == 1


@dataclass(frozen=True, eq=False)
class RenderedRoom:
    """One stack; all frames are exposed alike.

    Args:
        frames: F H W 3, linear light; what is brighter than 1 was not clipped.
        depth: H W, metres along the axis through a pinhole in the middle of the lens.
        texture: H W, standard deviation of linear light in 9 x 9 px of what that pinhole sees, without noise.
    """

    planned: PlannedStack
    frames: npt.NDArray[np.float32]
    depth: npt.NDArray[np.float32]
    texture: npt.NDArray[np.float32]


def all_stacks() -> list[Stack]:
    """The cameras in turn, so that any part of them shows all."""
    return [(camera.name, number) for number in range(STACKS) for camera in CAMERAS]


def plan(config: RoomsConfig, library: Library, stack: Stack) -> PlannedStack:
    """The scene and camera of a stack, the same for every number of samples and size."""
    name, number = stack
    place = [camera.name for camera in CAMERAS].index(name)
    camera = CAMERAS[place].reduced(config.reduction)
    rng = np.random.default_rng([config.seed, place, number])
    near, far, scale = (
        math.exp(rng.uniform(*np.log(ends))) for ends in (camera.nearest, camera.farthest, camera.scale)
    )
    settings = camera.config(near, far, config.samples, config.seed, rng)
    return PlannedStack(camera, number, settings, draw_room(rng, library, settings.view, scale))


class RoomRenderer:
    """Renders stack after stack with Mitsuba's path tracer."""

    def __init__(self, config: RoomsConfig, library: Library, variant: str = "auto") -> None:
        self.config = config
        self.library = library
        self.mitsuba = load_mitsuba(variant)

    @property
    def variant(self) -> str:
        return str(self.mitsuba.variant())

    @property
    def reopen(self) -> Callable[[], RoomRenderer]:
        """What makes the same renderer in another process."""
        return partial(RoomRenderer, self.config, self.library, self.variant)

    def frame_count(self, stack: Stack) -> int:
        camera = next(camera for camera in CAMERAS if camera.name == stack[0])
        return len(camera.focus_distances) or camera.frames

    def render(self, split: str, number: int, done: Callable[[], None] = lambda: None) -> RenderedRoom:
        """The stack of this number of the camera `split`; `done` is called after every frame."""
        planned = plan(self.config, self.library, (split, number))
        seeds = np.random.SeedSequence([self.config.seed, number, *split.encode()]).generate_state(32).tolist()
        config, axes = planned.config, planned.room.sight.axes
        loaded = self.mitsuba.load_dict(room_spec(self.mitsuba, planned.room, self.library))
        lens = Renderer(config, {}, self.variant)
        sensor = lens.sensor(axes)
        settings = self.mitsuba.traverse(sensor)
        frames = []
        for i, distance in enumerate(config.focus_distances):
            settings["focus_distance"] = distance
            settings.update()
            frames.append(lens.frame(loaded, sensor, seeds[i]))
            done()
        linear = np.stack(frames)
        gain = exposure(linear)
        depth = lens.depth(loaded, axes)
        return RenderedRoom(planned, gain * linear, depth, gain * self._texture(loaded, config, axes, seeds[-2:]))

    def _texture(self, loaded: Any, config: RenderConfig, axes: Any, seeds: list[int]) -> npt.NDArray[np.float32]:
        """Two pictures through a pinhole have the same texture and each its own noise: their covariance has none."""
        lens = config.camera
        pinhole = Camera(lens.focal_length, PINHOLE, lens.pixel_pitch)
        sharp = Renderer(replace(config, camera=pinhole, samples=max(1, config.samples // 4)), {}, self.variant)
        sensor = sharp.sensor(axes)
        first, second = (sharp.frame(loaded, sensor, seed).mean(-1) for seed in seeds)
        return covariance_root(first, second)


def covariance_root(first: Any, second: Any) -> npt.NDArray[np.float32]:
    """The root of the covariance of two pictures in a window about every pixel; 0 where it is below 0."""
    import cv2

    def mean(values: Any) -> Any:
        return cv2.blur(values.astype(np.float64), (WINDOW_PX, WINDOW_PX), borderType=cv2.BORDER_REFLECT_101)

    covariance = mean(first * second) - mean(first) * mean(second)
    return np.asarray(np.sqrt(np.maximum(covariance, 0)), np.float32)
