"""A room as Mitsuba's plugins: full light transport, every surface matte or varnished."""

from __future__ import annotations

from typing import Any

import numpy as np

from focalsweep_research.benchmark.mitsuba_scene import Spec, material_plugin, mesh_plugin, sky_plugin
from focalsweep_research.benchmark.objects import Library
from focalsweep_research.benchmark.scenes import Material
from focalsweep_research.rooms.lighting import Light
from focalsweep_research.rooms.scenes import Room
from focalsweep_research.rooms.solids import Solid, Surface

DEPTH = 6  # edges of a path: five surfaces between a light and the lens
SURE_DEPTH = 3  # beyond, a path goes on by chance, as likely as its light is strong
SKY_COLOUR = (1.0, 1.0, 1.05)


def room_spec(mi: Any, room: Room, library: Library, depth: int = DEPTH) -> Spec:
    """What `mitsuba.load_dict` takes, the lens at the origin; `mi` is Mitsuba with its variant set."""
    spec: Spec = {"type": "scene", "integrator": {"type": "path", "max_depth": depth, "rr_depth": SURE_DEPTH}}
    if room.opened:
        path = library.sky(room.sky) if room.sky else None
        spec["sky"] = sky_plugin(mi, path, SKY_COLOUR, room.sky_turn_deg)
    for i, light in enumerate(room.lights):
        spec[f"light_{i}"] = _light(mi, room, light)
    for i, solid in enumerate(room.solids):
        spec[f"solid_{i}"] = _solid(mi, room, solid)
    return spec


def _solid(mi: Any, room: Room, solid: Solid) -> Any:
    surface = solid.surface
    uv = solid.uv * [1, -1] + [0, 1]  # Mitsuba's v runs along the rows of a picture, from its first
    if surface.tile:
        height, width = surface.pixels.shape[:2]
        uv = solid.uv / surface.tile * [height / width, -1]
    return mesh_plugin(mi, room.placed(solid.vertices), uv, solid.faces, _material(mi, surface), smooth=False)


def _material(mi: Any, surface: Surface) -> Spec:
    kind = "plastic" if surface.roughness else "diffuse"
    described = Material(kind, surface.name, (0.5, 0.5, 0.5), surface.roughness)
    return material_plugin(mi, described, np.ascontiguousarray(surface.pixels))


def _light(mi: Any, room: Room, light: Light) -> Spec:
    columns = [light.right * room.scale, light.up * room.scale, light.normal, room.placed(light.centre)]
    pose = np.eye(4)
    pose[:3] = np.stack(columns, 1)
    return {
        "type": "rectangle",
        "to_world": mi.ScalarTransform4f(pose),
        "emitter": {"type": "area", "radiance": {"type": "rgb", "value": list(light.radiance)}},
    }
