"""Depth as geometry: points in metres, in camera coordinates (x right, y down, z forward).

The thin lens's centre is the origin and the pinhole of the picture. The picture plane lies V behind it
(`projection_distance`), so with p the pixel pitch and (c, r) the principal point, where the axis meets the picture:

    x = (column + 1/2 - c) p z / V        y = (row + 1/2 - r) p z / V        z = depth

V is the image distance s f d_f / (d_f - f) of a frame that was magnified by s: that of the reference frame (s = 1), and
of every frame that registers to it. A lens focused far has V = f: the field of view that a data sheet gives.

A plane's inverse depth is affine in row and column, whatever its tilt: that is why surfaces are made of it.

Without a unit, and of a stage, there is no perspective: points are a relief, rows and columns across, heights up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from focalsweep.errors import InputError
from focalsweep.results.figures import LEAST_CONFIDENCE, srgb_8_bit
from focalsweep.results.heights import MICROMETRES, specimen_pixel
from focalsweep.results.result import Array, DepthResult
from focalsweep.types import Camera
from focalsweep.validation import as_setting

LARGEST_RELATIVE_STD = 0.5  # beyond it a point has a direction, but no place
FARTHEST_OVER_NEAREST = 100.0  # beyond it a viewer shows a speck at the end of long rays
RELIEF = 0.2  # of the picture's width: the height of a relief whose scale is free
RANGE = (0.005, 0.995)  # of all pixels, which that height is for

Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Space:
    """How the pixels of a result lie in space.

    `relief` is the coordinate in which a plane is affine in column and row: inverse depth of a lens; of a stage, and
    where depth has no unit, height towards the viewer, seen without perspective.

    Args:
        unit: of the points.
        perspective: whether relief is inverse depth.
        middle: column and row of the axis.
        pixel: width of a pixel: at depth 1 with perspective, everywhere without.
        offset, gain: relief = gain * (quantity - offset) without perspective, of inverse depth or of metres of height.
        scale: "true", or what of it is free.
    """

    unit: Literal["metre", "micrometre", "relative"]
    perspective: bool
    middle: tuple[float, float]
    pixel: float
    offset: float = 0.0
    gain: float = 1.0
    scale: str = "true"

    def relief(self, depth: Array) -> Array:
        """Of depths (heights of a stage); 0 for infinity with perspective, NaN where there is none."""
        if self.unit == "micrometre":
            return np.asarray((depth - self.offset) * self.gain, np.float32)
        with np.errstate(divide="ignore"):
            inverse = np.where(depth > 0, 1 / depth, np.nan)
        return np.asarray(inverse if self.perspective else (inverse - self.offset) * self.gain, np.float32)

    def relief_std(self, depth: Array, std: Array) -> Array:
        """For the standard deviation of depths or of heights."""
        if self.unit == "micrometre":
            return np.asarray(std * self.gain, np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(std * self.gain / depth**2, np.float32)

    def point_std(self, depth: Array, std: Array) -> Array:
        """Of z."""
        return std if self.perspective else self.relief_std(depth, std)

    def pixels(self, relief: Any) -> Any:
        """How many pixels as wide as they are there a unit of relief is long."""
        return 1 / (self.pixel * np.maximum(relief, 1e-12)) if self.perspective else 1 / self.pixel

    def points(self, across: Any, down: Any, relief: Any) -> Array:
        """Of places in the picture (pixels from its upper left corner): x right, y down, z forward."""
        x, y = (across - self.middle[0]) * self.pixel, (down - self.middle[1]) * self.pixel
        if not self.perspective:
            return np.stack([x, y, -np.asarray(relief, np.float64)], -1).astype(np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = np.where(relief > 0, 1 / np.asarray(relief, np.float64), 0)  # left out later
        return np.stack([x * depth, y * depth, depth], -1).astype(np.float32)


def space_of(result: DepthResult) -> Space:
    """Metres from a lens; micrometres of a stage; a relief of free scale, as wide as 1, where there is no unit."""
    middle, width = principal_point(result), result.depth.shape[1]
    if isinstance(result.camera, Camera):
        return Space("metre", True, middle, 1 / projection_px(result))
    if result.quantity == "height":
        known = result.depth[np.isfinite(result.depth)]
        low, high = np.quantile(known, RANGE) * MICROMETRES if known.size else (0.0, 1.0)
        pixel = specimen_pixel(result)
        if pixel is not None:
            return Space("micrometre", False, middle, pixel * MICROMETRES, 0.0, MICROMETRES)
        free = max(float(high - low), 1e-9) / (RELIEF * width)
        return Space("micrometre", False, middle, free, 0.0, MICROMETRES, "heights are true, the width is free")
    with np.errstate(divide="ignore"):
        inverse = 1 / result.depth[result.depth > 0]
    low, high = np.quantile(inverse, RANGE) if inverse.size else (0.0, 1.0)
    gain = RELIEF / max(float(high - low), 1e-12)
    return Space("relative", False, middle, 1 / width, float(low + high) / 2, gain, "free: 1 is the picture's width")


class NothingKnownError(ValueError):
    """No point of a result is sure enough to be exported."""


@dataclass(frozen=True, eq=False)
class PointCloud:
    """Points that are known, row by row."""

    points: Array  # N 3, in the unit of the space
    colours: Bytes  # N 3, sRGB
    std: Array  # N, of z
    confidence: Array  # N


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


def camera_settings(result: DepthResult) -> dict[str, float]:
    """The camera as single numbers, the median where frames differ."""
    camera = metric_camera(result)
    names = ("focal_length", "f_number", "pixel_pitch")
    settings = {name: as_setting(name, getattr(camera, name)).detach().median().item() for name in names}
    return {**settings, "projection_px": projection_px(result)}


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
    space = space_of(result)
    across, down = np.meshgrid(columns + 0.5, rows + 0.5)
    points = space.points(across, down, space.relief(result.depth[grid]))
    return PointCloud(
        points=points[known],
        colours=srgb_8_bit(result.all_in_focus[grid])[known].repeat(3 // result.all_in_focus.shape[-1], axis=-1),
        std=space.point_std(result.depth[grid], result.std[grid])[known],
        confidence=result.confidence[grid][known],
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
    known: Mask = np.isfinite(depth) & (result.confidence >= least_confidence)
    if not isinstance(result.camera, Camera):  # a relief, whose heights may be anything
        return known if result.quantity == "height" else known & (depth > 0)
    known &= (depth > 0) & (result.std <= LARGEST_RELATIVE_STD * depth)
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
