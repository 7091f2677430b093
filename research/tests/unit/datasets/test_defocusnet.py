"""DefocusNet's format, written by tifffile and OpenEXR as Blender does: half floats, three equal channels."""

from pathlib import Path

import numpy as np
import OpenEXR
import pytest
import tifffile
import torch

from focalsweep import Camera, coc_px, linear_to_srgb
from focalsweep_research.datasets.defocusnet import DefocusNet, benchmark_part
from tests.errors import assert_one_sentence, message_of

SIZE = 16


def codes(stack: int, frame: int) -> np.ndarray:
    return np.random.default_rng([stack, frame]).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)


def true_depth(stack: int) -> np.ndarray:
    return np.random.default_rng(stack).uniform(0.1, 4.0, (SIZE, SIZE)).astype(np.float16)


def write_exr(path: Path, depth: np.ndarray) -> None:
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    OpenEXR.File(header, {name: depth.copy() for name in "RGB"}).write(str(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for stack in range(5):
        for frame in range(5):
            tifffile.imwrite(tmp_path / f"{stack:06d}_{frame:02d}All.tif", codes(stack, frame), photometric="rgb")
        write_exr(tmp_path / f"{stack:06d}Dpt.exr", true_depth(stack))
    (tmp_path / "contact_sheet.png").write_bytes(b"beside them")
    return tmp_path


def test_stacks_with_their_depth(folder: Path) -> None:
    data = DefocusNet(folder)
    assert len(data) == 5
    item = data[3]
    assert item.name == "000003" and item.stack.focus_distances.tolist() == [0.1, 0.15, 0.3, 0.7, 1.5]
    stored = torch.stack([torch.from_numpy(codes(3, frame)) for frame in range(5)]).movedim(-1, 1) / 255
    assert torch.allclose(linear_to_srgb(item.stack.images), stored, atol=1e-5)
    expected = np.minimum(true_depth(3).astype(np.float32), 3.0)
    assert np.array_equal(item.depth.numpy(), expected)


def test_parts(folder: Path) -> None:
    train, test = DefocusNet(folder, "train"), DefocusNet(folder, "test")
    assert [item.name for item in train] == ["000000", "000001", "000002", "000003"]
    assert [item.name for item in test] == ["000004"]
    assert train[-1].name == "000003" and [item.name for item in train[1:3]] == ["000001", "000002"]


def test_a_rendered_benchmark_has_the_camera_that_it_tells(folder: Path) -> None:
    assert [item.name for item in benchmark_part(folder, "test")] == ["000004"]  # the original: one folder, no file
    assert benchmark_part(folder, "train").camera.focal_length == 2.9e-3
    part = folder / "test"
    part.mkdir()
    for path in folder.glob("000001*"):
        path.rename(part / path.name)
    frames = "".join(f"[[frame]]\nfocus_distance = {d}\n" for d in (0.2, 0.3, 0.5, 1.0, 2.0))
    camera = "[camera]\nfocal_length = 0.006\nf_number = 2.0\npixel_pitch = 1e-5\n"
    (folder / "stacks.toml").write_text(camera + frames + "[depth]\nfar = 2.5\n")
    (item,) = benchmark_part(folder, "test")
    assert item.name == "000001" and item.stack.focus_distances.tolist() == [0.2, 0.3, 0.5, 1.0, 2.0]
    assert (item.stack.camera.focal_length, item.stack.camera.f_number, item.stack.camera.pixel_pitch) == (
        6e-3,
        2,
        1e-5,
    )
    assert float(item.stack.as_batch().magnification[0, 0]) == pytest.approx(1 - 6e-3 / 0.2)
    assert item.depth.max() == 2.5
    (folder / "stacks.toml").write_text(camera)
    assert_one_sentence(message_of(lambda: benchmark_part(folder, "test"), ValueError), "stacks.toml", "render")


def test_values_and_blur_as_asked_for(folder: Path) -> None:
    item = DefocusNet(folder, encoding="linear", constant_field_of_view=False)[0]
    assert torch.allclose(item.stack.images[0] * 255, torch.from_numpy(codes(0, 0)).movedim(-1, 0).float(), atol=1e-4)
    assert torch.as_tensor(item.stack.magnification).tolist() == [1] * 5
    stack = DefocusNet(folder)[0].stack
    # A lens with a constant field of view: aperture x focal length in px x difference of inverse distances.
    expected = 2.9e-3 * (2.9e-3 / (3.1e-3 / 256)) * abs(1 / 0.1 - 1 / 0.5)
    blur_px = coc_px(0.5, stack.focus_distances[0], stack.camera, stack.magnification[0])
    assert blur_px.item() == pytest.approx(expected)


def test_another_camera(folder: Path) -> None:
    with pytest.raises(ValueError, match="stack 000000 has 5 frames, but there are 3 focus distances"):
        DefocusNet(folder, camera=Camera(5e-3, 2, 1e-5), focus_distances=(0.2, 0.4, 0.8))


def test_bad_input(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FileNotFoundError, match="has no stacks of DefocusNet's"):
        DefocusNet(empty)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        DefocusNet(empty / "gone")
    with pytest.raises(ValueError, match="part must be one of all, train, test"):
        DefocusNet(folder, "valid")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="encoding must be"):
        DefocusNet(folder, encoding="gamma")[0]  # type: ignore[arg-type]
    (folder / "000001Dpt.exr").unlink()
    with pytest.raises(FileNotFoundError, match=r"000001Dpt.exr does not exist"):
        DefocusNet(folder)[1]
    whole = (folder / "000002Dpt.exr").read_bytes()
    (folder / "000002Dpt.exr").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"000002Dpt.exr cannot be read as OpenEXR"):
        DefocusNet(folder)[2]
    (folder / "000003_02All.tif").write_bytes(b"II*\0")
    with pytest.raises(ValueError, match=r"000003_02All.tif"):
        DefocusNet(folder)[3]
    write_exr(folder / "000004Dpt.exr", true_depth(4)[:8])
    with pytest.raises(ValueError, match="depth of 000004 must have the axes H=16 W=16"):
        DefocusNet(folder)[4]
