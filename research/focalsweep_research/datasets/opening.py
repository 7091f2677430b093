"""A data set by its place: which of the published forms a file or folder has."""

from __future__ import annotations

from pathlib import Path

from focalsweep_research.datasets.ddff import Ddff
from focalsweep_research.datasets.dfd import WIDE, DfdPairs
from focalsweep_research.datasets.files import opened_hdf5
from focalsweep_research.datasets.folder import StackFolder
from focalsweep_research.datasets.item import Items
from focalsweep_research.datasets.mobile_depth import MobileDepth

ALIGNED, CALIBRATION = "Aligned", "calibration"  # of Mobile Depth


def is_mobile_depth(folder: Path) -> bool:
    return (folder / ALIGNED).is_dir() and (folder / CALIBRATION).is_dir()


def open_dataset(path: str | Path) -> Items:
    """The stacks at a place, those held back from training where the data set says which.

    DDFF-12's HDF5 file (its validation part), Mobile Depth (a folder with Aligned and calibration; every frame, no
    depth), Carvalho's pairs of two apertures, or a folder of stacks, each with its stack.toml.
    """
    path = Path(path)
    if path.is_file():
        with opened_hdf5(path) as file:
            held_back = "stack_val" in file
        return Ddff(path, "val" if held_back else "test")
    if is_mobile_depth(path):
        return MobileDepth(path / ALIGNED, path / CALIBRATION, frame_count=None)
    if (path / WIDE).is_dir() or (path / "scenes.csv").is_file():
        return DfdPairs(path)
    return StackFolder(path)
