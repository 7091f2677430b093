"""Small folders of photos with a stack.toml."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep.photos.pictures import read_picture

CAMERA = "[camera]\nfocal_length = 0.05\nf_number = 2.8\npixel_pitch = 6e-5\naligned = true\n"


def picture(seed: int = 0, height: int = 12, width: int = 16) -> np.ndarray:
    """H W 3, 8 bit, R G B."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def frames(*entries: tuple[str, str]) -> str:
    return "".join(f'[[frame]]\nfile = "{file}"\n{rest}\n' for file, rest in entries)


def distances(*values: float) -> str:
    return frames(*((f"{i}.png", f"focus_distance = {value}") for i, value in enumerate(values)))


def light_of(path: Path) -> torch.Tensor:  # C H W
    return torch.from_numpy(read_picture(path).pixels.transpose(2, 0, 1).copy())


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
