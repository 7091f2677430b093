"""Folders of stacks with stack.toml, with every form of depth."""

from pathlib import Path

import cv2
import numpy as np
import OpenEXR
import pytest
import torch

from focalsweep_research.datasets.folder import StackFolder

TOML = """[camera]
focal_length = 0.05
f_number = 2.8
pixel_pitch = 5e-5
focus_reference = "lens"
aligned = true
[[frame]]
file = "a.png"
focus_distance = 0.8
[[frame]]
file = "b.png"
focus_distance = 1.6
"""
DEPTH = np.linspace(0.7, 2.0, 12 * 16).reshape(12, 16).round(3)


def write_stack(folder: Path) -> Path:
    folder.mkdir()
    (folder / "stack.toml").write_text(TOML)
    for name, level in (("a", 90), ("b", 160)):
        cv2.imwrite(str(folder / f"{name}.png"), np.full((12, 16, 3), level, np.uint8))
    return folder


def test_every_form_of_depth(tmp_path: Path) -> None:
    hole = DEPTH.copy()
    hole[0, 0] = 0
    cv2.imwrite(str(write_stack(tmp_path / "a_mm") / "depth_mm.png"), (hole * 1e3).round().astype(np.uint16))
    np.save(write_stack(tmp_path / "b_npy") / "depth.npy", np.where(hole == 0, np.inf, hole))
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    OpenEXR.File(header, {"Z": hole.astype(np.float32)}).write(str(write_stack(tmp_path / "c_exr") / "depth.exr"))
    tenths = (hole * 1e4).round().astype(np.uint16)
    cv2.imwrite(str(write_stack(tmp_path / "d_tenth") / "depth_tenth_mm.png"), tenths)
    write_stack(tmp_path / "e_unknown")
    (tmp_path / "notes").mkdir()
    data = StackFolder(tmp_path)
    assert [item.name for item in data] == ["a_mm", "b_npy", "c_exr", "d_tenth", "e_unknown"]
    for item in data[:4]:
        assert torch.isnan(item.depth[0, 0]), item.name
        assert np.allclose(item.depth.numpy().flat[1:], DEPTH.flat[1:], atol=1e-6), item.name
    assert bool(torch.isnan(data[4].depth).all())
    assert data[0].stack.focus_distances.tolist() == [0.8, 1.6]


def test_one_stack_is_a_folder_of_one(tmp_path: Path) -> None:
    assert [item.name for item in StackFolder(write_stack(tmp_path / "alone"))] == ["alone"]


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no folders with a stack.toml"):
        StackFolder(tmp_path)
    folder = write_stack(tmp_path / "one")
    cv2.imwrite(str(folder / "depth_mm.png"), np.full((12, 15), 900, np.uint16))
    with pytest.raises(ValueError, match=r"one: depth has .12, 15. px, the frames .12, 16."):
        StackFolder(tmp_path)[0]
    (folder / "depth_mm.png").unlink()
    (folder / "depth.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(ValueError, match=r"depth.npy cannot be read"):
        StackFolder(tmp_path)[0]
    np.save(folder / "depth.npy", np.zeros((2, 12, 16)))
    with pytest.raises(ValueError, match="must hold numbers with the axes H W"):
        StackFolder(tmp_path)[0]
