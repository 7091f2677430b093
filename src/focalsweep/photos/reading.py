"""A folder of photos with its stack.toml -> `FocalStack` in linear light."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import srgb_to_linear
from focalsweep.optics.thin_lens import lens_distance
from focalsweep.types import Camera, FocalStack

CAMERA_KEYS = {
    "focal_length": "number",
    "f_number": "number",
    "pixel_pitch": "number",
    "focus_reference": '"lens" or "sensor"',
    "aligned": "yes or no",
    "order": "text",
}
FRAME_KEYS = {"file": "text", "focus_distance": "number", "focus_range": "range", "magnification": "number"}


def load_stack(photos: str | Path | Sequence[str | Path], **overrides: float | str) -> FocalStack:
    """A focal stack from a folder with a stack.toml, or from files that lie beside one.

    Args:
        photos: a folder, or a list of files.
        **overrides: `focal_length`, `f_number`, `pixel_pitch` (metres), `focus_reference` ("lens" or "sensor").
    """
    folder, names = _find(photos)
    settings_file = folder / "stack.toml"
    unknown = sorted(set(overrides) - set(CAMERA_KEYS))
    if unknown:
        raise TypeError(f"load_stack has no setting {unknown[0]!r}: it is one of {', '.join(CAMERA_KEYS)}")
    camera, frames = _read_settings(settings_file)
    camera |= overrides
    if names is not None:
        absent = sorted(names - {frame["file"] for frame in frames})
        if absent:
            raise ValueError(f"{settings_file} has no [[frame]] for {absent[0]}: add one with its focus_distance")
        frames = [frame for frame in frames if frame["file"] in names]
    missing = [key for key in ("focal_length", "f_number", "pixel_pitch") if key not in camera]
    if missing:
        raise ValueError(f"{folder}: {' and '.join(missing)} of the camera unknown: add to [camera] in stack.toml")
    if not frames:
        raise ValueError(
            f"{folder}: no frames: add a [[frame]] with file and focus_distance for each photo to stack.toml"
        )
    if camera.get("aligned") is False:
        warnings.warn(
            f"{settings_file} says aligned = false, but photos are not aligned yet: taken as registered", stacklevel=2
        )
    distances = [_focus_distance(frame, settings_file) for frame in frames]
    order = sorted(range(len(frames)), key=distances.__getitem__)
    frames = [frames[i] for i in order]
    focus = torch.tensor([distances[i] for i in order], dtype=torch.float64)
    try:
        if camera.get("focus_reference", "lens") == "sensor":
            focus = lens_distance(focus, camera["focal_length"])
        images = _read_pictures([folder / frame["file"] for frame in frames])
        return FocalStack(
            images=images,
            focus_distances=focus,
            camera=Camera(camera["focal_length"], camera["f_number"], camera["pixel_pitch"]),
            magnification=torch.tensor([frame.get("magnification", 1.0) for frame in frames], dtype=torch.float64),
        )
    except (ValueError, TypeError) as error:
        names_in_order = ", ".join(frame["file"] for frame in frames)
        hint = f" (frames in order of focus: {names_in_order})" if "frame " in str(error) else ""
        raise type(error)(f"{folder}: {error}{hint}") from None


def _read_pictures(paths: list[Path]) -> Tensor:
    """All pictures, F C H W; they must have one size."""
    images = [read_picture(path) for path in paths]
    for path, image in zip(paths, images, strict=True):
        if image.shape != images[0].shape:
            raise ValueError(
                f"{path.name} has {_size(image)}, but {paths[0].name} has {_size(images[0])}: "
                "all photos of a stack must have one size"
            )
    return torch.stack(images)


def read_picture(path: Path) -> Tensor:
    """A photo of 8 or 16 bit as linear light, C H W float32."""
    import cv2

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: check the file names in stack.toml")
    pixels = cv2.imdecode(np.fromfile(path, dtype=np.uint8), cv2.IMREAD_UNCHANGED) if path.stat().st_size else None
    if pixels is None:
        raise ValueError(f"{path} cannot be read as a picture: is it truncated or of another type?")
    if pixels.dtype == np.uint8:
        white = 255.0
    elif pixels.dtype == np.uint16:
        white = 65535.0
    else:
        raise ValueError(f"{path} holds {pixels.dtype} pixels: 8 and 16 bit are read")
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels[..., 2::-1]  # OpenCV's order is B G R (A)
    encoded = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)).astype(np.float32)) / white
    return srgb_to_linear(encoded)


def _find(photos: str | Path | Sequence[str | Path]) -> tuple[Path, set[str] | None]:
    """The folder, and the names of the files asked for (None: all that stack.toml lists)."""
    if isinstance(photos, str | Path):
        folder = Path(photos)
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not a folder: give a folder of photos with a stack.toml")
        return folder, None
    files = [Path(file) for file in photos]
    if not files:
        raise ValueError("no photos given: give a folder, or at least 2 files")
    folders = {file.parent for file in files}
    if len(folders) > 1:
        raise ValueError(f"photos lie in {len(folders)} folders: put the photos of a stack into one")
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"{file} does not exist: check the name")
    return folders.pop(), {file.name for file in files}


def _read_settings(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The [camera] table and the [[frame]] tables of a stack.toml, every key known and of its type."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: the camera's settings and focus distances are read from it")
    try:
        settings = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no valid TOML: {error}") from None
    camera, frames = settings.pop("camera", {}), settings.pop("frame", [])
    if settings:
        raise ValueError(f"{path}: unknown table {min(settings)!r}: it has [camera] and [[frame]]")
    if not isinstance(camera, dict):
        raise ValueError(f"{path}: camera must be a table, [camera]")
    if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
        raise ValueError(f"{path}: frame must be a list of tables: write [[frame]], with two brackets, for each photo")
    _check_keys(camera, CAMERA_KEYS, path, "[camera]")
    for frame in frames:
        _check_keys(frame, FRAME_KEYS, path, f"[[frame]] of {frame.get('file', 'unnamed file')}")
        if "file" not in frame:
            raise ValueError(f"{path}: a [[frame]] has no file: name the photo it is about")
    return camera, frames


def _check_keys(table: dict[str, Any], keys: dict[str, str], path: Path, where: str) -> None:
    for key, value in table.items():
        if key not in keys:
            raise ValueError(f"{path}: unknown key {key!r} in {where}: it is one of {', '.join(keys)}")
        kind = keys[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = {
            "number": number,
            "text": isinstance(value, str),
            "yes or no": isinstance(value, bool),
            '"lens" or "sensor"': value in ("lens", "sensor"),
            "range": isinstance(value, list)
            and len(value) == 2
            and all(isinstance(end, int | float) and end > 0 for end in value),
        }
        if not fits[kind]:
            wanted = "two positive distances, [near, far]" if kind == "range" else kind
            raise ValueError(f"{path}: {key} in {where} must be {wanted}, but is {value!r}")


def _focus_distance(frame: dict[str, Any], path: Path) -> float:
    if "focus_distance" in frame:
        return float(frame["focus_distance"])
    if "focus_range" in frame:  # the middle in dioptres, where the lens's scale is even
        near, far = frame["focus_range"]
        return 2 / (1 / float(near) + 1 / float(far))
    raise ValueError(f"{path}: focus distance of {frame['file']} unknown: add focus_distance (metres) to its [[frame]]")


def _size(image: Tensor) -> str:
    return f"{image.shape[-1]} x {image.shape[-2]} px and {image.shape[0]} channels"
