"""stack.toml: what the user knows better than the metadata, every key known and of its type."""

from __future__ import annotations

import math
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focalsweep.errors import shortened
from focalsweep.photos.odd_files import odd_kind

NAME = "stack.toml"
LARGEST, LONGEST_LINE = 2**20, 4096  # bytes of the file, characters of a line: a thousand frames have 100 kB
MOST_DOTS = 32  # in a key; the keys that we know have none, and tomllib takes quadratic time and memory for them
ORDERS = ("near-to-far", "far-to-near", "auto")
CAMERA_KEYS = {
    "focal_length": "a number above 0",
    "f_number": "a number above 0",
    "pixel_pitch": "a number above 0",
    "focus_reference": '"lens" or "sensor"',
    "aligned": "yes or no",
    "order": '"near-to-far", "far-to-near" or "auto"',
}
STAGE_KEYS = {
    "step": "a number above 0",
    "positions": "a list of metres",
    "pixel_size": "a number above 0",
    "numerical_aperture": "a number above 0",
    "magnification": "a number above 0",
    "wavelength": "a number above 0",
    "direction": '"up" or "down"',
    "rail": "yes or no",
}
FRAME_KEYS = {
    "file": "text",
    "focus_distance": "metres above 0, or inf",
    "focus_range": "two distances above 0, [near, far]",
    "magnification": "a number from 0.1 to 10",
    "position": "metres",
}
DIRECTIONS = ("up", "down")


@dataclass(frozen=True)
class StackFile:
    """The [camera] or the [stage] table, and the [[frame]] tables."""

    camera: dict[str, Any] = field(default_factory=dict)
    stage: dict[str, Any] = field(default_factory=dict)
    frames: list[dict[str, Any]] = field(default_factory=list)

    @property
    def magnifications(self) -> dict[str, float]:
        return {frame["file"]: float(frame.get("magnification", 1.0)) for frame in self.frames}


def read_stack_file(folder: Path) -> StackFile:
    """The stack.toml of a folder; an empty one where there is none."""
    path = folder / NAME
    kind = odd_kind(path)
    if kind:
        raise ValueError(f"{path} is {kind}: give a text file, or remove it")
    if not path.exists():
        return StackFile()
    settings = read_toml(path, "a stack.toml has a few lines for each photo")
    camera, stage, frames = settings.pop("camera", {}), settings.pop("stage", {}), settings.pop("frame", [])
    if settings:
        raise ValueError(f"{path}: unknown table {shortened(min(settings))}: it has [camera] or [stage], and [[frame]]")
    for name, table in (("camera", camera), ("stage", stage)):
        if not isinstance(table, dict):
            raise ValueError(f"{path}: {name} must be a table, [{name}]")
    if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
        raise ValueError(f"{path}: frame must be a list of tables: write [[frame]], with two brackets, for each photo")
    _check_keys(camera, CAMERA_KEYS, path, "[camera]")
    _check_keys(stage, STAGE_KEYS, path, "[stage]")
    names = set()
    for frame in frames:
        _check_keys(frame, FRAME_KEYS, path, f"[[frame]] of {shortened(frame.get('file', 'unnamed file'), str)}")
        if "file" not in frame:
            raise ValueError(f"{path}: a [[frame]] has no file: name the photo it is about")
        name = shortened(frame["file"], str)
        if "focus_distance" in frame and "focus_range" in frame:
            raise ValueError(f"{path}: {name} has a focus_distance and a focus_range: keep one")
        if frame["file"] in names:
            raise ValueError(f"{path}: {name} has two [[frame]] tables: keep one")
        names.add(frame["file"])
        # A photo lies in the folder: a name that leads elsewhere is a mistake, or an attempt.
        if Path(frame["file"]).name != frame["file"] or frame["file"] in ("", "..") or "\0" in frame["file"]:
            raise ValueError(
                f"{path}: {shortened(frame['file'])} is no file of this folder: put the photos beside stack.toml"
            )
    return StackFile(camera, stage, frames)


def read_toml(path: Path, usual: str) -> dict[str, Any]:
    """The file as TOML, with bounds on what parsing it may take; `usual` says how long such a file is."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{path} has over {LARGEST // 2**20} MB: {usual}, correct it")
    try:
        text = content.decode("utf-8-sig")  # editors of Windows begin with a byte-order mark
        for number, line in enumerate(text.split("\n"), 1):
            dots = _keys_of(line).count(".")
            if len(line) > LONGEST_LINE or dots > MOST_DOTS:
                what = f"{len(line)} characters" if len(line) > LONGEST_LINE else f"a key of {dots} dots"
                raise ValueError(f"line {number} has {what}")
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{path} is no valid TOML, correct it: its brackets are nested too deeply") from None
    except ValueError as error:  # also numbers of thousands of digits, and text that is no UTF-8
        raise ValueError(f"{path} is no valid TOML, correct it: {shortened(error, str, 200)}") from None


def _keys_of(line: str) -> str:
    """The part of a line that keys may stand in: a list of positions may have as many dots as it has numbers."""
    before, equals, _ = line.partition("=")
    if "{" in line or '"' in before or "'" in before or line.lstrip().startswith("["):
        return line
    return before if equals else ""


def _check_keys(table: dict[str, Any], keys: dict[str, str], path: Path, where: str) -> None:
    for key, value in table.items():
        if key not in keys:
            raise ValueError(f"{path}: unknown key {shortened(key)} in {where}: it is one of {', '.join(keys)}")
        kind = keys[key]
        if not _fits(value, kind):
            raise ValueError(f"{path}: {key} in {where} must be {kind}, but is {shortened(value)}")


def _fits(value: Any, kind: str) -> bool:
    if kind == "a number from 0.1 to 10":
        return isinstance(value, int | float) and not isinstance(value, bool) and 0.1 <= value <= 10
    if "above 0" in kind:
        values = value if isinstance(value, list) else [value]
        most = math.inf if kind.startswith(("metres", "two")) else sys.float_info.max
        fits = all(isinstance(v, int | float) and not isinstance(v, bool) and 0 < v <= most for v in values)
        return fits and (len(values) == 2 if kind.startswith("two") else not isinstance(value, list))
    if kind in ("metres", "a list of metres"):
        values = value if kind.startswith("a list") else [value]
        return isinstance(values, list) and all(
            isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values
        )
    if "up" in kind and "down" in kind:
        return value in DIRECTIONS
    if kind == "text":
        return isinstance(value, str)
    if kind == "yes or no":
        return isinstance(value, bool)
    return value in (("lens", "sensor") if "lens" in kind else ORDERS)
