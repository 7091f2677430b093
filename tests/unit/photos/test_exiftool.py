"""exiftool as a program: a script on the PATH stands in for it and prints what the real one printed."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from focalsweep.photos.exiftool import find_exiftool, read_tags_with_exiftool
from focalsweep.photos.metadata import read_settings
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos.exif_bytes import jpeg, photo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script with a shebang")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two photos, one with an awkward name, and a PATH of one empty folder."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("a.jpg", "-b ü.jpg"):
        (tmp_path / name).write_bytes(jpeg(photo("NIKON CORPORATION", "NIKON D200")))
    return tmp_path


def stand_in(folder: Path, body: str) -> None:
    script = folder / "bin" / "exiftool"
    script.write_text(f"#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\n{body}\n")
    script.chmod(0o755)


def answering(folder: Path, *answers: dict[str, Any]) -> None:
    """A stand-in that answers for the files it is asked for, in order, and notes its arguments."""
    stand_in(
        folder,
        f"Path({str(folder / 'arguments.json')!r}).write_text(json.dumps(sys.argv[1:]))\n"
        f"answers = json.loads({json.dumps(json.dumps(answers))})\n"
        "files = [a for a in sys.argv[1:] if a.endswith('.jpg')]\n"
        "print(json.dumps([{'SourceFile': f} | a for f, a in zip(files, answers)]))",
    )


def test_absent(folder: Path) -> None:
    assert find_exiftool() is None
    frames = read_settings([folder / "a.jpg"])
    assert frames[0].focal_length is not None
    assert frames[0].focal_length.value == 0.05


def test_one_call_for_all_photos(folder: Path) -> None:
    answering(folder, {"FocusDistance": 1.26}, {"FocusDistance": 2.51})
    paths = [folder / "a.jpg", folder / "-b ü.jpg"]
    found = read_tags_with_exiftool(paths, str(find_exiftool()))
    assert found == {paths[0]: {"FocusDistance": 1.26}, paths[1]: {"FocusDistance": 2.51}}
    arguments = json.loads((folder / "arguments.json").read_text())
    assert {"-json", "-n", "-FocusDistance", "-FocusDistanceUpper"} <= set(arguments)
    files = arguments[-2:]
    assert all(os.path.isabs(file) for file in files)  # noqa: PTH117


def test_relative_paths_are_found_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(folder, {"FNumber": 4})
    monkeypatch.chdir(folder)
    path = Path("-b ü.jpg")
    assert read_tags_with_exiftool([path], str(find_exiftool())) == {path: {"FNumber": 4}}


def test_values_become_numbers_pairs_and_text(folder: Path) -> None:
    answer = {
        "SubjectDistance": "undef",
        "FocusDistance": "inf",
        "FocusDistanceRange": "0.38 0.99",
        "Model": "D\n200",
        "FNumber": "2.8",
        "ISO": True,
        "Unasked": 3,
        "LensModel": "",
    }
    answering(folder, answer)
    path = folder / "a.jpg"
    assert read_tags_with_exiftool([path], str(find_exiftool()))[path] == {
        "FocusDistance": float("inf"),
        "FocusDistanceRange": (0.38, 0.99),
        "Model": "D 200",
        "FNumber": 2.8,
    }


def test_exiftool_wins_and_fills(folder: Path) -> None:
    answering(folder, {"FocusDistance": 0.01 * 10 ** (84 / 40), "FocalLength": 35})
    frames = read_settings([folder / "a.jpg", folder / "-b ü.jpg"])
    first, second = frames
    assert first.focal_length is not None and first.focus_distance is not None
    assert (first.focal_length.value, first.focus_distance.source) == (0.035, "Nikon FocusDistance")
    assert (first.width_px, first.height_px) == (6000, 4000)  # of the file itself
    assert second.focal_length is not None and second.focal_length.value == 0.05


@pytest.mark.parametrize("body", ["sys.exit(1)", "print('[]')"])
def test_no_answer_for_a_photo_leaves_pure_python(folder: Path, body: str) -> None:
    stand_in(folder, body)
    frames = read_settings([folder / "a.jpg"])
    assert frames[0].notes == ()
    assert frames[0].focal_length is not None


@pytest.mark.parametrize("body", ["print('Perl is broken')", "print('{}')", "print('[1')"])
def test_broken_exiftool_is_done_without(folder: Path, body: str) -> None:
    stand_in(folder, body)
    program = str(find_exiftool())
    assert_one_sentence(message_of(lambda: read_tags_with_exiftool([folder / "a.jpg"], program), RuntimeError), program)
    frames = read_settings([folder / "a.jpg"])
    assert any("exiftool" in note for note in frames[0].notes)
    assert frames[0].focal_length is not None


def test_no_photos(folder: Path) -> None:
    assert read_tags_with_exiftool([], "/nowhere/exiftool") == {}
    message_of(lambda: read_tags_with_exiftool([folder / "a.jpg"], "/nowhere/exiftool"), RuntimeError)
