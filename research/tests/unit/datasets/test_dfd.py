"""The f/2.8 and f/8 pairs: files by Pillow, the registration against a picture that is a formula."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import Camera, coc_px
from focalsweep_research.datasets.dfd import DfdPairs, Shift, warped

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


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """Two views to train on, the first pair of them 5 px apart, and one to test, named as by the authors."""
    views = {"train": [("16:38:31", 5), ("16:39:15", 0)], "test": [("17:26:34", 0)]}
    noise = np.random.default_rng(3).random((90, 120))
    smooth = np.fft.ifft2(
        np.fft.fft2(noise) * np.exp(-8 * np.add.outer(*map(np.square, map(np.fft.fftfreq, (90, 120)))))
    ).real
    texture = (255 * (smooth - smooth.min()) / np.ptp(smooth)).astype(np.uint8)
    for part, times in views.items():
        for time, shift in times:
            for stop, offset in (("N2_8", 0), ("N8", shift)):
                folder = tmp_path / f"dfd_dataset_indoor_{stop}"
                for kind in ("rgb", "depth"):
                    (folder / kind / part).mkdir(parents=True, exist_ok=True)
                grey = texture[5:85, 10 - offset : 110 - offset]
                picture = Image.fromarray(np.stack([grey] * 3, -1))
                picture.save(folder / "rgb" / part / f"2018-04-26T{time}.689710.JPG", "JPEG", quality=98)
                depth = np.broadcast_to(np.arange(100, dtype=np.uint16) * 10 + 1500, (80, 100))
                Image.fromarray(depth.copy()).save(folder / "depth" / part / f"2018-04-26T{time}.655986.png")
    return tmp_path


def test_pairs_as_published(published: Path) -> None:
    data = DfdPairs(published)
    assert [item.name for item in data] == [
        "train/2018-04-26T16:38:31.689710", "train/2018-04-26T16:39:15.689710", "test/2018-04-26T17:26:34.689710"
    ]  # fmt: skip
    assert [len(DfdPairs(published, part)) for part in ("train", "test")] == [2, 1]
    still = data[1]
    assert still.stack.images.shape == (2, 3, 80, 100) and still.depth[7, 3].item() == pytest.approx(1.53)
    assert still.stack.focus_distances.tolist() == [1.64, 1.64]
    prepared = Camera(0.035, torch.tensor([2.8, 8.0], dtype=torch.float64), 36.57e-6)
    torch.testing.assert_close(still.stack.camera.f_number, prepared.f_number)
    assert still.stack.camera.pixel_pitch == pytest.approx(prepared.pixel_pitch)


def test_published_pairs_are_registered_by_what_they_show(published: Path) -> None:
    apart, together = (DfdPairs(published, register=register)[0] for register in (False, True))
    first, second = apart.stack.images
    assert (first - second).abs().mean() > 0.05
    first, second = together.stack.images[..., 4:-4, 4:-4]
    assert (first - second).abs().mean() < 0.01
    cut = apart.depth.shape[1] - together.depth.shape[1]
    assert 4 <= cut <= 8 and together.depth.shape == together.stack.images.shape[-2:]
    # Depth stays with the f/8 picture, whose left border the other does not show.
    torch.testing.assert_close(together.depth[0], apart.depth[0, cut:])


def test_a_published_folder_that_is_not_whole(published: Path) -> None:
    with pytest.raises(ValueError, match=r"has no part 'train'"):
        DfdPairs(published / "dfd_dataset_indoor_N8", "train")
    next((published / "dfd_dataset_indoor_N8/depth/test").iterdir()).unlink()
    with pytest.raises(ValueError, match="1 pictures and 0 depth maps in test"):
        DfdPairs(published)
    next((published / "dfd_dataset_indoor_N8/rgb/train").iterdir()).unlink()
    with pytest.raises(FileNotFoundError, match="both stops must have the same pictures"):
        DfdPairs(published, "train")
