"""Focal stacks rendered with Mitsuba 3's thin lens: the physical reference, and the benchmark of the paper's Table 1.

Mitsuba keeps the field of view whatever the focus distance, so its image plane stays at the focal length behind the
lens: against the formula of `coc_px` every frame is magnified by (d_f - f) / d_f. Depth is z along the optical axis,
where the ray through the middle of a pixel and the middle of the lens meets the scene.

    config = RenderConfig()                                   # the camera of the paper's Table 1
    renderer = Renderer(config, {split: make_library(split) for split in SPLITS})
    stack = renderer.render("train", 0)                       # stack.frames F H W 3 linear light, stack.depth H W
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from focalsweep.types import Camera
from focalsweep_research.benchmark.mitsuba_scene import scene_spec
from focalsweep_research.benchmark.objects import SPLITS, Library
from focalsweep_research.benchmark.scenes import Scene, View, draw_scene

Array = npt.NDArray[np.float64]

VARIANTS = ("cuda_ad_rgb", "llvm_ad_rgb", "scalar_rgb")
MEAN_LEVEL = 0.22  # linear light, of a stack
BRIGHT_LEVEL, BRIGHT_SHARE = 0.95, 0.98  # no more than the rest of the pixels may be brighter


@dataclass(frozen=True)
class RenderConfig:
    """What is rendered; the defaults are the benchmark's. Lengths are metres.

    `near` and `far` are the depths that scenes fill; walls may lie a little beyond.
    """

    camera: Camera = field(default_factory=lambda: Camera(2.9e-3, 1.0, 3.1e-3 / 256))
    focus_distances: tuple[float, ...] = (0.1, 0.15, 0.3, 0.7, 1.5)
    size: tuple[int, int] = (256, 256)  # rows, columns
    samples: int = 64  # rays a pixel; a number that makes no even grid is rounded up
    seed: int = 0
    near: float = 0.1
    far: float = 3.0

    def __post_init__(self) -> None:
        f = float(self.camera.focal_length)  # type: ignore[arg-type]
        if not self.focus_distances:
            raise ValueError("focus_distances must name at least one distance, in metres")
        for i, distance in enumerate(self.focus_distances):
            if not f < distance < math.inf:
                raise ValueError(
                    f"focus_distances must be finite and exceed the focal length: frame {i} has {distance:g} m, "
                    f"focal length {f:g} m (millimetres given as metres?)"
                )
        if min(self.focus_distances) > self.far:
            raise ValueError(
                f"focus_distances must not all lie beyond the scene, which ends at {self.far:g} m: the nearest is "
                f"{min(self.focus_distances):g} m (millimetres given as metres?)"
            )
        if min(self.size) < 8:
            raise ValueError(f"size must be at least 8 pixels a side, but is {self.size[1]} x {self.size[0]}")
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1 ray a pixel, but is {self.samples}")
        if not 0 < self.near < self.far / 2 < math.inf:
            given = f"{self.near:g} and {self.far:g} m"
            raise ValueError(f"near must be above 0 and below half of far, but they are {given}")

    @property
    def focal_px(self) -> float:
        """Focal length in pixels: what projects the scene onto the picture, at every focus distance."""
        return float(self.camera.focal_length) / float(self.camera.pixel_pitch)  # type: ignore[arg-type]

    @property
    def aperture(self) -> float:
        """Diameter of the lens."""
        return float(self.camera.focal_length) / float(self.camera.f_number)  # type: ignore[arg-type]

    @property
    def magnifications(self) -> tuple[float, ...]:
        f = float(self.camera.focal_length)  # type: ignore[arg-type]
        return tuple((distance - f) / distance for distance in self.focus_distances)

    @property
    def view(self) -> View:
        rows, columns = self.size
        return View(columns / 2 / self.focal_px, rows / 2 / self.focal_px, self.near, self.far)


@dataclass(frozen=True, eq=False)
class RenderedStack:
    """One stack: frames in linear light, exposed alike; what is brighter than 1 was not clipped."""

    scene: Scene
    frames: npt.NDArray[np.float32]  # F H W 3
    depth: npt.NDArray[np.float32]  # H W, metres; infinity where nothing is hit


def load_mitsuba(variant: str = "auto") -> Any:
    """Mitsuba with a variant chosen: the GPU's where OptiX works, else the plain one (LLVM only by name)."""
    if variant != "auto" and variant not in VARIANTS:
        raise ValueError(f"no variant is called {variant!r}: it is auto, {', '.join(VARIANTS)}")
    try:
        import mitsuba
    except ImportError:
        raise ModuleNotFoundError("rendering needs the package mitsuba: pip install 'focalsweep-research'") from None
    mitsuba.set_log_level(mitsuba.LogLevel.Error)  # or it says that the number of rays was rounded up
    for name in (VARIANTS[0], VARIANTS[2]) if variant == "auto" else (variant,):
        try:
            mitsuba.set_variant(name)
            if name != "scalar_rgb":  # the first ray is where a missing driver or OptiX shows
                probe = mitsuba.load_dict({"type": "scene", "ball": {"type": "sphere"}})
                ray = mitsuba.Ray3f(mitsuba.Point3f([0.0], [0.0], [-3.0]), mitsuba.Vector3f(0.0, 0.0, 1.0))
                np.array(probe.ray_intersect(ray).t)
            return mitsuba
        except Exception as error:  # whatever the driver says; the plain variant always works
            if variant != "auto":
                raise ValueError(f"the variant {name} does not work on this machine, use scalar_rgb: {error}") from None
    raise RuntimeError("Mitsuba offers no variant that works: install it anew")


