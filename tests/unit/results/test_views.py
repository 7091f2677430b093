"""Views from beside, against the shifts that their parallax asks for, and movies read back by others."""

import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from focalsweep import RelativeLens
from focalsweep.results.movies import gif_bytes, mp4_bytes, there_and_back
from focalsweep.results.views import anaglyph, parallax_px, stereo_pair, view
from tests.unit.results.scenes import scene, stepped


def textured(height: int, width: int) -> np.ndarray:
    noise = np.random.default_rng(0).random((height, width, 3)).astype(np.float32)
    return cv2.GaussianBlur(noise, (0, 0), 1.5)


@pytest.mark.parametrize("eye", [-0.5, 0.5, 1.0])
@pytest.mark.parametrize("parallax", [4.0, -6.0, 1.5])
def test_one_parallax_is_a_shift(eye: float, parallax: float) -> None:
    picture = textured(30, 80)
    moved = view(picture, np.full((30, 80), parallax, np.float32), eye)
    source = np.arange(80, dtype=np.float32) + eye * parallax  # what is near moves against the eye
    x, y = np.meshgrid(source, np.arange(30, dtype=np.float32))
    expected = cv2.remap(picture, x.astype(np.float32), y, cv2.INTER_LINEAR)
    np.testing.assert_allclose(moved[:, 10:-10], expected[:, 10:-10], atol=1e-5)


@pytest.mark.parametrize("eye", [-1.0, 1.0])
def test_what_is_near_hides_and_what_was_hidden_is_filled_from_the_far_side(eye: float) -> None:
    picture = np.zeros((20, 80, 3), np.float32)
    picture[..., 2] = 1  # far: blue
    picture[:, 30:50] = (1, 0, 0)  # near: red
    parallax = np.zeros((20, 80), np.float32)
    parallax[:, 30:50] = 8
    seen = view(picture, parallax, eye)
    start = 30 - int(8 * eye)
    np.testing.assert_allclose(seen[:, start + 1 : start + 19], np.broadcast_to((1, 0, 0), (20, 18, 3)), atol=1e-6)
    np.testing.assert_allclose(seen[:, : start - 1, 2], 1, atol=1e-6)
    np.testing.assert_allclose(seen[:, start + 21 :, 2], 1, atol=1e-6)


def test_from_the_photos_own_place_it_is_the_photo() -> None:
    picture = textured(30, 60)
    parallax = np.where(np.arange(60) < 25, 5.0, -5.0).astype(np.float32) * np.ones((30, 1), np.float32)
    np.testing.assert_allclose(view(picture, parallax, 0.0), picture, atol=1e-6)


def test_parallax_is_linear_in_inverse_depth_and_as_wide_as_asked_for() -> None:
    ramp = np.linspace(0.2, 0.9, 200) * np.ones((50, 1))
    for result in (scene(ramp), scene(ramp, camera=RelativeLens(40.0))):
        _, parallax = parallax_px(result, amount=0.05)
        np.testing.assert_allclose(np.diff(parallax[0], 2), 0, atol=1e-4)
        assert np.ptp(parallax) == pytest.approx(0.05 * 200, rel=0.02)
        assert parallax[0, -1] > 0 > parallax[0, 0]  # near is before the screen
    small, parallax = parallax_px(scene(ramp), size_px=100)
    assert small.shape == (25, 100, 3)
    assert parallax.shape == (25, 100)


def test_a_pair_and_its_anaglyph() -> None:
    left, right = stereo_pair(scene(stepped(40, 100, 50), all_in_focus=textured(40, 100)))
    assert left.shape == right.shape == (40, 100, 3)
    glasses = anaglyph(left, right)
    np.testing.assert_array_equal(glasses[..., 1:], right[..., 1:])
    np.testing.assert_allclose(glasses[..., 0], left @ [0.299, 0.587, 0.114], rtol=1e-5)
    grey = anaglyph(left[..., :1], right[..., :1])
    np.testing.assert_allclose(grey[..., 0], left[..., 0], rtol=1e-5)


def test_movies_are_read_by_others(tmp_path: Path) -> None:
    frames = [np.full((41, 61, 3), (40 * i, 100, 200 - 40 * i), np.uint8) for i in range(5)]
    with Image.open(io.BytesIO(gif_bytes(frames))) as gif:
        assert gif.n_frames == 5
        assert gif.info["loop"] == 0
        assert gif.size == (61, 41)
    with Image.open(io.BytesIO(gif_bytes([frame[..., :1] for frame in frames]))) as gif:
        assert gif.n_frames == 5
    path = tmp_path / "a.mp4"
    path.write_bytes(mp4_bytes(frames))
    video = cv2.VideoCapture(str(path))
    read = []
    while (found := video.read())[0]:
        read.append(found[1][..., ::-1])
    assert len(read) == 5
    assert read[0].shape == (40, 60, 3)
    np.testing.assert_allclose([r[20, 30] for r in read], [f[20, 30] for f in frames], atol=25)


def test_there_and_back_closes() -> None:
    way = there_and_back(24)
    assert way[0] == 0
    assert max(way) == way[12] == 1
    np.testing.assert_allclose(way[1:], way[:0:-1])
