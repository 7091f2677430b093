"""Folders of photos: every format and setting that is read."""

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from focalsweep import coc_px, linear_to_srgb, load_stack, srgb_to_linear
from focalsweep.optics.thin_lens import sensor_distance
from focalsweep.photos.reading import RELATIVE_BLUR_PX, find_settings, open_photos
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos.folders import CAMERA, distances, folder, frames, light_of, picture, rewrite
from tests.unit.photos.handheld import Shake, photograph

__all__ = ["folder"]


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
    torch.testing.assert_close(stack.images[2], light_of(folder / "0.png"))


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
    camera: dict[str, Any] = {"focal_length": 0.05, "f_number": 2.0, "pixel_pitch": 1e-5}
    assert load_stack(only_frames, aligned=True, **camera).camera.f_number == 2.0


@pytest.mark.parametrize("extension", ["png", "tif"])
def test_sixteen_bit(tmp_path: Path, extension: str) -> None:
    values = np.array([[0, 1000, 30000, 65535]], dtype=np.uint16)
    cv2.imwrite(str(tmp_path / f"a.{extension}"), np.dstack([values, values // 2, values // 4]))  # B G R
    red, _, blue = light_of(tmp_path / f"a.{extension}")
    torch.testing.assert_close(blue, srgb_to_linear(torch.from_numpy(values.astype(np.float32) / 65535)))
    torch.testing.assert_close(red, srgb_to_linear(torch.from_numpy((values // 4).astype(np.float32) / 65535)))


def test_jpeg_gray_alpha_and_palette(tmp_path: Path) -> None:
    smooth = np.broadcast_to(np.linspace(0, 255, 16, dtype=np.uint8)[None, :, None], (12, 16, 3))
    Image.fromarray(np.ascontiguousarray(smooth)).save(tmp_path / "a.jpg", quality=95)
    assert (light_of(tmp_path / "a.jpg")[0, 6] - srgb_to_linear(torch.linspace(0, 1, 16))).abs().max() < 0.03
    Image.fromarray(picture()[..., 0]).save(tmp_path / "gray.png")
    assert light_of(tmp_path / "gray.png").shape == (1, 12, 16)
    Image.fromarray(np.dstack([picture(), np.full((12, 16), 9, np.uint8)])).save(tmp_path / "alpha.png")
    Image.fromarray(picture()).save(tmp_path / "plain.png")
    torch.testing.assert_close(light_of(tmp_path / "alpha.png"), light_of(tmp_path / "plain.png"))
    Image.fromarray(picture()).quantize(8).save(tmp_path / "palette.png")
    assert light_of(tmp_path / "palette.png").shape == (3, 12, 16)


def test_names_need_not_be_ascii(folder: Path) -> None:
    (folder / "1.png").rename(folder / "Aufnahme ä.png")
    entries = (("0.png", "focus_distance = 0.8"), ("Aufnahme ä.png", "focus_distance = 1.0"))
    torch.testing.assert_close(
        load_stack(rewrite(folder, CAMERA + frames(*entries))).images[1], light_of(folder / "Aufnahme ä.png")
    )


def test_settings_from_metadata_and_names_alone(tmp_path: Path) -> None:
    """No stack.toml: the camera from EXIF, the distances from the names of the files."""
    exif = Image.Exif()
    details = exif.get_ifd(0x8769)
    details |= {0x920A: 50.0, 0x829D: 2.8, 0xA20E: 1000.0, 0xA20F: 1000.0, 0xA210: 3}  # 10 um a pixel
    for i, metres in enumerate(("2.0m", "0.8m", "1.0m")):
        Image.fromarray(picture(i)).save(tmp_path / f"focus_{metres}.jpg", exif=exif, quality=95)
    stack = load_stack(tmp_path, align="none")
    assert stack.focus_distances.tolist() == pytest.approx([0.8, 1.0, 2.0])
    assert stack.camera.focal_length == pytest.approx(0.05)
    assert stack.camera.f_number == pytest.approx(2.8)
    assert stack.camera.pixel_pitch == pytest.approx(1e-5)
    torch.testing.assert_close(stack.images[0], light_of(tmp_path / "focus_0.8m.jpg"))


def test_focus_distances_of_the_caller(folder: Path) -> None:
    """A list in the order of the files, or by name; they override the file's."""
    assert load_stack(folder, focus_distances=[3.0, 0.9, 1.5]).focus_distances.tolist() == [0.9, 1.5, 3.0]
    stack = load_stack(folder, focus_distances={"0.png": 5.0})
    assert stack.focus_distances.tolist() == [1.0, 2.0, 5.0]
    torch.testing.assert_close(stack.images[2], light_of(folder / "0.png"))
    settings, where = find_settings(folder, focus_distances={"0.png": 5.0})
    assert where == folder
    assert [(value.value, value.source) for value in settings.focus_distances if value] == [
        (5.0, "given"),
        (1.0, "stack.toml"),
        (2.0, "stack.toml"),
    ]


def test_pages_that_a_stack_file_names(tmp_path: Path) -> None:
    """As `inspect --write` leaves them: the folder, and the file, give the same stack."""
    tifffile.imwrite(tmp_path / "all.tif", np.stack([picture(i) for i in range(3)]), photometric="rgb")
    names = [f"all.tif page {i}" for i in (1, 2, 3)]
    entries = [(name, f"focus_distance = {metres}") for name, metres in zip(names, (2.0, 1.0, 0.8), strict=True)]
    rewrite(tmp_path, CAMERA + frames(*entries))
    for photos in (tmp_path, tmp_path / "all.tif"):
        stack = load_stack(photos)
        assert stack.focus_distances.tolist() == [0.8, 1.0, 2.0]
        expected = srgb_to_linear(torch.from_numpy(picture(2).transpose(2, 0, 1).astype(np.float32) / 255))
        torch.testing.assert_close(stack.images[0], expected)
    rewrite(tmp_path, CAMERA + frames(*entries, ("all.tif page 4", "focus_distance = 0.5")))
    assert_one_sentence(message_of(lambda: load_stack(tmp_path), FileNotFoundError), "all.tif page 4", "stack.toml")


def test_floats_beyond_white_are_scaled_by_one_factor(folder: Path) -> None:
    lights = [value * np.random.default_rng(i).random((12, 16, 3), np.float32) for i, value in enumerate((0.5, 4.0))]
    for i, light in enumerate(lights):
        tifffile.imwrite(folder / f"{i}.tif", light, photometric="rgb")
    entries = (("0.tif", "focus_distance = 0.8"), ("1.tif", "focus_distance = 1.0"))
    stack = load_stack(rewrite(folder, CAMERA + frames(*entries)))
    white = max(float(light.max()) for light in lights)
    expected = torch.from_numpy(np.stack(lights).transpose(0, 3, 1, 2) / white)
    torch.testing.assert_close(stack.images, expected)
    pixels = torch.from_numpy(np.stack(list(open_photos(folder).register().pictures())))
    torch.testing.assert_close(pixels.movedim(-1, 1), stack.images, rtol=0, atol=0)


# Without distances


@pytest.mark.parametrize("order", ["near-to-far", "far-to-near"])
def test_order_alone_gives_relative_depth(folder: Path, order: str) -> None:
    rewrite(folder, f'[camera]\naligned = true\norder = "{order}"\n')
    with pytest.warns(UserWarning, match="without a unit"):
        stack = load_stack(folder)
    assert (1 / stack.focus_distances).tolist() == pytest.approx([1.0, 0.75, 0.5])
    nearest = "0.png" if order == "near-to-far" else "2.png"
    torch.testing.assert_close(stack.images[0], light_of(folder / nearest))
    blur_px = coc_px(stack.focus_distances[0], stack.focus_distances[2], stack.camera)
    assert float(blur_px) == pytest.approx(RELATIVE_BLUR_PX, rel=1e-3)


@pytest.mark.parametrize("order", ["near-to-far", "far-to-near"])
def test_video_in_either_order(tmp_path: Path, order: str) -> None:
    """Every frame once, also where the video runs from far to near."""
    video = cv2.VideoWriter(str(tmp_path / "a.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for i in range(5):
        video.write(np.full((48, 64, 3), 40 * (i + 1), np.uint8))
    video.release()
    with pytest.warns(UserWarning, match="without a unit"):
        stack = load_stack(tmp_path / "a.avi", order=order, align="none")
    light = stack.images.mean((1, 2, 3))
    steps = light.diff() if order == "near-to-far" else -light.diff()
    assert stack.frame_count == 5
    assert (steps > 0.02).all()


def test_relative_orders_by_distances_that_are_known(folder: Path) -> None:
    rewrite(folder, "[camera]\naligned = true\n" + distances(2.0, 0.8, 1.0))
    with pytest.warns(UserWarning, match="their focus distances"):
        stack = load_stack(folder, relative=True)
    for i, name in enumerate(("1.png", "2.png", "0.png")):
        torch.testing.assert_close(stack.images[i], light_of(folder / name))


# Registration


@pytest.mark.parametrize("line", ["", "aligned = false\n"])
def test_frames_are_registered_unless_told_otherwise(tmp_path: Path, line: str) -> None:
    shots, _, _ = photograph(Shake(frames=3, drift=0.0, size=(120, 160), shift_px=6.0), seed=0)
    for i, shot in enumerate(shots):
        codes = linear_to_srgb(torch.from_numpy(shot)).mul(255).round().byte().numpy()
        Image.fromarray(codes).save(tmp_path / f"{i}.png")
    camera = CAMERA.replace("aligned = true\n", line)
    rewrite(tmp_path, camera + distances(0.8, 1.0, 2.0))
    stack, as_they_are = load_stack(tmp_path), load_stack(tmp_path, align="none")
    assert as_they_are.size == (120, 160)
    assert torch.as_tensor(as_they_are.magnification).tolist() == [1.0, 1.0, 1.0]
    assert stack.size < (120, 160)
    assert torch.as_tensor(stack.magnification).tolist() != [1.0, 1.0, 1.0]
    assert float(stack.images.max()) <= 1
    rewrite(tmp_path, CAMERA + distances(0.8, 1.0, 2.0))
    assert load_stack(tmp_path).size == (120, 160)
