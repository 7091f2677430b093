"""Lens profiles as files: written by `focalsweep calibrate`, found by what the photos say of their lens."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from focalsweep.errors import InputError, InputTypeError, Sentence
from focalsweep.optics.profile import Curvature, LensProfile, Measured
from focalsweep.photos.odd_files import odd_kind
from focalsweep.photos.stack_file import read_toml
from focalsweep.types import Camera, FocalStack
from focalsweep.validation import as_setting

FOLDER = "FOCALSWEEP_LENSES"
"""The environment variable that names another folder of profiles."""
AUTO, OFF = "auto", "off"
SAME_FOCAL_LENGTH = 0.02  # relative: as far as metadata and data sheets differ
SAME_F_NUMBER = 0.03
NAMES = ("make", "model", "lens")
USUAL = "a lens profile has some twenty lines"
Lens = LensProfile | str | Path
"""A profile, its file, a folder of them, "auto" (the user's folder) or "off"."""


def profile_folder() -> Path:
    """Where profiles are looked for: in the user's configuration folder."""
    told = os.environ.get(FOLDER)
    if told:
        return Path(told)
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "focalsweep" / "lenses"


def choose_profile(lens: Lens, stack: FocalStack) -> tuple[LensProfile | None, list[Sentence]]:
    """The profile for a stack, and what the user should know.

    One that was named must fit the photos; of a folder one is taken only if it names their very lens.
    """
    if not isinstance(lens, LensProfile | str | Path):
        raise InputTypeError(
            "{lens} must be {rule}, but is {value!r}",
            field="lens", rule='a profile, its file, a folder, "auto" or "off"', value=lens,
        )  # fmt: skip
    if lens == OFF:
        return None, []
    of_folder = lens == AUTO or (not isinstance(lens, LensProfile) and Path(lens).is_dir())
    if not of_folder:
        profile = lens if isinstance(lens, LensProfile) else read_profile(Path(lens))
        _refuse_other_lens(profile, stack)
        return profile, []
    if not isinstance(stack.camera, Camera):
        return None, []
    folder = profile_folder() if lens == AUTO else Path(str(lens))
    fitting, notes = [], []
    for path in _profiles_in(folder, quiet=lens == AUTO):
        try:
            profile = read_profile(path)
        except (ValueError, OSError) as error:  # one broken file must not cost the others
            notes.append(Sentence("a lens profile was left out: {error}", error=str(error)))
            continue
        if _is_of(profile, stack):
            fitting.append(profile)
    f_number = float(as_setting("f_number", stack.camera.f_number).flatten()[0])
    fitting.sort(key=lambda profile: str(profile.made.get("date", "")), reverse=True)
    fitting.sort(key=lambda profile: abs(math.log(profile.f_number / f_number)))
    if not fitting and lens != AUTO:
        notes.append(
            Sentence(
                "no lens profile in {folder} is of {of}: the lens is taken as a thin one", folder=folder, of=_of(stack)
            )
        )
    return (fitting[0] if fitting else None), notes


def read_profile(path: Path) -> LensProfile:
    """The profile in a TOML file; every key known and of its type."""
    kind = odd_kind(path)
    if kind:
        raise ValueError(f"{path} is {kind}, no lens profile: give the file that focalsweep calibrate wrote")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give a lens profile, focalsweep calibrate makes one")
    content = read_toml(path, USUAL)
    try:
        return _profile(content, path)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is no lens profile: {what}; make it anew with focalsweep calibrate") from None


def _profile(content: Mapping[str, Any], path: Path) -> LensProfile:
    _only(content, {"lens", "made", "curvature", "blur", "focus"}, "the file")
    for name, value in content.items():
        if not isinstance(value, dict):
            raise TypeError(f"{name} must be a table, [{name}]")
    of, bent, focus = content["lens"], content.get("curvature", {}), content.get("focus", {})
    _only(of, {*NAMES, "focal_length", "f_number"}, "[lens]")
    _only(bent, {"radius", "dioptres", "std"}, "[curvature]")
    _only(focus, {"scale", "offset"}, "[focus]")
    names = {name: of.get(name, "") for name in NAMES}
    if not all(isinstance(name, str) for name in names.values()):
        raise TypeError("make, model and lens must be text")
    curvature = None
    if bent:
        radius, dioptres, std = (_numbers(bent[name], name) for name in ("radius", "dioptres", "std"))
        if not radius or not len(radius) == len(dioptres) == len(std):
            raise ValueError("radius, dioptres and std must have as many numbers")
        if any(b <= a for a, b in zip((0.0, *radius), radius, strict=False)) or min(std) < 0:
            raise ValueError("radius must ascend from above 0, and std be 0 or more")
        curvature = Curvature(radius, dioptres, std)
    scale = _measured(focus.get("scale", {"value": 1.0}), "scale")
    blur = _measured(content.get("blur", {"value": 1.0}), "blur")
    if min(scale.value, blur.value) <= 0:
        raise ValueError("the scales of blur and focus must be above 0")
    return LensProfile(
        **names,
        focal_length=_above_0(of["focal_length"], "focal_length"),
        f_number=_above_0(of["f_number"], "f_number"),
        curvature=curvature,
        blur=blur,
        focus_scale=scale,
        focus_offset=_measured(focus.get("offset", {"value": 0.0}), "offset"),
        made=dict(content.get("made", {})),
        name=str(path),
    )


def _only(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    strangers = sorted(set(table) - set(known))
    if strangers:
        raise ValueError(f"unknown key {strangers[0]!r} in {where}")


def _measured(table: Any, name: str) -> Measured:
    if not isinstance(table, dict):
        raise TypeError(f"{name} must be a table with value and std")
    _only(table, {"value", "std"}, name)
    value, std = _numbers([table["value"], table.get("std", 0.0)], name)
    return Measured(value, std)


def _numbers(values: Any, name: str) -> tuple[float, ...]:
    listed = values if isinstance(values, list) else [values]
    if not all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in listed):
        raise TypeError(f"{name} must be numbers")
    return tuple(float(value) for value in listed)


def _above_0(value: Any, name: str) -> float:
    (number,) = _numbers([value], name)
    if number <= 0:
        raise ValueError(f"{name} must be above 0")
    return number


def profile_toml(profile: LensProfile) -> str:
    """The text of a profile's file."""

    def measured(value: Measured) -> str:
        return f"value = {value.value:.6g}\nstd = {value.std:.3g}"

    def listed(values: Iterable[float], form: str) -> str:
        return f"[{', '.join(format(value, form) for value in values)}]"

    names = [f"{name} = {json.dumps(getattr(profile, name), ensure_ascii=False)}" for name in NAMES]
    lines = [
        "# Written by focalsweep calibrate: a lens as it is (docs/lenses.md). Lengths in metres.",
        "[lens]", *names, f"focal_length = {profile.focal_length:.6g}", f"f_number = {profile.f_number:.6g}",
        "", "[made]", *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in profile.made.items()),
        "", "[blur]   # times what the f-number says: the effective aperture", measured(profile.blur),
        "", "[focus.scale]   # what told distances are corrected by, as inverse distances: scale, then offset (1/m)",
        measured(profile.focus_scale), "", "[focus.offset]", measured(profile.focus_offset),
    ]  # fmt: skip
    if profile.curvature:
        bent = profile.curvature
        lines += [
            "", "[curvature]   # dioptres (1/m) that things seem nearer by, this far from the axis on the sensor",
            f"radius = {listed(bent.radii, '.4g')}", f"dioptres = {listed(bent.dioptres, '.4g')}",
            f"std = {listed(bent.std, '.2g')}",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _profiles_in(folder: Path, *, quiet: bool) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError:
        if quiet:
            return []
        raise


def _plain(name: str) -> str:
    return re.sub(r"\s+", " ", name).strip().casefold()


def _apart(a: float, b: float) -> float:
    return abs(a / b - 1)


def _focal_length(stack: FocalStack) -> float:
    return float(as_setting("focal_length", stack.metric_camera.focal_length).flatten()[0])


def _is_of(profile: LensProfile, stack: FocalStack) -> bool:
    """Whether both name one lens: maker and model known, all names and the focal length the same."""
    named = stack.record.made_with
    same = all(_plain(getattr(profile, name)) == _plain(named.get(name, "")) for name in NAMES)
    known = bool(named.get("make") and named.get("model"))
    return same and known and _apart(profile.focal_length, _focal_length(stack)) < SAME_FOCAL_LENGTH


def _refuse_other_lens(profile: LensProfile, stack: FocalStack) -> None:
    """A profile that the user named, of a lens that the photos say they were not taken with."""
    if not isinstance(stack.camera, Camera):
        raise InputError(
            "a lens profile needs a camera that focuses, with its settings, but the stack has none",
            field="lens", value=profile.name, remedy='give {lens="off"}',
        )  # fmt: skip
    named = stack.record.made_with
    both = [(getattr(profile, name), named.get(name, "")) for name in NAMES]
    other = any(a and b and _plain(a) != _plain(b) for a, b in both)
    if other or _apart(profile.focal_length, _focal_length(stack)) >= SAME_FOCAL_LENGTH:
        raise InputError(
            "{name} is of another lens ({title}) than the photos ({of})",
            field="lens", value=profile.name, name=profile.name or "the lens profile", title=profile.title,
            of=_of(stack), remedy='give a profile of theirs, or {lens="off"}',
        )  # fmt: skip


def _of(stack: FocalStack) -> str:
    named = " ".join(stack.record.made_with.get(name, "") for name in NAMES).split()
    return f"{' '.join(named) + ', ' if named else ''}{_focal_length(stack) * 1e3:.4g} mm"


def same_aperture(profile: LensProfile, stack: FocalStack) -> bool:
    """Whether the photos have the f-number that the profile's blur was measured at."""
    told = as_setting("f_number", stack.metric_camera.f_number)
    return bool(((told / profile.f_number - 1).abs() < SAME_F_NUMBER).all())


def note_of_profile(profile: LensProfile, corrected: FocalStack, told: FocalStack, size: tuple[int, int]) -> Sentence:
    """One line on what a profile does to photos H W of these settings."""
    low, high = profile.curvature_range(corrected, size)
    blur = f"{profile.blur.value:.2f}" if same_aperture(profile, told) else "1 (it was made at another aperture)"
    return Sentence(
        "lens profile {name} ({title}): field curvature of {most:+.2g} 1/m taken out, blur times {blur}",
        name=Path(profile.name).name or "as given", title=profile.title, most=max(low, high, key=abs), blur=blur,
    )  # fmt: skip
