"""A result to files that others can read. Every file appears whole or not at all."""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from focalsweep.optics.light import linear_to_srgb
from focalsweep.results.figures import depth_picture
from focalsweep.results.result import Array, DepthResult

METRES_A_STEP = 0.001  # of depth_mm.png


def write_result(result: DepthResult, folder: Path) -> list[Path]:
    """Write the files of DESIGN.md section 8 that every run has."""
    if result.depth.ndim != 2:
        raise ValueError("save writes one stack's result: save the results of a batch one by one")
    folder.mkdir(parents=True, exist_ok=True)
    camera = {name: float(np.mean(value)) for name, value in vars(result.camera).items()}
    record = {"depth_mm_png": {"metres_per_step": METRES_A_STEP, "no_depth": 0}, "camera": camera, **result.record}
    writers: dict[str, Callable[[IO[bytes]], Any]] = {
        "depth.npz": lambda file: np.savez_compressed(
            file,
            depth=result.depth,
            std=result.std,
            confidence=result.confidence,
            **camera,  # type: ignore[arg-type]
        ),
        "depth_mm.png": lambda file: _write_depth_png(result.depth, file),
        "depth.png": lambda file: file.write(depth_picture(result.depth)),
        "all_in_focus.png": lambda file: _write_picture(result.all_in_focus, file),
        "run.json": lambda file: file.write(json.dumps(record, indent=2).encode()),
    }
    return [write_atomically(folder / name, writer) for name, writer in writers.items()]


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> Path:
    """Let `write` fill a temporary file beside `path`, then move it there: nobody ever sees half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _write_depth_png(depth: Array, file: IO[bytes]) -> None:
    """Millimetres in 16 bit; 0 where the depth does not fit (beyond 65.5 m). The scale stands in the file's text."""
    from PIL import Image, PngImagePlugin

    steps = np.rint(depth / METRES_A_STEP)
    steps = np.where((steps >= 1) & (steps <= 65535), steps, 0).astype(np.uint16)
    text = PngImagePlugin.PngInfo()
    text.add_text("depth_scale", f"{METRES_A_STEP} metres per step; 0 is no depth")
    buffer = io.BytesIO()
    Image.fromarray(steps).save(buffer, "png", pnginfo=text)
    file.write(buffer.getvalue())


def _write_picture(linear: Array, file: IO[bytes]) -> None:
    """Linear light H W C as 8-bit sRGB."""
    from PIL import Image

    encoded = linear_to_srgb(torch.from_numpy(linear)).clamp(0, 1).mul(255).round().to(torch.uint8).numpy()
    buffer = io.BytesIO()
    Image.fromarray(encoded[..., 0] if encoded.shape[-1] == 1 else encoded).save(buffer, "png")
    file.write(buffer.getvalue())
