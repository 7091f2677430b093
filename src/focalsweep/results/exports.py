"""Results for other programs, as bytes: OpenEXR, PLY point cloud, glTF mesh. Lengths are metres."""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from focalsweep.results.figures import srgb_8_bit
from focalsweep.results.geometry import Mesh, PointCloud, metric_camera, point_cloud, projection_px, surface_mesh
from focalsweep.results.picture_files import jpg_bytes, tif_bytes
from focalsweep.results.result import DepthResult
from focalsweep.validation import as_setting

LARGEST_TEXTURE_PX = 4096  # what every viewer takes
PLY_AXES = "camera coordinates, origin at the lens: x right, y down, z forward"


def exr_bytes(result: DepthResult) -> bytes:
    """A single-part OpenEXR file with the float channels Z (depth), std and confidence, and the camera in its header.

    Depth and std are metres; infinity is kept. `projection_px` is the focal length fx = fy in pixels (see
    `focalsweep.results.geometry`), with the axis through the middle of the picture.
    """
    try:
        import OpenEXR  # type: ignore[import-not-found]
    except ImportError:
        raise ModuleNotFoundError("depth.exr needs the package OpenEXR: pip install 'focalsweep[exports]'") from None
    header = {
        "compression": OpenEXR.ZIP_COMPRESSION,
        "type": OpenEXR.scanlineimage,
        "unit": unit_of(result),
        "comments": "Z is depth along the optical axis from the lens, std its standard deviation, confidence 0 to 1",
        **{name: float(value) for name, value in camera_settings(result).items()},
    }
    maps = {"Z": result.depth, "std": result.std, "confidence": result.confidence}
    buffer = io.BytesIO()
    channels = {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in maps.items()}
    OpenEXR.File(header, channels).write(buffer)
    return buffer.getvalue()


def ply_bytes(result: DepthResult) -> bytes:
    """A binary little-endian PLY point cloud with colours, std and confidence, in camera coordinates."""
    return _encode_ply(point_cloud(result), unit_of(result))


def glb_bytes(result: DepthResult) -> bytes:
    """A binary glTF 2.0 file: the surface with the all-in-focus picture on it, and the camera that took it.

    glTF's axes: x right, y up, z backward, so the camera at the origin looks along -z. The material is unlit: the
    picture holds the scene's own light.
    """
    return _encode_glb(surface_mesh(result), result)


EXPORTS: dict[str, tuple[str, Callable[[DepthResult], bytes]]] = {
    "jpg": ("all_in_focus.jpg", jpg_bytes),
    "tif": ("all_in_focus.tif", tif_bytes),
    "exr": ("depth.exr", exr_bytes),
    "ply": ("cloud.ply", ply_bytes),
    "glb": ("mesh.glb", glb_bytes),
}
"""What `DepthResult.save` writes on request: name -> (file, its bytes)."""
IN_METRES = ("exr", "ply", "glb")
"""Those that say nothing without a unit."""


def unit_of(result: DepthResult) -> str:
    """ "metre", or "relative" where the focus distances have no unit."""
    return "relative" if result.unit is None else "metre"


def camera_settings(result: DepthResult) -> dict[str, float]:
    """The camera as single numbers, the median where frames differ."""
    camera = metric_camera(result)
    names = ("focal_length", "f_number", "pixel_pitch")
    settings = {name: as_setting(name, getattr(camera, name)).detach().median().item() for name in names}
    return {**settings, "projection_px": projection_px(result)}


def _encode_ply(cloud: PointCloud, unit: str) -> bytes:
    fields = [(name, "<f4", "float") for name in "xyz"]
    fields += [(name, "u1", "uchar") for name in ("red", "green", "blue")]
    fields += [(name, "<f4", "float") for name in ("std", "confidence")]
    vertices = np.empty(len(cloud.points), dtype=[(name, kind) for name, kind, _ in fields])
    columns = [*cloud.points.T, *cloud.colours.T, cloud.std, cloud.confidence]
    for (name, _, _), column in zip(fields, columns, strict=True):
        vertices[name] = column
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"comment focalsweep; {PLY_AXES}; unit: {unit}",
        "comment std is one standard deviation of z; confidence runs from 0 to 1",
        f"element vertex {len(vertices)}",
        *(f"property {kind} {name}" for name, _, kind in fields),
        "end_header",
    ]
    return ("\n".join(header) + "\n").encode("ascii") + vertices.tobytes()


def _encode_glb(mesh: Mesh, result: DepthResult) -> bytes:
    """JSON chunk and binary chunk, each padded to 4 bytes (glTF 2.0, section 4)."""
    points = mesh.points * np.array([1, -1, -1], np.float32)  # half a turn about x: triangles keep their sense
    texture = _texture_jpeg(result)
    blobs = [points.astype("<f4").tobytes(), mesh.texture_coordinates.astype("<f4").tobytes()]
    blobs += [mesh.faces.astype("<u4").tobytes(), texture]
    views, binary = [], b""
    for blob, target in zip(blobs, (34962, 34962, 34963, None), strict=True):  # vertices, vertices, indices, picture
        views.append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(blob)})
        views[-1] |= {"target": target} if target else {}
        binary += blob + bytes(-len(blob) % 4)
    height, width = result.depth.shape
    tree: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "focalsweep"},
        "extensionsUsed": ["KHR_materials_unlit"],
        "scene": 0,
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [{"name": "surface", "mesh": 0}, {"name": "camera", "camera": 0}],
        "cameras": [
            {
                "type": "perspective",
                "perspective": {
                    "yfov": 2 * math.atan(height / 2 / projection_px(result)),
                    "aspectRatio": width / height,
                    "znear": float(mesh.points[:, 2].min()) / 10,
                },
            }
        ],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2, "material": 0}]}],
        "materials": [
            {
                "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "metallicFactor": 0.0},
                "extensions": {"KHR_materials_unlit": {}},
                "doubleSided": True,
            }
        ],
        "textures": [{"source": 0, "sampler": 0}],
        "samplers": [{"magFilter": 9729, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}],  # smooth, no wrapping
        "images": [{"bufferView": 3, "mimeType": "image/jpeg"}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": len(points), "type": "VEC3"}
            | {"min": points.min(0).tolist(), "max": points.max(0).tolist()},
            {"bufferView": 1, "componentType": 5126, "count": len(points), "type": "VEC2"},
            {"bufferView": 2, "componentType": 5125, "count": mesh.faces.size, "type": "SCALAR"},
        ],
        "bufferViews": views,
        "buffers": [{"byteLength": len(binary)}],
        "extras": {"unit": unit_of(result), **camera_settings(result)},
    }
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def _texture_jpeg(result: DepthResult) -> bytes:
    from PIL import Image

    pixels = srgb_8_bit(result.all_in_focus)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    picture.thumbnail((LARGEST_TEXTURE_PX, LARGEST_TEXTURE_PX))
    buffer = io.BytesIO()
    picture.save(buffer, "jpeg", quality=92)
    return buffer.getvalue()
