"""The settings of a whole stack: those of its photos brought together, overridden by the user, written to a file."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focalsweep.errors import InputError, InputFileExistsError, InputTypeError, Sentence, SettingName, joined
from focalsweep.photos.filenames import distances_in_names
from focalsweep.photos.metadata import FrameSettings, is_phone
from focalsweep.photos.values import Reference, Value, between, exact

CAMERA_FIELDS = ("focal_length", "f_number", "pixel_pitch")
OTHER_FIELDS = ("focus_reference", "reference_source", "focus_distances", "aligned", "order")
SETTING_NOUNS = {
    "focal_length": "focal length",
    "f_number": "f-number",
    "pixel_pitch": "pixel pitch",
    "focus_distance": "focus distance",
}
"""What a sentence calls each setting that may be unknown."""
ARGUMENTS = {name: name for name in SETTING_NOUNS} | {"focus_distance": "focus_distances"}
"""What gives it."""
UNITS = {"focal_length": "metres", "f_number": "", "pixel_pitch": "metres per pixel of these files"}
MATCHED_EXPOSURE = 1.05  # the brightest over the darkest


@dataclass(frozen=True)
class StackSettings:
    """What is known of a stack; None where nothing is. Lengths in metres.

    Args:
        files: names of the photos, in the order given.
        focus_distances: one for each file, counted from `focus_reference`.
        notes: what the user should know of, each in one sentence.
        aligned, order: as the user gave them; metadata does not say.
        made_with: "make", "model" and "lens" of the photos, where all that say one agree.
    """

    files: tuple[str, ...]
    focal_length: Value | None
    f_number: Value | None
    pixel_pitch: Value | None
    focus_distances: tuple[Value | None, ...]
    focus_reference: Reference
    reference_source: str
    notes: tuple[str, ...] = ()
    aligned: bool | None = None
    order: str | None = None
    made_with: dict[str, str] = field(default_factory=dict)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of what is still missing for metric depth."""
        missing = [name for name in CAMERA_FIELDS if getattr(self, name) is None]
        return (*missing, *(["focus_distance"] if None in self.focus_distances else []))