class Renderer:
    """Renders stack after stack; each depends on the seed, its split and its number only."""

    def __init__(self, config: RenderConfig, libraries: Mapping[str, Library], variant: str = "auto") -> None:
        self.config = config
        self.libraries = libraries
        self.mitsuba = load_mitsuba(variant)

    @property
    def variant(self) -> str:
        return str(self.mitsuba.variant())

    @property
    def reopen(self) -> Callable[[], Renderer]:
        """What makes the same renderer in another process."""
        return partial(Renderer, self.config, dict(self.libraries), self.variant)

    def frame_count(self, stack: tuple[str, int]) -> int:
        return len(self.config.focus_distances)

    def render(self, split: str, number: int, done: Callable[[], None] = lambda: None) -> RenderedStack:
        """One stack; `done` is called after every frame."""
        library = self.libraries[split]
        scene = scene_of(self.config, library, number)
        loaded = self.mitsuba.load_dict(scene_spec(self.mitsuba, scene, library))
        sensor = self.sensor(scene.axes)
        settings = self.mitsuba.traverse(sensor)
        frames = []
        for i, distance in enumerate(self.config.focus_distances):
            settings["focus_distance"] = distance
            settings.update()
            frames.append(self.frame(loaded, sensor, sampler_seed(self.config.seed, split, number, i)))
            done()
        linear = np.stack(frames)
        return RenderedStack(scene, exposure(linear) * linear, self.depth(loaded, scene.axes))

    def sensor(self, axes: Array) -> Any:
        """The camera, focused at the first distance; its axes are right, up, forward."""
        mi, config = self.mitsuba, self.config
        rows, columns = config.size
        pose = mi.ScalarTransform4f().look_at(origin=[0, 0, 0], target=axes[2].tolist(), up=axes[1].tolist())
        film = {
            "type": "hdrfilm",
            "width": columns,
            "height": rows,
            "pixel_format": "rgb",
            "component_format": "float32",
            "rfilter": {"type": "box"},  # a pixel is the light on its own square
        }
        lens = {
            "type": "thinlens",
            "to_world": pose,
            "fov": 2 * math.degrees(math.atan(config.view.half_width)),
            "fov_axis": "x",
            "aperture_radius": config.aperture / 2,
            "focus_distance": config.focus_distances[0],
            "near_clip": 1e-3 * config.near,
            "far_clip": 1e3 * config.far,
            "film": film,
            "sampler": {"type": "multijitter", "sample_count": config.samples},
        }
        return mi.load_dict(lens)

    def frame(self, loaded: Any, sensor: Any, seed: int) -> npt.NDArray[np.float32]:
        """H W 3, linear light in the scene's own unit."""
        mi = self.mitsuba
        picture = mi.render(loaded, sensor=sensor, seed=mi.UInt32(seed))
        return np.ascontiguousarray(np.asarray(picture, np.float32)[..., :3])

    def depth(self, loaded: Any, axes: Array) -> npt.NDArray[np.float32]:
        """H W: z along the optical axis through pixel centres; infinity where the ray meets nothing."""
        rows, columns = self.config.size
        row, column = np.meshgrid(np.arange(rows) + 0.5, np.arange(columns) + 0.5, indexing="ij")
        x, y = (column - columns / 2) / self.config.focal_px, (rows / 2 - row) / self.config.focal_px
        rays = x[..., None] * axes[0] + y[..., None] * axes[1] + axes[2]  # of length 1 along the axis
        length = np.linalg.norm(rays, axis=-1)
        travelled = self._first_hits(loaded, (rays / length[..., None]).reshape(-1, 3))
        return np.asarray(travelled.reshape(rows, columns) / length, np.float32)

    def _first_hits(self, loaded: Any, directions: Array) -> Array:
        """Metres from the lens to what each unit ray meets."""
        mi, flat = self.mitsuba, directions.astype(np.float32)
        if self.variant == "scalar_rgb":
            distances = [loaded.ray_intersect_preliminary(mi.Ray3f([0, 0, 0], ray)).t for ray in flat.tolist()]
            return np.asarray(distances, np.float64)
        x, y, z = (mi.Float(np.ascontiguousarray(axis)) for axis in flat.T)
        rays = mi.Ray3f(mi.Point3f(0.0, 0.0, 0.0), mi.Vector3f(x, y, z))
        return np.array(loaded.ray_intersect_preliminary(rays).t, np.float64)


def scene_of(config: RenderConfig, library: Library, number: int) -> Scene:
    """The scene of a stack: a pure function of the seed, the split, the number and what the library holds."""
    rng = np.random.default_rng([config.seed, SPLITS.index(library.split), number])
    return draw_scene(rng, library, config.view)


def sampler_seed(seed: int, split: str, number: int, frame: int) -> int:
    """Noise of its own for every frame."""
    return int(np.random.SeedSequence([seed, SPLITS.index(split), number, frame]).generate_state(1)[0])


def exposure(linear: npt.NDArray[np.float32]) -> np.float32:
    """One factor for all frames of a stack: a middling mean, unless that would burn out too much."""
    mean, bright = float(linear.mean()), float(np.quantile(linear.max(-1), BRIGHT_SHARE))
    return np.float32(min(MEAN_LEVEL / max(mean, 1e-6), BRIGHT_LEVEL / max(bright, 1e-6)))
