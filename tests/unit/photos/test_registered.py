"""Registered frames as files: 16 bit, and the same stack when they are read again."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from focalsweep import RelativeLens, load_stack
from focalsweep.photos.frames import read_stack
from focalsweep.photos.photo_stack import Photos
from focalsweep.photos.reading import open_photos
from focalsweep.photos.registered import registered_files
from focalsweep.photos.stack_file import read_stack_file
from focalsweep.results.writing import write_files
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos.folders import distances, frames, rewrite
from tests.unit.photos.handheld import Shake, photograph

CAMERA = "[camera]\nfocal_length = 0.05\nf_number = 2.8\npixel_pitch = 6e-5\n"
# Half a 16-bit step where sRGB is steepest, 2.4 / 1.055 at white.
HALF_STEP = 1.2 / 1.055 / 65535


def write_registered(photos: Photos, folder: Path, stage: Callable[[str, float], None]) -> list[Path]:
    return write_files({folder / name: write for name, write in registered_files(photos, folder, stage).items()})


def silent(stage: str, share: float) -> None:
    pass


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four frames of a hand-held stack with breathing and exposure drift."""
    folder = tmp_path_factory.mktemp("shots")
    pictures, _, _ = photograph(Shake(frames=4, size=(150, 200), shift_px=5.0), seed=3)
    for i, picture in enumerate(pictures):
        codes = np.where(picture <= 0.0031308, 12.92 * picture, 1.055 * picture ** (1 / 2.4) - 0.055)
        Image.fromarray(np.rint(255 * codes).astype(np.uint8)).save(folder / f"{i}.png")
    return folder


def opened(shots: Path, settings: str) -> Photos:
    return open_photos(rewrite(shots, settings))


def test_files_are_sixteen_bit_and_in_order(shots: Path, tmp_path: Path) -> None:
    stages: list[tuple[str, float]] = []
    photos = opened(shots, CAMERA + distances(2.0, 1.4, 1.0, 0.8))
    written = write_registered(photos, tmp_path / "new" / "out", lambda *stage: stages.append(stage))
    names = ["00_3.tif", "01_2.tif", "02_1.tif", "03_0.tif", "stack.toml"]
    assert [path.name for path in written] == names
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == names
    sizes = set()
    for path in written[:-1]:
        codes = tifffile.imread(path)
        assert codes.dtype == np.uint16
        assert len(np.unique(codes & 255)) > 100  # not 8 bit shifted up
        sizes.add(codes.shape)
    assert len(sizes) == 1 and sizes.pop()[2] == 3
    assert [stage for stage, _ in stages] == [*["aligning"] * 5, *["writing"] * 4]


@pytest.mark.parametrize("reference", ["lens", "sensor"])
def test_read_again_they_are_the_same_stack(shots: Path, tmp_path: Path, reference: str) -> None:
    entries = [(f"{i}.png", f"focus_distance = {metres}") for i, metres in enumerate((0.8, 1.0, 1.4))]
    entries.append(("3.png", "focus_range = [1.9, 2.1]\nmagnification = 1.1"))
    photos = opened(shots, CAMERA + f'focus_reference = "{reference}"\n' + frames(*entries))
    expected = read_stack(photos.register())
    write_registered(photos, tmp_path, silent)
    stack = load_stack(tmp_path)
    assert stack.size == expected.size != (150, 200)
    assert (stack.images - expected.images).abs().max() <= 1.02 * HALF_STEP + 1e-6
    torch.testing.assert_close(stack.focus_distances, expected.focus_distances, rtol=1e-6, atol=0)
    found, true = (torch.as_tensor(s.magnification) for s in (stack, expected))
    torch.testing.assert_close(found, true, rtol=1e-6, atol=0)
    assert true[3] / true[0] > 1.05  # the stack.toml's magnification, and the breathing
    assert len(set(true.tolist())) == 4
    assert vars(stack.camera) == vars(expected.camera)
    assert open_photos(tmp_path).settings.focus_distances[3].only_range  # type: ignore[union-attr]


def test_the_folder_of_the_photos_is_left_alone(shots: Path) -> None:
    photos = opened(shots, CAMERA + distances(0.8, 1.0, 1.4, 2.0))
    before = (shots / "stack.toml").read_text()
    message = message_of(lambda: write_registered(photos, shots, silent), ValueError)
    assert_one_sentence(message, str(shots), "the photos themselves")
    assert (shots / "stack.toml").read_text() == before


def test_gray_frames(shots: Path, tmp_path: Path) -> None:
    (tmp_path / "gray").mkdir()
    for i in range(3):
        Image.open(shots / f"{i}.png").convert("L").save(tmp_path / "gray" / f"{i}.png")
    photos = opened(tmp_path / "gray", CAMERA + distances(0.8, 1.0, 1.4))
    written = write_registered(photos, tmp_path / "out", silent)
    assert tifffile.imread(written[0]).ndim == 2
    assert load_stack(tmp_path / "out").images.shape[1] == 1


@pytest.mark.parametrize("order", ["near-to-far", "far-to-near"])
def test_relative_stacks_keep_their_order(shots: Path, tmp_path: Path, order: str) -> None:
    photos = opened(shots, f'[camera]\norder = "{order}"\n')
    write_registered(photos, tmp_path, silent)
    assert read_stack_file(tmp_path).camera["order"] == "near-to-far"
    again = open_photos(tmp_path)
    assert isinstance(again.camera, RelativeLens)
    nearest = "0" if order == "near-to-far" else "3"
    assert again.names[0] == f"00_{nearest}.tif"
    assert again.focus_distances == photos.focus_distances
