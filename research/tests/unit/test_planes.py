"""`evaluate planes`: marks, where they lie in registered photos, and the protocol on the demo's photos."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep.methods import registry
from focalsweep.methods.method import Method, Options
from focalsweep.model import weights
from focalsweep.photos.alignment import Alignment
from focalsweep.photos.photo_stack import RegisteredPhotos
from focalsweep.sweep.volume import sweep_coc_px
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.datasets.marked import Region, filled, read_marks, registered_mask
from focalsweep_research.datasets.prepared import prepare
from focalsweep_research.protocols.methods import compared
from focalsweep_research.protocols.planes import EVERY, evaluate_planes
from focalsweep_research.tables.tables import table_of
from tests.demo import FOLDER
from tests.e2e.running import Run, assert_refused
from tests.errors import assert_one_sentence, message_of

CPU = torch.device("cpu")
LEFT = Region("demo", "left", "frame_3.png", (((10, 10), (150, 10), (150, 200), (10, 200)),))


def test_the_marks_of_the_real_stacks() -> None:
    marks, orders = read_marks()
    assert orders == {"webcam_sweep": "far-to-near"}
    assert {"pixel6pro_room", "canon60d_toys"} <= set(marks)
    assert {region.name for region in marks["pixel6pro_room"]} >= {"wall", "carpet", "box"}
    assert all(len(polygon) >= 3 for regions in marks.values() for region in regions for polygon in region.polygons)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[region]]\nstack = "a"\nname = "b"\nphoto = "c"', ["region 1", "polygons"]),
        ('[[region]]\nstack = "a"\nname = "b"\nphoto = "c"\npolygons = [[[0, 1], [2, 3]]]', ["three points"]),
        (
            2 * '[[region]]\nstack = "a"\nname = "b"\nphoto = "c"\npolygons = [[[0, 1], [2, 3], [4, 5]]]\n',
            ["'b'", "two"],
        ),
    ],
)
def test_marks_that_are_none(text: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "marks.toml").write_text(text)
    assert_one_sentence(message_of(lambda: read_marks(tmp_path / "marks.toml"), ValueError), "marks.toml", *words)


def registered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two photos: the second lies 20 px to the right of the first, the reference; 10 px are cut off all around."""
    transforms = np.stack([np.eye(3), [[1, 0, 20], [0, 1, 0], [0, 0, 1.0]]])
    alignment = Alignment(
        (0, 1), 0, transforms, np.ones(2), np.ones(2), (slice(10, 90), slice(10, 110)), np.zeros(2), np.zeros(2)
    )

    class Named:
        names = ("a.jpg", "b.jpg")

    return RegisteredPhotos(Named(), alignment, (100, 120), 1.0, None)  # type: ignore[arg-type]


def test_a_mark_goes_where_its_photo_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = registered(monkeypatch)
    square = (((50.0, 30.0), (70.0, 30.0), (70.0, 50.0), (50.0, 50.0)),)
    for photo, left in (("a.jpg", 40), ("b.jpg", 20)):
        mask = registered_mask(Region("s", "square", photo, square), frames, (80, 100))
        rows, columns = mask.nonzero().T
        assert (columns.min().item(), columns.max().item()) == (left, left + 20)
        assert (rows.min().item(), rows.max().item()) == (20, 40)
    half = registered_mask(Region("s", "square", "a.jpg", square), frames, (40, 50))
    assert abs(int(half.sum()) - 100) <= 25
    gone = Region("s", "square", "c.jpg", square)
    assert_one_sentence(message_of(lambda: registered_mask(gone, frames, (80, 100)), ValueError), "'square'", "c.jpg")


def test_polygons_join() -> None:
    mask = filled([[(0, 0), (4, 0), (4, 4), (0, 4)], [(6, 6), (9, 6), (9, 9), (6, 9)]], (10, 10))
    assert mask[2, 2] and mask[7, 7] and not mask[2, 7] and mask.dtype == torch.bool


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's photos twice: as they are, and with their order alone."""
    stacks = tmp_path_factory.mktemp("stacks")
    for name in ("demo", "unmarked"):
        shutil.copytree(FOLDER, stacks / name)
    (stacks / "unmarked/depth_tenth_mm.png").unlink()
    (stacks / "unmarked/stack.toml").write_text('[camera]\norder = "near-to-far"\naligned = true\n')
    return stacks


