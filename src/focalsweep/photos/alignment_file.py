"""How the frames of a stack lie on each other, as a file: for other photos of the same sweep, taken the same way.

Another channel, another light, another setting of the developer: where the tripod and the sweep are the same, so are
the transforms, and results lie on each other pixel by pixel. JSON, transforms in pixels.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from focalsweep.errors import InputError, InputFileExistsError, shortened
from focalsweep.photos.alignment import Alignment, complete_alignment
from focalsweep.photos.odd_files import odd_kind
from focalsweep.photos.overlap import LEAST_AREA_PX
from focalsweep.photos.registration import Array, Transform, local_scale
from focalsweep.version import __version__

LARGEST = 2**22  # bytes; a thousand frames have 0.4 MB
MEANING = "transform: column, row, 1 of the reference photo -> those of the file, up to a factor"


@dataclass(frozen=True, eq=False)
class SavedAlignment:
    """How photos of this size lie on one of them; the order of the frames is that of focus, near to far.

    Args:
        path: of the file, for sentences.
        size: H, W of the photos.
        files: names of all of them.
        reference: the place of the one that all are laid onto.
        transforms: of each; None of one that could not be registered.
        residual_px: of each, what no transform could mend.
        area: rows and columns of the reference that every frame covers.
    """

    path: Path
    size: tuple[int, int]
    files: tuple[str, ...]
    reference: int
    transforms: tuple[Transform | None, ...]
    residual_px: tuple[float, ...]
    area: tuple[slice, slice]

    def places(self, names: Sequence[str]) -> list[int]:
        """Of each photo, near to far, the frame here that it goes with: by its name, or else by its place in focus."""
        if len(names) != len(self.files):
            raise InputError(
                "{alignment} {path} is of {saved} photos, but there are {count}",
                field="alignment", value=len(names), path=self.path, saved=len(self.files), count=len(names),
                remedy="give the photos of the same sweep, all of them",
            )  # fmt: skip
        if sorted(names) == sorted(self.files):
            return [self.files.index(name) for name in names]
        return list(range(len(names)))

    def check_size(self, size: tuple[int, int]) -> None:
        if size != self.size:
            raise InputError(
                "{alignment} {path} is of photos of {saved} px, but these have {given}",
                field="alignment", value=size, path=self.path, saved=_size(self.size), given=_size(size),
                remedy="give photos of the same camera, neither cut nor resized",
            )  # fmt: skip

    def of(self, names: Sequence[str], exposures: Sequence[Array]) -> Alignment:
        """For photos with these names, near to far, and these exposures, which another light has made others."""
        places = self.places(names)
        kept = tuple(i for i, place in enumerate(places) if self.transforms[place] is not None)
        transforms = np.stack([found for i in kept if (found := self.transforms[places[i]]) is not None])
        lost = [name for i, name in enumerate(names) if i not in kept]
        residual = np.array([self.residual_px[places[i]] for i in kept])
        notes = [f"{name} is left out, as in {self.path.name}" for name in lost]
        reference = places.index(self.reference)
        return complete_alignment(kept, reference, transforms, residual, self.area, exposures, names, self.size, notes)


def save_alignment(path: Path, names: Sequence[str], alignment: Alignment, size: tuple[int, int]) -> None:
    """Write it, whole or not at all; `names` are those of all photos, near to far."""
    rows, columns = alignment.area
    frames: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        place = alignment.kept.index(index) if index in alignment.kept else None
        transform = None if place is None else alignment.transforms[place].tolist()
        residual = 0.0 if place is None else float(alignment.residual_px[place])
        frames.append({"file": name, "transform": transform, "residual_px": residual})
    record = {
        "focalsweep": __version__,
        "meaning": MEANING,
        "width": size[1],
        "height": size[0],
        "reference": names[alignment.reference],
        "rows": [rows.start, rows.stop],
        "columns": [columns.start, columns.stop],
        "frames": frames,
    }
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(record, indent=1) + "\n")
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_place(path: Path) -> None:
    """An alignment can be saved there; nothing is written yet."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(
            "{save_alignment} {value} is no place for a file",
            field="save_alignment", value=path, remedy="give a file's name in a folder that is there",
        )  # fmt: skip
    if path.exists():
        try:
            read_alignment(path)
        except ValueError:
            raise InputFileExistsError(
                "{save_alignment} {path} exists, is no alignment, and was left alone",
                field="save_alignment", path=path, remedy="give another name",
            ) from None  # fmt: skip


def read_alignment(path: Path) -> SavedAlignment:
    """What `save_alignment` wrote, checked."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check the name")
    if odd_kind(path):
        raise ValueError(f"{path} is {odd_kind(path)}: give the file that an alignment was saved to")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    try:
        if len(content) > LARGEST:
            raise ValueError(f"it has over {LARGEST // 2**20} MB")
        return _parsed(path, json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else shortened(error, str)
        raise InputError(
            "{alignment} {path} cannot be used: {why}",
            field="alignment", value=path, path=path, why=why, remedy="save it anew with {save_alignment}",
        ) from None  # fmt: skip


def _parsed(path: Path, record: Any) -> SavedAlignment:
    frames = record["frames"]
    files = tuple(str(frame["file"]) for frame in frames)
    size = (_count(record["height"]), _count(record["width"]))
    area = _part(record["rows"], size[0]), _part(record["columns"], size[1])
    if len(set(files)) != len(files):
        raise ValueError("it has a photo twice")
    if record["reference"] not in files:
        raise ValueError("its reference is none of its photos")
    transforms = tuple(None if frame["transform"] is None else _transform(frame["transform"]) for frame in frames)
    reference = files.index(record["reference"])
    if sum(transform is not None for transform in transforms) < 2 or transforms[reference] is None:
        raise ValueError("fewer than two of its photos have a transform")
    residual = tuple(float(frame["residual_px"]) for frame in frames)
    if not np.isfinite(residual).all():
        raise ValueError("a residual is no number")
    return SavedAlignment(path, size, files, reference, transforms, residual, area)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**20:
        raise ValueError(f"{shortened(value)} is no size in pixels")
    return value


def _part(ends: Any, length: int) -> slice:
    first, end = (int(value) for value in ends)
    if not (0 <= first <= end - LEAST_AREA_PX and end <= length):
        raise ValueError(f"{shortened(ends)} is no part of {length} px")
    return slice(first, end)


def _transform(values: Any) -> Transform:
    transform = np.array(values, dtype=np.float64)
    if transform.shape != (3, 3) or not np.isfinite(transform).all() or not transform[2, 2]:
        raise ValueError("a transform is not 3 x 3 numbers")
    transform /= transform[2, 2]
    if not 0.5 < local_scale(transform) < 2 or np.abs(transform[2, :2]).max() > 0.01:
        raise ValueError("a transform is none of one camera in one place")
    return transform


def _size(size: tuple[int, int]) -> str:
    return f"{size[1]} x {size[0]}"
