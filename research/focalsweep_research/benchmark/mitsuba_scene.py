"""A benchmark scene as Mitsuba's plugins: few types of them, so that a GPU compiles its kernel once for all scenes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from focalsweep_research.benchmark.objects import Library, Mesh, Pixels, read_picture
from focalsweep_research.benchmark.scenes import Array, Lamp, Material, Plane, Scene, Thing

Spec = dict[str, Any]  # a plugin's description, or several by name

LONGEST_PATH = 3  # edges of a path: light reaches the lens by one surface or by two
BRIGHTEST_SKY = 10.0  # times its mean: a sun smaller than a texel is what fireflies come from
DARKEST, BRIGHTEST = 8, 240  # of a texture, 8-bit sRGB: nothing real is black or white


def scene_spec(mi: Any, scene: Scene, library: Library) -> Spec:
    """What `mitsuba.load_dict` takes; `mi` is Mitsuba with its variant set. There is no camera in it."""
    spec: Spec = {"type": "scene", "integrator": {"type": "path", "max_depth": LONGEST_PATH}}
    path = library.sky(scene.sky) if scene.sky else None
    spec["sky"] = sky_plugin(mi, path, scene.sky_colour, scene.sky_turn_deg)
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
    return mesh_plugin(mi, vertices, uv, mesh.faces, material_plugin(mi, thing.material, pixels), mesh.smooth)


def _plane(mi: Any, plane: Plane, library: Library) -> Any:
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * plane.half
    vertices = plane.centre + corners[:, :1] * plane.right + corners[:, 1:] * plane.up
    pixels = _pixels(plane.material, None, library)
    aspect = pixels.shape[1] / pixels.shape[0]
    uv = corners / plane.tile / [math.sqrt(aspect), -1 / math.sqrt(aspect)]
    faces = np.array([[0, 1, 2], [0, 2, 3]], np.uint32)
    return mesh_plugin(mi, vertices, uv, faces, material_plugin(mi, plane.material, pixels), smooth=False)


def mesh_plugin(mi: Any, vertices: Array, uv: Array, faces: Any, material: Spec, smooth: bool) -> Any:
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


def material_plugin(mi: Any, material: Material, pixels: Pixels) -> Spec:
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


def sky_plugin(mi: Any, path: Path | None, colour: tuple[float, float, float], turn_deg: float) -> Spec:
    """An environment map with the colour's mean as its own, or an even sky of that colour; z is up."""
    if path:
        try:
            picture = np.array(mi.Bitmap(str(path)).convert(mi.Bitmap.PixelFormat.RGB, mi.Struct.Type.Float32, False))
        except Exception:  # Mitsuba's own errors derive from nothing else
            raise ValueError(f"{path} cannot be read as a Radiance picture: is it truncated?") from None
        picture = np.minimum(picture / picture.mean(), BRIGHTEST_SKY)
        picture *= float(np.mean(colour))
    else:
        picture = np.broadcast_to(np.asarray(colour, np.float32), (16, 32, 3))
    # Light from above is what reaches a room; rays to the ground would be spent for nothing.
    height = np.linspace(1, -1, len(picture))[:, None, None]
    picture = picture * np.interp(height, [-0.1, 0.1, 1], [0.1, 0.7, 1.3])
    # Mitsuba's sky has y up.
    pose = mi.ScalarTransform4f().rotate([0, 0, 1], turn_deg).rotate([1, 0, 0], 90)
    return {"type": "envmap", "bitmap": mi.Bitmap(np.ascontiguousarray(picture, np.float32)), "to_world": pose}
