"""What a user keeps: depth, error bar, confidence and the sharp picture as NumPy arrays, and `save`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from focalsweep.lenses import StageLens, unit_of
from focalsweep.progress import Progress
from focalsweep.sweep.fit import Fit
from focalsweep.types import DepthGrid, Lens, PhotoTags

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class DepthResult:
    """The answer for a stack. Arrays have the axes H W (B H W for a batch).

    Args:
        depth: metres from the lens along the optical axis; of a stage the height; without a unit where `unit` is None.
        std: one standard deviation of depth, in its unit.
        confidence: 0 to 1, the probability that the true plane is the chosen one or a direct neighbour.
        all_in_focus: H W C, linear light.
        camera: of the pictures as they are here; a `RelativeLens` where depth has no unit.
        planes: the planes that were swept.
        record: how it was made: method, settings with their sources, versions, warnings, timings.
        projection_distance: metres from the lens to the plane that the pictures were taken in, which sets the field of
            view; None is the focal length, right for a lens focused far.
        principal_point: column and row where the optical axis meets the picture, in pixels from its upper left corner
            (a pixel's middle is at 0.5); None is the middle.
        photo: bits, colour profile and EXIF of the reference photo, which the sharp picture is written with.
        fit: whether the settings explain the photos; None for a batch.
    """

    depth: Array
    std: Array
    confidence: Array
    all_in_focus: Array
    camera: Lens
    planes: DepthGrid
    record: dict[str, Any] = field(default_factory=dict)
    projection_distance: float | None = None
    principal_point: tuple[float, float] | None = None
    photo: PhotoTags | None = None
    fit: Fit | None = None

    @property
    def unit(self) -> Literal["m"] | None:
        """Of depth and std; None where only the order of the frames was known."""
        return unit_of(self.camera)

    @property
    def quantity(self) -> Literal["depth", "height"]:
        """What `depth` holds: from the lens along its axis, or, of a stage, upwards from position 0."""
        return "height" if isinstance(self.camera, StageLens) else "depth"

    def save(
        self,
        folder: str | Path,
        exports: Sequence[str] = (),
        progress: Progress | None = None,
        *,
        surface: Literal["closed", "cut"] = "closed",
    ) -> list[Path]:
        """Write depth.npz, depth.png, all_in_focus.png, run.json and, of metres, depth_mm.png; returns their paths.

        Args:
            folder: made if it is not there.
            exports: also "jpg", "tif" (the sharp picture), "exr" (depth.exr), "ply" (cloud.ply, coloured points),
                "glb", "obj" (mesh.glb, mesh.obj: the surface under the sharp picture), "mesh" (mesh.ply, the same
                with coloured points), "stl" (print.stl, a relief on a plate), "normals" (normals.png).
            progress: told how far it is.
            surface: of the meshes: "closed", with what nobody has seen bridged, or "cut" there.
        """
        from focalsweep.results.writing import write_result

        return write_result(self, Path(folder), exports, progress, surface=surface)

    def refocus(
        self,
        at: float | None = None,
        *,
        share: float | None = None,
        f_number: float | None = None,
        widen: float = 1.0,
        tilt: float = 0.0,
        size_px: int | None = None,
    ) -> Array:  # H W C, linear light
        """The sharp picture as the lens would have taken it at another focus, aperture and tilt.

        See `focalsweep.results.refocus.refocus_result`.
        """
        from focalsweep.results.refocus import refocus_result

        return refocus_result(self, at, share=share, f_number=f_number, widen=widen, tilt=tilt, size_px=size_px)
