"""Mobile Depth (Suwajanakorn 2015): handheld phone stacks, aligned and calibrated by their authors; no true depth.

`Aligned/FigureN/SCENE/a*.jpg` are the frames; `calibration/SCENE/calibrated.txt` has a line for each, focus distance
and aperture, and the focal length alone in the last line. Its unit is the authors' own, and its blur

    coc_px = aperture |d_f - d| / d * f / (d_f - f)

is in pixels at once: the aperture holds the pixel pitch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from focalsweep.types import Camera, FocalStack
from focalsweep_research.datasets.files import Encoding, existing_folder, read_image
from focalsweep_research.datasets.item import Item, Items

METRES_A_UNIT = 0.05  # the paper's
FARTHEST_UNITS = 200.0  # the paper leaves out frames focused there or beyond
BORDER_PX = 10  # alignment leaves it frayed
FOCAL_PX = 1000.0  # any number: only the product of aperture and focal length counts
CALIBRATION_NAMES = {"metals": "metal", "zeromotion": "GT", "smallmotion": "GTSmall", "largemotion": "GTLarge"}


@dataclass(frozen=True)
class Calibration:
    """What `calibrated.txt` says, in its own unit; one distance and aperture a frame."""

    focus_distances: tuple[float, ...]
    apertures: tuple[float, ...]
    focal_length: float


def read_calibration(path: Path) -> Calibration:
    """Raises with the file and the line where it is not in that form."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give the folder of calibrations, with SCENE/calibrated.txt")
    rows = [line.split() for line in path.read_text().splitlines() if line.strip()]
    numbers: list[list[float]] = []
    for place, row in enumerate(rows, start=1):
        wanted = 1 if place == len(rows) else 2
        try:
            numbers.append([float(word) for word in row])
        except ValueError:
            raise ValueError(f"{path}, line {place}: {' '.join(row)!r} are not numbers") from None
        if len(row) != wanted:
            what = "the focal length alone" if wanted == 1 else "focus distance and aperture"
            raise ValueError(f"{path}, line {place} has {len(row)} numbers, but must have {what}")
    if len(numbers) < 3:
        raise ValueError(f"{path} has {len(numbers)} lines: at least 2 frames and the focal length are needed")
    *frames, (focal_length,) = numbers
    return Calibration(tuple(d for d, _ in frames), tuple(a for _, a in frames), focal_length)


class MobileDepth(Items):
    """All scenes that have both frames and a calibration, by name; depth is NaN everywhere.

    Args:
        aligned: the folder of aligned frames; scenes may lie in folders within it.
        calibration: the folder with SCENE/calibrated.txt (four scenes have other names there).
        frame_count: so many frames at equal strides, as the paper takes 3; None takes all.
        encoding: "srgb" (default): photos stored for display.
    """

    def __init__(
        self,
        aligned: str | Path,
        calibration: str | Path,
        *,
        frame_count: int | None = 3,
        encoding: Encoding = "srgb",
    ) -> None:
        if frame_count is not None and frame_count < 2:
            raise ValueError(f"frame_count must be at least 2, but is {frame_count}")
        folder = existing_folder(aligned, "Mobile Depth's aligned frames (FigureN/SCENE/a*.jpg)")
        calibrations = existing_folder(calibration, "Mobile Depth's calibrations (SCENE/calibrated.txt)")
        scenes = {path.parent for path in folder.rglob("a*.jpg")}
        known = [(s, calibrations / CALIBRATION_NAMES.get(s.name, s.name) / "calibrated.txt") for s in scenes]
        self._scenes = sorted(((s, c) for s, c in known if c.is_file()), key=lambda pair: pair[0].name)
        if not self._scenes:
            raise FileNotFoundError(f"{folder} has no SCENE/a*.jpg with a SCENE/calibrated.txt in {calibrations}")
        self.frame_count, self.encoding = frame_count, encoding

    def __len__(self) -> int:
        return len(self._scenes)

    def read_item(self, number: int) -> Item:
        folder, text = self._scenes[number]
        calibration = read_calibration(text)
        paths = sorted(folder.glob("a*.jpg"))
        if len(paths) != len(calibration.focus_distances):
            raise ValueError(f"{folder} has {len(paths)} frames, but {text} calibrates {len(calibration.apertures)}")
        kept = [i for i, distance in enumerate(calibration.focus_distances) if distance < FARTHEST_UNITS]
        if self.frame_count is not None and len(kept) > self.frame_count:
            kept = kept[:: len(kept) // self.frame_count][: self.frame_count]
        images = torch.stack([read_image(paths[i], self.encoding) for i in kept])
        images = images[..., BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX].contiguous()
        focal_length = calibration.focal_length * METRES_A_UNIT
        apertures = torch.tensor([calibration.apertures[i] for i in kept], dtype=torch.float64)
        # f^2 / (N p) = f A with p = f / FOCAL_PX asks for N = FOCAL_PX / A.
        camera = Camera(focal_length, FOCAL_PX / apertures, focal_length / FOCAL_PX)
        distances = [calibration.focus_distances[i] * METRES_A_UNIT for i in kept]
        stack = FocalStack(images, distances, camera)
        return Item(folder.name, stack, torch.full(stack.size, torch.nan))
