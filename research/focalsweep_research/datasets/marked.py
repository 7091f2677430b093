"""Flat things that someone marked in photos of real stacks: a TOML file of polygons."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.photos.photo_stack import RegisteredPhotos

MARKS = Path(__file__).resolve().parents[2] / "planes.toml"
KEYS = {"stack", "name", "photo", "polygons"}
Polygon = tuple[tuple[float, float], ...]
"""Corners, each a column and a row."""


@dataclass(frozen=True)
class Region:
    """Something flat: one plane, in one or more polygons, in pixels of a photo's file."""

    stack: str
    name: str
    photo: str
    polygons: tuple[Polygon, ...]


def read_marks(path: Path = MARKS) -> tuple[dict[str, list[Region]], dict[str, str]]:
    """The regions of every stack, by its folder's name; and the order of focus of those that do not say it."""
    found: dict[str, list[Region]] = defaultdict(list)
    content = tomllib.loads(path.read_text())
    for number, entry in enumerate(content.get("region", []), start=1):
        region = _region(entry, f"{path}: region {number}")
        if any(other.name == region.name for other in found[region.stack]):
            raise ValueError(f"{path}: {region.stack} has two regions called {region.name!r}: rename one")
        found[region.stack].append(region)
    return dict(found), content.get("order", {})


def _region(entry: dict[str, Any], where: str) -> Region:
    if set(entry) != KEYS:
        raise ValueError(f"{where} must have {', '.join(sorted(KEYS))} and nothing else, but has {', '.join(entry)}")
    polygons = []
    for polygon in entry["polygons"]:
        if len(polygon) < 3 or any(len(point) != 2 for point in polygon):
            raise ValueError(f"{where}: a polygon needs three points [column, row] or more, but is {polygon}")
        polygons.append(tuple((float(x), float(y)) for x, y in polygon))
    return Region(entry["stack"], entry["name"], entry["photo"], tuple(polygons))


def registered_mask(
    region: Region,
    frames: RegisteredPhotos,
    size: tuple[int, int],  # h, w: of the part that all frames share, resampled
) -> Tensor:  # h w, bool
    """Where a region lies in the registered frames."""
    names = frames.photos.names
    if region.photo not in names:
        raise ValueError(
            f"region {region.name!r} of {region.stack} is marked in {region.photo}, which is not among the registered "
            f"photos {', '.join(names)}: mark it in one of them"
        )
    rows, columns = frames.alignment.area
    to_reference = np.linalg.inv(frames.alignment.transforms[names.index(region.photo)])
    scale = np.array([size[1], size[0]]) / [columns.stop - columns.start, rows.stop - rows.start]
    polygons = []
    for polygon in region.polygons:
        points = np.c_[np.array(polygon), np.ones(len(polygon))] @ to_reference.T
        points = points[:, :2] / points[:, 2:] - [columns.start, rows.start]
        polygons.append(points * scale)
    return filled(polygons, size)


def filled(polygons: Sequence[Any], size: tuple[int, int]) -> Tensor:  # H W, bool
    """The pixels within any of the polygons."""
    import cv2

    mask = np.zeros(size, np.uint8)
    for polygon in polygons:
        cv2.fillPoly(mask, [np.rint(np.asarray(polygon) - 0.5).astype(np.int32)], (1,))
    return torch.from_numpy(mask.astype(bool))
