"""What microscope files say of themselves: written by tifffile, read by ours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from focalsweep.errors import InputError
from focalsweep.photos.microscopy import LONGEST_XML, Hyperstack, read_hyperstack
from focalsweep.photos.stack_file import StackFile, read_stack_file
from focalsweep.photos.stage_settings import stage_settings
from tests.errors import assert_one_sentence, message_of

NAMES = ["a.tif", "b.tif", "c.tif"]


def pages(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 4000, (*shape, 12, 16), dtype=np.uint16)


def write_ome(path: Path, axes: str, *shape: int, **metadata: Any) -> Path:
    tifffile.imwrite(path, pages(*shape), ome=True, photometric="minisblack", metadata={"axes": axes, **metadata})
    return path


def test_ome_tells_step_and_pixel(tmp_path: Path) -> None:
    said = {"PhysicalSizeZ": 2.5, "PhysicalSizeX": 325, "PhysicalSizeXUnit": "nm"}
    found = read_hyperstack(write_ome(tmp_path / "a.ome.tif", "ZYX", 5, **said))
    assert found is not None and found.source == "OME-TIFF" and found.axes == "Z"
    assert found.step == pytest.approx(2.5e-6) and found.pixel_size == pytest.approx(325e-9)
    assert found.pages(None, None) == [0, 1, 2, 3, 4]


def test_imagej_tells_step_and_pixel(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, pages(6), imagej=True, resolution=(4.0, 4.0), metadata={"axes": "ZYX", "spacing": 3.0, "unit": "um"}
    )
    found = read_hyperstack(path)
    assert found is not None and found.source == "ImageJ"
    assert found.step == pytest.approx(3e-6) and found.pixel_size == pytest.approx(0.25e-6)


def test_one_channel_at_one_time(tmp_path: Path) -> None:
    found = read_hyperstack(write_ome(tmp_path / "a.ome.tif", "TZCYX", 2, 3, 2))
    assert found is not None and found.axes == "TZC" and found.lengths == (2, 3, 2)
    assert found.pages(1, 1) == [7, 9, 11]
    for given, word in (((None, 0), "{channel}"), ((0, None), "{time}")):
        with pytest.raises(InputError) as told:
            found.pages(*given)
        assert word.strip("{}") in str(told.value)
    assert_one_sentence(message_of(lambda: found.pages(2, 0), ValueError), "channel", "from 0 to 1", "2")


def test_what_is_none_of_a_microscopes(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "plain.tif", pages(3), photometric="minisblack", metadata=None)
    (tmp_path / "none.tif").write_bytes(b"II*\0" + bytes(60))
    assert read_hyperstack(tmp_path / "plain.tif") is None
    assert read_hyperstack(tmp_path / "none.tif") is None


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><OME>&b;</OME>',
        "<OME>" + " " * LONGEST_XML + "</OME>",
    ],
)
def test_descriptions_that_explode_are_not_read(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_ome(tmp_path / "a.ome.tif", "ZYX", 3, PhysicalSizeZ=1.0)
    monkeypatch.setattr(tifffile.TiffFile, "ome_metadata", text)
    found = read_hyperstack(path)
    assert found is not None and found.step is None


def stage_file(folder: Path, text: str) -> StackFile:
    (folder / "stack.toml").write_text(text)
    return read_stack_file(folder)


def test_settings_come_from_the_file_under_stack_toml_under_the_user(tmp_path: Path) -> None:
    file = Hyperstack("OME-TIFF", "Z", (3,), 1e-6, 0.5e-6, 0.3)
    toml = stage_file(tmp_path, "[stage]\nstep = 2e-6\n")
    found = stage_settings(NAMES, toml, file, {"numerical_aperture": 0.25, "direction": "down"})
    assert found is not None
    assert (found.stage.step, found.stage.pixel_size, found.stage.numerical_aperture) == (2e-6, 0.5e-6, 0.25)
    assert not found.stage.upwards
    told = {name: setting["source"] for name, setting in found.to_json().items()}
    assert told == {
        "step": "stack.toml", "pixel_size": "OME-TIFF", "numerical_aperture": "given", "direction": "given",
        "wavelength": "assumed", "rail": "assumed",
    }  # fmt: skip


def test_positions_replace_a_step(tmp_path: Path) -> None:
    frames = "".join(f'[[frame]]\nfile = "{name}"\nposition = {i * 3e-6}\n' for i, name in enumerate(NAMES))
    found = stage_settings(NAMES, stage_file(tmp_path, "[stage]\nstep = 2e-6\n" + frames), None, {})
    assert found is not None and found.stage.step is None and found.stage.places(3) == pytest.approx([0, 3e-6, 6e-6])


def test_pages_alone_make_no_stage(tmp_path: Path) -> None:
    assert stage_settings(NAMES, StackFile(), Hyperstack("ImageJ", "Z", (3,)), {}) is None


def test_an_immersion_objective_in_the_file_is_measured() -> None:
    file = Hyperstack("OME-TIFF", "Z", (3,), 1e-6, 0.1e-6, 1.4)
    found = stage_settings(NAMES, StackFile(), file, {})
    assert found is not None and found.stage.numerical_aperture is None


def test_a_frame_without_a_position(tmp_path: Path) -> None:
    frames = '[[frame]]\nfile = "a.tif"\nposition = 1e-6\n[[frame]]\nfile = "b.tif"\n'
    toml = stage_file(tmp_path, frames)
    assert_one_sentence(message_of(lambda: stage_settings(NAMES[:2], toml, None, {}), ValueError), "b.tif", "position")
    assert_one_sentence(
        message_of(lambda: stage_settings(NAMES, StackFile(), None, {"step": 1e-6, "direction": "left"}), ValueError),
        "up", "left",
    )  # fmt: skip
