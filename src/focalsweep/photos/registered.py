"""Registered frames as files: what other programs, or a later run, can start from."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from focalsweep.optics.light import linear_to_srgb
from focalsweep.photos.photo_stack import Photos
from focalsweep.photos.settings import stack_toml
from focalsweep.photos.stack_file import NAME
from focalsweep.progress import Progress
from focalsweep.types import RelativeLens


def registered_files(photos: Photos, folder: Path, progress: Progress) -> dict[str, Callable[[IO[bytes]], Any]]:
    """Writers for files in `folder`, to be called in order: 16-bit TIFF, sRGB, near to far, and their stack.toml."""
    if folder.resolve() in {frame.path.resolve().parent for frame in photos.frames}:
        raise ValueError(f"{folder} holds the photos themselves: give another folder for the registered frames")
    progress("aligning", 0.0)
    frames = photos.register(progress)
    photos = frames.photos
    names = [f"{number:02d}_{Path(frame.path).stem}.tif" for number, frame in enumerate(photos.frames)]
    pictures = enumerate(frames.pictures())

    def write_next(file: IO[bytes]) -> None:
        import tifffile

        number, pixels = next(pictures)
        progress("writing", number / len(names))
        encoded = linear_to_srgb(torch.from_numpy(pixels).clamp(0, 1)).mul(65535).round().numpy().astype(np.uint16)
        buffer = io.BytesIO()  # tifffile wants the name of a file that it is given, and this one has none yet
        grey = encoded.shape[-1] == 1
        tifffile.imwrite(buffer, encoded[..., 0] if grey else encoded, photometric="minisblack" if grey else "rgb")
        file.write(buffer.getvalue())

    order = "near-to-far" if isinstance(photos.camera, RelativeLens) else None  # that of the files as they are written
    settings = replace(photos.settings, files=tuple(names), aligned=True, order=order)
    text = stack_toml(settings, photos.magnification).encode()
    return {**dict.fromkeys(names, write_next), NAME: lambda file: file.write(text)}
