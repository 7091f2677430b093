"""The f/2.8 and f/8 pairs: files by Pillow, the registration against a picture that is a formula."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import coc_px
from focalsweep.datasets.dfd import DfdPairs, Shift, warped

HEIGHT, WIDTH = 30, 40
CAMERA = {
    "camera": "written by a test",
    "focal_length_mm": 35.0,
    "f_numbers": [2.8, 8.0],
    "pixel_pitch_um": 36.57,
    "focus_distance_m_measured_indoor": 1.64,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "camera.json").write_text(json.dumps(CAMERA))
    lines = ["scene,source_rgb,shift_x_px,shift_y_px,scale,rotation_deg,inliers"]
    for name, shift in (("000", "0.0,0.0,1.0,0.0,900"), ("004", "3.0,0.0,1.0,0.0,120")):
        lines.append(f"{name},x.JPG,{shift}")
        y, x = np.mgrid[:HEIGHT, :WIDTH]
        for stop, offset in (("f2.8", 0), ("f8", 3 if name == "004" else 0)):
            grey = 128 + 100 * np.sin((x - offset) / 4) * np.cos(y / 5)
            Image.fromarray(np.stack([grey] * 3, -1).astype(np.uint8)).save(
                tmp_path / f"scene_{name}_{stop}.jpg", quality=98
            )
        depth = np.full((HEIGHT, WIDTH), 2500, np.uint16)
        depth[0, 0] = 0
        Image.fromarray(depth).save(tmp_path / f"scene_{name}_depth_mm.png")
    (tmp_path / "scenes.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_pairs(folder: Path) -> None:
    data = DfdPairs(folder)
    assert len(data) == 2
    item = data[0]
    assert item.name == "scene_000" and item.stack.images.shape == (2, 3, HEIGHT, WIDTH)
    assert item.depth[5, 5].item() == pytest.approx(2.5) and torch.isnan(item.depth[0, 0])
    wide, narrow = coc_px(item.depth[5, 5].double(), item.stack.focus_distances, item.stack.camera).tolist()
    slope = 0.035**2 / (2.8 * 36.57e-6 * (1 - 0.035 / 1.64))
    assert wide == pytest.approx(slope * (1 / 1.64 - 1 / 2.5), rel=1e-6)
    assert wide / narrow == pytest.approx(8 / 2.8)
    assert DfdPairs(folder, focus_distance=2.0)[0].stack.focus_distances.tolist() == [2.0, 2.0]


def test_registration_brings_the_pair_together(folder: Path) -> None:
    inner = (..., slice(8, -8), slice(8, -8))
    apart = DfdPairs(folder, register=False)[1].stack.images
    together = DfdPairs(folder)[1].stack.images
    assert (apart[0] - apart[1])[inner].abs().mean() > 0.05
    assert (together[0] - together[1])[inner].abs().mean() < 0.005


def test_a_similarity_about_the_centre() -> None:
    shift = Shift(x_px=1.5, y_px=-2.0, scale=1.03, rotation_deg=2.0, inliers=900)
    y, x = torch.meshgrid(torch.arange(40.0), torch.arange(60.0), indexing="ij")

    def picture(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 0.5 + 0.4 * torch.sin(x / 5) * torch.cos(y / 6)

    z = torch.complex(x - 29.5 - 1.5, y - 19.5 + 2.0) / (1.03 * np.exp(1j * np.deg2rad(2.0)))
    expected = picture(z.real + 29.5, z.imag + 19.5)
    error = (warped(picture(x, y)[None], shift)[0] - expected).abs()[8:-8, 8:-8]
    assert error.max() < 4e-3  # OpenCV steps by 1/32 px, and the picture changes by 0.08 a px


def test_bad_input(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(FileNotFoundError, match=r"camera.json does not exist"):
        DfdPairs(tmp_path_factory.mktemp("empty"))
    (folder / "scene_000_f8.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"scene_000_f8.jpg does not exist"):
        DfdPairs(folder)[0]
    (folder / "scene_004_depth_mm.png").write_bytes((folder / "scene_004_f8.jpg").read_bytes())
    with pytest.raises(ValueError, match=r"scene_004_depth_mm.png has 3 channels"):
        DfdPairs(folder)[1]
    (folder / "scenes.csv").write_text("scene,shift_x_px,shift_y_px,scale,rotation_deg,inliers\n000,a,0,1,0,9\n")
    with pytest.raises(ValueError, match="something else than numbers"):
        DfdPairs(folder)
    (folder / "scenes.csv").write_text("scene,shift_x_px\n000,1\n")
    with pytest.raises(ValueError, match="has no column 'shift_y_px'"):
        DfdPairs(folder)
    (folder / "camera.json").write_text("{}")
    with pytest.raises(ValueError, match="has no 'focal_length_mm'"):
        DfdPairs(folder)
    (folder / "camera.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        DfdPairs(folder)