def overrides_from_toml(camera: Mapping[str, Any], frames: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The [camera] and [[frame]] tables of a stack.toml as overrides for `stack_settings`."""
    overrides: dict[str, Any] = {
        name: exact(float(value), "stack.toml") if name in CAMERA_FIELDS else value for name, value in camera.items()
    }
    if "focus_reference" in camera:
        overrides["reference_source"] = "stack.toml"
    distances = {}
    for frame in frames:
        if "focus_distance" in frame:
            distances[frame["file"]] = exact(float(frame["focus_distance"]), "stack.toml")
        elif "focus_range" in frame:
            near, far = frame["focus_range"]
            distances[frame["file"]] = between(float(near), float(far), "stack.toml")
    return overrides | {"focus_distances": distances}


def stack_settings(frames: Sequence[FrameSettings], overrides: Mapping[str, Any] | None = None) -> StackSettings:
    """Bring the settings of all photos together.

    Args:
        frames: as `read_settings` gives them.
        overrides: the user's: `focal_length`, `f_number`, `pixel_pitch` (numbers, or `Value`s with their source),
            `focus_reference` (and `reference_source`: who says so), `aligned`, `order`, and `focus_distances`:
            {file name: metres, (near, far) or `Value`}.

    Raises:
        ValueError: focal length or f-number differ between photos, and no override settles them.
    """
    given = dict(overrides or {})
    unknown = sorted(set(given) - {*CAMERA_FIELDS, *OTHER_FIELDS})
    if unknown:
        raise InputTypeError(
            "no setting {value!r}: it is one of {rule}",
            field=unknown[0], rule=joined(map(SettingName, (*CAMERA_FIELDS, *OTHER_FIELDS)), last=", "),
            value=unknown[0],
        )  # fmt: skip
    if not isinstance(given.get("aligned"), bool | None):
        raise InputTypeError(
            "{aligned} must be {rule}, but is {value!r}",
            field="aligned", rule="True or False", value=given["aligned"], remedy="leave it out to have it done",
        )  # fmt: skip
    notes = _shared(frames)
    camera = {name: _merged(name, frames, given.get(name), notes) for name in CAMERA_FIELDS}
    distances = _distances(frames, given.get("focus_distances") or {}, notes)
    reference, source = _reference(frames, distances, given, notes)
    _note_exposure(frames, notes)
    _note_equal_distances(frames, distances, notes)
    return StackSettings(
        files=tuple(frame.file for frame in frames),
        focal_length=camera["focal_length"],
        f_number=camera["f_number"],
        pixel_pitch=camera["pixel_pitch"],
        focus_distances=tuple(distances),
        focus_reference=reference,
        reference_source=source,
        notes=tuple(notes),
        aligned=given.get("aligned"),
        order=given.get("order"),
        made_with=_made_with(frames),
    )


def _made_with(frames: Sequence[FrameSettings]) -> dict[str, str]:
    """Maker, model and lens, each where the photos that name one name the same."""
    named = {name: {getattr(f, name) for f in frames} - {None, ""} for name in ("make", "model", "lens")}
    return {name: values.pop() for name, values in named.items() if len(values) == 1}


def _shared(frames: Sequence[FrameSettings]) -> list[str]:
    """The notes of the photos, each once, with the photo where it is not about all of them."""
    texts = dict.fromkeys(note for frame in frames for note in frame.notes)
    notes = []
    for text in texts:
        files = [frame.file for frame in frames if text in frame.notes]
        before = "" if len(files) == len(frames) else f"{_some_of(files)}: "
        notes.append(text.within(before) if isinstance(text, Sentence) else before + text)
    return notes


def _some_of(files: Sequence[str]) -> str:
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _merged(name: str, frames: Sequence[FrameSettings], given: Any, notes: list[str]) -> Value | None:
    """The one value of all photos, or the user's; a photo without it takes that of the others."""
    found: list[tuple[str, Value]] = [(f.file, getattr(f, name)) for f in frames if getattr(f, name) is not None]
    if given is not None:
        value = given if isinstance(given, Value) else exact(_number(name, given), "given")
        if found and value.disagrees(found[0][1]):
            notes.append(
                Sentence(
                    "{name} is {value}, the metadata says {found}",
                    name=SettingName(name),
                    value=value,
                    found=found[0][1],
                )
            )
        return value
    if not found:
        return None
    (low_file, low), (high_file, high) = min(found, key=lambda f: f[1].value), max(found, key=lambda f: f[1].value)
    if low.high < high.low:
        scale, unit = (1e3, " mm") if name == "focal_length" else (1e6, " um") if name == "pixel_pitch" else (1.0, "")
        what = {"focal_length": "the zoom", "f_number": "the aperture", "pixel_pitch": "the pixel pitch"}[name]
        raise InputError(
            "{what} changed between frames: {low_file} has {low:.4g}{unit}, {high_file} has {high:.4g}{unit}",
            field=name, rule="the same in all photos", value=(low.value, high.value),
            what=what, unit=unit, low_file=low_file, high_file=high_file,
            low=low.value * scale, high=high.value * scale,
            remedy="take photos of one setting, or give {setting}", setting=SettingName(name),
        )  # fmt: skip
    return found[0][1]


def _number(name: str, given: Any) -> float:
    if isinstance(given, bool | str):
        raise InputTypeError(
            "{name} must be {rule}, but is {value!r}",
            name=SettingName(name), field=name, rule="a number" if name == "f_number" else "a number of metres",
            value=given,
        )  # fmt: skip
    return float(given)


def _distances(frames: Sequence[FrameSettings], given: Mapping[str, Any], notes: list[str]) -> list[Value | None]:
    """The user's distances, else those of the metadata if every photo has one, else those in the file names."""
    metadata = [frame.focus_distance for frame in frames]
    names = distances_in_names([frame.file for frame in frames])
    chosen: list[Value | None] = list(metadata)
    if names is not None:
        known = [value for value in metadata if value is not None]
        stuck = len(known) > 1 and len({value.value for value in known}) == 1
        if len(known) < len(frames) or stuck:
            chosen = list(names)
            if stuck:
                notes.append(f"{known[0].source} is the same in all photos: the distances in the file names are used")
        else:
            differing = [f.file for f, a, b in zip(frames, known, names, strict=True) if a.disagrees(b)]
            if differing:
                notes.append(f"{known[0].source} differs from the distance in the file name: {_some_of(differing)}")
    strangers = sorted(set(given) - {frame.file for frame in frames})
    if strangers:
        raise InputError(
            "{focus_distances} names {value}, which is no photo of this stack",
            field="focus_distances", rule="names of photos", value=strangers[0], remedy="check the name",
        )  # fmt: skip
    for number, frame in enumerate(frames):
        if frame.file in given:
            chosen[number] = _given_distance(given[frame.file], frame.file)
    return chosen


def _given_distance(value: Any, file: str) -> Value:
    if isinstance(value, Value):
        return value
    ends = value if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(end, int | float) and end > 0 for end in ends) or len(ends) not in (1, 2):
        raise InputError(
            "{file}: the focus distance must be {rule}, but is {value!r}",
            field="focus_distances", rule="metres above 0, or (near, far)", value=value, file=file,
        )  # fmt: skip
    return between(ends[0], ends[1], "given") if len(ends) == 2 else exact(float(ends[0]), "given")


