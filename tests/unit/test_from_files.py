"""Results read back from their folder, and what `focalsweep refocus` makes of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import focalsweep as fs
from focalsweep import RelativeLens
from focalsweep.cli.main import app
from focalsweep.errors import InputError
from focalsweep.lenses import StageLens
from tests.errors import assert_one_sentence, message_of
from tests.unit.results.scenes import scene, stepped

RESULT = scene(stepped(40, 60, 23), record={"planes": {"near": 0.5, "far": 4.0}}, projection_distance=0.06)
RELATIVE = scene(stepped(40, 60, 23), record=RESULT.record, camera=RelativeLens(40.0))
HEIGHTS = (2e-5 * np.sin(np.arange(60) / 9) * np.ones((40, 1))).astype(np.float32)
STAGE = scene(
    np.ones((40, 60)), depth=HEIGHTS, camera=StageLens(96.0, 3e-4, 1e-5), record={"planes": {"near": 5e-5, "far": 0.0}}
)


@pytest.mark.parametrize("result", [RESULT, RELATIVE, STAGE])
def test_what_was_saved_comes_back(result: fs.DepthResult, tmp_path: Path) -> None:
    result.save(tmp_path)
    again = fs.load_result(tmp_path)
    for name in ("depth", "std", "confidence"):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name))
    np.testing.assert_allclose(again.all_in_focus, result.all_in_focus, atol=0.005)
    assert (again.unit, again.quantity) == (result.unit, result.quantity)
    assert vars(again.camera) == pytest.approx(vars(result.camera))
    assert again.projection_distance == pytest.approx(result.projection_distance)
    shares = [r.refocus(share=0.2) for r in (result, again)]
    np.testing.assert_allclose(*shares, atol=0.006)


def test_a_folder_without_results_is_said(tmp_path: Path) -> None:
    assert_one_sentence(message_of(lambda: fs.load_result(tmp_path), InputError), "run.json", "focalsweep depth")
    RELATIVE.save(tmp_path)
    (tmp_path / "depth.npz").write_bytes(b"PK")
    assert_one_sentence(message_of(lambda: fs.load_result(tmp_path), InputError), "damaged", "make them anew")


def test_the_command(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).random((40, 60, 3)).astype(np.float32)
    replace(RESULT, all_in_focus=noise).save(tmp_path / "out")
    asked = ["--at", "1.3", "--f-number", "1.4", "--widen", "30", "--rack", "gif"]
    asked += ["--stereo", "pair,anaglyph,rock", "--movie", "mp4", "-q"]
    done = CliRunner().invoke(app, ["refocus", str(tmp_path / "out"), *asked], catch_exceptions=False)
    assert done.exit_code == 0
    folder = tmp_path / "out" / "refocused"
    names = {path.name for path in folder.iterdir()}
    assert names == {"refocused.png", "rack.gif", "left.jpg", "right.jpg", "anaglyph.jpg", "rock.mp4"}
    assert set(done.stdout.split()) == {str(folder / name) for name in names}
    with Image.open(folder / "refocused.png") as picture:
        assert picture.size == (60, 40)
    with Image.open(folder / "rack.gif") as picture:
        assert picture.n_frames > 20


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], ("nothing",)),
        (["--at", "near"], ("30%", "near")),
        (["--stereo", "vr"], ("anaglyph", "vr")),
        (["--rack", "avi"], ("mp4 or gif", "avi")),
        (["--at", "-1"], ("above 0",)),
        (["--at", "1", "--widen", "0"], ("0",)),
    ],
)
def test_what_makes_no_sense_is_said(asked: list[str], words: tuple[str, ...], tmp_path: Path) -> None:
    RESULT.save(tmp_path / "out")
    done = CliRunner().invoke(app, ["refocus", str(tmp_path / "out"), *asked])
    assert done.exit_code != 0
    assert_one_sentence(str(done.exception), *words)
    assert not (tmp_path / "out" / "refocused").exists()


def test_an_aperture_needs_a_camera() -> None:
    message = message_of(lambda: RELATIVE.refocus(share=0.5, f_number=2.0), InputError)
    assert_one_sentence(message, "f_number", "widen")
    message = message_of(lambda: RESULT.refocus(), InputError)
    assert_one_sentence(message, "focus", "one of them")
