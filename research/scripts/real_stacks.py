"""Depth of real stacks, as pictures and figures: python research/scripts/real_stacks.py STACKS OUT

STACKS is a folder whose folders hold the photos of a stack each. OUT receives a contact sheet of each stack, depths.png
(all depth maps side by side) and real.json: seconds, and how far depth lies from the distance of the sharpest frame
where the focus distances are known.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from focalsweep.estimate import estimate
from focalsweep.photos.reading import open_photos
from focalsweep.results.contact_sheet import contact_sheet
from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe
from focalsweep_research.protocols.real import sharpness_agreement

TILE_PX = 300


def run_stack(folder: Path, output: Path) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The default settings; relative depth where nothing else can be had."""
    start = time.perf_counter()
    try:
        photos = open_photos(folder)
    except ValueError:
        photos = open_photos(folder, relative=True)
    found = estimate(photos)
    result, stack = found.result, found.stack
    seconds = time.perf_counter() - start
    png = contact_sheet(stack, result, title=folder.name)
    write_files({output / f"{folder.name}.png": lambda file: file.write(png)})
    row: dict[str, Any] = {
        "stack": folder.name, "frames": stack.frame_count, "height": result.depth.shape[0],
        "width": result.depth.shape[1], "worked_at": result.record["worked_at"], "unit": result.unit,
        "seconds": seconds,
    }  # fmt: skip
    if result.unit:
        row["agreement"] = sharpness_agreement(stack, torch.from_numpy(result.depth))
    return row, result.depth


def depth_tile(depth: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """TILE_PX high, 8-bit RGB, equal steps of colour for equal steps of inverse depth."""
    import cv2
    from matplotlib import colormaps

    inverse = 1 / depth
    far, near = np.quantile(inverse, [0.005, 0.995])
    share = np.clip((inverse - far) / max(near - far, 1e-9), 0, 1).astype(np.float32)
    width = round(TILE_PX * depth.shape[1] / depth.shape[0])
    small = cv2.resize(share, (width, TILE_PX), interpolation=cv2.INTER_AREA)
    return np.asarray(colormaps["turbo"](small)[..., :3] * 255).round().astype(np.uint8)


def main() -> None:
    from PIL import Image

    stacks, output = (Path(argument) for argument in sys.argv[1:3])
    output.mkdir(parents=True, exist_ok=True)
    rows, tiles = [], []
    for folder in sorted(path for path in stacks.iterdir() if path.is_dir()):
        row, depth = run_stack(folder, output)
        print(row, flush=True)
        rows.append(row)
        tiles.append(depth_tile(depth))
    half = (len(tiles) + 1) // 2
    strips = [np.concatenate(part, 1) for part in (tiles[:half], tiles[half:]) if part]
    width = max(strip.shape[1] for strip in strips)
    strips = [np.pad(s, ((0, 8), (0, width - s.shape[1]), (0, 0)), constant_values=255) for s in strips]
    picture = Image.fromarray(np.concatenate(strips))
    write_files({output / "depths.png": lambda file: picture.save(file, "png")})
    record = {"benchmark": "real stacks", **describe(torch.device("cpu"), 0), "rows": rows}
    write_files({output / "real.json": lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
