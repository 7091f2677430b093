"""Registered frames as files: what other programs, or a later run, can start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from focalsweep.optics.light import linear_to_srgb
from focalsweep.photos.reading import Photos
from focalsweep.photos.settings import write_stack_toml


def write_registered(photos: Photos, folder: Path, stage: Callable[[str, float], None]) -> list[Path]:
    """16-bit TIFF, sRGB, near to far, and a stack.toml that has their settings and magnifications."""
    import tifffile

    if folder.resolve() == photos.frames[0].path.parent.resolve():
        raise ValueError(f"{folder} is the folder of the photos: registered frames need one of their own")
    stage("aligning", 0.0)
    photos, alignment = photos.measured()
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number:02d}_{Path(frame.path).stem}.tif" for number, frame in enumerate(photos.frames)]
    written = []
    for number, (name, pixels) in enumerate(zip(names, photos.pixels(alignment), strict=True)):
        stage("writing", number / len(names))
        encoded = linear_to_srgb(torch.from_numpy(pixels).clamp(0, 1)).mul(65535).round().numpy().astype(np.uint16)
        temporary = folder / f".{name}"
        tifffile.imwrite(temporary, encoded[..., 0] if encoded.shape[-1] == 1 else encoded)
        temporary.replace(folder / name)
        written.append(folder / name)
    order = "near-to-far" if photos.relative else None  # that of the files as they are written
    settings = replace(photos.settings, files=tuple(names), aligned=True, order=order)
    path = folder / "stack.toml"
    write_stack_toml(path, settings, overwrite=True, magnifications=photos.magnification)
    return [*written, path]
