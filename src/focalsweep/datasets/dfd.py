"""Carvalho's real pairs (2018): the same view at f/2.8 and at f/8, one focus, with depth of a structured-light sensor.

A folder: `scene_NNN_f2.8.jpg`, `scene_NNN_f8.jpg`, `scene_NNN_depth_mm.png` (16 bit, mm), `scenes.csv` (the similarity
that takes the f/2.8 picture to the f/8 one, about the centre), `camera.json` (lens, pitch, focus).
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.datasets.files import Encoding, existing_folder, read_image, read_single_channel
from focalsweep.datasets.item import Item, Items
from focalsweep.types import Camera, FocalStack

CAMERA_KEYS = ("focal_length_mm", "f_numbers", "pixel_pitch_um", "focus_distance_m_measured_indoor")
SCENE_KEYS = ("scene", "shift_x_px", "shift_y_px", "scale", "rotation_deg", "inliers")


@dataclass(frozen=True)
class Shift:
    """From the f/2.8 picture to the f/8 one: about the centre, turn and scale, then shift."""

    x_px: float
    y_px: float
    scale: float
    rotation_deg: float
    inliers: int  # below 150: trust it less

    @property
    def length_px(self) -> float:
        return float(np.hypot(self.x_px, self.y_px))


class DfdPairs(Items):
    """Stacks of two frames, f/2.8 and f/8; both have one focus distance, the aperture differs.

    Args:
        folder: the folder.
        register: resample the f/2.8 picture to where the f/8 one lies.
        encoding: "srgb" (default): photos stored for display.
        focus_distance: metres; None takes what camera.json says was measured indoors (1.64 m).
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        register: bool = True,
        encoding: Encoding = "srgb",
        focus_distance: float | None = None,
    ) -> None:
        self.folder = existing_folder(folder, "the f/2.8 and f/8 pairs (scene_NNN_f2.8.jpg, scenes.csv, camera.json)")
        self.register, self.encoding = register, encoding
        settings = _read_camera(self.folder / "camera.json")
        f_numbers = torch.tensor(settings["f_numbers"], dtype=torch.float64)
        self.camera = Camera(settings["focal_length_mm"] * 1e-3, f_numbers, settings["pixel_pitch_um"] * 1e-6)
        self.focus_distance = focus_distance or float(settings["focus_distance_m_measured_indoor"])
        self.shifts = _read_shifts(self.folder / "scenes.csv")
        self._names = list(self.shifts)

    def __len__(self) -> int:
        return len(self._names)

    def read_item(self, number: int) -> Item:
        name = self._names[number]
        wide, narrow = (read_image(self.folder / f"scene_{name}_{stop}.jpg", self.encoding) for stop in ("f2.8", "f8"))
        steps = read_single_channel(self.folder / f"scene_{name}_depth_mm.png")
        depth = torch.from_numpy(steps.astype(np.float32) * 1e-3)
        if self.register:
            wide = warped(wide, self.shifts[name])
        stack = FocalStack(torch.stack([wide, narrow]), [self.focus_distance] * 2, self.camera)
        return Item(f"scene_{name}", stack, depth.masked_fill(depth == 0, torch.nan))


def warped(image: Tensor, shift: Shift) -> Tensor:
    """A picture (C H W) moved by a similarity about its centre; its border is drawn out."""
    import cv2

    height, width = image.shape[1:]
    turn = np.deg2rad(shift.rotation_deg)
    matrix = shift.scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    centre = np.array([(width - 1) / 2, (height - 1) / 2])
    offset = centre + np.array([shift.x_px, shift.y_px]) - matrix @ centre
    pixels = np.ascontiguousarray(image.movedim(0, -1).numpy())
    moved = cv2.warpAffine(
        pixels,
        np.hstack([matrix, offset[:, None]]),
        (width, height),
        flags=cv2.INTER_LANCZOS4,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return torch.from_numpy(moved.reshape(height, width, -1).clip(0, 1)).movedim(-1, 0).contiguous()


def _read_camera(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: the folder must hold camera.json")
    try:
        settings = json.loads(path.read_text())
    except ValueError:
        raise ValueError(f"{path} is not JSON: is it damaged?") from None
    missing = [key for key in CAMERA_KEYS if key not in settings]
    if missing:
        raise ValueError(f"{path} has no {missing[0]!r}: it must have {', '.join(CAMERA_KEYS)}")
    return dict(settings)


def _read_shifts(path: Path) -> dict[str, Shift]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: the folder must hold scenes.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    missing = [key for key in SCENE_KEYS if not rows or key not in rows[0]]
    if missing:
        raise ValueError(f"{path} has no column {missing[0]!r}: it must have {', '.join(SCENE_KEYS)} for each scene")
    try:
        return {
            row["scene"]: Shift(
                float(row["shift_x_px"]), float(row["shift_y_px"]), float(row["scale"]), float(row["rotation_deg"]),
                int(row["inliers"]),
            )
            for row in rows
        }  # fmt: skip
    except (TypeError, ValueError):
        raise ValueError(f"{path} has a line with something else than numbers: is it damaged?") from None
