"""Depth as geometry: points and triangles in metres, in camera coordinates (x right, y down, z forward).

The thin lens's centre is the origin and the pinhole of the picture. The picture plane lies V behind it
(`projection_distance`), so with p the pixel pitch and (c, r) the principal point, where the axis meets the picture:

    x = (column + 1/2 - c) p z / V        y = (row + 1/2 - r) p z / V        z = depth

V is the image distance s f d_f / (d_f - f) of a frame that was magnified by s: that of the reference frame (s = 1), and
of every frame that registers to it. A lens focused far has V = f: the field of view that a data sheet gives.

A plane's inverse depth is affine in row and column, whatever its tilt: that is why edges are judged in inverse depth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from focalsweep.errors import InputError
from focalsweep.results.figures import LEAST_CONFIDENCE, srgb_8_bit
from focalsweep.results.result import Array, DepthResult
from focalsweep.types import Camera
from focalsweep.validation import as_setting

LARGEST_RELATIVE_STD = 0.5  # beyond it a point has a direction, but no place
FARTHEST_OVER_NEAREST = 100.0  # beyond it a viewer shows a speck at the end of long rays
STEP_STDS = 3.0  # a step between neighbours is more than noise
LEAST_STEP = 0.01  # of the depth: a smaller one is always a surface, and neighbours share most of their noise
STEEPEST_DEGREES = 83.0  # between a surface and the picture plane: a blurred depth edge looks like a steeper one

Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


class NothingKnownError(ValueError):
    """No point of a result is sure enough to be exported."""


@dataclass(frozen=True, eq=False)
class PointCloud:
    """Points that are known, row by row."""

    points: Array  # N 3, metres
    colours: Bytes  # N 3, sRGB
    std: Array  # N, metres, of z
    confidence: Array  # N


@dataclass(frozen=True, eq=False)
class Mesh:
    """The surface that the camera sees, cut where the depth jumps."""

    points: Array  # N 3, metres
    texture_coordinates: Array  # N 2, across and down in 0..1 of the picture
    faces: npt.NDArray[np.uint32]  # M 3, counter-clockwise as the camera sees them


def projection_distance(result: DepthResult) -> float:
    """Metres from the lens to the picture plane; the focal length where the result does not say."""
    if result.projection_distance is not None:
        return result.projection_distance
    return as_setting("focal_length", metric_camera(result).focal_length).detach().median().item()


def projection_px(result: DepthResult) -> float:
    """The projection distance in pixels: what other programs call the focal length fx = fy."""
    pitch = as_setting("pixel_pitch", metric_camera(result).pixel_pitch).detach().median().item()
    return projection_distance(result) / pitch


def metric_camera(result: DepthResult) -> Camera:
    """The camera of a result in metres; what has no unit has none, and so no place in space."""
    if not isinstance(result.camera, Camera):
        raise InputError(
            "depth without a unit has no geometry in metres", field="focus_distances", remedy="give {focus_distances}"
        )
    return result.camera


def principal_point(result: DepthResult) -> tuple[float, float]:
    """Column and row where the optical axis meets the picture, a pixel's middle at 0.5."""
    height, width = result.depth.shape[-2:]
    return result.principal_point or (width / 2, height / 2)


