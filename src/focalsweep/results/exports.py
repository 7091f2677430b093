"""What can be written beside the usual files: OpenEXR and a point cloud here, surfaces in `mesh_files`."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np

from focalsweep.results.geometry import PointCloud, Space, camera_settings, point_cloud, space_of
from focalsweep.results.mesh_files import glb_bytes, mesh_ply_bytes, normals_png_bytes, obj_files, stl_bytes
from focalsweep.results.picture_files import jpg_bytes, tif_bytes
from focalsweep.results.result import DepthResult
from focalsweep.results.surface import Kind

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
        "unit": "metre",
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
    return _encode_ply(point_cloud(result), space_of(result))


EXPORTS: dict[str, tuple[str, Callable[[DepthResult, Kind], bytes | dict[str, bytes]]]] = {
    "jpg": ("all_in_focus.jpg", lambda result, _: jpg_bytes(result)),
    "tif": ("all_in_focus.tif", lambda result, _: tif_bytes(result)),
    "exr": ("depth.exr", lambda result, _: exr_bytes(result)),
    "ply": ("cloud.ply", lambda result, _: ply_bytes(result)),
    "glb": ("mesh.glb", glb_bytes),
    "obj": ("mesh.obj", obj_files),
    "mesh": ("mesh.ply", mesh_ply_bytes),
    "stl": ("print.stl", stl_bytes),
    "normals": ("normals.png", normals_png_bytes),
}
"""What `DepthResult.save` writes on request: name -> (file, its bytes, or those of all its files by name)."""
IN_METRES = ("exr",)
"""Those that say nothing without a unit."""


def _encode_ply(cloud: PointCloud, space: Space) -> bytes:
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
        f"comment focalsweep; {PLY_AXES}; unit: {space.unit}; scale: {space.scale}",
        "comment std is one standard deviation of z; confidence runs from 0 to 1",
        f"element vertex {len(vertices)}",
        *(f"property {kind} {name}" for name, _, kind in fields),
        "end_header",
    ]
    return ("\n".join(header) + "\n").encode("ascii") + vertices.tobytes()
