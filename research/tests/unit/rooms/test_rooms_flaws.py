"""The test's own flaws of photographs."""

import io
from dataclasses import replace

import numpy as np
from PIL import Image

from focalsweep_research.rooms.flaws import Flaws, draw_flaws, photographed

NONE = Flaws(0, 0, 0, 0, 0, 0, 0, 0, 96)


def frames() -> np.ndarray:
    rows, columns = np.mgrid[:48, :64]
    wave = 0.3 + 0.2 * np.sin(rows / 5) * np.cos(columns / 6)
    return np.repeat(np.repeat(wave[None, ..., None], 3, 0), 3, -1).astype(np.float32)


def read(files: list[bytes]) -> np.ndarray:
    return np.stack([np.asarray(Image.open(io.BytesIO(data)), np.float64) for data in files])


def shown(flaws: Flaws, seed: int = 0) -> np.ndarray:
    return read(photographed(frames(), flaws, np.random.default_rng(seed)))


def test_without_flaws_only_jpeg_is_left() -> None:
    codes = 255 * np.where(frames() <= 0.0031308, 12.92 * frames(), 1.055 * frames() ** (1 / 2.4) - 0.055)
    assert np.abs(shown(NONE) - codes).mean() < 1


def test_each_flaw_changes_the_frames_in_its_way() -> None:
    plain = shown(NONE)
    moved = shown(replace(NONE, shift_px=1.0))
    assert np.abs(moved[0] - plain[0]).max() <= 1, "the first frame is where depth is"
    assert np.abs(moved[1] - plain[1]).mean() > 0.3
    noisy = shown(replace(NONE, shot=0.03))
    assert (noisy - plain).std() > 1
    drifting = shown(replace(NONE, exposure=0.1)).mean((1, 2, 3))
    assert np.ptp(drifting) > 3
    assert np.ptp(shown(replace(NONE, contrast=0.5))) > np.ptp(plain)
    assert np.ptp(shown(replace(NONE, sharpen=0.8))) >= np.ptp(plain)


def test_the_same_seed_has_the_same_flaws() -> None:
    flaws = draw_flaws(np.random.default_rng(4))
    assert flaws == draw_flaws(np.random.default_rng(4)) != draw_flaws(np.random.default_rng(5))
    np.testing.assert_array_equal(shown(flaws, 1), shown(flaws, 1))
    assert 0 <= flaws.shift_px <= 1 and 70 < flaws.quality < 100
