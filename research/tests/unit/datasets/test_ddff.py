"""DDFF-12's HDF5 files, written by h5py."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from focalsweep import coc_px
from focalsweep_research.datasets.ddff import Ddff

HEIGHT, WIDTH = 9, 12


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "ddff-dataset-trainval.h5"
    with h5py.File(path, "w") as out:
        for part, count in (("train", 3), ("val", 1)):
            shape = (count, 10, HEIGHT, WIDTH, 3)
            out.create_dataset(f"stack_{part}", data=rng.integers(0, 256, shape, dtype=np.uint8), chunks=True)
            disparity = rng.uniform(0.02, 0.28, (count, HEIGHT, WIDTH)).astype(np.float32)
            disparity[:, 0, 0] = 0
            out.create_dataset(f"disp_{part}", data=disparity)
    return path


def test_stacks_with_their_depth(file: Path) -> None:
    data = Ddff(file)
    assert len(data) == 3 and len(Ddff(file, "val")) == 1
    item = data[-1]
    with h5py.File(file) as stored:
        codes, disparity = stored["stack_train"][2], stored["disp_train"][2]
    assert torch.allclose(item.stack.images[7, 1] * 255, torch.from_numpy(codes[7, :, :, 1]).float(), atol=1e-4)
    assert torch.isnan(item.depth[0, 0])
    assert item.depth[4, 5].item() == pytest.approx(0.14 / disparity[4, 5], rel=1e-5)
    assert item.stack.focus_distances[0].item() == pytest.approx(0.5)
    assert item.stack.focus_distances[-1].item() == pytest.approx(7.0)


def test_blur_is_nine_times_the_difference_of_disparities(file: Path) -> None:
    stack = Ddff(file)[0].stack
    for frame, focused in ((0, 0.28), (9, 0.02)):
        for disparity in (0.05, 0.2):
            blur_px = coc_px(
                0.14 / disparity, stack.focus_distances[frame], stack.camera, stack.magnification[frame]
            ).item()
            assert blur_px == pytest.approx(9 * abs(disparity - focused), rel=1e-6)


def test_test_part_has_no_depth(tmp_path: Path) -> None:
    path = tmp_path / "ddff-dataset-test.h5"
    with h5py.File(path, "w") as out:
        out["stack_test"] = np.zeros((2, 10, HEIGHT, WIDTH, 3), np.uint8)
    assert bool(torch.isnan(Ddff(path, "test")[1].depth).all())


def test_bad_input(file: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone.h5 does not exist"):
        Ddff(tmp_path / "gone.h5")
    with pytest.raises(ValueError, match="no dataset 'stack_test', only disp_train, disp_val, stack_train, stack_val"):
        Ddff(file, "test")
    (tmp_path / "text.h5").write_text("not a file of that kind")
    with pytest.raises(ValueError, match="cannot be read as HDF5"):
        Ddff(tmp_path / "text.h5")
    with h5py.File(tmp_path / "flat.h5", "w") as out:
        out["stack_train"] = np.zeros((2, 10, HEIGHT, WIDTH), np.uint8)
    with pytest.raises(ValueError, match="stack_train must have the axes N F H W C"):
        Ddff(tmp_path / "flat.h5")
    with h5py.File(tmp_path / "short.h5", "w") as out:
        out["stack_train"] = np.zeros((2, 10, HEIGHT, WIDTH, 3), np.uint8)
        out["disp_train"] = np.zeros((1, HEIGHT, WIDTH), np.float32)
    with pytest.raises(ValueError, match="differ in length"):
        Ddff(tmp_path / "short.h5")
    with pytest.raises(IndexError):
        Ddff(file)[3]
