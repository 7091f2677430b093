"""Bad input: exit status 2, one sentence with what, where and a remedy, nothing written."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile

from tests.e2e.running import Run, assert_refused, contents, focalsweep, write_photos

Arguments = list[Any]
F_NUMBER, DISTANCE, FOCAL_LENGTH, EQUIVALENT = 0x829D, 0x9206, 0x920A, 0xA405
LENS = {F_NUMBER: 2.8, FOCAL_LENGTH: 50.0, EQUIVALENT: 100}
INFINITE = 4294967295.0
FRAMES = ("frame_0.png", "frame_3.png", "frame_6.png")


@pytest.fixture
def here(small_stack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a test; "shots" in it is a good stack."""
    shutil.copytree(small_stack, tmp_path / "shots")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_stack_is_good(here: Path, run: Run) -> None:
    """Or every case below would be refused for nothing."""
    done = run("depth", "shots", "-o", "out", "--quiet")
    assert (done.status, done.err) == (0, "")


# Files and folders


def smaller(shots: Path) -> None:
    picture = cv2.imread(str(shots / FRAMES[1]))
    cv2.imwrite(str(shots / FRAMES[1]), picture[:-8])


def grey(shots: Path) -> None:
    cv2.imwrite(str(shots / FRAMES[1]), cv2.imread(str(shots / FRAMES[1]), cv2.IMREAD_GRAYSCALE))


