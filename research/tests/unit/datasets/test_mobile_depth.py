"""Mobile Depth's folders: aligned frames by Pillow, calibration as text."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import coc_px
from focalsweep_research.datasets.mobile_depth import MobileDepth, read_calibration

DISTANCES = (8.0, 12.0, 20.0, 40.0, 90.0, 150.0, 260.0)
APERTURES = (6.1, 6.0, 5.9, 5.8, 5.7, 5.6, 5.5)
FOCAL_LENGTH = 1.3


def write_scene(root: Path, figure: str, scene: str, calibrated_as: str) -> None:
    frames = root / "Aligned" / figure / scene
    frames.mkdir(parents=True)
    for i in range(len(DISTANCES)):
        pixels = np.full((40, 50, 3), 20 * i, np.uint8)
        pixels[:10] = 255
        Image.fromarray(pixels).save(frames / f"a{i:02d}.jpg", quality=95)
        Image.fromarray(pixels).save(frames / f"{i:02d}.jpg")  # not aligned
    folder = root / "calibration" / calibrated_as
    folder.mkdir(parents=True)
    lines = [f"{d:.6f} {a:.6f}" for d, a in zip(DISTANCES, APERTURES, strict=True)]
    (folder / "calibrated.txt").write_text("\n".join([*lines, f"{FOCAL_LENGTH}", ""]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_scene(tmp_path, "Figure5", "keyboard", "keyboard")
    write_scene(tmp_path, "Figure3", "metals", "metal")
    return tmp_path


def load(root: Path, **options: int | None) -> MobileDepth:
    return MobileDepth(root / "Aligned", root / "calibration", **options)  # type: ignore[arg-type]


def test_scenes_and_their_blur(root: Path) -> None:
    data = load(root, frame_count=None)
    assert [item.name for item in data] == ["keyboard", "metals"]
    item = data[0]
    assert item.stack.images.shape == (6, 3, 20, 30), "the frame focused beyond 200 is left out, 10 px are cut"
    assert torch.allclose(item.stack.focus_distances, 0.05 * torch.tensor(DISTANCES[:6], dtype=torch.float64))
    assert bool(torch.isnan(item.depth).all())
    for frame in range(6):
        for depth in (10.0, 33.0):
            focus = DISTANCES[frame]
            expected = APERTURES[frame] * abs(focus - depth) / depth * FOCAL_LENGTH / (focus - FOCAL_LENGTH)
            blur_px = coc_px(depth * 0.05, item.stack.focus_distances, item.stack.camera)[frame]
            assert blur_px.item() == pytest.approx(expected, rel=1e-9)


def test_three_frames_at_equal_strides(root: Path) -> None:
    stack = load(root)[1].stack
    assert torch.allclose(stack.focus_distances, 0.05 * torch.tensor([8.0, 20.0, 90.0], dtype=torch.float64))
    assert stack.images[1].mean().item() == pytest.approx(((40 / 255 + 0.055) / 1.055) ** 2.4, abs=2e-3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("10 5\n20 5\n", "line 2 has 2 numbers, but must have the focal length alone"),
        ("10 5\n20\n1.3\n", "line 2 has 1 numbers, but must have focus distance and aperture"),
        ("10 5\nfar 5\n1.3\n", "line 2: 'far 5' are not numbers"),
        ("10 5\n1.3\n", "has 2 lines"),
        ("", "has 0 lines"),
    ],
)
def test_calibrations_that_are_none(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "calibrated.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_calibration(path)


def test_bad_input(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"calibrated.txt does not exist"):
        read_calibration(tmp_path / "calibrated.txt")
    with pytest.raises(FileNotFoundError, match=r"has no SCENE/a\*.jpg"):
        MobileDepth(root / "calibration", root / "calibration")
    with pytest.raises(ValueError, match="frame_count must be at least 2"):
        load(root, frame_count=1)
    (root / "Aligned" / "Figure5" / "keyboard" / "a03.jpg").unlink()
    with pytest.raises(ValueError, match=r"keyboard has 6 frames, but .* calibrates 7"):
        load(root)[0]
