"""Surfaces as files: glTF, OBJ, PLY, STL, and a picture of normals.

Axes of all of them: x right, y up, z backward, so the camera looks along -z. Numbers are metres; of a stage
micrometres; without a unit the picture is 1 wide. Each file says which, and where its scale is free.
"""

from __future__ import annotations

import io
import json
import math
import struct
from typing import Any

import numpy as np

from focalsweep.results.figures import ROWS_AT_ONCE, srgb_8_bit
from focalsweep.results.geometry import camera_settings, principal_point, projection_px, space_of
from focalsweep.results.result import Array, DepthResult
from focalsweep.results.solid import solid_of
from focalsweep.results.surface import Kind, Surface, surface_of
from focalsweep.types import Camera

LARGEST_TEXTURE_PX = 4096  # what every viewer takes
TEXTURE_QUALITY = 92
AXES = "x right, y up, z backward"
NORMAL_SIGMA_PX = 1.5


def about(surface: Surface) -> dict[str, Any]:
    """What a file says of itself."""
    return {
        "unit": surface.space.unit,
        "scale": surface.space.scale,
        "seen_faces": int((~surface.bridged).sum()),
        "bridged_faces": int(surface.bridged.sum()),
    }


def turned(surface: Surface) -> Array:
    """Points with y up and z backward: half a turn about x, triangles keep their sense."""
    return surface.points * np.array([1, -1, -1], np.float32)


def glb_bytes(result: DepthResult, kind: Kind = "closed") -> bytes:
    """A binary glTF 2.0 file: the surface under the sharp picture, and the camera that took it.

    What was not seen is a part of its own, of the material "bridged". The material is unlit: the picture holds the
    scene's own light.
    """
    surface = surface_of(result, kind)
    points = turned(surface)
    parts = {"seen": surface.faces[~surface.bridged], "bridged": surface.faces[surface.bridged]}
    parts = {name: faces for name, faces in parts.items() if len(faces)}
    coordinates = surface.texture_coordinates(result.depth.shape)
    blobs: list[tuple[bytes, int | None]] = [
        (points.astype("<f4").tobytes(), 34962),
        (coordinates.astype("<f4").tobytes(), 34962),
    ]
    blobs += [(faces.astype("<u4").tobytes(), 34963) for faces in parts.values()]
    blobs.append((texture_jpeg(result), None))
    views, binary = [], b""
    for blob, target in blobs:
        views.append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(blob)})
        views[-1] |= {"target": target} if target else {}
        binary += blob + bytes(-len(blob) % 4)
    camera, place = _camera(result, points)
    tree: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "focalsweep"},
        "extensionsUsed": ["KHR_materials_unlit"],
        "scene": 0,
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [{"name": "surface", "mesh": 0}, {"name": "camera", "camera": 0, **place}],
        "cameras": [camera],
        "meshes": [
            {
                "primitives": [
                    {"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2 + i, "material": i}
                    for i in range(len(parts))
                ]
            }
        ],
        "materials": [
            {
                "name": name,
                "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "metallicFactor": 0.0},
                "extensions": {"KHR_materials_unlit": {}},
                "doubleSided": True,
            }
            for name in parts
        ],
        "textures": [{"source": 0, "sampler": 0}],
        "samplers": [{"magFilter": 9729, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}],  # smooth, no wrapping
        "images": [{"bufferView": len(views) - 1, "mimeType": "image/jpeg"}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": len(points), "type": "VEC3"}
            | {"min": points.min(0).tolist(), "max": points.max(0).tolist()},
            {"bufferView": 1, "componentType": 5126, "count": len(points), "type": "VEC2"},
            *(
                {"bufferView": 2 + i, "componentType": 5125, "count": faces.size, "type": "SCALAR"}
                for i, faces in enumerate(parts.values())
            ),
        ],
        "bufferViews": views,
        "buffers": [{"byteLength": len(binary)}],
        "extras": {**about(surface), **_camera_of(result)},
    }
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def obj_files(result: DepthResult, kind: Kind = "closed") -> dict[str, bytes]:
    """Wavefront OBJ with its material and its picture; what was not seen is the group "bridged"."""
    surface = surface_of(result, kind)
    said = ", ".join(f"{name} {value}" for name, value in about(surface).items())
    lines = io.BytesIO()
    lines.write(f"# focalsweep; {AXES}; {said}\nmtllib mesh.mtl\n".encode())
    np.savetxt(lines, turned(surface), "v %.9g %.9g %.9g")
    coordinates = surface.texture_coordinates(result.depth.shape)
    np.savetxt(lines, np.stack([coordinates[:, 0], 1 - coordinates[:, 1]], -1), "vt %.7g %.7g")
    for name, faces in (("seen", surface.faces[~surface.bridged]), ("bridged", surface.faces[surface.bridged])):
        lines.write(f"g {name}\nusemtl photo\n".encode())
        np.savetxt(lines, np.repeat(faces.astype(np.int64) + 1, 2, axis=1), "f %d/%d %d/%d %d/%d")
    material = b"newmtl photo\nKa 0 0 0\nKd 1 1 1\nillum 0\nmap_Kd mesh.jpg\n"
    return {"mesh.obj": lines.getvalue(), "mesh.mtl": material, "mesh.jpg": texture_jpeg(result)}