def wavy(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    """Half a percent of the range of focus, in waves, told as half of it."""
    inverse = 1 / stack.focus_distances
    size = (inverse.max() - inverse.min()).float()
    rows = torch.arange(stack.size[0])[:, None].expand(stack.size)
    inverse_depth = (inverse.mean().float() + 0.005 * size * (-1.0) ** rows)[None]
    return DepthPrediction(1 / inverse_depth, 0.0025 * size / inverse_depth.square(), 0.5 + 0 * inverse_depth)


def test_figures_on_photos(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._METHODS, "wavy", Method("wavy", "", wavy))
    said: list[str] = []
    methods = {name: compared(name) for name in ("wavy", "flat")}
    result = evaluate_planes(methods, folder, CPU, said.append, 0.1, tmp_path, marks={"demo": [LEFT]})
    rows = {(row["method"], row["group"]): row for row in result["rows"]}
    assert set(rows) == {(name, group) for name in methods for group in (EVERY, "demo", "demo, left")} | {
        (name, "unmarked") for name in methods
    }
    waves, flat = rows["wavy", "demo, left"], rows["flat", "demo, left"]
    assert waves["rms_share"] == pytest.approx(0.005, rel=1e-3) and waves["of_std"] == pytest.approx(2, rel=1e-3)
    assert flat["rms_share"] < 1e-6 and flat["off_2_std"] == 0 and flat["size_change"] < 1e-6
    assert rows["flat", "demo"]["size_agreement"] == 1
    assert rows["wavy", EVERY]["rms_share"] == waves["rms_share"] and rows["wavy", EVERY]["regions"] == 1
    assert said == ["demo: wavy, flat", "unmarked: wavy, flat"]
    assert result["stacks"] == ["demo", "unmarked"] and result["left_out"] == {}
    sheet = np.asarray(Image.open(tmp_path / "before_after.png").convert("RGB"))
    assert sheet.shape[1] == 1600 and sheet.std() > 20
    assert "| all marked | wavy | <ins>0.50</ins> | " in table_of(result).markdown()


def test_a_stack_that_cannot_be_read_is_left_out(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "demo", tmp_path / "demo")
    (tmp_path / "broken").mkdir()
    said: list[str] = []
    marks = {name: [Region(name, "left", "frame_3.png", LEFT.polygons)] for name in ("broken", "demo")}
    result = evaluate_planes({"flat": compared("flat")}, tmp_path, CPU, said.append, 0.1, marks=marks)
    assert result["stacks"] == ["demo"] and "holds no pictures" in result["left_out"]["broken"]
    assert said[0].startswith("broken: left out, ") and result["rows"][0]["regions"] == 1


def test_registered_stacks_are_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(folder / "demo", [LEFT], 0.5, tmp_path)
    relative = prepare(folder / "unmarked", [], 0.5, tmp_path)
    monkeypatch.setattr("focalsweep_research.datasets.prepared.open_photos", None)
    for made, name, marks in ((first, "demo", [LEFT]), (relative, "unmarked", [])):
        again = prepare(folder / name, marks, 0.5, tmp_path)
        assert torch.equal(again.stack.images, made.stack.images) and again.stack.unit == made.stack.unit
        assert torch.equal(again.stack.focus_distances, made.stack.focus_distances)
        assert torch.equal(again.planes.depths, made.planes.depths) and again.focus_range == made.focus_range
        assert again.regions.keys() == made.regions.keys()
        for one, other in zip(again.regions.values(), made.regions.values(), strict=True):
            assert torch.equal(one, other)
        coc_px = [sweep_coc_px(each.stack.as_batch(), each.planes) for each in (made, again)]
        assert torch.equal(*coc_px)
    with pytest.raises(TypeError):  # another order, other marks are not those that were kept
        prepare(folder / "demo", [], 0.5, tmp_path)


def test_the_order_of_stacks_that_do_not_say_it(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "unmarked", tmp_path / "stack")
    (tmp_path / "stack/stack.toml").write_text("[camera]\naligned = true\n")
    forwards, backwards = (prepare(tmp_path / "stack", [], 0.5, None, order) for order in (None, "far-to-near"))
    assert torch.equal(forwards.stack.images, backwards.stack.images.flip(0))
    assert torch.equal(forwards.stack.focus_distances, backwards.stack.focus_distances)


def test_two_sets_of_weights_in_one_run(
    folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package's own file, as if it were a run's: the same figures to the last digit."""
    monkeypatch.setattr("focalsweep_research.protocols.planes.read_marks", lambda: ({"demo": [LEFT]}, {}))
    path, file = tmp_path / "planes.json", tmp_path / "after.safetensors"
    shutil.copy(weights.FOLDER / weights.WEIGHTS["sweepnet"].file, file)
    (tmp_path / "one").mkdir()
    (tmp_path / "one/demo").symlink_to(folder / "demo")
    arguments = ("--data", tmp_path / "one", "--methods", "sweep", "--run", f"after={file}", "--quick", "-o", path)
    done = run("evaluate", "planes", *arguments)
    assert done.status == 0, done.err
    record = json.loads(path.read_text())
    before, after = ([row for row in record["rows"] if row["method"] == name] for name in ("sweep", "after"))
    assert [{**row, "method": "sweep"} for row in after] == before and len(before) == 3
    assert record["trained"]["after"]["sha256"] == weights.WEIGHTS["sweepnet"].sha256
    assert (tmp_path / "planes/before_after.png").is_file() and "| after | " in path.with_suffix(".md").read_text()


def test_what_cannot_be_measured(tmp_path: Path, run: Run) -> None:
    (tmp_path / "nothing").mkdir()
    assert_refused(run("evaluate", "planes", "--data", tmp_path), "pixel6pro_room", "marked")
    assert_refused(run("evaluate", "planes"), "--data")
    missing = ("--run", "after=nowhere.safetensors")
    assert_refused(run("evaluate", "planes", "--data", tmp_path, "--methods", "sweep", *missing), "nowhere.safetensors")
