"""A result to files that others can read. Every file appears whole or not at all."""

from __future__ import annotations

import io
import json
import math
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
from focalsweep.validation import as_setting

METRES_A_STEP = 0.001  # of depth_mm.png


def write_result(result: DepthResult, folder: Path) -> list[Path]:
    """Write the files of DESIGN.md section 8 that every run has: all of them, or none."""
    if result.depth.ndim != 2:
        raise ValueError("save writes one stack's result: save the results of a batch one by one")
    folder.mkdir(parents=True, exist_ok=True)
    camera = {
        name: as_setting(name, getattr(result.camera, name)).detach().tolist()
        for name in ("focal_length", "f_number", "pixel_pitch")
    }
    record = {"depth_mm_png": {"metres_per_step": METRES_A_STEP, "no_depth": 0}, "camera": camera, **result.record}
    arrays: dict[str, Any] = {"depth": result.depth, "std": result.std, "confidence": result.confidence, **camera}
    return write_files(
        {
            folder / "depth.npz": lambda file: np.savez_compressed(file, **arrays),
            folder / "depth_mm.png": lambda file: _write_depth_png(result.depth, file),
            folder / "depth.png": lambda file: file.write(depth_picture(result.depth)),
            folder / "all_in_focus.png": lambda file: _write_picture(result.all_in_focus, file),
            folder / "run.json": lambda file: file.write(json_bytes(record)),
        }
    )


def json_bytes(record: Any) -> bytes:
    """JSON that every reader takes: infinity, which JSON does not have, as the word "inf"."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(record), indent=2, allow_nan=False).encode() + b"\n"


def write_files(writers: dict[Path, Callable[[IO[bytes]], Any]]) -> list[Path]:
    """Let each writer fill a temporary file, then move all of them in place: nobody sees half a file or half a set."""
    temporaries: dict[Path, Path] = {}
    try:
        for path, write in writers.items():
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            temporaries[path] = Path(name)
            with os.fdopen(handle, "wb") as file:
                write(file)
            temporaries[path].chmod(0o644)
        for path, temporary in temporaries.items():
            temporary.replace(path)
    except BaseException:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
        raise
    return list(writers)


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
