"""NYU Depth V2 in both of its forms, written here, and what the paper's set-up makes of it."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import cv2
import h5py
import numpy as np
import pytest
import torch
from scipy.io import savemat

from focalsweep import Camera, Gaussian, coc_px, srgb_to_linear
from focalsweep.results.layered import render_layered
from focalsweep_research.datasets import nyu
from focalsweep_research.datasets.nyu import CROPS, Nyu, NyuSetup, official_split, part_of
from tests.errors import assert_one_sentence, message_of

HEIGHT, WIDTH = 24, 32


def picture(seed: int) -> np.ndarray:
    """H W 3, 8 bit, smooth enough for JPEG."""
    noise = np.random.default_rng(seed).uniform(0, 255, (4, 5, 3)).astype(np.float32)
    return cv2.resize(noise, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC).clip(0, 255).astype(np.uint8)


def write_mat(path: Path, pictures: list[np.ndarray], depths: list[np.ndarray]) -> None:
    """As MATLAB's save -v7.3 does: a 512-byte header, arrays transposed, the class as an attribute."""
    with h5py.File(path, "w", userblock_size=512) as file:
        images = file.create_dataset("images", data=np.stack([p.transpose(2, 1, 0) for p in pictures]))
        images.attrs["MATLAB_class"] = np.bytes_("uint8")
        depth = file.create_dataset("depths", data=np.stack([d.T for d in depths]).astype(np.float32))
        depth.attrs["MATLAB_class"] = np.bytes_("single")
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM")


def write_folder(folder: Path, number: int, pixels: np.ndarray, steps: np.ndarray) -> None:
    folder.mkdir(exist_ok=True)
    cv2.imwrite(str(folder / f"{number:04d}_rgb.jpg"), pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 100])
    cv2.imwrite(str(folder / f"{number:04d}_depth.png"), steps)


@pytest.fixture
def mat(tmp_path: Path) -> Path:
    ramp = np.linspace(1.0, 5.0, HEIGHT)[:, None] * np.ones((1, WIDTH))
    write_mat(tmp_path / "nyu_depth_v2_labeled.mat", [picture(i) for i in range(3)], [ramp, ramp + 1, ramp + 2])
    return tmp_path / "nyu_depth_v2_labeled.mat"


def test_mat_file(mat: Path) -> None:
    data = Nyu(mat, ids=[2, 0])
    assert len(data) == 2
    image, depth = data.read(2)
    assert torch.equal(image, torch.from_numpy(picture(2)).movedim(-1, 0) / 255)
    assert depth[0, 0] == 3 and depth[-1, 5] == 7
    item = data[0]
    assert item.name == "0002" and item.stack.images.shape == (3, 3, HEIGHT, WIDTH)
    assert torch.allclose(item.depth, depth * 0.3)
    assert [item.name for item in data[1:]] == ["0000"]


def test_folder_form(tmp_path: Path) -> None:
    steps = np.full((HEIGHT, WIDTH), 50, np.uint8)
    steps[:, 10:] = 120
    write_folder(tmp_path / "dev", 17, picture(1), steps)
    write_folder(tmp_path / "dev", 4, picture(0), steps)
    data = Nyu(tmp_path / "dev")
    assert data.ids == [4, 17]
    image, depth = data.read(17)
    assert depth[0, 0].item() == pytest.approx(50.5 / 25.5) and depth[0, 20].item() == pytest.approx(120.5 / 25.5)
    assert (image - torch.from_numpy(picture(1)).movedim(-1, 0) / 255).abs().mean() < 0.02


def test_the_papers_set_up(mat: Path) -> None:
    """Focus 2, 4, 8 m, all lengths times 0.3; 8-bit values blurred as they are; the blur in pixels stays."""
    item, (image, depth) = Nyu(mat)[1], Nyu(mat).read(1)
    camera = Camera(15e-3, 2.8, 5.6e-6)
    assert torch.allclose(item.stack.focus_distances, torch.tensor([0.6, 1.2, 2.4], dtype=torch.float64))
    expected = render_layered(image, depth, camera, [2.0, 4.0, 8.0])
    assert torch.allclose(item.stack.images, expected, atol=0.5 / 255 + 1e-6)
    codes = item.stack.images * 255
    assert torch.allclose(codes, codes.round(), atol=1e-4)
    before = coc_px(depth, 4.0, camera)
    after = coc_px(item.depth, item.stack.focus_distances[1], item.stack.camera)
    assert torch.allclose(before, after, atol=1e-4)