def point_cloud(
    result: DepthResult,
    *,
    least_confidence: float = LEAST_CONFIDENCE,
    farthest: float | None = None,
    most_points: int = 1_000_000,
) -> PointCloud:
    """The points that are known, with their colours.

    Args:
        result: of one stack.
        least_confidence: points below it are left out, and those whose std exceeds half their depth.
        farthest: metres; points beyond it are left out; by default 100 times the nearest of them.
        most_points: of a larger picture every n-th row and column is taken.
    """
    rows, columns = sample_rows_and_columns(result, most_points)
    grid = np.ix_(rows, columns)
    known = find_known(result, least_confidence, farthest)[grid]
    points = _back_project(result, rows, columns)
    return PointCloud(
        points=points[known],
        colours=srgb_8_bit(result.all_in_focus[grid])[known].repeat(3 // result.all_in_focus.shape[-1], axis=-1),
        std=result.std[grid][known],
        confidence=result.confidence[grid][known],
    )


def surface_mesh(
    result: DepthResult,
    *,
    least_confidence: float = LEAST_CONFIDENCE,
    farthest: float | None = None,
    most_vertices: int = 300_000,
) -> Mesh:
    """Triangles between neighbouring points that are known and lie on one surface; see `point_cloud`."""
    rows, columns = sample_rows_and_columns(result, most_vertices)
    grid = np.ix_(rows, columns)
    known = find_known(result, least_confidence, farthest)[grid]
    depth = np.where(known, result.depth[grid], np.nan).astype(np.float64)
    inverse = 1 / depth
    noise = result.std[grid] * inverse**2
    spacing_px = rows[1] - rows[0] if len(rows) > 1 else 1
    steepest = math.tan(math.radians(STEEPEST_DEGREES)) * spacing_px / projection_px(result)
    across = _on_one_surface(inverse, noise, steepest)
    down = _on_one_surface(inverse.T, noise.T, steepest).T
    faces = _triangles(inverse, across, down)
    if len(faces) == 0:
        raise NothingKnownError(
            f"no surface has a confidence of {least_confidence:g} or more: lower least_confidence, or go without a mesh"
        )
    used, faces = np.unique(faces, return_inverse=True)
    height, width = result.depth.shape
    u, v = np.meshgrid((columns + 0.5) / width, (rows + 0.5) / height)
    return Mesh(
        points=_back_project(result, rows, columns).reshape(-1, 3)[used],
        texture_coordinates=np.stack([u, v], -1).reshape(-1, 2)[used].astype(np.float32),
        faces=faces.reshape(-1, 3).astype(np.uint32),
    )


def measure_distance(result: DepthResult, first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
    """Metres between the points seen at two pixels (row, column), and one standard deviation of that.

    The depths of the two are taken as independently wrong, their directions as exact: errors that the whole scene
    shares (a wrong focal length or pixel pitch) come on top. NaN where a depth is not finite.
    """
    middle = principal_point(result)
    points, rays, std = [], [], []
    for row, column in (first, second):
        z = float(result.depth[row, column])
        ray = np.array([(column + 0.5 - middle[0]), (row + 0.5 - middle[1]), 0.0]) / projection_px(result)
        ray[2] = 1.0
        points.append(ray * (z if math.isfinite(z) else math.nan))
        rays.append(ray)
        std.append(float(result.std[row, column]))
    between = points[0] - points[1]
    distance = float(np.linalg.norm(between))
    if distance == 0:
        return 0.0, math.hypot(*std)
    shares = [float(ray @ between) / distance * error for ray, error in zip(rays, std, strict=True)]
    return distance, math.hypot(*shares)


def find_known(result: DepthResult, least_confidence: float, farthest: float | None) -> Mask:
    """Where a point has a place worth showing, H W."""
    if not 0 <= least_confidence <= 1:
        raise ValueError(f"least_confidence must lie between 0 and 1, but is {least_confidence:g}")
    depth = result.depth
    known: Mask = np.isfinite(depth) & (depth > 0) & (result.confidence >= least_confidence)
    known &= result.std <= LARGEST_RELATIVE_STD * depth
    if farthest is None and known.any():
        farthest = FARTHEST_OVER_NEAREST * float(np.quantile(depth[known], 0.001))
    return known if farthest is None else known & (depth <= farthest)


def sample_rows_and_columns(result: DepthResult, most: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Every n-th row and column, n the least that keeps to `most` samples."""
    if most < 1:
        raise ValueError(f"at least 1 point must be allowed, but the most is {most}")
    height, width = result.depth.shape
    step = max(1, math.isqrt(height * width // most))
    while math.ceil(height / step) * math.ceil(width / step) > most:
        step += 1
    first = min(step // 2, height - 1), min(step // 2, width - 1)
    return np.arange(first[0], height, step), np.arange(first[1], width, step)


def _back_project(result: DepthResult, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> Array:
    """Points of the grid, h w 3."""
    middle = principal_point(result)
    z = result.depth[np.ix_(rows, columns)].astype(np.float64)
    scale = 1 / projection_px(result)
    z = np.where(np.isfinite(z), z, 0)  # left out later; infinity times the axis is no number
    x = (columns + 0.5 - middle[0]) * scale * z
    y = (rows + 0.5 - middle[1])[:, None] * scale * z
    return np.stack([x, y, z], -1).astype(np.float32)


def _on_one_surface(
    inverse: npt.NDArray[np.float64],  # h w, dioptres; NaN where not known
    noise: npt.NDArray[np.float64],  # h w, its standard deviation
    steepest: float,
) -> Mask:  # h w-1
    """Whether each point and its neighbour to the right lie on one surface.

    They do not where the step between them leaves the slopes on both sides of it by more than noise, nor where it is
    steeper than any surface seen from here (a depth edge that was blurred over some pixels has no single step).
    """
    left, right = inverse[:, :-1], inverse[:, 1:]
    step = right - left
    allowed = STEP_STDS * np.hypot(noise[:, :-1], noise[:, 1:])
    scale = np.sqrt(left * right)
    missing = np.full_like(step[:, :1], np.nan)
    before, after = np.hstack([missing, step[:, :-1]]), np.hstack([step[:, 1:], missing])
    low, high = np.fmin(before, after), np.fmax(before, after)  # the other one where one is missing
    excess = np.fmax(np.fmax(low - step, step - high), 0)  # 0 where both are missing
    with np.errstate(invalid="ignore"):
        smooth = excess <= np.maximum(allowed, LEAST_STEP * scale)
        visible = np.abs(step) <= steepest * scale + np.minimum(allowed, LEAST_STEP * scale)
    return np.asarray(smooth & visible & np.isfinite(step))


def _triangles(inverse: npt.NDArray[np.float64], across: Mask, down: Mask) -> npt.NDArray[np.intp]:
    """Two triangles a quad of the grid, cut along the diagonal that bends less; indices into the flat grid, M 3."""
    height, width = inverse.shape
    index = np.arange(height * width).reshape(height, width)
    top_left, top_right, low_left, low_right = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    with np.errstate(invalid="ignore"):
        falling = np.nan_to_num(np.abs(inverse[1:, 1:] - inverse[:-1, :-1]), nan=np.inf)
        rising = np.nan_to_num(np.abs(inverse[:-1, 1:] - inverse[1:, :-1]), nan=np.inf)
    cut_falling = falling <= rising
    top, bottom, left, right = across[:-1], across[1:], down[:, :-1], down[:, 1:]
    parts = [
        (cut_falling & left & bottom, (top_left, low_left, low_right)),
        (cut_falling & top & right, (top_left, low_right, top_right)),
        (~cut_falling & top & left, (top_left, low_left, top_right)),
        (~cut_falling & bottom & right, (top_right, low_left, low_right)),
    ]
    return np.concatenate([np.stack([corner[keep] for corner in corners], -1) for keep, corners in parts])
