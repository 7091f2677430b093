"""Carvalho's real pairs (2018): the same view at f/2.8 and at f/8, one focus, with depth of a structured-light sensor.

As published, a folder with two of the same form, `dfd_dataset_indoor_N2_8` and `dfd_dataset_indoor_N8`: in each
`rgb/train`, `rgb/test` (`2018-04-26T16:38:31.689710.JPG`, one name for both stops) and `depth/train`, `depth/test`
(PNG of 16 bit, mm, named by a moment before). Or one prepared folder: `scene_NNN_f2.8.jpg`, `scene_NNN_f8.jpg`,
`scene_NNN_depth_mm.png`, `scenes.csv` (the similarity that takes the f/2.8 picture to the f/8 one, about the centre),
`camera.json` (lens, pitch, focus).
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from focalsweep.photos.alignment import align
from focalsweep.types import Camera, FocalStack
from focalsweep_research.datasets.files import Encoding, existing_folder, read_image, read_single_channel
from focalsweep_research.datasets.item import Item, Items

WIDE, NARROW = "dfd_dataset_indoor_N2_8", "dfd_dataset_indoor_N8"
CAMERA = {"focal_length_mm": 35.0, "f_numbers": [2.8, 8.0], "pixel_pitch_um": 36.57}
"""Of the published folders, which carry no EXIF: the outdoor part's lens, and its sensor reduced by 6."""
FOCUS_DISTANCE = 1.64  # metres: where f/2.8 is as sharp as f/8 indoors; the outdoor part's EXIF says 2
MEASURED = "focus_distance_m_measured_indoor"
CAMERA_KEYS = (*CAMERA, MEASURED)
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


class _Pair(NamedTuple):
    name: str
    wide: Path
    narrow: Path
    depth: Path
    shift: Shift | None  # None: to be measured


class DfdPairs(Items):
    """Stacks of two frames, f/2.8 and f/8; both have one focus distance, the aperture differs.

    Args:
        folder: the folder, as published or prepared.
        part: of a published folder; a prepared one has no parts.
        register: resample the f/2.8 picture to where the f/8 one lies; of published pairs, whose shift no file tells,
            it is measured, and the pair cut to what both show.
        encoding: "srgb" (default): photos stored for display.
        focus_distance: metres; None takes what camera.json says was measured indoors, without it 1.64 m.
    """

    def __init__(
        self,
        folder: str | Path,
        part: Literal["all", "train", "test"] = "all",
        *,
        register: bool = True,
        encoding: Encoding = "srgb",
        focus_distance: float | None = None,
    ) -> None:
        what = f"the f/2.8 and f/8 pairs ({WIDE} and {NARROW}, or scene_NNN_f2.8.jpg, scenes.csv and camera.json)"
        self.folder = existing_folder(folder, what)
        self.register, self.encoding = register, encoding
        settings: dict[str, Any] = CAMERA
        if (self.folder / WIDE).is_dir():
            self._pairs = _published(self.folder, ("train", "test") if part == "all" else (part,))
        elif part != "all":
            raise ValueError(f"{self.folder} has no part {part!r}: only a folder with {WIDE} and {NARROW} has parts")
        else:
            settings = _read_camera(self.folder / "camera.json")
            self._pairs = _prepared(self.folder)
        f_numbers = torch.tensor(settings["f_numbers"], dtype=torch.float64)
        self.camera = Camera(settings["focal_length_mm"] * 1e-3, f_numbers, settings["pixel_pitch_um"] * 1e-6)
        self.focus_distance = focus_distance or float(settings.get(MEASURED, FOCUS_DISTANCE))
        self.shifts = {pair.name: pair.shift for pair in self._pairs if pair.shift}

    def __len__(self) -> int:
        return len(self._pairs)

    def read_item(self, number: int) -> Item:
        pair = self._pairs[number]
        wide, narrow = (read_image(path, self.encoding) for path in (pair.wide, pair.narrow))
        depth = torch.from_numpy(read_single_channel(pair.depth).astype(np.float32) * 1e-3)
        if self.register and pair.shift:
            wide = warped(wide, pair.shift)
        elif self.register:
            frames, alignment = align([image.movedim(0, -1).numpy() for image in (wide, narrow)], reference=1)
            wide, narrow = (torch.from_numpy(frame).movedim(-1, 0).contiguous() for frame in frames)
            depth = depth[alignment.area]
        stack = FocalStack(torch.stack([wide, narrow]), [self.focus_distance] * 2, self.camera)
        return Item(pair.name, stack, depth.masked_fill(depth == 0, torch.nan))


def _published(folder: Path, parts: tuple[str, ...]) -> list[_Pair]:
    pairs = []
    for part in parts:
        wide = sorted((folder / WIDE / "rgb" / part).glob("*.JPG"))
        depth = sorted((folder / NARROW / "depth" / part).glob("*.png"))
        narrow = [folder / NARROW / "rgb" / part / path.name for path in wide]
        missing = [path for path in narrow if not path.is_file()]
        if missing:
            raise FileNotFoundError(f"{missing[0]} does not exist: both stops must have the same pictures")
        if not wide or len(wide) != len(depth):
            raise ValueError(
                f"{folder} has {len(wide)} pictures and {len(depth)} depth maps in {part}: complete it, "
                "they belong together in the order of their names"
            )
        pairs += [_Pair(f"{part}/{w.stem}", w, n, d, None) for w, n, d in zip(wide, narrow, depth, strict=True)]
    return pairs


def _prepared(folder: Path) -> list[_Pair]:
    shifts = _read_shifts(folder / "scenes.csv")
    pairs = []
    for name, shift in shifts.items():
        wide, narrow, depth = (folder / f"scene_{name}_{file}" for file in ("f2.8.jpg", "f8.jpg", "depth_mm.png"))
        pairs.append(_Pair(f"scene_{name}", wide, narrow, depth, shift))
    return pairs


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