def test_blur_of_linear_light(mat: Path) -> None:
    setup = NyuSetup(light="linear", psf=Gaussian(0.3), largest_kernel_px=21)
    image, depth = Nyu(mat).read(0)
    expected = render_layered(srgb_to_linear(image), depth, setup.camera, [2, 4, 8], psf=Gaussian(0.3))
    frames = Nyu(mat, setup=setup)[0].stack.images
    assert torch.allclose(frames, expected, atol=0.01)
    assert (frames - Nyu(mat)[0].stack.images).abs().mean() > 0.05


@pytest.mark.parametrize("light", ["display", "linear"])
def test_what_was_rendered_is_kept(
    mat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, light: Literal["display", "linear"]
) -> None:
    setup, cache = NyuSetup(light=light), tmp_path / "cache"
    plain, first = Nyu(mat, setup=setup)[1], Nyu(mat, setup=setup, cache=cache)[1]
    (kept,) = cache.iterdir()
    rendered = []
    render = nyu.render_codes
    monkeypatch.setattr(nyu, "render_codes", lambda *given: rendered.append(1) or render(*given))
    again = Nyu(mat, setup=setup, cache=cache)[1]
    assert not rendered
    for item in (first, again):
        assert torch.equal(item.stack.images, plain.stack.images) and torch.equal(item.depth, plain.depth)
    Nyu(mat, setup=replace(setup, dilation_px=1), cache=cache)[1]  # another renderer
    assert len(rendered) == 1 and len(list(cache.iterdir())) == 2
    kept.write_bytes(kept.read_bytes()[:500])
    assert torch.equal(Nyu(mat, setup=setup, cache=cache)[1].stack.images, plain.stack.images)
    assert len(rendered) == 2


def test_twelve_crops() -> None:
    assert len(CROPS) == 12 and CROPS[0] == (50, 50) and CROPS[-1] == (174, 334)
    assert all(top + 256 <= 480 and left + 256 <= 640 for top, left in CROPS)


def test_bad_input(tmp_path: Path, mat: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing does not exist or is not a folder"):
        Nyu(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"has no NNNN_rgb.jpg"):
        Nyu(tmp_path)
    with pytest.raises(ValueError, match="has no picture 0007: it holds 3"):
        Nyu(mat, ids=[7])
    cut = tmp_path / "cut.mat"
    cut.write_bytes(mat.read_bytes()[:900])
    with pytest.raises(ValueError, match="cannot be read as HDF5"):
        Nyu(cut)
    other = tmp_path / "other.mat"
    with h5py.File(other, "w") as file:
        file["labels"] = np.zeros(3)
    with pytest.raises(ValueError, match="no dataset 'images', only labels"):
        Nyu(other)
    write_folder(tmp_path / "dev", 1, picture(0), np.full((HEIGHT, WIDTH - 1), 9, np.uint8))
    with pytest.raises(ValueError, match="picture 0001 has the shape"):
        Nyu(tmp_path / "dev")[0]
    with pytest.raises(ValueError, match="light must be"):
        NyuSetup(light="gamma")  # type: ignore[arg-type]


def test_official_split(tmp_path: Path) -> None:
    savemat(tmp_path / "splits.mat", {"trainNdxs": np.array([[3], [4]]), "testNdxs": np.array([[1], [2], [9]])})
    assert official_split(tmp_path / "splits.mat", "test") == [0, 1, 8]
    assert official_split(tmp_path / "splits.mat", "train") == [2, 3]


def test_parts_do_not_meet(tmp_path: Path, mat: Path) -> None:
    """The published file has both: what is for testing is never trained on."""
    assert_one_sentence(message_of(lambda: part_of(mat, "test"), FileNotFoundError), "splits.mat", "official")
    savemat(mat.with_name("splits.mat"), {"trainNdxs": np.array([[3]]), "testNdxs": np.array([[1], [2]])})
    assert part_of(mat, "test") == (mat, [0, 1]) and part_of(mat, "train") == (mat, [2])
    both, one = tmp_path / "both", tmp_path / "one"
    for folder in (both / "train", both / "dev", one):
        folder.mkdir(parents=True)
    assert part_of(both, "train") == (both / "train", None) and part_of(both, "test") == (both / "dev", None)
    assert part_of(one, "train") == part_of(one, "test") == (one, None)
    assert part_of(both / "dev", "test") == (both / "dev", None)
    assert_one_sentence(message_of(lambda: part_of(both / "dev", "train"), ValueError), "for testing", "train/")