def _reference(
    frames: Sequence[FrameSettings], distances: Sequence[Value | None], overrides: Mapping[str, Any], notes: list[str]
) -> tuple[Reference, str]:
    """What the distances count from: the user's word, else the maker's convention."""
    given = overrides.get("focus_reference")
    if given in ("lens", "sensor"):
        return given, overrides.get("reference_source", "given")
    if given is not None:
        raise InputError(
            "{focus_reference} must be {rule}, but is {value!r}",
            field="focus_reference", rule='"lens" or "sensor"', value=given,
        )  # fmt: skip
    sources = {value.source for value in distances if value is not None}
    if sources and sources <= {"stack.toml", "given"}:
        return "lens", "the default for distances that are given"
    make = next((frame.make for frame in frames if frame.make), None)
    if is_phone(make):
        return "lens", "phones count from the lens"
    if sources and {frame.focus_reference for frame in frames} - {None} == {"sensor"}:
        notes.append(
            Sentence(
                'distances count from the sensor, as {make} has them: give {focus_reference="lens"} where they do not',
                make=make,
            )
        )
        return "sensor", f"the convention of {make}"
    return "lens", "the default where the maker's convention is unknown"


def _note_exposure(frames: Sequence[FrameSettings], notes: list[str]) -> None:
    lights = [
        (frame.exposure_s * frame.iso / frame.f_number.value**2, frame.file)
        for frame in frames
        if frame.exposure_s and frame.iso and frame.f_number
    ]
    if lights and max(lights)[0] > MATCHED_EXPOSURE * min(lights)[0]:
        (least, darkest), (most, brightest) = min(lights), max(lights)
        notes.append(f"exposure differs by {math.log2(most / least):.2f} stops from {darkest} to {brightest}")


def _note_equal_distances(frames: Sequence[FrameSettings], distances: Sequence[Value | None], notes: list[str]) -> None:
    groups: dict[tuple[float, float, float, bool], list[str]] = {}
    for frame, value in zip(frames, distances, strict=True):
        if value is not None:
            groups.setdefault((value.value, value.low, value.high, value.only_range), []).append(frame.file)
    for (metres, low, high, only_range), files in groups.items():
        if len(files) > 1:
            what = f"range, {low:.4g} to {high:.4g} m" if only_range else f"distance, {metres:.4g} m"
            notes.append(f"{_some_of(files)} have one focus {what}")


def stack_toml(settings: StackSettings, magnifications: Sequence[float] = ()) -> str:
    """The text of a stack.toml: every value with its source and interval, what is unknown as a comment."""
    lines = ["# Written by focalsweep inspect. Correct what is wrong: this file overrides the metadata of the photos."]
    lines += [f"# Note: {_comment(note)}" for note in settings.notes]
    lines += ["[camera]"]
    for name in CAMERA_FIELDS:
        value = getattr(settings, name)
        unit = f"{UNITS[name]}; " if UNITS[name] else ""
        if value is None:
            lines.append(f"# {name} =   # {unit}unknown: add it")
        else:
            lines.append(f"{name} = {_digits(value.value)}   # {unit}{_trust(value)}")
    lines.append(f'focus_reference = "{settings.focus_reference}"   # {_comment(settings.reference_source)}')
    if settings.aligned is not None:
        lines.append(f"aligned = {str(settings.aligned).lower()}")
    if settings.order is not None:
        lines.append(f"order = {_text(settings.order)}")
    for number, (file, value) in enumerate(zip(settings.files, settings.focus_distances, strict=True)):
        lines += ["", "[[frame]]", f"file = {_text(file)}"]
        if magnifications:
            lines.append(f"magnification = {_digits(magnifications[number])}   # by registration")
        if value is None:
            lines.append("# focus_distance =   # metres; unknown: add it, inf is allowed")
        elif value.only_range:
            lines.append(f"focus_range = [{_digits(value.low)}, {_digits(value.high)}]   # metres; {_trust(value)}")
        else:
            lines.append(f"focus_distance = {_digits(value.value)}   # metres; {_trust(value)}")
    return "\n".join(lines) + "\n"


def write_stack_toml(
    path: Path, settings: StackSettings, overwrite: bool = False, magnifications: Sequence[float] = ()
) -> None:
    """Write a stack.toml, whole or not at all."""
    if path.exists() and not overwrite:
        raise InputFileExistsError(
            "{path} exists and was left alone",
            field="overwrite", path=path, remedy="move it away, or overwrite it with {overwrite=True}",
        )  # fmt: skip
    text = stack_toml(settings, magnifications)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _trust(value: Value) -> str:
    if value.only_range or value.low == value.high:
        return _comment(value.source)
    return f"{_comment(value.source)}, {value.low:.4g} to {value.high:.4g}"


def _digits(value: float) -> str:
    return "inf" if math.isinf(value) else repr(float(f"{value:.7g}"))


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _text(text: str) -> str:
    """A basic string of TOML; it is one of JSON, but for DEL and surrogates."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace").decode().replace("\x7f", "\\u007f")
