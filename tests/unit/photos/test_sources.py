"""Folders, lists, TIFF stacks and videos as frames: which ones, in which order, and what is refused."""

import math
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from focalsweep.photos.sources import Frame, find_frames, read_frames
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos import files
from tests.unit.photos.files import write_dng


def picture(seed: int = 0, height: int = 12, width: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def save(path: Path, seed: int = 0, height: int = 12, width: int = 16) -> Path:
    Image.fromarray(picture(seed, height, width)).save(path)
    return path


def names(frames: list[Frame]) -> list[str]:
    return [frame.name for frame in frames]


def raw(path: Path) -> Path:
    write_dng(path, np.full((24, 32), 0.5))
    return path


# Folders and lists


def test_folder_in_natural_order_without_what_is_no_photo(tmp_path: Path) -> None:
    for name in ("frame11.jpg", "frame3.jpg", "frame1.JPG", "Frame2.png", "frame010.jpeg"):
        save(tmp_path / name)
    for name in ("depth.png", "depth_mm.png", "all_in_focus.png", ".hidden.jpg", "._frame1.jpg"):
        save(tmp_path / name) if name.endswith("png") else (tmp_path / name).write_bytes(b"x")
    for name in ("stack.toml", "frame1.xmp", "run.json", "depth.npz", "clip.mp4", "notes.docx"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.jpg").mkdir()
    wanted = ["frame1.JPG", "Frame2.png", "frame3.jpg", "frame010.jpeg", "frame11.jpg"]
    assert names(find_frames(tmp_path)) == wanted
    assert names(find_frames(str(tmp_path))) == wanted
    assert names(find_frames([tmp_path])) == wanted


def test_list_keeps_its_order_unless_a_shell_made_it(tmp_path: Path) -> None:
    photos = [save(tmp_path / f"{name}.jpg") for name in ("a1", "a10", "a2")]
    assert names(find_frames(photos)) == ["a1.jpg", "a2.jpg", "a10.jpg"]  # alphabetical: a shell's *
    by_hand = [photos[1], photos[0], photos[2]]
    assert names(find_frames(by_hand)) == ["a10.jpg", "a1.jpg", "a2.jpg"]
    assert names(find_frames([str(photo) for photo in by_hand])) == ["a10.jpg", "a1.jpg", "a2.jpg"]


def test_everything_that_a_star_gives(tmp_path: Path) -> None:
    """PHOTOS/* names settings, results and the clips of live photos too."""
    for name in ("a2.jpg", "a10.jpg", "depth.png"):
        save(tmp_path / name)
    for name in ("stack.toml", "run.json", "depth.npz", "a2.xmp", "a2.mov"):
        (tmp_path / name).write_text("x")
    assert names(find_frames(sorted(tmp_path.iterdir()))) == ["a2.jpg", "a10.jpg"]


def test_photos_of_one_shot_count_once(tmp_path: Path) -> None:
    for number in (1, 2):
        save(tmp_path / f"IMG_{number}.JPG")
        raw(tmp_path / f"img_{number}.dng")
    frames = find_frames(tmp_path)
    assert names(frames) == ["img_1.dng", "img_2.dng"]
    assert [frame.twins for frame in frames] == [(tmp_path / "IMG_1.JPG",), (tmp_path / "IMG_2.JPG",)]
    save(tmp_path / "IMG_3.jpg")  # a shot without RAW: then the kind that every shot has
    assert names(find_frames(tmp_path)) == ["IMG_1.JPG", "IMG_2.JPG", "IMG_3.jpg"]


def test_other_twins(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.heic").write_bytes(files.HEIC)
        save(tmp_path / f"{number}.jpg")
    assert names(find_frames(tmp_path)) == ["1.heic", "2.heic"]
    for number in (1, 2):
        tifffile.imwrite(tmp_path / f"{number}.tif", picture(number))
    assert names(find_frames(tmp_path)) == ["1.tif", "2.tif"]


def test_files_of_one_name_in_two_folders_are_two_shots(tmp_path: Path) -> None:
    photos = []
    for folder in ("b", "a"):
        (tmp_path / folder).mkdir()
        photos.append(save(tmp_path / folder / "1.jpg"))
    assert [frame.path for frame in find_frames(photos)] == photos


# Pages


def test_pages_of_a_tiff_are_a_stack(tmp_path: Path) -> None:
    stack = np.random.default_rng(0).integers(0, 65536, (3, 12, 16, 3), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "stack.tif", stack, photometric="rgb")
    frames = find_frames(tmp_path / "stack.tif")
    assert names(frames) == ["stack.tif page 1", "stack.tif page 2", "stack.tif page 3"]
    assert find_frames(tmp_path) == frames
    for codes, pixels in zip(stack, read_frames(frames), strict=True):
        x = codes / 65535.0
        truth = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
        np.testing.assert_allclose(pixels.pixels, truth, rtol=2e-6)


def test_previews_in_a_tiff_are_no_frames(tmp_path: Path) -> None:
    for name, flag in (("marked", 1), ("small", 0)):
        for number in range(2):
            with tifffile.TiffWriter(tmp_path / f"{name}{number}.tif") as file:
                file.write(picture(number), photometric="rgb", metadata=None)
                small = picture(9) if flag else picture(9, 4, 5)
                file.write(small, photometric="rgb", metadata=None, subfiletype=flag)
    assert names(find_frames([tmp_path / "marked0.tif", tmp_path / "marked1.tif"])) == ["marked0.tif", "marked1.tif"]
    assert names(find_frames([tmp_path / "small0.tif", tmp_path / "small1.tif"])) == ["small0.tif", "small1.tif"]


# Reading


def test_raw_files_share_the_first_white_balance(tmp_path: Path) -> None:
    light = np.full((24, 32), 0.5)
    write_dng(tmp_path / "1.dng", light)
    write_dng(tmp_path / "2.dng", light, neutral=(0.7, 1.0, 0.7), camera=(0.5, 1.0, 0.6))
    first, second = read_frames(find_frames(tmp_path))
    assert first.white_balance == second.white_balance
    np.testing.assert_allclose(first.pixels[8:-8, 8:-8], 0.5, atol=3e-4)
    np.testing.assert_allclose(second.pixels, first.pixels, atol=3e-4)


def test_an_orientation_that_jumps_is_not_believed(tmp_path: Path) -> None:
    for number, orientation in enumerate((1, 6, 3)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(picture()).save(tmp_path / f"{number}.png", exif=exif)
    first, second, third = read_frames(find_frames(tmp_path))
    for other, own in ((second, 6), (third, 3)):
        np.testing.assert_array_equal(other.pixels, first.pixels)
        assert other.orientation == 1
        assert other.notes == (f"orientation {own} is not the first frame's 1, which is used",)


def test_pictures_turned_by_hand_keep_their_orientation(tmp_path: Path) -> None:
    """Stored sizes differ, sizes upright do not: then every file's own orientation is right."""
    Image.fromarray(picture()).save(tmp_path / "0.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(picture())).save(tmp_path / "1.png", exif=exif)
    first, second = read_frames(find_frames(tmp_path))
    np.testing.assert_array_equal(first.pixels, second.pixels)


def test_only_one_picture_is_in_memory(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / f"{number}.png", number)
    pictures = read_frames(find_frames(tmp_path))
    next(pictures)
    (tmp_path / "2.png").write_bytes(b"gone")
    next(pictures)
    assert_one_sentence(message_of(lambda: next(pictures), ValueError), "2.png")


# Videos


def level(number: int) -> int:
    """The gray of a video's frame: 9 apart, which compression does not blur into each other."""
    return 20 + 9 * number


def write_video(path: Path, count: int = 25, codec: str = "mp4v") -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), 25, (64, 48))
    assert writer.isOpened()
    for number in range(count):
        writer.write(np.full((48, 64, 3), level(number), np.uint8))
    writer.release()
    return path


def rec709(code: float) -> float:
    return code / 4.5 if code < 0.081 else math.pow((code + 0.099) / 1.099, 1 / 0.45)


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "mp4v"), ("a.MOV", "mp4v"), ("a.avi", "MJPG")])
def test_video_frames_are_evenly_spaced_and_the_right_ones(tmp_path: Path, name: str, codec: str) -> None:
    path = (
        write_video(tmp_path / "a.mov", codec=codec) if name == "a.MOV" else write_video(tmp_path / name, codec=codec)
    )
    path = path.rename(tmp_path / name)
    frames = find_frames(path)
    numbers = [frame.page or 0 for frame in frames]
    assert (len(numbers), numbers[0], numbers[-1]) == (12, 0, 24)
    assert set(np.diff(numbers)) <= {2, 3}
    assert frames[1].name == f"{name} frame {numbers[1] + 1}"
    assert find_frames(tmp_path) == frames
    for number, seen in zip(numbers, read_frames(frames), strict=True):
        assert (seen.size, seen.bits, seen.transfer) == ((64, 48), 8, "BT.709 (video)")
        near, far = (rec709((level(number) + step) / 255) for step in (-4, 4))
        assert near < float(seen.pixels.mean()) < far, number


