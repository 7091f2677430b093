"""Reading what datasets store: pictures as they are, and files of optional formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import srgb_to_linear
from focalsweep.photos.pictures import read_codes

Encoding = Literal["srgb", "linear"]
"""What stored values are: display-encoded, to be linearised; or values in which blur adds up, taken as they are."""


def read_image(path: Path, encoding: Encoding) -> Tensor:  # C H W
    """A picture of 8 or 16 bit in 0..1, as linear light."""
    codes = read_codes(path)
    return as_light(torch.from_numpy(codes.astype(np.float32)).movedim(-1, 0) / np.iinfo(codes.dtype).max, encoding)


def as_light(values: Tensor, encoding: Encoding) -> Tensor:
    """Stored values 0..1 as what a `FocalStack` holds."""
    if encoding not in ("srgb", "linear"):
        raise ValueError(f'encoding must be "srgb" or "linear", but is {encoding!r}')
    return srgb_to_linear(values) if encoding == "srgb" else values


def read_single_channel(path: Path) -> np.ndarray[Any, np.dtype[Any]]:  # H W
    """A grey picture of 8 or 16 bit, as stored."""
    codes = read_codes(path)
    if codes.shape[-1] != 1:
        raise ValueError(f"{path} has {codes.shape[-1]} channels: a depth map has one")
    return codes[..., 0]


def read_exr(path: Path, channels: Sequence[str]) -> Any:  # H W, float32
    """One channel of an OpenEXR file: the first of `channels` that it has."""
    try:
        import OpenEXR  # type: ignore[import-not-found]
    except ImportError:
        raise ModuleNotFoundError(
            f"{path} is an OpenEXR file, and OpenEXR is not installed: pip install 'focalsweep-research'"
        ) from None
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: check the name")
    try:
        with OpenEXR.File(str(path), separate_channels=True) as file:
            present = {name: np.array(channel.pixels, dtype=np.float32) for name, channel in file.channels().items()}
    except Exception:  # OpenEXR raises whatever it likes over damaged files
        raise ValueError(f"{path} cannot be read as OpenEXR: is it truncated, damaged or of another type?") from None
    for name in channels:
        if name in present:
            return present[name]
    raise ValueError(f"{path} has the channels {', '.join(sorted(present))}, but depth is sought in {channels[0]}")


def existing_folder(path: str | Path, what: str) -> Path:
    folder = Path(path)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist or is not a folder: give the folder of {what}")
    return folder


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file; what is missing or damaged is said in one sentence."""
    try:
        import h5py  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{path} is an HDF5 file, and h5py is not installed: pip install 'focalsweep-research'"
        ) from None
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: check the name")
    try:
        file = h5py.File(path, "r")
    except OSError:
        raise ValueError(f"{path} cannot be read as HDF5: is it truncated or of another type?") from None
    with file:
        yield file


def hdf5_array(file: Any, name: str, path: Path, axes: str) -> Any:
    """A dataset of an HDF5 file by name, with as many axes as `axes` names."""
    if name not in file:
        raise ValueError(f"{path} has no dataset {name!r}, only {', '.join(sorted(file))}: is it the right file?")
    if file[name].ndim != len(axes.split()):
        raise ValueError(f"{path}: {name} must have the axes {axes}, but its shape is {file[name].shape}")
    return file[name]
