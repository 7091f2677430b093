"""stack.toml: every key of its type, nothing unknown, no photo from elsewhere."""

from pathlib import Path

import pytest

from focalsweep.photos.stack_file import StackFile, read_stack_file
from tests.errors import assert_one_sentence, message_of

CAMERA = '[camera]\nfocal_length = 0.05\nf_number = 4\npixel_pitch = 6e-6\nfocus_reference = "sensor"\n'
FRAMES = '[[frame]]\nfile = "a.png"\nfocus_distance = inf\n[[frame]]\nfile = "b.png"\nfocus_range = [1, 2.5]\n'


def written(folder: Path, text: str) -> Path:
    (folder / "stack.toml").write_text(text, encoding="utf-8")
    return folder


def test_everything_that_is_known(tmp_path: Path) -> None:
    text = CAMERA + 'aligned = false\norder = "far-to-near"\n' + FRAMES + "magnification = 1.02\n"
    found = read_stack_file(written(tmp_path, text))
    assert found.camera == {
        "focal_length": 0.05,
        "f_number": 4,
        "pixel_pitch": 6e-6,
        "focus_reference": "sensor",
        "aligned": False,
        "order": "far-to-near",
    }
    assert found.frames == [
        {"file": "a.png", "focus_distance": float("inf")},
        {"file": "b.png", "focus_range": [1, 2.5], "magnification": 1.02},
    ]
    assert found.magnifications == {"a.png": 1.0, "b.png": 1.02}


def test_no_file_is_an_empty_one(tmp_path: Path) -> None:
    assert read_stack_file(tmp_path) == StackFile({}, {}, [])
    assert read_stack_file(written(tmp_path, "")) == StackFile()
    assert read_stack_file(written(tmp_path, "")).magnifications == {}


@pytest.mark.parametrize("name", ["Bild ä 1.PNG", "..a.png", "a..b.png", "a b.png", "...png"])
def test_names_that_lie_in_the_folder(tmp_path: Path, name: str) -> None:
    found = read_stack_file(written(tmp_path, f'[[frame]]\nfile = "{name}"\n'))
    assert found.frames == [{"file": name}]


@pytest.mark.parametrize(
    "name",
    [
        "../a.png",
        "..",
        ".",
        "",
        "/etc/passwd",
        "/a.png",
        "sub/a.png",
        "sub/../a.png",
        "sub/../../a.png",
        "./a.png",
        "a.png/",
        "//host/share/a.png",
        "\\u0000",
        "a.png\\u0000.jpg",
    ],
)
def test_paths_are_refused(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path, CAMERA + f'[[frame]]\nfile = "{name}"\nfocus_distance = 1.0\n')
    message = message_of(lambda: read_stack_file(folder), ValueError)
    assert_one_sentence(message, "stack.toml", "no file of this folder", "beside")
    assert "\0" not in message


BAD = {
    "no TOML": ("[camera\n", ("no valid TOML", "line 1")),
    "key twice": ("[camera]\naligned = true\naligned = true\n", ("no valid TOML",)),
    "unknown table": (CAMERA + "[lens]\nx = 1\n", ("'lens'", "[camera] or [stage], and [[frame]]")),
    "unknown key outside": ("focal_length = 0.05\n", ("'focal_length'", "[camera]")),
    "camera is a number": ("camera = 3\n", ("camera must be a table",)),
    "camera is a list": ("[[camera]]\nf_number = 2\n", ("camera must be a table",)),
    "frame with one bracket": ('[frame]\nfile = "a.png"\n', ("[[frame]]", "two brackets")),
    "frames are numbers": ("frame = [1, 2]\n", ("[[frame]]", "two brackets")),
    "unknown camera key": (CAMERA + "focal_lenght = 1\n", ("'focal_lenght'", "[camera]", "focal_length")),
    "unknown frame key": ('[[frame]]\nfile = "a.png"\nfocus = 1\n', ("'focus'", "[[frame]] of a.png", "focus_range")),
    "word as number": ('[camera]\nf_number = "f/4"\n', ("f_number", "[camera]", "number", "'f/4'")),
    "truth as number": ("[camera]\nf_number = true\n", ("f_number", "number", "True")),
    "number as truth": ("[camera]\naligned = 1\n", ("aligned", "yes or no", "1")),
    "unknown reference": ('[camera]\nfocus_reference = "film"\n', ("focus_reference", '"lens" or "sensor"', "'film'")),
    "unknown order": ('[camera]\norder = "up"\n', ("order", '"near-to-far", "far-to-near" or "auto"', "'up'")),
    "order of the reference": ('[camera]\norder = "lens"\n', ("order", "'lens'")),
    "frame without file": ("[[frame]]\nfocus_distance = 1.0\n", ("[[frame]] has no file", "name the photo")),
    "file is a number": ("[[frame]]\nfile = 3\n", ("file", "text", "3")),
    "two tables of one file": ('[[frame]]\nfile = "a.png"\n' * 2, ("a.png", "two [[frame]] tables", "keep one")),
    "word as distance": ('[[frame]]\nfile = "a.png"\nfocus_distance = "1 m"\n', ("focus_distance", "a.png", "'1 m'")),
    "word as magnification": ('[[frame]]\nfile = "a.png"\nmagnification = "x"\n', ("magnification", "a.png", "'x'")),
    "range of one": ('[[frame]]\nfile = "a.png"\nfocus_range = [1]\n', ("focus_range", "[near, far]", "[1]")),
    "range of three": ('[[frame]]\nfile = "a.png"\nfocus_range = [1, 2, 3]\n', ("focus_range", "[near, far]")),
    "range of words": ('[[frame]]\nfile = "a.png"\nfocus_range = ["a", "b"]\n', ("focus_range", "[near, far]")),
    "range from zero": ('[[frame]]\nfile = "a.png"\nfocus_range = [0, 2]\n', ("focus_range", "above 0", "[0, 2]")),
    "range of NaN": ('[[frame]]\nfile = "a.png"\nfocus_range = [nan, 2]\n', ("focus_range", "above 0", "nan")),
    "range as a number": ('[[frame]]\nfile = "a.png"\nfocus_range = 1.0\n', ("focus_range", "[near, far]", "1.0")),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_get_one_sentence(tmp_path: Path, name: str) -> None:
    text, parts = BAD[name]
    folder = written(tmp_path, text)
    assert_one_sentence(message_of(lambda: read_stack_file(folder), ValueError), "stack.toml", *parts)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "stack.toml").write_bytes(b"\xff\xfe\x00")
    assert_one_sentence(message_of(lambda: read_stack_file(tmp_path), ValueError), "stack.toml", "no valid TOML")