def with_bytes(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda shots: (shots / name).write_bytes(data) and None


def truncated(shots: Path) -> None:
    data = (shots / FRAMES[1]).read_bytes()
    (shots / FRAMES[1]).write_bytes(data[: len(data) // 2])


def as_jpeg(shots: Path) -> None:
    write_photos(shots, *[LENS | {DISTANCE: d} for d in (0.4, 0.6, 1.1)])
    (shots / "stack.toml").unlink()
    for name in FRAMES:
        (shots / name).unlink()


def text_renamed(shots: Path) -> None:
    as_jpeg(shots)
    (shots / "3.jpg").write_text("Dear diary, the camera is broken.\n" * 9)


def truncated_jpeg(shots: Path) -> None:
    as_jpeg(shots)
    data = (shots / "0.jpg").read_bytes()
    (shots / "0.jpg").write_bytes(data[:-99])


def without_pictures(shots: Path) -> None:
    shutil.rmtree(shots)
    shots.mkdir()
    (shots / "notes.txt").write_text("no photos yet")


def one_photo(shots: Path) -> None:
    (shots / "stack.toml").unlink()
    for name in FRAMES[1:]:
        (shots / name).unlink()


def one_page(shots: Path) -> None:
    without_pictures(shots)
    tifffile.imwrite(shots / "stack.tif", np.zeros((32, 32, 3), np.uint8), photometric="rgb")


def no_video(shots: Path) -> None:
    without_pictures(shots)
    (shots / "sweep.mp4").write_bytes(bytes(range(256)) * 20)


def no_raw(shots: Path) -> None:
    without_pictures(shots)
    for name in ("a.nef", "b.nef"):
        (shots / name).write_bytes(bytes(range(256)) * 20)


def no_heic(shots: Path) -> None:
    without_pictures(shots)
    for name in ("a.heic", "b.heic"):
        (shots / name).write_bytes(b"\0\0\0\x18ftypheic" + bytes(200))


def unrelated(shots: Path) -> None:
    for seed, name in enumerate(FRAMES):
        noise = np.random.default_rng(seed).random((80, 112, 3))
        blurred = cv2.GaussianBlur(noise, (0, 0), 2)
        cv2.imwrite(str(shots / name), np.clip((blurred - 0.5) * 1200 + 128, 0, 255).astype(np.uint8))
    edit("aligned = true", "aligned = false")(shots)


def tiny(shots: Path) -> None:
    for name in FRAMES:
        cv2.imwrite(str(shots / name), cv2.imread(str(shots / name))[:6, :6])
    edit("aligned = true", "aligned = false")(shots)


def nan_pixels(shots: Path) -> None:
    for name in FRAMES:
        tifffile.imwrite(
            (shots / name).with_suffix(".tif"), np.full((32, 32, 3), np.nan, np.float32), photometric="rgb"
        )
        (shots / name).unlink()
    edit(".png", ".tif")(shots)


def exif(*frames: dict[int, float]) -> Callable[[Path], None]:
    """Photos with these tags, and no stack.toml."""

    def spoil(shots: Path) -> None:
        shutil.rmtree(shots)
        write_photos(shots, *frames)

    return spoil


def edit(old: str, new: str) -> Callable[[Path], None]:
    """Another stack.toml."""

    def spoil(shots: Path) -> None:
        text = (shots / "stack.toml").read_text()
        assert old in text
        (shots / "stack.toml").write_text(text.replace(old, new))

    return spoil


def first(new: str) -> Callable[[Path], None]:
    return edit("focus_distance = 0.38\n", new + "\n")


def equal(shots: Path) -> None:
    for distance in ("0.38", "1.12"):
        edit(f"focus_distance = {distance}", "focus_distance = 0.5675")(shots)


STACKS: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "sizes differ": (smaller, (FRAMES[1], "112 x 72", "112 x 80", "leave out")),
    "colours differ": (grey, (FRAMES[1], "1 channel", "3 channels")),
    "empty file": (with_bytes(FRAMES[1], b""), (FRAMES[1], "empty")),
    "truncated PNG": (truncated, (FRAMES[1], "truncated")),
    "truncated JPEG": (truncated_jpeg, ("0.jpg", "truncated")),
    "text renamed to JPEG": (text_renamed, ("3.jpg", "none of JPEG")),
    "text renamed to PNG": (with_bytes(FRAMES[2], b"hello, world, I am no picture"), (FRAMES[2], "none of JPEG")),
    "listed photo missing": (lambda shots: (shots / FRAMES[1]).unlink(), (FRAMES[1], "check the file names")),
    "no pictures": (without_pictures, ("shots", "no pictures", "give the folder")),
    "one frame": (one_photo, (FRAMES[0], "at least 2")),
    "TIFF of one page": (one_page, ("stack.tif", "at least 2")),
    "video that is none": (no_video, ("sweep.mp4", "as a video", "damaged")),
    "RAW that is none": (no_raw, ("a.nef", "RAW")),
    "HEIC that is none": (no_heic, ("a.heic", "damaged")),
    "unrelated pictures": (unrelated, (FRAMES[1], "same view", "tripod", "--align none")),
    "tiny pictures": (tiny, (FRAMES[0], "6 x 6 px", "larger")),
    "NaN pixels": (nan_pixels, ("frame_0.tif", "NaN", "export it again")),
    "zoom changed": (
        exif(*[LENS | {DISTANCE: d, FOCAL_LENGTH: f} for d, f in ((0.4, 50.0), (0.6, 50.0), (1.1, 85.0))]),
        ("zoom changed", "0.jpg has 50 mm", "6.jpg has 85 mm", "one setting"),
    ),
    "aperture changed": (
        exif(*[LENS | {DISTANCE: d, F_NUMBER: n} for d, n in ((0.4, 2.8), (0.6, 2.8), (1.1, 5.6))]),
        ("aperture changed", "6.jpg has 5.6", "one setting"),
    ),
    "no metadata at all": (exif({}, {}, {}), ("shots", "--focal-length-mm", "--focus-distances", "stack.toml")),
    "no focus distance": (exif(LENS, LENS, LENS), ("shots", "focus distance", "--focus-distances", "--relative")),
    "one focus distance missing": (
        exif(LENS | {DISTANCE: 0.4}, LENS, LENS | {DISTANCE: 1.1}),
        ("of 3.jpg", "--focus-distances"),
    ),
    "focus distance of 0 in EXIF": (
        exif(LENS | {DISTANCE: 0.0}, LENS | {DISTANCE: 0.6}, LENS | {DISTANCE: 1.1}),
        ("of 0.jpg", "--focus-distances"),
    ),
    "sentinel distances in EXIF": (exif(*[LENS | {DISTANCE: INFINITE}] * 3), ("shots", "equal", "inf m", "different")),
    "equal distances in EXIF": (exif(*[LENS | {DISTANCE: 0.5}] * 3), ("shots", "equal", "0.5 m", "different")),
    "focus inside the focal length in EXIF": (
        exif(*[LENS | {DISTANCE: d} for d in (0.04, 0.6, 1.1)]),
        ("0.jpg", "0.040 m", "exceed the focal length"),
    ),
    # stack.toml
    "equal distances": (equal, ("shots", "equal", "0.5675", "different")),
    "millimetres as metres": (
        edit("focal_length = 0.050", "focal_length = 50"),
        ("shots (stack.toml)", "--focal-length-mm", "50 m"),
    ),
    "pitch in micrometres": (edit("9.375e-05", "93.75"), ("shots (stack.toml)", "--pixel-pitch-um", "micrometres")),
    "focus inside the focal length": (first("focus_distance = 0.012"), (FRAMES[0], "0.012 m", "millimetres")),
    "distance NaN": (first("focus_distance = nan"), ("stack.toml", FRAMES[0], "above 0", "nan")),
    "distance 0": (first("focus_distance = 0"), ("stack.toml", FRAMES[0], "above 0")),
    "distance below 0": (first("focus_distance = -0.4"), ("stack.toml", FRAMES[0], "above 0", "-0.4")),
    "distance as text": (first('focus_distance = "far"'), ("stack.toml", FRAMES[0], "metres", "'far'")),
    "distance left out": (first("# nothing"), (f"of {FRAMES[0]}", "--focus-distances")),
    "range of one": (first("focus_range = [0.4]"), ("stack.toml", FRAMES[0], "[near, far]")),
    "range below 0": (first("focus_range = [-1, 0.4]"), ("stack.toml", FRAMES[0], "[near, far]")),
    "range and distance": (
        first("focus_distance = 0.38\nfocus_range = [0.3, 0.4]"),
        ("stack.toml", FRAMES[0], "focus_range", "keep one"),
    ),
    "f-number 0": (edit("f_number = 4.0", "f_number = 0"), ("stack.toml", "f_number", "above 0")),
    "focal length inf": (edit("0.050", "inf"), ("stack.toml", "focal_length", "above 0", "inf")),
    "magnification 0": (edit("magnification = 0.868421", "magnification = 0"), ("stack.toml", "magnification")),
    "magnification of 90": (edit("magnification = 0.868421", "magnification = 90"), ("stack.toml", "magnification")),
    "unknown key": (edit("f_number", "fnumber"), ("stack.toml", "'fnumber'", "[camera]", "f_number")),
    "unknown key of a frame": (edit("magnification", "zoom"), ("stack.toml", "'zoom'", "[[frame]]", FRAMES[0])),
    "unknown table": (edit("[camera]", "[lens]\nname = 1\n[camera]"), ("stack.toml", "'lens'", "[camera]")),
    "one bracket": (edit("[[frame]]", "[frame]"), ("stack.toml", "TOML")),
    "camera no table": (with_bytes("stack.toml", b"camera = 5"), ("stack.toml", "[camera]")),
    "frame no list": (with_bytes("stack.toml", b"frame = 5"), ("stack.toml", "[[frame]]")),
    "no TOML": (with_bytes("stack.toml", b"= = ="), ("stack.toml", "TOML", "correct it")),
    "stack.toml no text": (with_bytes("stack.toml", b"\xff\xfe\0\x01"), ("stack.toml", "TOML", "correct it")),
    "wrong reference": (edit('"lens"', '"shutter"'), ("stack.toml", "focus_reference", '"sensor"', "'shutter'")),
    "aligned perhaps": (edit("aligned = true", 'aligned = "perhaps"'), ("stack.toml", "aligned", "'perhaps'")),
    "wrong order": (edit("aligned = true", 'order = "sideways"'), ("stack.toml", "order", "'sideways'")),
    "frame without file": (edit(f'file = "{FRAMES[0]}"', ""), ("stack.toml", "no file")),
    "file twice": (edit(FRAMES[0], FRAMES[1]), ("stack.toml", FRAMES[1], "keep one")),
    "file elsewhere": (edit(FRAMES[0], "../frame.png"), ("stack.toml", "../frame.png", "no file of this folder")),
    "file empty": (edit(FRAMES[0], ""), ("stack.toml", "file")),
    "file is no picture": (edit(FRAMES[0], "stack.toml"), ("stack.toml", "none of JPEG")),
    "only one listed": (
        lambda shots: (shots / "stack.toml").write_text(f'[[frame]]\nfile = "{FRAMES[0]}"\n'),
        ("stack.toml", "at least 2"),
    ),
}


@pytest.mark.parametrize("name", STACKS)
def test_bad_stack(name: str, here: Path, run: Run) -> None:
    spoil, words = STACKS[name]
    spoil(here / "shots")
    before = contents(here)
    assert_refused(run("depth", "shots", "-o", "out/new"), *words)
    assert contents(here) == before


# Options


OPTIONS: dict[str, tuple[Arguments, tuple[str, ...]]] = {
    "no such command": (["dpeth", "shots"], ("dpeth", "--help")),
    "no photos": (["depth"], ("photos", "focalsweep depth --help")),
    "unknown option": (["depth", "shots", "--colour"], ("--colour", "focalsweep depth --help")),
    "option without value": (["depth", "shots", "--near"], ("--near", "--help")),
    "missing folder": (["depth", "no/such"], ("no/such", "check the name")),
    "missing photo": (["depth", f"shots/{FRAMES[0]}", "shots/none.png"], ("shots/none.png", "check the name")),
    "one photo": (["depth", f"shots/{FRAMES[0]}"], (FRAMES[0], "at least 2")),
    "photo twice": (["depth", f"shots/{FRAMES[0]}", f"shots/{FRAMES[0]}"], (FRAMES[0], "twice")),
    "a folder among photos": (["depth", "shots", f"shots/{FRAMES[0]}"], ("shots", "one folder")),
    "a text as photo": (["depth", "shots/stack.toml"], ("stack.toml", "give the photos")),
    "photos of two folders": (["depth", f"shots/{FRAMES[0]}", "other.png"], ("2 folders", "into one")),
    "align": (["depth", "shots", "--align", "sideways"], ("--align", "'sideways'", "none")),
    "memory": (["depth", "shots", "--memory", "lots"], ("--memory", "'lots'", "2GB")),
    "memory 0": (["depth", "shots", "--memory", "0"], ("--memory", "'0'", "2GB")),
    "device": (["depth", "shots", "--device", "abacus"], ("'abacus'", "cpu")),
    "method": (["depth", "shots", "--method", "guess"], ("--method", "'guess'", "argmin")),
    "export": (["depth", "shots", "--export", "ply,fbx"], ("--export", "'fbx'", "glb")),
    "near alone": (["depth", "shots", "--near", "0.3"], ("--near", "--far", "give both")),
    "far alone": (["depth", "shots", "--far", "3"], ("--near", "--far", "give both")),
    "near beyond far": (["depth", "shots", "--near", "3", "--far", "1"], ("--near", "below --far", "3 and 1")),
    "near is far": (["depth", "shots", "--near", "1", "--far", "1"], ("--near", "below --far")),
    "near 0": (["depth", "shots", "--near", "0", "--far", "1"], ("--near", "above 0")),
    "near NaN": (["depth", "shots", "--near", "nan", "--far", "1"], ("--near", "nan")),
    "far NaN": (["depth", "shots", "--near", "1", "--far", "nan"], ("--far", "nan")),
    "near infinite": (["depth", "shots", "--near", "inf", "--far", "inf"], ("--near", "inf")),
    "near as text": (["depth", "shots", "--near", "close", "--far", "1"], ("--near", "number")),
    "too few distances": (
        ["depth", "shots", "--focus-distances", "0.4,0.6"],
        ("--focus-distances has 2 values", "3 photos", FRAMES[0]),
    ),
    "distances as text": (["depth", "shots", "--focus-distances", "a,b,c"], ("--focus-distances", "0.35,0.5,0.9")),
    "distances with a gap": (["depth", "shots", "--focus-distances", "0.4,,1"], ("--focus-distances", "'0.4,,1'")),
    "distance 0": (["depth", "shots", "--focus-distances", "0.4,0,1"], (FRAMES[1], "above 0")),
    "distance below 0": (["depth", "shots", "--focus-distances=-1,0.4,1"], (FRAMES[0], "above 0", "-1")),
    "distance NaN": (["depth", "shots", "--focus-distances", "0.4,nan,1"], (FRAMES[1], "above 0", "nan")),
    "distances equal": (
        ["depth", "shots", "--focus-distances", "1,1,1"],
        ("shots", "--focus-distances are equal", "different"),
    ),
    "distances in mm": (["depth", "shots", "--focus-distances", "0.0004,0.0006,1"], (FRAMES[0], "focal length")),
    "reference": (["depth", "shots", "--focus-reference", "film"], ("--focus-reference", "'film'", "sensor")),
    "from the sensor, too near": (
        ["depth", "shots", "--focus-reference", "sensor", "--focus-distances", "0.15,0.5,1"],
        ("shots", "0.15 m", "sensor", "from the lens?"),
    ),
    "focal length 0": (["depth", "shots", "--focal-length-mm", "0"], ("--focal-length-mm", "above 0")),
    "focal length below 0": (["depth", "shots", "--focal-length-mm=-5"], ("--focal-length-mm", "above 0", "-5")),
    "focal length NaN": (["depth", "shots", "--focal-length-mm", "nan"], ("--focal-length-mm", "nan")),
    "focal length as text": (["depth", "shots", "--focal-length-mm", "50mm"], ("--focal-length-mm", "number")),
    "focal length of 50 m": (["depth", "shots", "--focal-length-mm", "50000"], ("shots: --focal-length-mm", "50 m")),
    "f-number 0": (["depth", "shots", "--f-number", "0"], ("--f-number", "above 0")),
    "f-number inf": (["depth", "shots", "--f-number", "inf"], ("--f-number", "inf")),
    "pitch 0": (["depth", "shots", "--pixel-pitch-um", "0"], ("--pixel-pitch-um", "above 0")),
    "pitch of no sensor": (["depth", "shots", "--pixel-pitch-um", "1e-9"], ("--pixel-pitch-um", "check its unit")),
    "f-number of no lens": (["depth", "shots", "--f-number", "1e-4"], ("--f-number", "below any lens")),
    "blur beyond the picture": (["depth", "shots", "--pixel-pitch-um", "0.2"], ("shots", "112 px", "--pixel-pitch-um")),
    "near inside the lens": (["depth", "shots", "--near", "1e-5", "--far", "1"], ("shots", "blur", "--near")),
    "frames 1": (["depth", "shots", "--frames", "1"], ("--frames", "2")),
    "output is a file": (["depth", "shots", "-o", "other.png"], ("--output", "other.png", "give a folder")),
    "output below a file": (["depth", "shots", "-o", "other.png/out"], ("--output", "other.png", "give a folder")),
    "registered frames onto the photos": (
        ["depth", "shots", "--align", "only", "-o", "shots"],
        ("shots", "another folder"),
    ),
    "inspect nothing": (["inspect", "no/such"], ("no/such", "check the name")),
    "inspect with focal length 0": (["inspect", "shots", "--focal-length-mm", "0"], ("--focal-length-mm", "above 0")),
    "inspect keeps a stack.toml": (["inspect", "shots", "--write"], ("stack.toml", "left alone", "--force")),
    "batch of nothing": (["batch", "no/such"], ("no/such", "is not a folder")),
    "batch of one stack": (["batch", "shots"], ("shots", "has no folders", "focalsweep depth")),
    "batch device": (["batch", ".", "--device", "abacus"], ("'abacus'", "cpu")),
    "batch export": (["batch", ".", "--export", "fbx"], ("--export", "'fbx'", "glb")),
    "batch output": (["batch", ".", "-o", "other.png"], ("--output", "other.png", "give a folder")),
    "demo method": (["demo", "--method", "guess"], ("--method", "'guess'")),
    "demo output": (["demo", "-o", "other.png"], ("--output", "other.png")),
    "train nothing": (["train", "none.toml"], ("none.toml",)),
    "evaluate protocol": (["evaluate", "nothing"], ("'nothing'", "generator")),
    "evaluate method": (["evaluate", "generator", "--methods", "guess"], ("'guess'", "argmin")),
    "bench repeats": (["bench", "speed", "--repeats", "0"], ("--repeats", "focalsweep bench speed --help")),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_option(name: str, here: Path, run: Run) -> None:
    arguments, words = OPTIONS[name]
    shutil.copy(here / "shots" / FRAMES[1], here / "other.png")
    before = contents(here)
    assert_refused(run(*arguments), *words)
    assert contents(here) == before


def test_output_that_may_not_be_written(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the rights are asked for here."""
    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.W_OK)
    before = contents(here)
    assert_refused(run("depth", "shots", "-o", "locked/out"), "--output", "locked/out", "another folder")
    assert contents(here) == before


@pytest.mark.parametrize("arguments", [[], ["--sheet", "--export", "ply"], ["--align", "only"]])
def test_disk_that_is_full(arguments: list[str], here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third file does not fit: those before it go, and so do the folders that were made."""
    calls, sync = [], os.fsync

    def fills(file: int) -> None:
        calls.append(file)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(file)

    monkeypatch.setattr("os.fsync", fills)
    before = contents(here)
    assert_refused(run("depth", "shots", "-o", "new/out", *arguments), "new/out", "no space left", "disk")
    assert len(calls) == 3
    assert contents(here) == before


def test_name_that_looks_like_markup(here: Path, run: Run) -> None:
    (here / "shots").rename(here / "[bold] :cat: 5")
    done = run("depth", "[bold] :cat: 5", "-o", "[/red]out")
    assert done.status == 0 and "[/red]out/depth.png" in done.err
    assert_refused(run("depth", "[bold] :cat: 5", "--near", "1"), "--near")
    assert_refused(run("depth", "[/red] :dog:"), "[/red] :dog: does not exist")


@pytest.mark.parametrize("name", ["truncated PNG", "video that is none", "unknown key"])
def test_bad_stack_in_a_process_of_its_own(name: str, here: Path) -> None:
    spoil, words = STACKS[name]
    spoil(here / "shots")
    assert_refused(focalsweep("depth", "shots", "-o", "out"), *words)
    assert not (here / "out").exists()
