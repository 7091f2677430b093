"""The settings as the page shows and takes them: text in the visitor's unit there, metres here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from focalsweep.errors import InputError, SettingName
from focalsweep.photos.settings import StackSettings
from focalsweep.photos.values import Value
from focalsweep.web.words import CAMERA


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


UNITS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "m": (lambda metres: metres, lambda shown: shown),
    "cm": (lambda metres: metres * 100, lambda shown: shown / 100),
    "mm": (lambda metres: metres * 1000, lambda shown: shown / 1000),
    "dioptres": (_inverse, _inverse),
}
"""Of focus distances: from metres to what is shown, and back."""
MISSING = "missing: type it in"
INFINITE = {"inf", "infinity", "∞"}


@dataclass(frozen=True)
class Shown:
    """The texts on the page: of the camera by name, of the frames by file."""

    camera: dict[str, str]
    frames: dict[str, str]


@dataclass(frozen=True)
class Typed:
    """The texts that the page sends: of the camera by name, of the frames as (file, text) in a unit."""

    camera: dict[str, str]
    frames: Sequence[tuple[str, str]]
    unit: str = "m"


def sorted_by_focus(settings: StackSettings) -> StackSettings:
    """Near to far; as it was while a distance is missing, so that no row moves while distances are typed in."""
    if any(value is None for value in settings.focus_distances):
        return settings
    order = sorted(range(len(settings.files)), key=lambda i: settings.focus_distances[i].value)  # type: ignore[union-attr]
    return replace(
        settings,
        files=tuple(settings.files[i] for i in order),
        focus_distances=tuple(settings.focus_distances[i] for i in order),
    )


def show(settings: StackSettings, unit: str) -> Shown:
    camera = {}
    for name, (_, factor, _) in CAMERA.items():
        value: Value | None = getattr(settings, name)
        camera[name] = "" if value is None else f"{value.value * factor:.5g}"
    pairs = zip(settings.files, settings.focus_distances, strict=True)
    return Shown(camera, {file: "" if value is None else digits(UNITS[unit][0](value.value)) for file, value in pairs})


def rows(settings: StackSettings, unit: str) -> list[list[str]]:
    """File, focus distance and its source, a row for each frame."""
    texts = show(settings, unit).frames
    return [
        [file, texts[file], source_of(value, unit)]
        for file, value in zip(settings.files, settings.focus_distances, strict=True)
    ]


def source_of(value: Value | None, unit: str = "", factor: float | None = None) -> str:
    """Where a value comes from, with its interval where that is all the source has."""
    if value is None:
        return MISSING
    source = "typed in" if value.source == "given" else value.source
    if not value.only_range:
        return source
    convert = UNITS[unit][0] if factor is None else (lambda metres: metres * factor)
    ends = sorted((convert(value.low), convert(value.high)))
    return f"{source}, {digits(ends[0])} to {digits(ends[1])}"


def changes(shown: Shown, typed: Typed, given: dict[str, Any]) -> dict[str, Any]:
    """`given` (overrides for `open_photos`) with every text that differs from what was shown; an emptied one goes.

    Raises:
        ValueError: a text is no number, or one that no lens has.
    """
    changed = {**given, "focus_distances": dict(given.get("focus_distances", {}))}
    for name, text in typed.camera.items():
        if text.strip() == shown.camera.get(name, ""):
            continue
        changed.pop(name, None)
        if text.strip():
            changed[name] = _number(text, name) / CAMERA[name][1]
    for file, text in typed.frames:
        text = text.strip()
        if file not in shown.frames or text == shown.frames[file]:
            continue
        changed["focus_distances"].pop(file, None)
        if text:
            changed["focus_distances"][file] = _distance(text, file, typed.unit)
    return changed


def digits(value: float) -> str:
    return "inf" if math.isinf(value) else f"{value:.5g}"


def _distance(text: str, file: str, unit: str) -> float:
    if text.lower() in INFINITE:
        return math.inf
    value = _plain(text)
    if value is None or value < 0 or (value == 0 and unit != "dioptres"):
        raise InputError(
            "{file}: the focus distance must be {rule}, but is {value!r}",
            field="focus_distances", rule="a number above 0, or inf", value=text, file=file,
        )  # fmt: skip
    return UNITS[unit][1](value)


def _number(text: str, name: str) -> float:
    value = _plain(text.lower().removeprefix("f/") if name == "f_number" else text)
    if value is None or value <= 0:
        raise InputError(
            "{name} must be {rule}, but is {value!r}",
            name=SettingName(name), field=name, rule="a number above 0", value=text,
        )  # fmt: skip
    return value


def _plain(text: str) -> float | None:
    """A finite number, with a point or a comma."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
