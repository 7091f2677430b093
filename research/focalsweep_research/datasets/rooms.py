"""Stacks that `focalsweep render rooms` wrote: a folder of stacks, with what is known of each room."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep_research.datasets.files import read_single_channel
from focalsweep_research.datasets.folder import StackFolder
from focalsweep_research.datasets.item import Item

ABOUT, TEXTURE = "room.json", "texture.png"
TEXTURE_STEP = 1e-3  # of linear light


@dataclass(frozen=True, eq=False)
class RoomItem:
    """A stack of a room.

    Args:
        item: frames, settings and true depth.
        texture: H W, standard deviation of linear light in 9 x 9 px of the scene, sharp and without noise.
        camera: its name.
        flawed: whether the frames have the flaws of photographs.
    """

    item: Item
    texture: Tensor
    camera: str
    flawed: bool


class Rooms:
    """The stacks by number, then by camera: any part of them shows every camera, with and without flaws."""

    def __init__(self, folder: str | Path) -> None:
        self._stacks = StackFolder(folder)
        self._folder = Path(folder)
        paths = self._folder.glob("*/stack.toml")
        names = sorted(path.parent.name for path in paths)
        self._order = sorted(range(len(names)), key=lambda i: (names[i].rpartition("_")[2], names[i]))
        self._names = names

    def __len__(self) -> int:
        return len(self._order)

    def read(self, place: int) -> RoomItem:
        number = self._order[place]
        folder = self._folder / self._names[number]
        about = _about(folder)
        item = self._stacks[number]
        texture = read_single_channel(folder / TEXTURE).astype(np.float32) * np.float32(TEXTURE_STEP)
        return RoomItem(item, torch.from_numpy(texture), about["camera"], about["flaws"] is not None)


def _about(folder: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads((folder / ABOUT).read_text())
        return {"camera": about["camera"], "flaws": about["flaws"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder} has no {ABOUT} of focalsweep render rooms: evaluate measured takes it") from None
