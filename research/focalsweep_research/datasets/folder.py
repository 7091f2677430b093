"""A folder of stacks: each in a folder of its own with `stack.toml`, and with its depth where that is known.

Depth is one of `depth_mm.png` (16 bit, mm or the step that its text says, 0: unknown), `depth_tenth_mm.png` (tenths of
mm), `depth_log.png` (16 bit, 5 cm times exp(code / 10000), 0: unknown: as precise far as near), `depth.npy` (metres),
and `depth.exr` (metres, channel Z or R); what is not positive and finite there is unknown.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from focalsweep.photos.reading import load_stack
from focalsweep_research.datasets.files import existing_folder, read_exr, read_single_channel
from focalsweep_research.datasets.item import Item, Items

LOG_PNG = "depth_log.png"
LOG_START, LOG_STEP = 0.05, 1e-4  # metres, and of the logarithm
PNG_STEPS = {"depth_mm.png": 1e-3, "depth_tenth_mm.png": 1e-4}  # metres


class StackFolder(Items):
    """The stacks of a folder by name.

    Args:
        folder: its folders that hold a stack.toml are the stacks; it may be a single stack itself.
        align: "none" (default) takes frames as they lie, on the pixels of their depth; "auto" registers them.
    """

    def __init__(self, folder: str | Path, *, align: str = "none") -> None:
        root = existing_folder(folder, "the stacks, each in a folder with its stack.toml")
        found = sorted(path.parent for path in [*root.glob("stack.toml"), *root.glob("*/stack.toml")])
        if not found:
            raise FileNotFoundError(f"{root} has no folders with a stack.toml (focalsweep inspect --write makes one)")
        self._folders, self.align = found, align

    def __len__(self) -> int:
        return len(self._folders)

    def read_item(self, number: int) -> Item:
        folder = self._folders[number]
        stack = load_stack(folder, align=self.align)
        depth = read_depth(folder)
        if depth is not None and depth.shape != stack.size:
            raise ValueError(
                f"{folder}: depth has {tuple(depth.shape)} px, the frames {stack.size}: they must have one size"
            )
        return Item(folder.name, stack, torch.full(stack.size, torch.nan) if depth is None else depth)


def read_depth(folder: Path) -> Tensor | None:
    """Metres, H W, NaN where unknown; None where the folder has no depth."""
    for name, step in PNG_STEPS.items():
        if (folder / name).is_file():
            codes = read_single_channel(folder / name)
            return _known(codes.astype(np.float32) * np.float32(_step(folder / name) or step))
    if (folder / LOG_PNG).is_file():
        codes = read_single_channel(folder / LOG_PNG).astype(np.float64)
        return _known(np.where(codes > 0, LOG_START * np.exp(LOG_STEP * codes), 0).astype(np.float32))
    if (folder / "depth.npy").is_file():
        try:
            values = np.load(folder / "depth.npy", allow_pickle=False)
        except (ValueError, EOFError, OSError):
            raise ValueError(f"{folder / 'depth.npy'} cannot be read: is it truncated or of another type?") from None
        if values.ndim != 2 or values.dtype.kind not in "fiu":
            raise ValueError(f"{folder / 'depth.npy'} must hold numbers with the axes H W, but has {values.shape}")
        return _known(values.astype(np.float32))
    if (folder / "depth.exr").is_file():
        return _known(read_exr(folder / "depth.exr", ("Z", "R", "Y", "V")))
    return None


def _step(path: Path) -> float | None:
    """Metres a step, where the file says so (a depth_mm.png of ours may have finer steps than millimetres)."""
    from PIL import Image

    with Image.open(path) as picture:
        words = str(picture.info.get("depth_scale", "")).split()
    return float(words[0]) if words else None


def _known(metres: np.ndarray) -> Tensor:  # type: ignore[type-arg]
    depth = torch.from_numpy(metres)
    return depth.masked_fill(~(torch.isfinite(depth) & (depth > 0)), torch.nan)
