"""Solids of a room, boxes and meshes, in metres, z up: footprints, contacts, and the poses in which they stand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
Rng = np.random.Generator

CONTACT = 0.02  # of a solid's height: vertices so near its lowest one carry it
LEAST_FLAT = 0.5  # of the footprint: a top that carries other things


@dataclass(frozen=True, eq=False)
class Surface:
    """What a solid is painted with.

    Args:
        name: for the index; "" for a plain colour.
        pixels: H W 3, 8-bit sRGB.
        tile: metres that the picture's height covers before it repeats, mirrored; 0: as the solid's own uv have it.
        roughness: of a coat of varnish; 0: matte.
    """

    name: str
    pixels: Pixels
    tile: float = 0.0
    roughness: float = 0.0


@dataclass(frozen=True, eq=False)
class Solid:
    """A solid in its place.

    Args:
        name: its own.
        vertices: V 3.
        uv: V 2, in metres along the faces where the surface has a tile.
        faces: F 3.
        surface: what it shows.
        held: "stands" on the first of its holders, "leans": stands on the first and leans on the second, "fixed" to the
            first; "" for the building.
        holders: names of those that hold it.
    """

    name: str
    vertices: Array
    uv: Array
    faces: npt.NDArray[np.uint32]
    surface: Surface
    held: str = ""
    holders: tuple[str, ...] = ()

    @cached_property
    def footprint(self) -> Array:
        """Its outline from above, convex, P 2."""
        return outline(self.vertices[:, :2])

    @cached_property
    def bottom(self) -> float:
        return float(self.vertices[:, 2].min())

    @cached_property
    def top(self) -> float:
        return float(self.vertices[:, 2].max())

    @cached_property
    def middle(self) -> Array:
        """The centre of mass of its convex hull."""
        return centre_of_mass(self.vertices)

    def moved(self, by: Any) -> Solid:
        return replace(self, vertices=self.vertices + np.asarray(by, np.float64))

    def has_flat_top(self) -> bool:
        """Whether something else may stand on it."""
        level = self.vertices[self.vertices[:, 2] > self.top - 0.015 * (self.top - self.bottom), :2]
        return len(level) > 3 and _area(level) > LEAST_FLAT * _area(self.footprint)

    def top_outline(self) -> Array:
        return outline(self.vertices[self.vertices[:, 2] > self.top - 0.015 * (self.top - self.bottom), :2])


def box(name: str, size: Any, surface: Surface) -> Solid:
    """A box on the origin: x and y about it, z from 0; uv in metres, or once over each face without a tile."""
    size = np.asarray(size, np.float64)
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
    vertices: list[Any] = []
    uv: list[Any] = []
    faces: list[Any] = []
    for axis in range(3):
        across, along = ((1, 2), (0, 2), (0, 1))[axis]  # so that v runs up on what is upright
        for side in (-1, 1):
            corners = np.empty((4, 3))
            corners[:, axis] = side / 2
            corners[:, across], corners[:, along] = square.T
            facing = np.cross(corners[1] - corners[0], corners[2] - corners[0])[axis] * side > 0
            order = ((0, 1, 2), (0, 2, 3)) if facing else ((0, 2, 1), (0, 3, 2))
            faces += [[4 * len(vertices) + i for i in face] for face in order]
            vertices.append((corners + np.array([0, 0, 0.5])) * size)
            uv.append(square * size[[across, along]] if surface.tile else square + 0.5)
    return Solid(name, np.concatenate(vertices), np.concatenate(uv), np.array(faces, np.uint32), surface)


def quad(name: str, corners: Any, surface: Surface) -> Solid:
    """A flat part of the building, by its corners in order."""
    corners = np.asarray(corners, np.float64)
    sides = np.linalg.norm(corners[1] - corners[0]), np.linalg.norm(corners[3] - corners[0])
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)
    return Solid(name, corners, square * sides, np.array([[0, 1, 2], [0, 2, 3]], np.uint32), surface)


def turned(solid: Solid, matrix: Array) -> Solid:
    return replace(solid, vertices=solid.vertices @ matrix.T)


def about_z(angle: float) -> Array:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1.0]])


def tilted(solid: Solid, angle: float) -> Solid:
    """Its top moved towards y, turned about x."""
    cos, sin = math.cos(angle), math.sin(angle)
    return turned(solid, np.array([[1, 0, 0], [0, cos, sin], [0, -sin, cos]]))


def outline(points: Array) -> Array:
    """The convex hull of points of the plane, in order; of points on a line, a sliver about it."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):
        low, high = points.min(0) - 1e-6, points.max(0) + 1e-6
        return np.array([low, [high[0], low[1]], high, [low[0], high[1]]])


