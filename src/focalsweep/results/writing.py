"""A result to files that others can read. Every file appears whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from focalsweep.lenses import StageLens
from focalsweep.progress import Progress
from focalsweep.results.exports import EXPORTS, IN_METRES
from focalsweep.results.figures import depth_picture
from focalsweep.results.folder import MANIFEST, remove_file, sync_folder, try_lock, write_set
from focalsweep.results.folder import Writer as Writer
from focalsweep.results.geometry import NothingKnownError, projection_px
from focalsweep.results.heights import height_png_bytes, height_tiff_bytes
from focalsweep.results.picture_files import describe, png_bytes
from focalsweep.results.result import Array, DepthResult
from focalsweep.results.surface import KINDS, Kind
from focalsweep.types import Camera, RelativeLens
from focalsweep.validation import as_setting

PART = ".part"  # ends the names of files that are being written
COARSEST_STEP = 0.001  # metres, of depth_mm.png
FINEST_STEP = 1e-9
LEAST_STEPS = 100  # from the nearest to the farthest depth: below them the step is finer


def write_result(
    result: DepthResult,
    folder: Path,
    exports: Sequence[str] = (),
    progress: Progress | None = None,
    more: Mapping[str, bytes] | None = None,
    surface: Kind = "closed",
) -> list[Path]:
    """Write the files that every run has and those asked for: all of them, or none.

    What has no unit has no file of metres, no camera and no scale. Files of an older run in the folder go. `more` are
    files of this run that somebody else made, by name. `surface` is that of the meshes: closed, or cut at edges.
    """
    if result.depth.ndim != 2:
        raise ValueError("save writes one stack's result: save the results of a batch one by one")
    exported = _export(result, exports, surface)
    geometry = _geometry(result)
    record: dict[str, Any] = {"unit": result.unit, "quantity": result.quantity, "geometry": geometry, **result.record}
    arrays: dict[str, Any] = {
        result.quantity: result.depth,
        "std": result.std,
        "confidence": result.confidence,
        **geometry,
    }
    # Not compressed: floats hardly shrink, a sixth at most, for as long as the sharp picture takes.
    writers: dict[str, Writer] = {"depth.npz": lambda file: np.savez(file, **arrays)}
    if isinstance(result.camera, Camera):
        camera = _camera_settings(result.camera)
        arrays |= camera
        step = depth_step(result.depth)
        record = {"depth_mm_png": {"metres_per_step": step, "no_depth": 0}, "camera": camera, **record}
        writers["depth_mm.png"] = lambda file: _write_depth_png(result.depth, step, file)
    else:
        record = {"lens": _lens_settings(result.camera), **record}
    if result.quantity == "height":
        png, scale = height_png_bytes(result)
        record = {"height_png": scale, **record}
        writers["height.png"] = partial(_write_bytes, png)
        writers["height.tif"] = lambda file: file.write(height_tiff_bytes(result))
    writers["depth.png"] = lambda file: file.write(
        depth_picture(result.depth, unit=result.unit, confidence=result.confidence, quantity=result.quantity)
    )
    writers["all_in_focus.png"] = lambda file: _write_picture(result, file)
    writers |= {name: partial(_write_bytes, data) for name, data in {**exported, **(more or {})}.items()}
    record |= {"exports": list(exported)} if exported else {}
    return write_set(folder, writers, lambda files: json_bytes({**record, "files": files}), MANIFEST, progress)


def _camera_settings(camera: Camera) -> dict[str, Any]:
    names = ("focal_length", "f_number", "pixel_pitch")
    return {name: as_setting(name, getattr(camera, name)).detach().tolist() for name in names}


def _lens_settings(lens: RelativeLens) -> dict[str, Any]:
    """How its blur grows, for whoever blurs the picture anew."""
    settings: dict[str, Any] = {"slope_px": as_setting("slope_px", lens.slope_px).detach().median().item()}
    if isinstance(lens, StageLens):
        optional = ("numerical_aperture", "pixel_size", "wavelength")
        known = {name: getattr(lens, name) for name in optional if getattr(lens, name) is not None}
        settings |= {"height_unit": lens.height_unit, "origin": lens.origin, **known}
    return settings


def _geometry(result: DepthResult) -> dict[str, Any]:
    """Where the picture lies: what a program needs to turn depth into points, and to find the pixels in the photos.

    `principal_point` and `projection_px` (fx = fy) are in pixels of the files, from their upper left corner, a pixel's
    middle at 0.5; OpenCV counts from the middle of the first pixel, half a pixel less. `crop_offset` is the column and
    row of the reference photo that the files begin at.
    """
    height, width = result.depth.shape
    area = result.record.get("area")
    geometry = {
        "principal_point": list(result.principal_point or (width / 2, height / 2)),
        "crop_offset": [area["columns"][0], area["rows"][0]] if area else [0, 0],
    }
    return geometry | ({"projection_px": projection_px(result)} if isinstance(result.camera, Camera) else {})


def _export(result: DepthResult, exports: Sequence[str], surface: Kind) -> dict[str, bytes]:
    """The files asked for by name; one that would be empty is left out with a warning: the rest is worth keeping."""
    names = [exports] if isinstance(exports, str) else exports
    unknown = [name for name in names if name not in EXPORTS]
    if unknown:
        raise ValueError(f"no export is called {unknown[0]!r}: it is one of {', '.join(EXPORTS)}")
    if surface not in KINDS:
        raise ValueError(f"surface must be {' or '.join(KINDS)}, but is {surface!r}")
    files: dict[str, bytes] = {}
    for name in names:
        file, make = EXPORTS[name]
        if not isinstance(result.camera, Camera) and name in IN_METRES:
            warnings.warn(f"{file} is left out: it needs depth in metres from a camera", stacklevel=4)
            continue
        try:
            made = make(result, surface)
            files |= made if isinstance(made, dict) else {file: made}
        except NothingKnownError as error:
            warnings.warn(f"{file} is left out: {error}", stacklevel=4)
    return files


def json_bytes(record: Any) -> bytes:
    """JSON that every reader takes: infinity, which JSON does not have, as the word "inf"."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain(record), indent=2, allow_nan=False).encode() + b"\n"


