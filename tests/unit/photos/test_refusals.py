"""Folders of photos that are refused, each with one sentence."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from focalsweep import FocalStack, load_stack
from focalsweep.photos.pictures import read_picture
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos.folders import CAMERA, distances, folder, frames, picture, rewrite

__all__ = ["folder"]


def truncate(path: Path, share: float = 0.5) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def without(key: str) -> str:
    return "".join(line for line in CAMERA.splitlines(keepends=True) if not line.startswith(key))


def other_size(folder: Path) -> None:
    Image.fromarray(picture(1, 12, 20)).save(folder / "1.png")


def other_channels(folder: Path) -> None:
    Image.fromarray(picture(1)[..., 0]).save(folder / "1.png")


GOOD = distances(0.8, 1.0, 2.0)
BAD: dict[str, tuple[Callable[[Path], object], Callable[[Path], FocalStack], type[Exception], tuple[str, ...]]] = {
    "missing folder": (
        lambda f: None,
        lambda f: load_stack(f / "nowhere"),
        FileNotFoundError,
        ("nowhere", "does not exist"),
    ),
    "one picture": (lambda f: None, lambda f: load_stack(f / "0.png"), ValueError, ("0.png", "one picture")),
    "missing file in a list": (
        lambda f: None,
        lambda f: load_stack([f / "0.png", f / "9.png"]),
        FileNotFoundError,
        ("9.png", "does not exist"),
    ),
    "empty list": (lambda f: None, lambda f: load_stack([]), ValueError, ("no photos", "at least 2 files")),
    "two folders": (
        lambda f: None,
        lambda f: load_stack([f / "0.png", f / "other" / "1.png"]),
        ValueError,
        ("2 folders", "into one"),
    ),
    "neither stack.toml nor metadata": (
        lambda f: (f / "stack.toml").unlink(),
        load_stack,
        ValueError,
        ("focal length", "focus distance", "unknown", "give focal_length", "focus_distances", "relative=True"),
    ),
    "bad TOML": (lambda f: rewrite(f, "[camera\n"), load_stack, ValueError, ("stack.toml", "no valid TOML", "line 1")),
    "not text": (
        lambda f: (f / "stack.toml").write_bytes(b"\xff\xfe\x00"),
        load_stack,
        ValueError,
        ("stack.toml", "TOML"),
    ),
    "unknown table": (
        lambda f: rewrite(f, CAMERA + GOOD + "[lens]\nx = 1\n"),
        load_stack,
        ValueError,
        ("stack.toml", "'lens'"),
    ),
    "unknown camera key": (
        lambda f: rewrite(f, CAMERA + "focal_lenght = 0.05\n" + GOOD),
        load_stack,
        ValueError,
        ("stack.toml", "'focal_lenght'", "focal_length"),
    ),
    "unknown frame key": (
        lambda f: rewrite(f, CAMERA + frames(("0.png", "focus = 1.0"))),
        load_stack,
        ValueError,
        ("stack.toml", "'focus'"),
    ),
    "frame without file": (
        lambda f: rewrite(f, CAMERA + "[[frame]]\nfocus_distance = 1.0\n"),
        load_stack,
        ValueError,
        ("stack.toml", "[[frame]]", "file"),
    ),
    "no focal length": (
        lambda f: rewrite(f, without("focal_length") + GOOD),
        load_stack,
        ValueError,
        ("focal length unknown", "give focal_length", "stack.toml"),
    ),
    "no f-number and no pitch": (
        lambda f: rewrite(f, "[camera]\nfocal_length = 0.05\n" + GOOD),
        load_stack,
        ValueError,
        ("f-number and pixel pitch unknown", "give f_number, pixel_pitch", "stack.toml"),
    ),
    "no frames": (
        lambda f: rewrite(f, CAMERA),
        load_stack,
        ValueError,
        ("focus distance unknown", "focus_distances", "stack.toml"),
    ),
    "one frame": (
        lambda f: rewrite(f, CAMERA + distances(0.8)),
        load_stack,
        ValueError,
        ("stack.toml", "one photo", "at least 2"),
    ),
    "missing photo": (
        lambda f: (f / "1.png").unlink(),
        load_stack,
        FileNotFoundError,
        ("1.png", "does not exist", "stack.toml"),
    ),
    "truncated photo": (
        lambda f: truncate(f / "1.png"),
        load_stack,
        ValueError,
        ("1.png", "cannot be read", "truncated"),
    ),
    "empty photo": (lambda f: truncate(f / "1.png", 0), load_stack, ValueError, ("1.png", "cannot be read")),
    "text as photo": (lambda f: (f / "1.png").write_text("hello"), load_stack, ValueError, ("1.png", "cannot be read")),
    "sizes differ": (other_size, load_stack, ValueError, ("1.png", "20 x 12 px", "0.png", "16 x 12 px", "one size")),
    "channels differ": (other_channels, load_stack, ValueError, ("1.png", "1 channel,", "0.png", "3 channels")),
    "no focus distance": (
        lambda f: rewrite(f, CAMERA + distances(0.8, 1.0) + frames(("2.png", ""))),
        load_stack,
        ValueError,
        ("2.png", "focus distance (of 2.png) unknown", "focus_distances", "stack.toml"),
    ),
    "unknown reference": (
        lambda f: rewrite(f, CAMERA + 'focus_reference = "film"\n' + GOOD),
        load_stack,
        ValueError,
        ("stack.toml", "focus_reference", "'film'"),
    ),
    "closer than the sensor allows": (
        lambda f: rewrite(f, CAMERA + 'focus_reference = "sensor"\n' + distances(0.1, 1.0)),
        load_stack,
        ValueError,
        ("0.05 m", "0.1 m", "four focal lengths"),
    ),
    "equal distances": (
        lambda f: rewrite(f, CAMERA + distances(0.8, 0.8, 0.8)),
        load_stack,
        ValueError,
        ("focus_distances", "equal", "0.8 m"),
    ),
    "millimetres": (
        lambda f: rewrite(f, CAMERA.replace("0.05", "50") + GOOD),
        load_stack,
        ValueError,
        ("focal_length", "50 m", "millimetres"),
    ),
    "distance inside the lens": (
        lambda f: rewrite(f, CAMERA + distances(0.012, 1.0, 2.0)),
        load_stack,
        ValueError,
        ("focus_distances", "0.012 m", "0.050 m"),
    ),
    "distance 0": (
        lambda f: rewrite(f, CAMERA + distances(0.0, 1.0)),
        load_stack,
        ValueError,
        ("focus_distance", "above 0", "0.0"),
    ),
    "distance NaN": (
        lambda f: rewrite(f, CAMERA + distances(math.nan, 1.0)),
        load_stack,
        ValueError,
        ("focus_distance", "nan"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(folder: Path, name: str) -> None:
    (folder / "other").mkdir()
    Image.fromarray(picture()).save(folder / "other" / "1.png")
    spoil, call, error, parts = BAD[name]
    spoil(folder)
    message = message_of(lambda: call(folder), error)
    assert_one_sentence(message, *parts)
    assert "--" not in message  # flags are the command line's affair


@pytest.mark.parametrize("extension", ["png", "jpg", "tif"])
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_truncated_files_are_refused(tmp_path: Path, extension: str, share: float) -> None:
    path = tmp_path / f"a.{extension}"
    Image.fromarray(picture(0, 60, 80)).save(path)
    truncate(path, share)
    assert_one_sentence(message_of(lambda: read_picture(path), ValueError), str(path), "truncated")


WRONG_KIND = {
    "word as distance": (CAMERA + frames(("0.png", 'focus_distance = "near"')), ("0.png", "focus_distance", "near")),
    "range of one": (CAMERA + frames(("0.png", "focus_range = [1.0]")), ("0.png", "focus_range")),
    "range that is a number": (CAMERA + frames(("0.png", "focus_range = 1.0")), ("0.png", "focus_range")),
    "range from 0": (CAMERA + frames(("0.png", "focus_range = [0.0, 1.0]")), ("0.png", "focus_range")),
    "word as magnification": (
        CAMERA + frames(("0.png", 'focus_distance = 1.0\nmagnification = "x"'), ("1.png", "focus_distance = 2.0")),
        ("0.png", "magnification"),
    ),
    "camera is a number": ("camera = 3\n" + GOOD, ("stack.toml", "camera")),
    "file is a number": (CAMERA + "[[frame]]\nfile = 3\nfocus_distance = 1.0\n", ("stack.toml", "file", "3")),
}


@pytest.mark.parametrize("name", WRONG_KIND)
def test_values_of_the_wrong_kind_are_named(folder: Path, name: str) -> None:
    settings, parts = WRONG_KIND[name]
    assert_one_sentence(message_of(lambda: load_stack(rewrite(folder, settings)), ValueError), *parts)


def test_misspelt_keyword_is_refused(folder: Path) -> None:
    with pytest.raises((TypeError, ValueError), match="focal_lenght"):
        load_stack(folder, focal_lenght=0.035)


def test_listed_photo_without_settings_is_named(folder: Path) -> None:
    Image.fromarray(picture(7)).save(folder / "extra.png")
    with pytest.raises(ValueError, match=r"extra\.png"):
        load_stack([folder / "0.png", folder / "1.png", folder / "extra.png"])


def test_bad_distance_names_its_place(folder: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(str(folder))):
        load_stack(rewrite(folder, CAMERA + distances(0.012, 1.0, 2.0)))


def test_wrong_number_of_distances_is_refused(folder: Path) -> None:
    assert_one_sentence(
        message_of(lambda: load_stack(folder, focus_distances=[1.0, 2.0]), ValueError), "2 values", "3 photos", "0.png"
    )
    assert_one_sentence(
        message_of(lambda: load_stack(folder, focus_distances={"9.png": 1.0}), ValueError), "9.png", "no photo"
    )
    assert_one_sentence(message_of(lambda: load_stack(folder, align="maybe"), ValueError), "'maybe'")
    assert_one_sentence(message_of(lambda: load_stack(folder, order="up"), ValueError), "order", "near-to-far", "'up'")
