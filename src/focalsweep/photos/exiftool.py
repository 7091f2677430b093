"""Tags through exiftool, where it is on the PATH: it decrypts what `exif` leaves (Nikon) and knows more makers.

It is called as a program, once for all photos; no package is needed for that.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from focalsweep.photos.ifd import plain_text

NAMES = (
    *("Make", "Model", "LensModel", "LensID", "FocalLength", "FNumber", "ApertureValue", "ExposureTime", "ISO"),
    *("SubjectDistance", "FocusDistance", "FocusDistance2", "FocusDistanceLower", "FocusDistanceUpper"),
    *("FocusDistanceRange", "FocusPosition2", "ApproximateFocusDistance", "LensFocusDistance"),
    *("FocalPlaneXResolution", "FocalPlaneResolutionUnit", "FocalLengthIn35mmFormat", "DigitalZoomRatio"),
    *("ExifImageWidth", "ExifImageHeight"),
)
LONGEST_RUN_S = 120


def find_exiftool() -> str | None:
    """The program, or None where it is not on the PATH."""
    return shutil.which("exiftool")


def read_tags_with_exiftool(paths: Sequence[Path], program: str) -> dict[Path, dict[str, Any]]:
    """The tags of each photo as numbers and text. A photo that exiftool cannot read has none.

    Raises:
        RuntimeError: exiftool did not run, or answered something else than JSON.
    """
    if not paths:
        return {}
    by_name = {path.resolve().as_posix(): path for path in paths}  # absolute: no name is taken for an option
    command = [
        program,
        "-json",
        "-n",
        "-q",
        "-m",
        "-charset",
        "filename=utf8",
        *(f"-{name}" for name in NAMES),
        *by_name,
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=LONGEST_RUN_S, stdin=subprocess.DEVNULL, check=False
        )
        answers = json.loads(done.stdout or b"[]")
        if not isinstance(answers, list):
            raise ValueError
    except (OSError, subprocess.TimeoutExpired, ValueError):
        raise RuntimeError(
            f"{program} gave no answer and was done without: repair it, or take it off the PATH"
        ) from None
    found = {}
    for answer in answers:
        path = by_name.get(str(answer.get("SourceFile")) if isinstance(answer, dict) else "")
        if path is not None:
            kept = {name: _plain(answer[name]) for name in NAMES if name in answer}
            found[path] = {name: value for name, value in kept.items() if value is not None}
    return found


def _plain(value: Any) -> Any:
    """A number, a text on one line, or a pair of numbers ("0.3 0.9"); None for what is undefined."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        words = value.split()
        try:
            numbers = tuple(float(word) for word in words if word != "undef")
            if len(numbers) == len(words) and numbers:
                return numbers[0] if len(numbers) == 1 else numbers
        except ValueError:
            pass
        return None if words in ([], ["undef"]) else plain_text(value.encode("utf-8", "replace"))
    return value