def write_files(writers: dict[Path, Writer], progress: Progress | None = None) -> list[Path]:
    """Let each writer fill a temporary file, then move all of them in place: nobody sees half a file.

    Folders that are not there are made, and go again where a writer fails. For files that belong together see
    `results.folder`.
    """
    temporaries: dict[Path, Path] = {}
    made: list[Path] = []
    try:
        with contextlib.ExitStack() as held:
            for path, write in writers.items():
                made += _make_folders(path.parent)
                _remove_left_behind(path)
                handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART)
                temporaries[path] = Path(name)
                file = held.enter_context(os.fdopen(handle, "wb"))
                try_lock(file)  # until it is in place: so that nobody takes it for left behind
                write(file)
                file.flush()
                os.fsync(file.fileno())
                temporaries[path].chmod(0o644)
                if progress:
                    progress("writing", len(temporaries) / len(writers))
            if sys.platform == "win32":  # where an open file cannot be moved
                held.close()
            for path, temporary in temporaries.items():
                temporary.replace(path)
                sync_folder(path.parent)
    except BaseException:
        for temporary in temporaries.values():
            remove_file(temporary)
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # what somebody else put there stays
                folder.rmdir()
        raise
    return list(writers)


def _remove_left_behind(path: Path) -> None:
    """Temporary files of this one whose writer was killed: nobody holds them."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*{PART}"):
        with contextlib.suppress(OSError), part.open("rb") as file:
            if try_lock(file):
                part.unlink()


def _make_folders(folder: Path) -> list[Path]:
    """Make the folder and those above it; gives those that were not there, the outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _write_bytes(data: bytes, file: IO[bytes]) -> None:
    file.write(data)


def depth_step(depth: Array) -> float:
    """Metres a step of depth_mm.png: a millimetre, or finer by tens where the scene spans few millimetres."""
    known = depth[np.isfinite(depth) & (depth > 0)]
    if not known.size:
        return COARSEST_STEP
    near, far = np.quantile(known, [0.005, 0.995]).tolist()
    step, farthest = COARSEST_STEP, float(known.max())
    while far - near < LEAST_STEPS * step and farthest < 6553.5 * step and step > FINEST_STEP and far > near:
        step = round(step / 10, 12)
    return step


def _write_depth_png(depth: Array, step: float, file: IO[bytes]) -> None:
    """Steps in 16 bit; 0 where the depth does not fit (beyond 65535 of them). The scale stands in the file's text."""
    from PIL import Image, PngImagePlugin

    counted = depth / step
    np.rint(counted, out=counted)
    counted[~((counted >= 1) & (counted <= 65535))] = 0
    steps = counted.astype(np.uint16)
    text = PngImagePlugin.PngInfo()
    text.add_text("depth_scale", f"{step:.12g} metres per step; 0 is no depth")
    buffer = io.BytesIO()
    Image.fromarray(steps).save(buffer, "png", pnginfo=text)
    file.write(buffer.getvalue())


def _write_picture(result: DepthResult, file: IO[bytes]) -> None:
    file.write(png_bytes(result.all_in_focus, result.photo, describe(result)))
