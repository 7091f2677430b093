"""Every file of a result, reopened by a reader that is not ours; and nothing left behind by a write that fails."""

import io
import json
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import Camera, DepthGrid, DepthResult, FocalStack, RelativeLens, linear_to_srgb
from focalsweep.results import figures, writing
from focalsweep.results.figures import depth_picture
from focalsweep.results.writing import write_files
from tests.errors import assert_one_sentence, message_of

FILES = {"depth.npz", "depth_mm.png", "depth.png", "all_in_focus.png", "run.json"}


def result(**changes: Any) -> DepthResult:
    """5 x 7 px from 0.25 to 70 m, one pixel at infinity."""
    depth = np.geomspace(0.25, 70.0, 35, dtype=np.float32).reshape(5, 7)
    depth[0, 0] = np.inf
    fields: dict[str, Any] = {
        "depth": depth,
        "std": 0.01 * depth,
        "confidence": np.linspace(0, 1, 35, dtype=np.float32).reshape(5, 7),
        "all_in_focus": np.random.default_rng(0).random((5, 7, 3), dtype=np.float32) * 1.2 - 0.1,
        "camera": Camera(0.05, 2.8, 6e-5),
        "planes": DepthGrid.uniform_in_inverse_depth(0.25, 100.0, 8),
        "record": {"method": "argmin", "focus_distances": [0.8, 1.0]},
    }
    return DepthResult(**{**fields, **changes})


def test_names_of_the_files(tmp_path: Path) -> None:
    paths = result().save(tmp_path / "new" / "folder")
    assert {path.name for path in paths} == FILES
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == FILES


def test_npz(tmp_path: Path) -> None:
    result().save(str(tmp_path))
    with np.load(tmp_path / "depth.npz") as archive:
        for name in ("depth", "std", "confidence"):
            np.testing.assert_array_equal(archive[name], getattr(result(), name))
            assert archive[name].dtype == np.float32
        assert archive["focal_length"] == 0.05
        assert archive["f_number"] == 2.8
        assert archive["pixel_pitch"] == 6e-5


def test_depth_in_millimetres(tmp_path: Path) -> None:
    result().save(tmp_path)
    stored = cv2.imread(str(tmp_path / "depth_mm.png"), cv2.IMREAD_UNCHANGED)
    assert stored is not None
    assert stored.dtype == np.uint16
    depth = result().depth
    fits = depth < 65.535
    assert not fits.all()
    np.testing.assert_allclose(stored[fits] * 0.001, depth[fits], rtol=0, atol=0.000501)
    assert (stored[~fits] == 0).all()
    with Image.open(tmp_path / "depth_mm.png") as picture:
        assert picture.mode == "I;16"
        assert "0.001 metres per step" in picture.text["depth_scale"]
        np.testing.assert_array_equal(np.asarray(picture), stored)


def test_depth_picture_is_a_readable_png(tmp_path: Path) -> None:
    result().save(tmp_path)
    with Image.open(tmp_path / "depth.png") as picture:
        picture.load()
        assert picture.width >= 500
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 50


def test_all_in_focus_is_encoded(tmp_path: Path) -> None:
    result().save(tmp_path)
    stored = cv2.imread(str(tmp_path / "all_in_focus.png"), cv2.IMREAD_UNCHANGED)
    assert stored is not None
    assert stored.dtype == np.uint8
    expected = linear_to_srgb(torch.from_numpy(result().all_in_focus)).clamp(0, 1).numpy() * 255
    np.testing.assert_allclose(stored[..., ::-1], expected, rtol=0, atol=0.501)


def test_gray_picture(tmp_path: Path) -> None:
    result(all_in_focus=np.full((5, 7, 1), 0.2140, np.float32)).save(tmp_path)
    with Image.open(tmp_path / "all_in_focus.png") as picture:
        assert picture.mode == "L"
        assert picture.getpixel((3, 3)) in (127, 128)


