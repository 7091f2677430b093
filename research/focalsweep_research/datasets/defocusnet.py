"""The synthetic focal stacks of DefocusNet (Maximov 2020), and what `focalsweep render` writes in the same format.

One folder: `%06d_%02dAll.tif` (8-bit RGB, one for each frame, near to far) and `%06dDpt.exr` (depth in metres, in R).
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from focalsweep.types import Camera, FocalStack
from focalsweep_research.datasets.files import Encoding, existing_folder, read_exr, read_image
from focalsweep_research.datasets.item import Item, Items

CAMERA = Camera(2.9e-3, 1.0, 3.1e-3 / 256)  # paper, Table 1
FOCUS_DISTANCES = (0.1, 0.15, 0.3, 0.7, 1.5)
DATASET_END = 3.0  # metres: depth ends there, in this dataset and in NYU's at the paper's scale
TRAINING_SHARE = 0.8
SETTINGS = "stacks.toml"  # of a rendered benchmark


def benchmark_part(folder: str | Path, part: Literal["train", "test"]) -> DefocusNet:
    """A part of what `focalsweep render` made, with the camera that its stacks.toml tells; or of the original.

    The original is one folder without such a file: its parts are the first and the last stacks.
    """
    folder = Path(folder)
    settings = _read_settings(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    if (folder / part).is_dir():
        return DefocusNet(folder / part, **settings)
    return DefocusNet(folder, part, **settings)


def _read_settings(path: Path) -> dict[str, Any]:
    """Arguments of `DefocusNet`; the magnifications are those of a constant field of view."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        camera = Camera(*(float(table["camera"][name]) for name in ("focal_length", "f_number", "pixel_pitch")))
        distances = tuple(float(frame["focus_distance"]) for frame in table["frame"])
        return {"camera": camera, "focus_distances": distances, "farthest": float(table["depth"]["far"])}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        raise ValueError(f"{path} is not what focalsweep render wrote: render into this folder again") from None


class DefocusNet(Items):
    """Stacks in order of their number; depth beyond `farthest` counts as that, as in the original.

    Args:
        folder: all stacks lie in it.
        part: "train" is the first 80 % (400 of 500), "test" the rest.
        camera, focus_distances: as rendered; the paper's by default.
        encoding: of the TIFF files. "srgb" (default): the renderer blurred linear light and stored it for display, so
            values are linearised; the paper's cost encodes them again and so sees what is in the files.
        constant_field_of_view: the renderer kept the field of view when it focused (Blender and Mitsuba do), so the
            blur is (d_f - f) / d_f of the formula's. False is the paper's reading of it: 3 % more blur at 0.1 m.
        farthest: metres.
    """

    def __init__(
        self,
        folder: str | Path,
        part: Literal["all", "train", "test"] = "all",
        *,
        camera: Camera = CAMERA,
        focus_distances: Sequence[float] = FOCUS_DISTANCES,
        encoding: Encoding = "srgb",
        constant_field_of_view: bool = True,
        farthest: float = DATASET_END,
    ) -> None:
        self.folder = existing_folder(folder, "DefocusNet's stacks (000000_00All.tif, 000000Dpt.exr)")
        self.camera, self.encoding, self.farthest = camera, encoding, farthest
        self.focus_distances = torch.tensor(focus_distances, dtype=torch.float64)
        self.magnification = torch.ones_like(self.focus_distances)
        if constant_field_of_view:
            self.magnification = 1 - torch.as_tensor(camera.focal_length, dtype=torch.float64) / self.focus_distances
        frames = self._find()
        names = sorted(frames)
        border = int(len(names) * TRAINING_SHARE)
        parts = {"all": names, "train": names[:border], "test": names[border:]}
        if part not in parts:
            raise ValueError(f"part must be one of {', '.join(parts)}, but is {part!r}")
        self._stacks = [(name, frames[name]) for name in parts[part]]

    def _find(self) -> dict[str, list[Path]]:
        frames: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(self.folder.iterdir()):
            found = re.fullmatch(r"(\d{6})_\d{2}All\.tif", path.name)
            if found:
                frames[found[1]].append(path)
        if not frames:
            raise FileNotFoundError(f"{self.folder} has no stacks of DefocusNet's: files are called 000000_00All.tif")
        for name, paths in frames.items():
            if len(paths) != len(self.focus_distances):
                raise ValueError(
                    f"{self.folder}: stack {name} has {len(paths)} frames, but there are "
                    f"{len(self.focus_distances)} focus distances: complete it, or give the distances it was made with"
                )
        return dict(frames)

    def __len__(self) -> int:
        return len(self._stacks)

    def read_item(self, number: int) -> Item:
        name, paths = self._stacks[number]
        images = torch.stack([read_image(path, self.encoding) for path in paths])
        depth = torch.from_numpy(read_exr(self.folder / f"{name}Dpt.exr", ("R", "Y", "Z", "V")))
        stack = FocalStack(images, self.focus_distances, self.camera, self.magnification)
        return Item(name, stack, depth.clamp(max=self.farthest).masked_fill(~(depth > 0), torch.nan))