def test_colours_of_a_video(tmp_path: Path) -> None:
    writer = cv2.VideoWriter(str(tmp_path / "a.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 25, (64, 48))
    for _ in range(3):
        writer.write(np.full((48, 64, 3), (40, 90, 200), np.uint8))  # B G R
    writer.release()
    for seen in read_frames(find_frames(tmp_path / "a.avi")):
        truth = [rec709(code / 255) for code in (200, 90, 40)]
        np.testing.assert_allclose(seen.pixels.mean((0, 1)), truth, atol=0.02)


def test_count_of_video_frames(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", 10)
    assert [frame.page for frame in find_frames(path, video_frames=4)] == [0, 3, 6, 9]
    assert [frame.page for frame in find_frames(path)] == list(range(10))


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "mp4v"), ("a.avi", "MJPG")])
def test_cut_videos_are_refused_or_whole(tmp_path: Path, name: str, codec: str) -> None:
    path = write_video(tmp_path / name, codec=codec)
    whole = path.read_bytes()
    refused = 0
    for tenth in range(10):
        path.write_bytes(whole[: len(whole) * tenth // 10])
        try:
            assert len(list(read_frames(find_frames(path)))) == 12
        except ValueError as error:
            refused += 1
            assert_one_sentence(str(error), str(path))
    assert refused >= 8


# What is refused


def pages(path: Path) -> Path:
    tifffile.imwrite(path, np.stack([picture(1), picture(2)]), photometric="rgb")
    return path


Spoil = Callable[[Path], object]
BAD: dict[str, tuple[Spoil, Callable[[Path], object], type[Exception], tuple[str, ...]]] = {
    "nothing": (lambda f: None, lambda f: find_frames([]), ValueError, ("no photos given", "folder")),
    "missing": (lambda f: None, lambda f: find_frames(f / "no"), FileNotFoundError, ("no does not exist",)),
    "missing in a list": (
        lambda f: None,
        lambda f: find_frames([f / "0.png", f / "9.png"]),
        FileNotFoundError,
        ("9.png", "does not exist"),
    ),
    "empty folder": (lambda f: (f / "x").mkdir(), lambda f: find_frames(f / "x"), ValueError, ("x holds no pictures",)),
    "only results": (
        lambda f: [(f / "x").mkdir(), save(f / "x" / "depth.png")],
        lambda f: find_frames(f / "x"),
        ValueError,
        ("x holds no pictures",),
    ),
    "only settings in a list": (
        lambda f: (f / "stack.toml").write_text(""),
        lambda f: find_frames([f / "stack.toml"]),
        ValueError,
        ("no pictures given", "stack.toml"),
    ),
    "one picture": (lambda f: None, lambda f: find_frames(f / "0.png"), ValueError, ("0.png", "one picture only")),
    "one picture in a folder": (
        lambda f: [(f / "x").mkdir(), save(f / "x" / "a.png")],
        lambda f: find_frames(f / "x"),
        ValueError,
        ("a.png", "one picture only", "at least 2"),
    ),
    "one shot twice": (
        lambda f: [save(f / "a.jpg"), raw(f / "a.dng")],
        lambda f: find_frames([f / "a.jpg", f / "a.dng"]),
        ValueError,
        ("a.dng", "one picture only"),
    ),
    "one page": (
        lambda f: tifffile.imwrite(f / "a.tif", picture()),
        lambda f: find_frames(f / "a.tif"),
        ValueError,
        ("a.tif", "one picture only"),
    ),
    "twice the same": (
        lambda f: None,
        lambda f: find_frames([f / "0.png", f / "0.png"]),
        ValueError,
        ("0.png", "given twice"),
    ),
    "folder among files": (
        lambda f: (f / "x").mkdir(),
        lambda f: find_frames([f / "0.png", f / "x"]),
        ValueError,
        ("x is a folder", "one folder"),
    ),
    "no picture in a list": (
        lambda f: (f / "a.docx").write_text(""),
        lambda f: find_frames([f / "0.png", f / "a.docx"]),
        ValueError,
        ("a.docx", "no picture", "JPEG"),
    ),
    "stack among pictures": (
        lambda f: pages(f / "s.tif"),
        lambda f: find_frames(f),
        ValueError,
        ("s.tif", "2 pages", "give it alone"),
    ),
    "video among pictures": (
        lambda f: (f / "s.mp4").write_text(""),
        lambda f: find_frames([f / "0.png", f / "s.mp4"]),
        ValueError,
        ("s.mp4", "video", "give it alone"),
    ),
    "RAW among others": (lambda f: raw(f / "2.dng"), find_frames, ValueError, ("0.png", "2.dng", "one format")),
    "some doubled": (
        lambda f: [save(f / "0.jpg"), save(f / "7.jpg")],
        find_frames,
        ValueError,
        ("0.jpg", "0.png", "one format"),
    ),
    "text as video": (
        lambda f: (f / "s.mp4").write_text("hello"),
        lambda f: find_frames(f / "s.mp4"),
        ValueError,
        ("s.mp4", "cannot be read as a video"),
    ),
    "text as TIFF": (
        lambda f: (f / "s.tif").write_text("hello"),
        lambda f: find_frames(f / "s.tif"),
        ValueError,
        ("s.tif", "cannot be read"),
    ),
    "one frame of a video": (
        lambda f: write_video(f / "s.mp4", 5),
        lambda f: find_frames(f / "s.mp4", video_frames=1),
        ValueError,
        ("video_frames must be 2 or more", "is 1"),
    ),
    "video of one frame": (
        lambda f: write_video(f / "s.mp4", 1),
        lambda f: find_frames(f / "s.mp4"),
        ValueError,
        ("s.mp4", "1 frame", "at least 2"),
    ),
    "sizes differ": (
        lambda f: save(f / "1.png", 1, 12, 20),
        lambda f: list(read_frames(find_frames(f))),
        ValueError,
        ("1.png", "20 x 12 px", "0.png", "16 x 12 px", "one size"),
    ),
    "channels differ": (
        lambda f: Image.fromarray(picture()[..., 0]).save(f / "1.png"),
        lambda f: list(read_frames(find_frames(f))),
        ValueError,
        ("1.png", "1 channel,", "0.png", "3 channels"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(tmp_path: Path, name: str) -> None:
    for number in range(2):
        save(tmp_path / f"{number}.png", number)
    spoil, call, error, parts = BAD[name]
    spoil(tmp_path)
    assert_one_sentence(message_of(lambda: call(tmp_path), error), *parts)
