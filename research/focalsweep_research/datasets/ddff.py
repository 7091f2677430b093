"""DDFF-12 (Hazirbas 2018): focal stacks refocused by software from a light-field camera, with measured disparity.

HDF5: `stack_train` (N F H W 3, 8 bit), `disp_train` (N H W, px between neighbouring views, 0 where unknown), the same
for `val`; `stack_test` in a file of its own, without disparity.

A light field's aperture is a square of 9 x 9 views: a pixel with the disparity d, focused at d_f, is blurred over
9 |d - d_f| px. With depth = 0.14 m px / disparity (0.28 px at 0.5 m, 0.02 px at 7 m) that is a thin lens of 9 times the
distance between views. The blur is 2.3 px at most: little for defocus alone to read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from focalsweep.types import Camera, FocalStack
from focalsweep_research.datasets.files import Encoding, as_light, hdf5_array, opened_hdf5
from focalsweep_research.datasets.item import Item, Items

FOCAL_PX = 521.4
METRES_PX = 0.14  # depth times disparity
VIEWS = 9  # across the aperture
DISPARITIES = (0.28, 0.02)  # of the first and the last frame, in equal steps
FOCAL_LENGTH = 9.5e-3  # the lens's shortest; with a constant field of view it does not matter
CAMERA = Camera(FOCAL_LENGTH, FOCAL_LENGTH / (VIEWS * METRES_PX / FOCAL_PX), FOCAL_LENGTH / FOCAL_PX)


class Ddff(Items):
    """The stacks of one part.

    Args:
        path: the HDF5 file.
        part: "train", "val" or "test"; test has no depth.
        encoding: "linear" (default) takes the values as they are: the frames are means of display-encoded views, so it
            is in these values that blur adds up. The paper's cost must not encode them again then.
    """

    def __init__(
        self, path: str | Path, part: Literal["train", "val", "test"] = "train", *, encoding: Encoding = "linear"
    ) -> None:
        self.path, self.part, self.encoding = Path(path), part, encoding
        with opened_hdf5(self.path) as file:
            stacks = hdf5_array(file, f"stack_{part}", self.path, "N F H W C")
            self._count, frames = int(stacks.shape[0]), int(stacks.shape[1])
            self._has_depth = f"disp_{part}" in file
            if self._has_depth and len(file[f"disp_{part}"]) != self._count:
                raise ValueError(f"{self.path}: stack_{part} and disp_{part} differ in length: download it again")
        disparities = torch.linspace(*DISPARITIES, frames, dtype=torch.float64)
        self.focus_distances = METRES_PX / disparities

    def __len__(self) -> int:
        return self._count

    def read_item(self, number: int) -> Item:
        with opened_hdf5(self.path) as file:
            codes = hdf5_array(file, f"stack_{self.part}", self.path, "N F H W C")[number]
            disparity = None
            if self._has_depth:
                disparity = hdf5_array(file, f"disp_{self.part}", self.path, "N H W")[number]
        values = torch.from_numpy(np.asarray(codes, dtype=np.float32)).movedim(-1, 1).contiguous() / 255
        depth = torch.full(values.shape[-2:], torch.nan)
        if disparity is not None:
            disparity = torch.from_numpy(np.asarray(disparity, dtype=np.float32))
            depth = (METRES_PX / disparity).masked_fill(~(disparity > 0), torch.nan)
        magnification = 1 - FOCAL_LENGTH / self.focus_distances
        stack = FocalStack(as_light(values, self.encoding), self.focus_distances, CAMERA, magnification)
        return Item(f"{self.part}_{number:04d}", stack, depth)