def _area(points: Array) -> float:
    x, y = outline(points).T
    return 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def contains(polygon: Array, points: Any, margin: float = 0.0) -> bool:
    """Whether a convex polygon, in order, holds all points, so far from its sides."""
    normals, offsets = _sides(polygon)
    return bool((np.atleast_2d(points) @ normals.T <= offsets - margin).all())


def _sides(polygon: Array) -> tuple[Array, Array]:
    """Outward normals and offsets of the sides of a convex polygon."""
    edges = np.roll(polygon, -1, 0) - polygon
    normals = np.stack([edges[:, 1], -edges[:, 0]], 1)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    if (normals[0] @ (polygon.mean(0) - polygon[0])) > 0:
        normals = -normals
    return normals, np.einsum("ij,ij->i", normals, polygon)


def overlap(a: Array, b: Array, slack: float = 1e-6) -> bool:
    """Whether two convex polygons share more than `slack` (separating axes)."""
    for first, second in ((a, b), (b, a)):
        normals, offsets = _sides(first)
        if ((second @ normals.T).min(0) >= offsets - slack).any():
            return False
    return True


def collide(a: Solid, b: Solid) -> bool:
    """Whether their footprints meet at a height that both have: on the safe side for what is not a prism."""
    return min(a.top, b.top) - max(a.bottom, b.bottom) > 1e-6 and overlap(a.footprint, b.footprint)


def slide_until_touching(solid: Solid, other: Solid, angle: float) -> Solid:
    """The solid beside the other, in that direction from it, so that their footprints just touch."""
    direction = np.array([math.cos(angle), math.sin(angle)])
    sums = (other.footprint[:, None] - solid.footprint[None]).reshape(-1, 2)  # moves after which they meet
    normals, offsets = _sides(outline(sums))
    start = other.middle[:2] - solid.middle[:2]
    ahead = normals @ direction
    reach = (offsets - normals @ start)[ahead > 1e-9] / ahead[ahead > 1e-9]
    return solid.moved([*(start + direction * (reach.min() + 1e-5)), 0.0])


def centre_of_mass(vertices: Array) -> Array:
    """Of the convex hull, filled; of a flat one, its mean vertex."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        corners = vertices[ConvexHull(vertices).simplices]
    except (QhullError, ValueError):
        return np.asarray(vertices.mean(0))
    inside = vertices.mean(0)
    volumes = np.abs(np.linalg.det(corners - inside))
    return np.asarray(((corners.sum(1) + inside) / 4 * volumes[:, None]).sum(0) / volumes.sum())


def stands(solid: Solid) -> bool:
    """Whether its centre of mass lies above what carries it, as it is."""
    low = solid.vertices[solid.vertices[:, 2] < solid.bottom + CONTACT * (solid.top - solid.bottom), :2]
    return len(low) > 2 and contains(outline(low), solid.middle[:2])


def resting_poses(vertices: Array) -> list[tuple[float, Array]]:
    """Area and rotation of every face of the convex hull on which the solid lies by itself, the largest first."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(vertices)
    middle = centre_of_mass(vertices)
    poses = []
    for normal in np.unique(np.round(hull.equations[:, :3], 2), axis=0):
        normal = normal / np.linalg.norm(normal)
        rotation = _down(normal)
        turned_ = vertices @ rotation.T
        height = np.ptp(turned_[:, 2])
        low = turned_[turned_[:, 2] < turned_[:, 2].min() + CONTACT * height, :2]
        if len(low) > 2 and contains(outline(low), (rotation @ middle)[:2], 0.02 * height):
            poses.append((_area(low), rotation))
    return sorted(poses, key=lambda pose: -pose[0])


def _down(normal: Array) -> Array:
    """A rotation that turns this direction downwards."""
    target = np.array([0.0, 0, -1])
    axis, cos = np.cross(normal, target), float(normal @ target)
    if cos < -1 + 1e-9:
        return np.diag([1.0, -1, -1])
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + cross + cross @ cross / (1 + cos))
