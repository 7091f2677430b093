"""Agreement with sharpness: small for the true depth, large for a wrong one."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import linear_to_srgb
from focalsweep.types import FocalStack
from focalsweep_research.protocols.real import evaluate_real, sharpness_agreement
from focalsweep_research.tables.tables import table_of
from tests.demo import FOLDER, demo_stack
from tests.errors import assert_one_sentence, message_of


@pytest.fixture(scope="module")
def stack() -> FocalStack:
    return demo_stack().stack


def test_true_depth_lies_where_frames_are_sharpest(stack: FocalStack) -> None:
    found = sharpness_agreement(stack, demo_stack().depth.float())
    assert found["pixels"] > 1000
    assert found["median_spacings"] < 0.25
    assert found["within_half_a_spacing"] > 0.7


def test_depth_one_frame_off_is_told(stack: FocalStack) -> None:
    truth = demo_stack().depth.float()
    spacing = float((1 / stack.focus_distances).diff().abs().mean())
    found = sharpness_agreement(stack, 1 / (1 / truth + spacing))
    assert found["median_spacings"] == pytest.approx(1, abs=0.35)
    assert found["median_dioptres"] == pytest.approx(spacing, rel=0.3)


def test_without_texture_nothing_is_said(stack: FocalStack) -> None:
    flat = stack.with_images(torch.full_like(stack.images, 0.5))
    assert sharpness_agreement(flat, torch.ones(stack.size)) == {"pixels": 0.0}


def test_rivals_beside_ours(tmp_path: Path) -> None:
    """The demo's photos as a stack: both methods find where it is sharp, and a sheet is drawn."""
    folder = tmp_path / "stacks"
    shutil.copytree(FOLDER, folder / "demo")
    record = evaluate_real(["sweep", "focus_measure"], folder, tmp_path / "sheets", torch.device("cpu"), print, 0.1)
    rows = {row["method"]: row for row in record["rows"]}
    assert set(rows) == {"sweep", "focus_measure"}
    for row in rows.values():
        assert row["stack"] == "demo" and not row["relative"] and max(row["width"], row["height"]) == 256
        assert row["median_spacings"] < 0.4 and row["median_dioptres"] > 0 and row["seconds"] > 0
    picture = np.asarray(Image.open(tmp_path / "sheets" / "demo.png").convert("RGB"))
    assert picture.std() > 20
    assert "| sweep | " in table_of(record).markdown()


def test_a_folder_without_stacks(tmp_path: Path) -> None:
    message = message_of(
        lambda: evaluate_real(["sweep"], tmp_path, None, torch.device("cpu"), print), FileNotFoundError
    )
    assert_one_sentence(message, str(tmp_path), "folder of photos")


def test_mobile_depth_as_published(tmp_path: Path, stack: FocalStack) -> None:
    """The demo's frames in its folders: aligned by its authors, and calibrated in their unit of 5 cm."""
    frames, calibration = tmp_path / "Aligned/Figure5/pear", tmp_path / "calibration/pear"
    frames.mkdir(parents=True)
    calibration.mkdir(parents=True)
    camera = stack.camera
    focal_length = float(camera.focal_length) / 0.05
    aperture = float(camera.focal_length / camera.f_number / camera.pixel_pitch)
    lines = []
    for i, (image, distance) in enumerate(zip(stack.images, stack.focus_distances, strict=True)):
        codes = (linear_to_srgb(image).movedim(0, -1) * 255).round().to(torch.uint8).numpy()
        Image.fromarray(codes).save(frames / f"a{i:02d}.jpg", quality=98)
        lines.append(f"{float(distance) / 0.05:.6f} {aperture:.6f}")
    (calibration / "calibrated.txt").write_text("\n".join([*lines, f"{focal_length}", ""]))
    record = evaluate_real(["sweep"], tmp_path, tmp_path / "sheets", torch.device("cpu"), print, 0.1)
    (row,) = record["rows"]
    assert row["stack"] == "pear" and row["frames"] == stack.frame_count and not row["relative"]
    assert row["median_spacings"] < 0.4
    assert (tmp_path / "sheets/pear.png").is_file()
