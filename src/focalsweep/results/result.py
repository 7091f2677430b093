"""What a user keeps: depth, error bar, confidence and the sharp picture as NumPy arrays, and `save`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from focalsweep.types import Camera, DepthGrid

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DepthResult:
    """The answer for a stack. Arrays have the axes H W (B H W for a batch).

    Args:
        depth: metres from the lens along the optical axis.
        std: metres, one standard deviation.
        confidence: 0 to 1, the probability that the true plane is the chosen one or a direct neighbour.
        all_in_focus: H W C, linear light.
        camera: the camera of the pictures as they were worked on.
        planes: the planes that were swept.
        record: how it was made: method, settings with their sources, versions, warnings, timings.
        projection_distance: metres from the lens to the plane that the pictures were taken in, which sets the field of
            view; None is the focal length, right for a lens focused far.
    """

    depth: Array
    std: Array
    confidence: Array
    all_in_focus: Array
    camera: Camera
    planes: DepthGrid
    record: dict[str, Any] = field(default_factory=dict)
    projection_distance: float | None = None

    def save(
        self, folder: str | Path, exports: Sequence[str] = (), progress: Callable[[float], None] | None = None
    ) -> list[Path]:
        """Write depth.npz, depth_mm.png, depth.png, all_in_focus.png and run.json; returns their paths.

        Args:
            folder: made if it is not there.
            exports: also "exr" (depth.exr), "ply" (cloud.ply, coloured points), "glb" (mesh.glb, textured surface).
            progress: called with the share of the files that are written.
        """
        from focalsweep.results.writing import write_result

        return write_result(self, Path(folder), exports, progress)
