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
from typing import Any

import numpy as np
import numpy.typing as npt

from focalsweep.synthesis.benchmark_objects import SPLITS, Library, Mesh, Pixels, read_picture
from focalsweep.synthesis.benchmark_scenes import Lamp, Material, Plane, Scene, Thing, View, draw_scene
from focalsweep.types import Camera

Array = npt.NDArray[np.float64]
Spec = dict[str, Any]  # a Mitsuba plugin's description, or several by name

VARIANTS = ("cuda_ad_rgb", "llvm_ad_rgb", "scalar_rgb")
LONGEST_PATH = 3  # edges of a path: light reaches the lens by one surface or by two
BRIGHTEST_SKY = 10.0  # times its mean: a sun smaller than a texel is what fireflies come from
DARKEST, BRIGHTEST = 8, 240  # of a texture, 8-bit sRGB: nothing real is black or white
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
    samples: int = 64  # rays a pixel
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
        raise ModuleNotFoundError("rendering needs the package mitsuba: pip install 'focalsweep[render]'") from None
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


def scene_spec(mi: Any, scene: Scene, library: Library) -> Spec:
    """The scene for Mitsuba. Shapes, textures and lights are of few types, so that a GPU compiles its kernel once."""
    spec: Spec = {"type": "scene", "integrator": {"type": "path", "max_depth": LONGEST_PATH}}
    spec["sky"] = _sky(mi, scene, library)
    for i, lamp in enumerate(scene.lamps):
        spec[f"lamp_{i}"] = _lamp(mi, lamp)
    for i, plane in enumerate(scene.planes):
        spec[f"plane_{i}"] = _plane(mi, plane, library)
    for i, thing in enumerate(scene.things):
        spec[f"thing_{i}"] = _thing(mi, thing, library)
    return spec


def _thing(mi: Any, thing: Thing, library: Library) -> Any:
    mesh = library.mesh(thing.name)
    vertices = thing.radius * mesh.vertices @ thing.rotation.T + thing.centre
    pixels = _pixels(thing.material, mesh, library)
    uv = mesh.uv * [1, -1] + np.array([0, 1])  # Mitsuba's v runs along the rows of a picture, from its first
    return _mesh(mi, vertices, uv, mesh.faces, _material(mi, thing.material, pixels), mesh.smooth)


def _plane(mi: Any, plane: Plane, library: Library) -> Any:
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * plane.half
    vertices = plane.centre + corners[:, :1] * plane.right + corners[:, 1:] * plane.up
    pixels = _pixels(plane.material, None, library)
    aspect = pixels.shape[1] / pixels.shape[0]
    uv = corners / plane.tile / [math.sqrt(aspect), -1 / math.sqrt(aspect)]
    faces = np.array([[0, 1, 2], [0, 2, 3]], np.uint32)
    return _mesh(mi, vertices, uv, faces, _material(mi, plane.material, pixels), smooth=False)


def _mesh(mi: Any, vertices: Array, uv: Array, faces: Any, material: Spec, smooth: bool) -> Any:
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(material)
    properties["face_normals"] = not smooth
    mesh = mi.Mesh("mesh", len(vertices), len(faces), properties, has_vertex_normals=smooth, has_vertex_texcoords=True)
    values = mi.traverse(mesh)
    values["vertex_positions"] = vertices.astype(np.float32).ravel()
    values["vertex_texcoords"] = uv.astype(np.float32).ravel()
    values["faces"] = np.asarray(faces, np.uint32).ravel()
    values.update()
    return mesh


def _pixels(material: Material, mesh: Mesh | None, library: Library) -> Pixels:
    """What is painted on it, 8-bit sRGB; a plain colour is a small picture too."""
    if material.texture:
        pixels = library.texture(material.texture)
    elif material.own_texture and mesh is not None and mesh.texture is not None:
        pixels = read_picture(mesh.texture)
    else:
        encoded = 1.055 * np.clip(material.colour, 0.0031308, 1) ** (1 / 2.4) - 0.055
        pixels = np.broadcast_to(np.rint(255 * encoded).astype(np.uint8), (4, 4, 3))
    return np.ascontiguousarray(np.clip(pixels, DARKEST, BRIGHTEST))


def _material(mi: Any, material: Material, pixels: Pixels) -> Spec:
    picture = {"type": "bitmap", "bitmap": mi.Bitmap(pixels), "wrap_mode": "mirror"}
    if material.kind == "metal":
        surface = {
            "type": "roughconductor",
            "material": "none",
            "distribution": "ggx",
            "specular_reflectance": picture,
            "alpha": material.roughness,
        }
    elif material.kind == "plastic":
        surface = {"type": "roughplastic", "diffuse_reflectance": picture, "alpha": material.roughness}
    else:
        surface = {"type": "diffuse", "reflectance": picture}
    return {"type": "twosided", "bsdf": surface}


def _lamp(mi: Any, lamp: Lamp) -> Spec:
    distance = float(np.linalg.norm(lamp.target - lamp.centre))
    radiance = lamp.irradiance * distance**2 / (2 * lamp.half) ** 2
    up = [0, 1, 0] if abs(lamp.target[2] - lamp.centre[2]) > 0.9 * distance else [0, 0, 1]
    pose = mi.ScalarTransform4f().look_at(origin=lamp.centre.tolist(), target=lamp.target.tolist(), up=up)
    return {
        "type": "rectangle",
        "to_world": pose.scale([lamp.half, lamp.half, 1]),
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": [radiance * c for c in lamp.colour]}},
    }


def _sky(mi: Any, scene: Scene, library: Library) -> Spec:
    if scene.sky:
        path = library.sky(scene.sky)
        try:
            picture = np.array(mi.Bitmap(str(path)).convert(mi.Bitmap.PixelFormat.RGB, mi.Struct.Type.Float32, False))
        except Exception:  # Mitsuba's own errors derive from nothing else
            raise ValueError(f"{path} cannot be read as a Radiance picture: is it truncated?") from None
        picture = np.minimum(picture / picture.mean(), BRIGHTEST_SKY)
        picture *= float(np.mean(scene.sky_colour))
    else:
        picture = np.broadcast_to(np.asarray(scene.sky_colour, np.float32), (16, 32, 3))
    # Light from above is what reaches a room; rays to the ground would be spent for nothing.
    height = np.linspace(1, -1, len(picture))[:, None, None]
    picture = picture * np.interp(height, [-0.1, 0.1, 1], [0.1, 0.7, 1.3])
    # Mitsuba's sky has y up.
    pose = mi.ScalarTransform4f().rotate([0, 0, 1], scene.sky_turn_deg).rotate([1, 0, 0], 90)
    return {"type": "envmap", "bitmap": mi.Bitmap(np.ascontiguousarray(picture, np.float32)), "to_world": pose}
