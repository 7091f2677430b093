"""Tags of a photo -> the settings that the physics needs, by every route there is.

Where a setting can be had by several routes the most trusted one is taken, all are kept in `routes`, and those that
differ from it by more than 5 % are named in `notes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from focalsweep.photos.exif import read_tags
from focalsweep.photos.exiftool import find_exiftool, read_tags_with_exiftool
from focalsweep.photos.sensors import UNCERTAINTY, find_sensor
from focalsweep.photos.values import Reference, Value, between, rounded

PHONE_MAKERS = (
    *("apple", "google", "samsung", "xiaomi", "huawei", "honor", "oneplus", "oppo", "vivo", "motorola", "lge", "htc"),
    *("nothing", "realme", "nokia", "asus", "fairphone", "hmd"),
)
CAMERA_MAKERS = (
    *("canon", "nikon", "sony", "olympus", "om digital", "panasonic", "leica", "fujifilm", "pentax", "ricoh", "sigma"),
    *("hasselblad", "konica", "minolta", "casio", "eastman kodak", "phase one"),
)
RESOLUTION_UNIT = {2: 25.4e-3, 3: 1e-2, 4: 1e-3, 5: 1e-6}  # of FocalPlaneResolutionUnit, metres
DIAGONAL_OF_35_MM = math.hypot(36e-3, 24e-3)
FARTHEST = 10_000.0  # metres: what lies beyond is a marker of infinity (65535, 4294967.295, 4294967295)
NEAREST = 1e-3  # metres
LIKELY = {"FocalLength": (0.1, 10_000.0), "FNumber": (0.3, 1000.0), "ApertureValue": (0.1, 20.0)}
NIKON_STEP = 10 ** (1 / 40)
UNLIKELY = (0.5e-6, 200e-6)  # pixel pitches that no photo has, metres


@dataclass(frozen=True)
class FrameSettings:
    """What the metadata of one photo says. Lengths in metres.

    Args:
        focus_reference: what `focus_distance` is measured from: the image plane ("sensor") in the maker notes of
            cameras and their EXIF, the lens in phones. A default by maker, which the user may override.
        width_px, height_px: of the picture in the file.
        routes: every route to "focus_distance" and "pixel_pitch" that was found, the most trusted first.
        notes: what the user should know of: routes that disagree, values left out and why.
    """

    file: str
    focal_length: Value | None = None
    f_number: Value | None = None
    focus_distance: Value | None = None
    pixel_pitch: Value | None = None
    focus_reference: Reference | None = None
    make: str | None = None
    model: str | None = None
    lens: str | None = None
    width_px: int | None = None
    height_px: int | None = None
    exposure_s: float | None = None
    iso: float | None = None
    routes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_settings(paths: Sequence[Path]) -> list[FrameSettings]:
    """The settings in the metadata of each photo: through exiftool where it is on the PATH, else in pure Python."""
    tags = {path: read_tags(path) for path in paths}
    program, notes = find_exiftool(), []
    try:
        more = read_tags_with_exiftool(paths, program) if program else {}
    except RuntimeError as error:
        more, notes = {}, [str(error)]
    frames = [settings_of(tags[path] | more.get(path, {}), path.name, decrypted=path in more) for path in paths]
    return [replace(frame, notes=(*frame.notes, *notes)) for frame in frames]


def settings_of(tags: Mapping[str, Any], file: str, decrypted: bool = False) -> FrameSettings:
    """The settings in the tags of one photo (exiftool's names, numbers as with its -n)."""
    notes: list[str] = []
    focal_length = _positive(tags, "FocalLength")
    distances = _focus_routes(tags, notes)
    if not distances and "LensDataVersion" in tags and not decrypted:
        notes.append("the focus distance is encrypted (Nikon): install exiftool to read it")
    pitches = _pitch_routes(tags, notes)
    for name, unit, routes in (("focus distance", "m", distances), ("pixel pitch", "um", pitches)):
        scale = 1e6 if unit == "um" else 1.0
        for other in routes[1:]:
            if routes[0].disagrees(other):
                notes.append(
                    f"{name}: {routes[0].source} says {routes[0].value * scale:.4g} {unit}, "
                    f"{other.source} says {other.value * scale:.4g} {unit}"
                )
    return FrameSettings(
        file=file,
        focal_length=rounded(focal_length, "EXIF FocalLength", 1e-3) if focal_length else None,
        f_number=_f_number(tags),
        focus_distance=distances[0] if distances else None,
        pixel_pitch=pitches[0] if pitches else None,
        focus_reference=_reference(tags, distances[0].source if distances else ""),
        make=_text(tags, "Make"),
        model=_text(tags, "Model"),
        lens=_text(tags, "LensModel"),
        width_px=_count(tags, "ImageWidth"),
        height_px=_count(tags, "ImageHeight"),
        exposure_s=_positive(tags, "ExposureTime"),
        iso=_positive(tags, "ISO"),
        routes={"focus_distance": tuple(distances), "pixel_pitch": tuple(pitches)},
        notes=tuple(notes),
    )


def is_phone(make: str | None) -> bool:
    return (make or "").lower().startswith(PHONE_MAKERS)


def _reference(tags: Mapping[str, Any], source: str) -> Reference | None:
    """Android and Apple count from the lens; cameras engrave and record distances from the image plane."""
    make = _text(tags, "Make")
    if is_phone(make) or "dioptres" in source:
        return "lens"
    return "sensor" if (make or "").lower().startswith(CAMERA_MAKERS) else None


def _focus_routes(tags: Mapping[str, Any], notes: list[str]) -> list[Value]:
    """All focus distances that the tags hold, maker notes first: EXIF's own is often filled in without care."""
    make = (_text(tags, "Make") or "").lower()
    routes = [
        _canon(_number(tags, "FocusDistanceLower"), _number(tags, "FocusDistanceUpper")),
        _maker_distance(_number(tags, "FocusDistance"), make, notes),
        _sony(_number(tags, "FocusPosition2"), _positive(tags, "FocalLengthIn35mmFormat"), make, notes),
        _distance(_number(tags, "SubjectDistance"), "EXIF SubjectDistance"),
        _distance(_number(tags, "ApproximateFocusDistance"), "XMP ApproximateFocusDistance"),
        _dioptres(_number(tags, "LensFocusDistance")),
        _apple(tags.get("FocusDistanceRange"), notes),
    ]
    return [route for route in routes if route is not None]


def _distance(metres: float | None, source: str) -> Value | None:
    """A distance in metres as its tag shows it; 0, less and undefined are unknown, a marker is infinity."""
    if metres is None or metres < NEAREST:
        return None
    return Value(math.inf, source, FARTHEST, math.inf) if metres >= FARTHEST else rounded(metres, source, coarsest=0.01)


def _canon(lower: float | None, upper: float | None) -> Value | None:
    """A range in steps of 1 cm; 655.35 m is infinity. Some bodies swap the two, some lenses report 0."""
    if not lower or not upper or min(lower, upper) < NEAREST:
        return None
    near, far = (math.inf if end > 655.345 else end for end in (lower, upper))
    return between(near, far, "Canon FocusDistanceLower and Upper")


def _maker_distance(metres: float | None, make: str, notes: list[str]) -> Value | None:
    """FocusDistance of Nikon (40 steps a decade, 256 times finer in Z lenses), Leica (mm) and the others (metres)."""
    if make.startswith("nikon") and metres:
        found = _distance(metres, "Nikon FocusDistance")
        if found is None or metres <= 0.0101 or math.isinf(found.value):  # 0.01 m is the code 0: unknown
            return None if metres <= 0.0101 else found
        step = 40 * math.log10(metres / 0.01)
        half = math.sqrt(NIKON_STEP) if abs(step - round(step)) < 1e-2 else NIKON_STEP ** (1 / 512)
        return Value(metres, found.source, metres / half, metres * half)
    if make.startswith("leica") and metres:
        notes.append("Leica's FocusDistance was taken as millimetres; some models count in centimetres")
        return _distance(metres / 1000, "Leica FocusDistance")
    maker = "Olympus" if make.startswith(("olympus", "om digital")) else make.split(" ")[0].capitalize()
    return _distance(metres, f"{maker} FocusDistance".strip())


def _sony(position: float | None, equivalent_mm: float | None, make: str, notes: list[str]) -> Value | None:
    """FocusPosition2 p, approximately: the distance is (2^(p / 16 - 5) + 1) times the 35-mm equivalent focal length."""
    if not make.startswith("sony") or not position or position <= 0 or equivalent_mm is None:
        return None
    if position >= 255:
        notes.append("Sony's focus position is 255, infinity or not reported: left out; add the distance to stack.toml")
        return None
    metres = (2 ** (position / 16 - 5) + 1) * equivalent_mm / 1000
    return Value(metres, "Sony FocusPosition2, approximate", metres / 1.1, metres * 1.1)


def _dioptres(value: float | None) -> Value | None:
    if value is None or not 0 <= value < 1000:
        return None
    shown = rounded(value, "XMP LensFocusDistance, dioptres", coarsest=0.01)
    near, far = 1 / shown.high, 1 / shown.low if shown.low else math.inf
    return Value(1 / value if value else math.inf, shown.source, near, far)


def _apple(ends: Any, notes: list[str]) -> Value | None:
    if not isinstance(ends, tuple) or len(ends) != 2 or not all(_is_number(end) and end >= NEAREST for end in ends):
        return None
    notes.append("Apple's focus range is a guess of the autofocus and known to be wrong at times: check it")
    near, far = (math.inf if end >= FARTHEST else float(end) for end in ends)
    return between(near, far, "Apple FocusDistanceRange")


def _pitch_routes(tags: Mapping[str, Any], notes: list[str]) -> list[Value]:
    """Metres per pixel of the file, from the sensor table, FocalPlaneXResolution and the 35-mm equivalent."""
    width, height = _count(tags, "ImageWidth"), _count(tags, "ImageHeight")
    if width is None or height is None:
        return []
    longer, shorter = max(width, height), min(width, height)
    sides = [_count(tags, "ExifImageWidth") or width, _count(tags, "ExifImageHeight") or height]
    taken = max(sides)
    if abs(taken / longer - 1) > 0.03:
        notes.append(
            f"taken with {sides[0]} x {sides[1]} px, now {width} x {height} px: thought to be reduced, not cut"
        )
    focal_length = _positive(tags, "FocalLength")
    routes = []
    sensor = find_sensor(_text(tags, "Model"), focal_length)
    if sensor:  # a reduced or cut picture kept the side that it has relatively more of
        kept = max(longer / sensor.width_px, shorter / sensor.height_px)
        kept = 1.0 if abs(kept - 1) < 0.03 else kept  # RAW files have a border
        pitch = sensor.width_mm * 1e-3 / sensor.width_px / kept
        source = f"sensor table, {sensor.width_mm:g} mm over {sensor.width_px} px"
        routes.append(Value(pitch, source, pitch * (1 - UNCERTAINTY), pitch * (1 + UNCERTAINTY)))
    resolution = _positive(tags, "FocalPlaneXResolution")
    unit = RESOLUTION_UNIT.get(tags.get("FocalPlaneResolutionUnit", 2))
    if resolution and unit:
        pitch = unit / resolution * taken / longer
        # It may describe the whole sensor with its masked border: then it is a few percent too large.
        routes.append(Value(pitch, "EXIF FocalPlaneXResolution", pitch * 0.96, pitch * 1.01))
    equivalent = _positive(tags, "FocalLengthIn35mmFormat")
    if focal_length and equivalent:
        lens = rounded(focal_length, "")
        pitch = DIAGONAL_OF_35_MM / math.hypot(width, height)
        low, high = lens.low / (equivalent + 0.5), lens.high / max(equivalent - 0.5, 0.5)
        routes.append(
            Value(pitch * focal_length / equivalent, "EXIF FocalLengthIn35mmFormat", pitch * low, pitch * high)
        )
    zoom = _positive(tags, "DigitalZoomRatio") or 1.0
    if zoom > 1.01 and routes:
        notes.append(f"digital zoom of {zoom:g}: the pixel pitch may be too large by that factor")
    likely = [route for route in routes if UNLIKELY[0] <= route.value <= UNLIKELY[1]]
    notes += [
        f"{route.source} gives {route.value * 1e6:.3g} um a pixel: left out" for route in routes if route not in likely
    ]
    return likely


def _f_number(tags: Mapping[str, Any]) -> Value | None:
    """Apertures are marked with two digits: 5.6, 11."""
    number, source = _positive(tags, "FNumber"), "EXIF FNumber"
    apex = _positive(tags, "ApertureValue")
    if number is None and apex is not None:
        number, source = 2 ** (apex / 2), "EXIF ApertureValue"
        number = round(number, 1 if number < 10 else 0)
    return None if number is None else rounded(number, source, coarsest=0.1 if number < 10 else 1.0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _number(tags: Mapping[str, Any], name: str) -> float | None:
    value = tags.get(name)
    return None if value is None or not _is_number(value) else float(value)


def _positive(tags: Mapping[str, Any], name: str) -> float | None:
    """A number that the tag may have: above 0, and of a size that a camera could mean."""
    value = _number(tags, name)
    low, high = LIKELY.get(name, (1e-9, 1e9))
    return value if value is not None and low <= value <= high else None


def _count(tags: Mapping[str, Any], name: str) -> int | None:
    value = _positive(tags, name)
    return int(value) if value and value >= 1 else None


def _text(tags: Mapping[str, Any], name: str) -> str | None:
    value = tags.get(name)
    return str(value) if value not in (None, "") else None
