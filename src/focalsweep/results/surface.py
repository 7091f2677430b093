"""Depth as a surface: a mesh of triangles under the sharp picture, closed or cut where the depth jumps.

A picture with its depth is a relief of a coordinate in which planes are planes: inverse depth for a lens (its axis
of perspective), height for a stage. The surface is made there, few triangles where it is flat (`triangulation`), and
put into space afterwards. Seen from the photo's own place it therefore shows the photo, whatever the depth.

What is behind an edge nobody has seen. A closed surface bridges it, and its triangles there are marked; a cut one
leaves them out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from focalsweep.results.figures import LEAST_CONFIDENCE
from focalsweep.results.geometry import NothingKnownError, Space, find_known, space_of
from focalsweep.results.result import Array, DepthResult
from focalsweep.results.triangulation import Place, border, grid_size, point_errors, triangles

MOST_FACES = 400_000
MOST_SAMPLES = 2_000_000  # of the depth map, before it is simplified
TILES = (32, 4)  # cells of the largest triangles, and of those in the smallest pictures
DEPTH_ERROR = 1.0  # in pixels of the picture, as wide as they are there
NOISE_KEPT = 0.5  # standard deviations of depth, that a triangle may be off besides
TEXTURE_SHIFT_PX = 0.25  # a viewer shifts the picture inside a triangle whose corners differ in depth
STEEPEST_DEGREES = 83.0  # between a surface and the picture plane: steeper is an edge, or noise
LEAST_STEP = 0.02  # of the depth, without perspective of the whole range: less is noise
EDGE_OF_RANGE = 0.08  # a change within a few pixels that is an edge in any picture
SHARPENED = 4  # points of the grid on either side that an edge was blurred over
EDGE_SIDE = 2  # of them

Kind = Literal["closed", "cut"]
KINDS: tuple[Kind, ...] = ("closed", "cut")
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles of a surface, counter-clockwise as the camera sees them."""

    space: Space
    across: Array  # N, pixels of the picture from its left edge
    down: Array  # N, from its top
    relief: Array  # N, the coordinate of `space`
    faces: npt.NDArray[np.uint32]  # M 3
    bridged: Bools  # M: nobody has seen what is there
    border: npt.NDArray[np.uint32]  # the points around a closed surface, in the sense of the faces

    @property
    def points(self) -> Array:
        """N 3, in the unit of the space: x right, y down, z forward."""
        return self.space.points(self.across, self.down, self.relief)

    def texture_coordinates(self, size: tuple[int, int]) -> Array:
        """N 2, across and down in 0..1 of a picture H W."""
        return np.stack([self.across / size[1], self.down / size[0]], -1).astype(np.float32)


def surface_of(
    result: DepthResult,
    kind: Kind = "closed",
    *,
    least_confidence: float = LEAST_CONFIDENCE,
    most_faces: int = MOST_FACES,
) -> Surface:
    """The surface of one stack's result; see the module.

    Args:
        kind: "closed" or "cut".
        least_confidence: below it a place counts as not seen.
        most_faces: of a closed surface; of a cut one the edges may add some.
    """
    if kind not in KINDS:
        raise ValueError(f"a surface is {' or '.join(KINDS)}, not {kind!r}")
    space = space_of(result)
    known = find_known(result, least_confidence, None)
    if not known.any():
        raise NothingKnownError(
            f"no surface has a confidence of {least_confidence:g} or more: lower least_confidence, or go without a mesh"
        )
    size = result.depth.shape
    cells = min(1.0, math.sqrt(MOST_SAMPLES / math.prod(size)))
    tile = next((tile for tile in (TILES[0], 16, 8) if 2 * tile <= min(size)), TILES[1])
    rows, columns = (grid_size(length, round(length * cells), tile) for length in size)
    across, down = np.linspace(0, size[1], columns), np.linspace(0, size[0], rows)
    relief, seen = _sampled(space, result.depth, known, across, down)
    edges = _Edges(space, math.tan(math.radians(STEEPEST_DEGREES)), LEAST_STEP * float(np.ptp(relief)))
    relief = edges.sharpened(relief)
    spacing = max(across[1], down[1])

    noise = _sampled_noise(space, result, across, down)
    weight = space.pixels(relief)
    weight /= DEPTH_ERROR + NOISE_KEPT * noise * weight

    def own(place: Place, first: Any, last: Any, length: float) -> Any:
        bend = np.abs(relief[place] - (first + last) / 2) * weight[place]
        if not space.perspective:
            return bend
        shift = length * spacing / 2 * np.abs(last - first) / (first + last)
        return np.maximum(bend, shift / TEXTURE_SHIFT_PX)

    forced = None if kind == "closed" else edges.near_cuts(relief, seen, (down[1], across[1]))
    faces = triangles(point_errors(relief, own, tile, forced), tile, 1.0, most_faces)
    around = border(relief.shape, faces)
    places = np.stack(np.meshgrid(across, down), -1).reshape(-1, 2).astype(np.float32)
    flat = relief.ravel()
    bridged = ~seen.ravel()[faces].all(1) | edges.bridged(places, flat, faces)
    if kind == "cut":
        faces, bridged, around = faces[~bridged], bridged[~bridged], around[:0]
        if not len(faces):
            raise NothingKnownError("the surface is cut all over: ask for a closed one")
    used, number = np.unique(faces, return_inverse=True)
    return Surface(
        space=space,
        across=places[used, 0],
        down=places[used, 1],
        relief=flat[used],
        faces=number.reshape(-1, 3).astype(np.uint32),
        bridged=bridged,
        border=np.searchsorted(used, around).astype(np.uint32),
    )