def mesh_ply_bytes(result: DepthResult, kind: Kind = "closed") -> bytes:
    """A binary PLY mesh with a colour for each point, and for each triangle whether nobody has seen it."""
    surface = surface_of(result, kind)
    points, height, width = turned(surface), *result.depth.shape
    rows = np.clip(surface.down.astype(np.intp), 0, height - 1)
    columns = np.clip(surface.across.astype(np.intp), 0, width - 1)
    colours = srgb_8_bit(result.all_in_focus[rows, columns][None])[0]
    vertices = np.empty(len(points), [(n, "<f4") for n in "xyz"] + [(n, "u1") for n in ("red", "green", "blue")])
    for number, axis in enumerate("xyz"):
        vertices[axis] = points[:, number]
    for number, name in enumerate(("red", "green", "blue")):
        vertices[name] = colours[:, min(number, colours.shape[1] - 1)]
    faces = np.empty(len(surface.faces), [("count", "u1"), ("corners", "<i4", 3), ("bridged", "u1")])
    faces["count"], faces["corners"], faces["bridged"] = 3, surface.faces, surface.bridged
    said = ", ".join(f"{name} {value}" for name, value in about(surface).items())
    header = [
        "ply", "format binary_little_endian 1.0", f"comment focalsweep; {AXES}; {said}",
        f"element vertex {len(vertices)}", *(f"property float {axis}" for axis in "xyz"),
        *(f"property uchar {name}" for name in ("red", "green", "blue")),
        f"element face {len(faces)}", "property list uchar int vertex_indices", "property uchar bridged", "end_header",
    ]  # fmt: skip
    return ("\n".join(header) + "\n").encode("ascii") + vertices.tobytes() + faces.tobytes()


def stl_bytes(result: DepthResult, kind: Kind = "closed") -> bytes:
    """A binary STL of a relief on a plate, in millimetres, to print; always closed."""
    surface = surface_of(result)
    solid = solid_of(surface, result.depth.shape)
    corners = solid.points[solid.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-20)
    records = np.zeros(len(corners), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")])
    records["normal"], records["corners"] = normals, corners
    title = f"focalsweep relief, mm, heights 1/{solid.squeezed:.3g} of true"
    if surface.space.scale != "true":
        title = "focalsweep relief, mm, free scale"
    return title.encode("ascii").ljust(80) + struct.pack("<I", len(records)) + records.tobytes()


def normals_png_bytes(result: DepthResult, kind: Kind = "closed") -> bytes:
    """Normals of the surface as colours, as OpenGL counts them: red right, green up, blue towards the camera.

    In the camera's axes: what faces it is (128, 128, 255) in the middle of the picture. Of relief n, with perspective
    and x, y in pixels from the axis, the normal is (f dn/dx, f dn/dy, n - x dn/dx - y dn/dy): exact for planes.
    """
    import cv2

    space = space_of(result)
    relief = space.relief(result.depth)
    known = np.isfinite(relief)
    relief[~known] = np.median(relief[known]) if known.any() else 0.0
    smooth = cv2.GaussianBlur(relief, (0, 0), NORMAL_SIGMA_PX, borderType=cv2.BORDER_REPLICATE)
    relief = np.asarray(smooth, np.float32)
    codes = np.empty((*relief.shape, 3), np.uint8)
    columns = np.arange(relief.shape[1], dtype=np.float32) + 0.5 - space.middle[0]
    for top in range(0, len(relief), ROWS_AT_ONCE):
        first, last = max(0, top - 1), min(len(relief), top + ROWS_AT_ONCE + 1)
        band, inside = relief[first:last], slice(top - first, top - first + ROWS_AT_ONCE)
        across = np.gradient(band, axis=1)
        down = np.gradient(band, axis=0) if len(band) > 1 else np.zeros_like(band)
        rows = (np.arange(first, last, dtype=np.float32) + 0.5 - space.middle[1])[:, None]
        z = band - columns * across - rows * down if space.perspective else np.full_like(band, space.pixel)
        turn = 1 / space.pixel if space.perspective else 1
        normal = np.stack([z, down * turn, -across * turn], -1)[inside]
        normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-20)
        codes[top : top + ROWS_AT_ONCE] = np.rint((normal + 1) * 127.5)
    done, data = cv2.imencode(".png", codes)
    if not done:
        raise ValueError(f"normals of {relief.shape[1]} x {relief.shape[0]} px cannot be written as PNG")
    return data.tobytes()


def texture_jpeg(result: DepthResult) -> bytes:
    """The sharp picture, no larger than viewers take."""
    from PIL import Image

    pixels = srgb_8_bit(result.all_in_focus)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    picture.thumbnail((LARGEST_TEXTURE_PX, LARGEST_TEXTURE_PX))
    buffer = io.BytesIO()
    picture.save(buffer, "jpeg", quality=TEXTURE_QUALITY, subsampling=0)
    return buffer.getvalue()


def _camera(result: DepthResult, points: Array) -> tuple[dict[str, Any], dict[str, Any]]:
    """glTF's camera that sees the picture, and where it stands."""
    height, width = result.depth.shape
    space = space_of(result)
    nearest, farthest = float(points[:, 2].max()), float(points[:, 2].min())
    if space.perspective:
        lens: dict[str, Any] = {
            "yfov": 2 * math.atan(height / 2 / projection_px(result)),
            "aspectRatio": width / height,
        }
        return {"type": "perspective", "perspective": {**lens, "znear": -nearest / 10}}, {}
    x, y = ((size / 2 - at) * space.pixel for size, at in zip((width, height), space.middle, strict=True))
    back = width * space.pixel
    extent = {"xmag": width * space.pixel / 2, "ymag": height * space.pixel / 2}
    reach = {"znear": back / 2, "zfar": 2 * back + nearest - farthest}
    return {"type": "orthographic", "orthographic": {**extent, **reach}}, {"translation": [x, -y, nearest + back]}


def _camera_of(result: DepthResult) -> dict[str, Any]:
    if not isinstance(result.camera, Camera):
        return {}
    return {**camera_settings(result), "principal_point": list(principal_point(result))}