def test_run_json(tmp_path: Path) -> None:
    result().save(tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["method"] == "argmin"
    assert record["camera"] == {"focal_length": 0.05, "f_number": 2.8, "pixel_pitch": 6e-5}
    assert record["depth_mm_png"] == {"metres_per_step": 0.001, "no_depth": 0}


def refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def test_run_json_is_valid_with_infinity(tmp_path: Path) -> None:
    result(record={"planes": {"far": math.inf}, "focus_distances": [0.8, math.inf]}).save(tmp_path)
    json.loads((tmp_path / "run.json").read_text(), parse_constant=refuse_constant)


@pytest.mark.parametrize("aperture", [torch.tensor([2.8, 4.0]), torch.tensor(2.8, requires_grad=True)])
def test_camera_with_tensors_is_saved(tmp_path: Path, aperture: torch.Tensor) -> None:
    result(camera=Camera(0.05, aperture, 6e-5)).save(tmp_path)


def test_batch_is_refused(tmp_path: Path) -> None:
    batch = result(depth=np.ones((2, 5, 7), np.float32))
    assert_one_sentence(message_of(lambda: batch.save(tmp_path / "out"), ValueError), "batch", "one by one")
    assert not (tmp_path / "out").exists()


def test_depth_of_one_value_and_of_infinity_alone() -> None:
    for value in (1.3, math.inf):
        assert depth_picture(np.full((4, 6), value, np.float32), title="plane").startswith(b"\x89PNG")


def test_labels_in_metres() -> None:
    labels = [figures.metres(value) for value in (math.inf, 3.04e-5, 0.00512, 1.234, 12.0)]
    assert labels == ["infinity", "30.4 µm", "5.12 mm", "1.23 m", "12 m"]


def test_unsure_depth_is_faint_and_hatched() -> None:
    pixels = np.full((40, 60, 3), (200, 40, 40), np.uint8)
    unsure = np.zeros((40, 60), bool)
    unsure[:, 30:] = True
    shown = figures.hatched(pixels, unsure)
    assert (shown[:, :30] == pixels[:, :30]).all()
    faint, dark = (shown[:, 30:].sum(-1) > 400), (shown[:, 30:].sum(-1) < 200)
    assert (faint | dark).all() and 0.5 < faint.mean() < 0.95
    depth = np.full((40, 60), 0.7, np.float32)
    depth[:20] = 0.5
    sure = np.ones_like(depth)
    plain, half = (depth_picture(depth, confidence=sure - unsure * by) for by in (0, 0.8))
    heights = [Image.open(io.BytesIO(data)).height for data in (plain, half)]
    assert heights[0] < heights[1]  # the legend


@pytest.mark.parametrize(
    ("near", "far", "step"),
    [(0.3, 1.0, 1e-3), (0.300, 0.350, 1e-4), (0.0520, 0.0522, 1e-6), (0.5, 0.5, 1e-3), (0.4, 0.40001, 1e-5)],
)
def test_the_step_of_the_depth_png_fits_the_range(tmp_path: Path, near: float, far: float, step: float) -> None:
    """At least 100 steps where 16 bit allow it, and never coarser than a millimetre."""
    depth = np.linspace(near, far, 35, dtype=np.float32).reshape(5, 7)
    result(depth=depth).save(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["depth_mm_png"]["metres_per_step"] == step
    with Image.open(tmp_path / "depth_mm.png") as picture:
        assert float(picture.text["depth_scale"].split()[0]) == step
        stored = np.asarray(picture)
    np.testing.assert_allclose(stored * step, depth, rtol=0, atol=0.51 * step)


# Nothing half-written


def test_a_failing_write_leaves_nothing(tmp_path: Path) -> None:
    def write_half(file: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_files({tmp_path / "good.bin": lambda file: file.write(b"x"), tmp_path / "a.bin": write_half})
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result().save(tmp_path)
    before = (tmp_path / "depth_mm.png").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(writing, "_write_depth_png", fail)
    with pytest.raises(OSError, match="disk full"):
        result(depth=np.ones((5, 7), np.float32)).save(tmp_path)
    assert (tmp_path / "depth_mm.png").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == FILES


def test_a_failing_move_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(PermissionError):
        write_files({tmp_path / "a.bin": lambda file: file.write(b"x")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["_write_depth_png", "depth_picture", "_write_picture"])
def test_a_failing_writer_leaves_no_part_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(writing, broken, fail)
    with pytest.raises(OSError, match="disk full"):
        result().save(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left < FILES
    assert {"_write_depth_png": "depth_mm.png", "depth_picture": "depth.png", "_write_picture": "all_in_focus.png"}[
        broken
    ] not in left
    assert "run.json" not in left  # written last: a folder without it is known to be unfinished


def test_files_are_readable_by_others(tmp_path: Path) -> None:
    result().save(tmp_path)
    assert all((path.stat().st_mode & 0o777) == 0o644 for path in tmp_path.iterdir())


def test_relative_depth_never_looks_like_metres(tmp_path: Path) -> None:
    relative = result(record={"method": "sweep"}, camera=RelativeLens(40.0))
    with pytest.warns(UserWarning, match="depth.exr is left out: it needs depth in metres"):
        written = {path.name for path in relative.save(tmp_path, exports=["exr"])}
    assert written == {"depth.npz", "depth.png", "all_in_focus.png", "run.json"}
    with np.load(tmp_path / "depth.npz") as saved:
        assert set(saved.files) == {"depth", "std", "confidence", "principal_point", "crop_offset"}
    assert "camera" not in json.loads((tmp_path / "run.json").read_text())


def test_intrinsics_and_the_place_in_the_photo_are_written(tmp_path: Path) -> None:
    """A crop moves the principal point with the picture, and says where the picture lies in the photo."""
    area = {"rows": [2, 7], "columns": [3, 10]}
    made = result(record={"area": area}, principal_point=(4.5, 1.5), projection_distance=0.06)
    made.save(tmp_path)
    with np.load(tmp_path / "depth.npz") as saved:
        assert saved["principal_point"].tolist() == [4.5, 1.5] and saved["crop_offset"].tolist() == [3, 2]
        assert saved["projection_px"] == pytest.approx(0.06 / made.camera.pixel_pitch)  # type: ignore[union-attr]
    geometry = json.loads((tmp_path / "run.json").read_text())["geometry"]
    assert geometry["principal_point"] == [4.5, 1.5] and geometry["crop_offset"] == [3, 2]
    stack = FocalStack(np.zeros((2, 1, 20, 30), np.float32), [0.5, 1.0], Camera(0.05, 2.8, 1e-4))
    part = stack.cropped(4, 6, 8, 10)
    assert part.principal_point == (15 - 6, 10 - 4) and part.resized(0.5).principal_point == (4.5, 3.0)