def sharpened_edges(relief: Array) -> Array:
    """A map whose edges were blurred over some pixels with steps in their place, whatever its unit."""
    low, high = np.quantile(relief, [0.005, 0.995])
    flat = Space("relative", False, (0.0, 0.0), 1.0)
    return _Edges(flat, 0.0, max(EDGE_OF_RANGE * float(high - low), 1e-12)).sharpened(relief)


def _sampled(
    space: Space, depth: Array, known: Bools, across: npt.NDArray[Any], down: npt.NDArray[Any]
) -> tuple[Array, Bools]:
    """The relief at points of the grid, without gaps, and where it was seen.

    What lies beyond all that is known, infinity, is brought to its ends; what has no depth is filled from around.
    """
    import cv2

    relief = space.relief(depth)
    low, high = float(relief[known].min()), float(relief[known].max())
    missing = ~np.isfinite(relief)
    np.clip(relief, low, high, out=relief)
    if missing.any():
        relief = _filled(relief, missing)
    x, y = (np.ascontiguousarray(m, np.float32) for m in np.meshgrid(across - 0.5, down - 0.5))
    border = cv2.BORDER_REPLICATE
    grid = cv2.remap(relief, x, y, cv2.INTER_LINEAR, borderMode=border)
    seen = cv2.remap(known.astype(np.uint8), x, y, cv2.INTER_NEAREST, borderMode=border)
    return np.clip(grid, low, high), np.asarray(seen, bool)


def _sampled_noise(space: Space, result: DepthResult, across: npt.NDArray[Any], down: npt.NDArray[Any]) -> Array:  # R C
    """The standard deviation of the relief at points of the grid, no more than the relief itself has."""
    rows, columns = (
        np.clip(axis.astype(np.intp), 0, size - 1)
        for axis, size in zip((down, across), result.depth.shape, strict=True)
    )
    at = np.ix_(rows, columns)
    noise = space.relief_std(result.depth[at], result.std[at])
    return np.nan_to_num(noise, nan=0.0, posinf=0.0)


def _filled(values: Array, missing: Bools) -> Array:
    """Gaps filled smoothly from their surroundings, coarse to fine."""
    import cv2

    sums, weights = [np.where(missing, 0, values).astype(np.float32)], [(~missing).astype(np.float32)]
    while min(sums[-1].shape) > 1:
        sums.append(np.asarray(cv2.pyrDown(sums[-1]), np.float32))
        weights.append(np.asarray(cv2.pyrDown(weights[-1]), np.float32))
    filled = np.full_like(sums[-1], sums[-1].sum() / max(float(weights[-1].sum()), 1e-12))
    for total, weight in zip(sums[::-1], weights[::-1], strict=True):
        coarse = cv2.resize(filled, total.shape[::-1], interpolation=cv2.INTER_LINEAR)
        filled = np.where(weight > 1e-6, total / np.maximum(weight, 1e-6), 0) * weight + coarse * (1 - weight)
    return np.asarray(filled, np.float32)


@dataclass(frozen=True)
class _Edges:
    """What is an edge of something in front, and no surface that the camera could see so."""

    space: Space
    steepest: float  # pixels of depth for a pixel of the picture
    least: float  # of relief, without perspective

    def jump(self, relief: Any, length: Any) -> Any:
        """How far relief changes over so many pixels at the least, where there is an edge."""
        least = LEAST_STEP * np.abs(relief) if self.space.perspective else self.least
        return self.steepest * length / self.space.pixels(relief) + least

    def sharpened(self, relief: Array) -> Array:
        """Edges that were blurred over some points made steps again: each point goes to the nearer of both sides."""
        import cv2

        square = np.ones((2 * EDGE_SIDE + 1, 2 * EDGE_SIDE + 1), np.uint8)
        for _ in range(SHARPENED):
            low, high = cv2.erode(relief, square), cv2.dilate(relief, square)
            edge = high - low > self.jump(relief, 2 * EDGE_SIDE)
            relief = np.where(edge, np.where(high - relief < relief - low, high, low), relief)
        return np.asarray(relief, np.float32)

    def near_cuts(self, relief: Array, seen: Bools, spacing: tuple[float, float]) -> Bools:
        """Points of cells that a cut goes through: there the triangles must be the smallest."""
        import cv2

        near = np.zeros(relief.shape, np.uint8)
        for axis in (0, 1):
            steep = np.abs(np.diff(relief, axis=axis)) > self.jump(np.delete(relief, -1, axis), spacing[axis])
            first, last = (np.moveaxis(near, axis, 0)[part] for part in (slice(None, -1), slice(1, None)))
            first |= np.moveaxis(steep, axis, 0)
            last |= np.moveaxis(steep, axis, 0)
        ends = seen.astype(np.uint8)
        square = np.ones((3, 3), np.uint8)
        near |= np.asarray(cv2.dilate(ends, square) - cv2.erode(ends, square), np.uint8)
        return np.asarray(cv2.dilate(near, square), bool)

    def bridged(self, places: Array, relief: Array, faces: Any) -> Bools:
        """Triangles that span an edge."""
        corners, heights = places[faces], relief[faces]
        sides = np.stack([corners[:, i] - corners[:, i - 1] for i in range(3)], 1)
        steps = np.abs(np.stack([heights[:, i] - heights[:, i - 1] for i in range(3)], 1))
        return np.asarray((steps > self.jump(heights, np.hypot(sides[..., 0], sides[..., 1]))).any(1))
