"""A folder of photos with its stack.toml -> `FocalStack` in linear light."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import srgb_to_linear
from focalsweep.optics.thin_lens import lens_distance
from focalsweep.types import Camera, FocalStack

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
CAMERA_KEYS = {"focal_length", "f_number", "pixel_pitch", "focus_reference", "aligned", "order"}
FRAME_KEYS = {"file", "focus_distance", "focus_range", "magnification"}


def load_stack(photos: str | Path | Sequence[str | Path], **overrides: float | str) -> FocalStack:
    """A focal stack from a folder with a stack.toml, or from files that lie beside one.

    Args:
        photos: a folder, or a list of files.
        **overrides: `focal_length`, `f_number`, `pixel_pitch` (metres), `focus_reference` ("lens" or "sensor").
    """
    folder, names = _find(photos)
    settings = _read_settings(folder / "stack.toml")
    camera = {**settings.get("camera", {}), **overrides}
    frames = [frame for frame in settings.get("frame", []) if names is None or frame["file"] in names]
    missing = [key for key in ("focal_length", "f_number", "pixel_pitch") if key not in camera]
    if missing:
        raise ValueError(f"{folder}: {' and '.join(missing)} of the camera unknown: add to [camera] in stack.toml")
    if not frames:
        raise ValueError(
            f"{folder}: no frames: add a [[frame]] with file and focus_distance to stack.toml for each photo"
        )
    distances = torch.tensor([_focus_distance(frame, folder) for frame in frames], dtype=torch.float64)
    reference = camera.get("focus_reference", "lens")
    if reference not in ("lens", "sensor"):
        raise ValueError(f'{folder}/stack.toml: focus_reference must be "lens" or "sensor", but is {reference!r}')
    if reference == "sensor":
        distances = lens_distance(distances, camera["focal_length"])
    order = sorted(range(len(frames)), key=lambda i: float(distances[i]))
    images = [read_picture(folder / frames[i]["file"]) for i in order]
    for i, image in zip(order, images, strict=True):
        if image.shape != images[0].shape:
            raise ValueError(
                f"{folder / frames[i]['file']} has {_size(image)}, but {frames[order[0]]['file']} has "
                f"{_size(images[0])}: all photos of a stack must have one size"
            )
    return FocalStack(
        images=torch.stack(images),
        focus_distances=distances[order],
        camera=Camera(camera["focal_length"], camera["f_number"], camera["pixel_pitch"]),
        magnification=torch.tensor([frames[i].get("magnification", 1.0) for i in order], dtype=torch.float64),
    )


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


def _read_settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: the camera's settings and focus distances are read from it")
    try:
        settings = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no valid TOML: {error}") from None
    unknown = sorted(set(settings) - {"camera", "frame"}) + sorted(set(settings.get("camera", {})) - CAMERA_KEYS)
    for frame in settings.get("frame", []):
        unknown += sorted(set(frame) - FRAME_KEYS)
        if "file" not in frame:
            raise ValueError(f"{path}: a [[frame]] has no file: name the photo it is about")
    if unknown:
        raise ValueError(f"{path}: unknown key {unknown[0]!r}: check the spelling")
    return settings


def _focus_distance(frame: dict[str, Any], folder: Path) -> float:
    if "focus_distance" in frame:
        return float(frame["focus_distance"])
    if "focus_range" in frame:  # the middle in dioptres, where the lens's scale is even
        near, far = frame["focus_range"]
        return 2 / (1 / float(near) + 1 / float(far))
    raise ValueError(
        f"{folder / frame['file']}: focus distance unknown: add focus_distance (metres) to its [[frame]] in stack.toml"
    )


def _size(image: Tensor) -> str:
    return f"{image.shape[-1]} x {image.shape[-2]} px and {image.shape[0]} channels"
