"""The settings of a stack that was taken on a stage: the user's, those of stack.toml, those of the file itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from focalsweep.errors import InputError
from focalsweep.photos.microscopy import Hyperstack
from focalsweep.photos.stack_file import StackFile
from focalsweep.types import Stage

STAGE_SETTINGS = (
    "step", "positions", "pixel_size", "numerical_aperture", "magnification", "wavelength", "direction", "rail",
)  # fmt: skip
"""Keywords of `load_stack`, keys of [stage]; lengths in metres."""


@dataclass(frozen=True)
class StageSettings:
    """What is known of the stage, and where each setting comes from."""

    stage: Stage
    sources: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """For run.json: every setting that is known with its source."""
        values = {name: getattr(self.stage, name, None) for name in STAGE_SETTINGS}
        values["direction"] = "up" if self.stage.upwards else "down"
        return {
            name: {"value": value, "source": self.sources.get(name, "assumed")}
            for name, value in values.items()
            if value is not None
        }


def stage_settings(
    names: Sequence[str], stack_file: StackFile, file: Hyperstack | None, given: Mapping[str, Any]
) -> StageSettings | None:
    """The stage, where anybody says how far it moved; None for a lens that focuses.

    The pages of a microscope's file alone make no stage: they may be photos of a lens, saved as one file.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def take(found: Mapping[str, Any], source: str) -> None:
        known = {name: value for name, value in found.items() if value is not None}
        if "step" in known or "positions" in known:  # the one replaces the other
            for name in ("step", "positions"):
                values.pop(name, None)
                sources.pop(name, None)
        values.update(known)
        sources.update(dict.fromkeys(known, source))

    if file is not None:
        said = {name: getattr(file, name) for name in ("step", "pixel_size", "numerical_aperture")}
        take({name: value for name, value in said.items() if not _beyond_air(name, value)}, file.source)
    take(stack_file.stage, "stack.toml")
    places = _places_of_frames(names, stack_file)
    if places:
        take({"positions": places}, "stack.toml")
    take({name: value for name, value in given.items() if name in STAGE_SETTINGS}, "given")
    if "step" not in values and "positions" not in values:
        return None
    direction = values.pop("direction", "up")
    if direction not in ("up", "down"):
        raise InputError(
            "{direction} must be {rule}, but is {value!r}", field="direction", rule='"up" or "down"', value=direction
        )
    if values.get("pixel_size") is None and sources.get("numerical_aperture") not in ("given", "stack.toml"):
        values.pop("numerical_aperture", None)  # a file that says the one and not the other: the blur is measured
    return StageSettings(Stage(**values, upwards=direction == "up"), sources)


def _beyond_air(name: str, value: float | None) -> bool:
    return name == "numerical_aperture" and value is not None and value >= 1


def _places_of_frames(names: Sequence[str], stack_file: StackFile) -> list[float]:
    """The positions of [[frame]] tables, one for each photo or none."""
    found = {frame["file"]: float(frame["position"]) for frame in stack_file.frames if "position" in frame}
    missing = [name for name in names if name not in found]
    if found and missing:
        raise InputError(
            "{missing} has no position in {stack.toml}, {other} has one",
            field="positions", rule="one for each photo", value=missing[0], missing=missing[0], other=min(found),
        )  # fmt: skip
    return [found[name] for name in names] if found else []
