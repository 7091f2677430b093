"""Folders of photos: every format and setting that is read, every bad one refused with one sentence."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import FocalStack, load_stack, srgb_to_linear
from focalsweep.optics.thin_lens import sensor_distance
from focalsweep.photos.reading import read_picture
from tests.errors import assert_one_sentence, message_of

CAMERA = "[camera]\nfocal_length = 0.05\nf_number = 2.8\npixel_pitch = 6e-5\n"


def picture(seed: int = 0, height: int = 12, width: int = 16) -> np.ndarray:
    """H W 3, 8 bit, R G B."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def frames(*entries: tuple[str, str]) -> str:
    return "".join(f'[[frame]]\nfile = "{file}"\n{rest}\n' for file, rest in entries)


def distances(*values: float) -> str:
    return frames(*((f"{i}.png", f"focus_distance = {value}") for i, value in enumerate(values)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three photos and a good stack.toml."""
    for i in range(3):
        Image.fromarray(picture(i)).save(tmp_path / f"{i}.png")
    (tmp_path / "stack.toml").write_text(CAMERA + distances(0.8, 1.0, 2.0))
    return tmp_path


def rewrite(folder: Path, settings: str) -> Path:
    (folder / "stack.toml").write_text(settings)
    return folder


# What is read


def test_folder_is_read_in_linear_light(folder: Path) -> None:
    stack = load_stack(folder)
    assert stack.images.shape == (3, 3, 12, 16)
    assert stack.images.dtype == torch.float32
    assert stack.focus_distances.tolist() == [0.8, 1.0, 2.0]
    assert (stack.camera.focal_length, stack.camera.f_number, stack.camera.pixel_pitch) == (0.05, 2.8, 6e-5)
    expected = srgb_to_linear(torch.from_numpy(picture(1).transpose(2, 0, 1).astype(np.float32) / 255))
    torch.testing.assert_close(stack.images[1], expected)


def test_path_may_be_a_string(folder: Path) -> None:
    assert load_stack(str(folder)).frame_count == 3


def test_list_of_files_chooses_frames(folder: Path) -> None:
    stack = load_stack([folder / "2.png", str(folder / "0.png")])
    assert stack.focus_distances.tolist() == [0.8, 2.0]


def test_frames_are_sorted_by_distance(folder: Path) -> None:
    stack = load_stack(rewrite(folder, CAMERA + distances(math.inf, 0.8, 2.0)))
    assert stack.focus_distances.tolist() == [0.8, 2.0, math.inf]
    torch.testing.assert_close(stack.images[2], read_picture(folder / "0.png"))


def test_magnification_follows_its_frame(folder: Path) -> None:
    entries = (("0.png", "focus_distance = 2.0\nmagnification = 1.5"), ("1.png", "focus_distance = 1.0"))
    stack = load_stack(rewrite(folder, CAMERA + frames(*entries)))
    assert torch.as_tensor(stack.magnification).tolist() == [1.0, 1.5]


def test_range_is_read_as_its_middle_in_dioptres(folder: Path) -> None:
    entries = (("0.png", "focus_range = [0.5, 1.0]"), ("1.png", "focus_range = [2.0, inf]"))
    stack = load_stack(rewrite(folder, CAMERA + frames(*entries)))
    assert stack.focus_distances.tolist() == pytest.approx([1 / 1.5, 4.0])


def test_distances_from_the_sensor(folder: Path) -> None:
    totals = [sensor_distance(d, 0.05).item() for d in (0.8, 1.0, 2.0)]
    stack = load_stack(rewrite(folder, CAMERA + 'focus_reference = "sensor"\n' + distances(*totals)))
    assert stack.focus_distances.tolist() == pytest.approx([0.8, 1.0, 2.0], rel=1e-9)


def test_keywords_override_the_file(folder: Path) -> None:
    stack = load_stack(folder, focal_length=0.035, f_number=4.0)
    assert (stack.camera.focal_length, stack.camera.f_number, stack.camera.pixel_pitch) == (0.035, 4.0, 6e-5)
    only_frames = rewrite(folder, distances(0.8, 1.0, 2.0))
    assert load_stack(only_frames, focal_length=0.05, f_number=2.0, pixel_pitch=1e-5).camera.f_number == 2.0


@pytest.mark.parametrize("extension", ["png", "tif"])
def test_sixteen_bit(tmp_path: Path, extension: str) -> None:
    values = np.array([[0, 1000, 30000, 65535]], dtype=np.uint16)
    cv2.imwrite(str(tmp_path / f"a.{extension}"), np.dstack([values, values // 2, values // 4]))  # B G R
    red, _, blue = read_picture(tmp_path / f"a.{extension}")
    torch.testing.assert_close(blue, srgb_to_linear(torch.from_numpy(values.astype(np.float32) / 65535)))
    torch.testing.assert_close(red, srgb_to_linear(torch.from_numpy((values // 4).astype(np.float32) / 65535)))


def test_jpeg_gray_alpha_and_palette(tmp_path: Path) -> None:
    smooth = np.broadcast_to(np.linspace(0, 255, 16, dtype=np.uint8)[None, :, None], (12, 16, 3))
    Image.fromarray(np.ascontiguousarray(smooth)).save(tmp_path / "a.jpg", quality=95)
    assert (read_picture(tmp_path / "a.jpg")[0, 6] - srgb_to_linear(torch.linspace(0, 1, 16))).abs().max() < 0.03
    Image.fromarray(picture()[..., 0]).save(tmp_path / "gray.png")
    assert read_picture(tmp_path / "gray.png").shape == (1, 12, 16)
    Image.fromarray(np.dstack([picture(), np.full((12, 16), 9, np.uint8)])).save(tmp_path / "alpha.png")
    Image.fromarray(picture()).save(tmp_path / "plain.png")
    torch.testing.assert_close(read_picture(tmp_path / "alpha.png"), read_picture(tmp_path / "plain.png"))
    Image.fromarray(picture()).quantize(8).save(tmp_path / "palette.png")
    assert read_picture(tmp_path / "palette.png").shape == (3, 12, 16)


def test_names_need_not_be_ascii(tmp_path: Path) -> None:
    Image.fromarray(picture()).save(tmp_path / "Aufnahme ä.png")
    assert read_picture(tmp_path / "Aufnahme ä.png").shape == (3, 12, 16)


# What is refused


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
        ("nowhere", "not a folder", "stack.toml"),
    ),
    "file as folder": (lambda f: None, lambda f: load_stack(f / "0.png"), FileNotFoundError, ("0.png", "not a folder")),
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
    "no stack.toml": (
        lambda f: (f / "stack.toml").unlink(),
        load_stack,
        FileNotFoundError,
        ("stack.toml", "does not exist"),
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
        ("focal_length", "unknown", "[camera]", "stack.toml"),
    ),
    "no f-number and no pitch": (
        lambda f: rewrite(f, "[camera]\nfocal_length = 0.05\n" + GOOD),
        load_stack,
        ValueError,
        ("f_number and pixel_pitch", "stack.toml"),
    ),
    "no frames": (lambda f: rewrite(f, CAMERA), load_stack, ValueError, ("no frames", "[[frame]]", "stack.toml")),
    "one frame": (
        lambda f: rewrite(f, CAMERA + distances(0.8)),
        load_stack,
        ValueError,
        ("at least 2 frames", "has 1"),
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
    "channels differ": (other_channels, load_stack, ValueError, ("1.png", "1 channels", "0.png", "3 channels")),
    "no focus distance": (
        lambda f: rewrite(f, CAMERA + distances(0.8, 1.0) + frames(("2.png", ""))),
        load_stack,
        ValueError,
        ("2.png", "focus distance of 2.png unknown", "focus_distance", "stack.toml"),
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
        ("focus_distances", "0 m"),
    ),
    "distance NaN": (
        lambda f: rewrite(f, CAMERA + distances(math.nan, 1.0)),
        load_stack,
        ValueError,
        ("focus_distances", "nan"),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence(folder: Path, name: str) -> None:
    (folder / "other").mkdir()
    Image.fromarray(picture()).save(folder / "other" / "1.png")
    spoil, call, error, parts = BAD[name]
    spoil(folder)
    assert_one_sentence(message_of(lambda: call(folder), error), *parts)


@pytest.mark.parametrize("extension", ["png", "jpg", "tif"])
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_truncated_files_are_refused(tmp_path: Path, extension: str, share: float) -> None:
    path = tmp_path / f"a.{extension}"
    Image.fromarray(picture(0, 60, 80)).save(path)
    truncate(path, share)
    assert_one_sentence(message_of(lambda: read_picture(path), ValueError), str(path), "truncated")


def test_float_pictures_are_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.tif"), np.ones((4, 5), np.float32))
    assert_one_sentence(
        message_of(lambda: read_picture(tmp_path / "a.tif"), ValueError), "a.tif", "float32", "8 and 16 bit"
    )


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


def test_unaligned_photos_are_taken_as_they_are_with_a_warning(folder: Path) -> None:
    rewrite(folder, CAMERA + "aligned = false\n" + distances(0.8, 1.0, 2.0))
    with pytest.warns(UserWarning, match="taken as registered"):
        load_stack(folder)
