"""`focalsweep evaluate` in miniature: the record it writes, networks of training runs, refusals."""

import json
import math
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tifffile
import torch
from research.tests.unit.datasets.test_defocusnet import codes, true_depth, write_exr
from research.tests.unit.training.toy import silent

from focalsweep import DepthGrid, DepthPrediction, FocalStack
from focalsweep.cli import main as command_line
from focalsweep.methods.method import Options, uninformed
from focalsweep.methods.paper import PAPER_PLANES, planes_over
from focalsweep.methods.registry import all_methods, choose_method
from focalsweep_research.cli.evaluate import read_names
from focalsweep_research.protocols import generated
from focalsweep_research.protocols.methods import Compared, compared
from focalsweep_research.protocols.run import ON_GENERATED, join_result, run_protocol
from focalsweep_research.protocols.training_runs import methods_of_runs, over_trained_planes, run_name
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.run import run_training
from tests.errors import assert_one_sentence
from tests.rendering import render_plane

CONFIG = """
network = "sweepnet"
cost = "reblur"
steps = 2
batch_size = 2
learning_rate = 1e-3
image_size = [32, 32]
planes = 16
validation_samples = 2
[network_options]
volume_width = 8
context_width = 8
detail_width = 8
[data]
rays = 4
textures = 4
solids = 5
"""


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    data = GeneratorConfig(size=32, planes=16, rays=4, textures=4, solids=5, held_out=True)
    for name, value in {"DATA": data, "FRAMES": (3,), "NOISE": (0.005,), "BATCH": 2, "STACKS": 20}.items():
        monkeypatch.setattr(generated, name, value)
    monkeypatch.setitem(
        ON_GENERATED, "stack-size", partial(generated.evaluate_generator, frame_counts=(3,), protocol="stack-size")
    )
    monkeypatch.setattr(generated, "CAMERAS", generated.CAMERAS[:2])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # `main` sets it


@pytest.fixture(scope="module")
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of two steps each."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tiny.toml").write_text(CONFIG)
    for name in ("one", "two"):
        run_training(folder / "tiny.toml", folder / name, device=torch.device("cpu"), console=silent())
    return [folder / "one", folder / "two"]


def evaluate(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """The command in this process; its exit status."""
    monkeypatch.setattr(sys, "argv", ["focalsweep", "evaluate", *map(str, arguments), "--device", "cpu"])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    return int(stopped.value.code or 0)


def test_quick_record_of_every_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "generator.json"
    assert evaluate(monkeypatch, "generator", "--quick", "-o", path) == 0
    assert capsys.readouterr().out.strip() == str(path)
    record = json.loads(path.read_text())
    assert record["protocol"] == "generator" and record["stacks"] == 2 and record["quick"] is True
    assert record["textures"] == "procedural" and record["trained"] == {}
    assert record["versions"]["torch"] == torch.__version__ and record["seed"] == generated.SEED
    rows = {row["method"]: row for row in record["rows"] if row["group"] == "all"}
    assert set(rows) == {"argmin", "argmin:cost=paper", "sweep"}
    for row in rows.values():
        assert row["pixels"] == 2 * 32 * 32
        assert 0 < row["abs_rel"] < 1 and math.isfinite(row["rmse"])
    assert rows["sweep"]["abs_rel"] < rows["argmin:cost=paper"]["abs_rel"]


def test_networks_of_training_runs_are_measured(
    run_folders: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs of one network are two rows; without a file the record goes to standard output."""
    one, two = run_folders
    status = evaluate(monkeypatch, "cameras", "--quick", "--methods", "argmin", "--run", one, "--run", two)
    assert status == 0
    record = json.loads(capsys.readouterr().out)
    names = {"sweepnet + reblur", f"sweepnet + reblur, {two}"}
    assert set(record["trained"]) == names
    assert all(about["steps"] == 2 and about["batch_size"] == 2 for about in record["trained"].values())
    assert {row["method"] for row in record["rows"]} == {"argmin", *names}
    assert len(record["rows"]) == 2 * 3
    errors = {name: [row["abs_rel"] for row in record["rows"] if row["method"] == name] for name in names}
    assert all(math.isfinite(error) and error > 0 for each in errors.values() for error in each)
    assert len(set(map(tuple, errors.values()))) == 1  # the same config, so the same weights


def test_runs_of_other_seeds_are_one_row(
    run_folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = run_folders
    config, other = one.parent / "tiny.toml", tmp_path / "other"
    run_training(config, other, device=torch.device("cpu"), seed=5, console=silent())
    path = tmp_path / "size.json"
    arguments = ("stack-size", "--quick", "--methods", "argmin", "--run", f"mine={one}", "--run", f"mine={other}")
    assert evaluate(monkeypatch, *arguments, "-o", path) == 0
    record = json.loads(path.read_text())
    assert record["groups"] == {"mine (n=2)": ["mine, seed 0", "mine, seed 5"]}
    assert set(record["trained"]) == {"mine, seed 0", "mine, seed 5"}
    assert record["trained"]["mine, seed 5"]["config"]["seed"] == 5
    joined, *others = (row for row in record["rows"] if row["method"] == "mine (n=2)" and row["group"] == "F=3")
    singles = [row for row in record["rows_of_runs"] if row["group"] == "F=3" and row["method"] != "argmin"]
    assert not others and len(singles) == 2
    low, high = sorted(row["abs_rel"] for row in singles)
    assert joined["abs_rel"] == pytest.approx((low + high) / 2)
    assert joined["std"]["abs_rel"] == pytest.approx((high - low) / 2**0.5) and high > low
    assert "| mine (n=2) | " in path.with_suffix(".md").read_text() and " ± " in path.with_suffix(".md").read_text()


def test_one_name_for_two_configs_is_refused(
    run_folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = run_folders
    (tmp_path / "longer.toml").write_text(CONFIG.replace("steps = 2", "steps = 3"))
    run_training(tmp_path / "longer.toml", tmp_path / "longer", device=torch.device("cpu"), console=silent())
    runs = ("--run", f"mine={one}", "--run", f"mine={tmp_path / 'longer'}")
    assert evaluate(monkeypatch, "generator", "--quick", *runs) == 2
    assert_one_sentence(capsys.readouterr().err.strip().removeprefix("focalsweep: "), "'mine'", "longer", "name")
    told = methods_of_runs([str(one), str(tmp_path / "longer"), f"argmin={one}"], {"argmin"}, torch.device("cpu"))
    folders = [one, tmp_path / "longer"]
    assert set(told.methods) == {*(f"sweepnet + reblur, {folder}" for folder in folders), f"argmin, {one}"}
    assert told.groups == {}


def test_names_say_what_was_trained_on_what() -> None:
    settings: dict[str, Any] = {"steps": 2, "batch_size": 2, "learning_rate": 1e-3}
    paper = {"network": "papernet", "cost": "paper", "cost_options": {"normalise": False}, **settings}
    split = {"kind": "defocusnet", "frames": [0, 2, 4]}
    names = [
        run_name(TrainingConfig(**each))
        for each in (
            paper,
            {**paper, "data": split},
            {"network": "ddff", "cost": "none", **settings, "data": {"kind": "nyu"}},
        )
    ]
    assert names == [
        "papernet + paper, normalise False",
        "papernet + paper, normalise False, trained on defocusnet, frames 0 2 4",
        "ddff, trained on nyu",
    ]


def test_a_network_of_the_papers_planes_gets_them_over_the_range() -> None:
    """On generated scenes, whose ranges are their own: the planes it knows, all multiplied by one factor."""
    wide = DepthGrid.uniform_in_inverse_depth(torch.tensor([0.5, 1.0, 2.0]), torch.tensor([5.0, 60.0, math.inf]), 8)
    planes = planes_over(wide)
    torch.testing.assert_close(planes.depths[:, -1], torch.tensor([5.0, 30.0, 60.0], dtype=torch.float64))
    torch.testing.assert_close(planes.depths[:, 0], torch.tensor([5 / 30, 1.0, 2.0], dtype=torch.float64))
    steps = planes.depths.diff(dim=-1)
    torch.testing.assert_close(steps, steps[:, :1].expand_as(steps))
    seen: list[DepthGrid] = []

    def look(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
        seen.append(planes)
        return uninformed(torch.ones(1, 16, 16), planes)

    stack = render_plane("dslr", 1.3, size=16).stack.as_batch()
    sample = Sample(stack, DepthGrid.around(stack, 8), torch.full((1, 16, 16), 1.3))
    Compared(choose_method(partial(over_trained_planes, look, PAPER_PLANES))).read_refitted(sample)
    Compared(choose_method(look)).read_refitted(sample)
    assert seen[0].count == 64 and seen[1] is sample.planes
    torch.testing.assert_close(seen[0].depths, planes_over(sample.planes).depths)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["guess"], ("'guess'", "generator", "cameras")),
        (["generator", "--methods", "argmin,magic"], ("'magic'", "argmin", "sweep", "suwajanakorn")),
        (["generator", "--methods", " ,"], ("--methods", "argmin;sweep")),
        (["generator", "--methods", "argmin;sweep:planes=1"], ("sweep: planes", "from 2 to 512", "'1'")),
        (["generator", "--methods", "sweep:magic=1"], ("sweep has no setting", "magic", "psf")),
        (["generator", "--methods", "ddff"], ("weights of ddff", "FOCALSWEEP_WEIGHTS")),
        (["confidence", "--methods", "sweep,aifdepthnet"], ("weights of aifdepthnet", "FOCALSWEEP_WEIGHTS")),
        (["generator", "--run", "no/such/run"], ("no/such/run", "does not exist")),
    ],
)
def test_refusals(
    arguments: list[str], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(monkeypatch, *arguments, "--quick") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert_one_sentence(printed.err.strip().removeprefix("focalsweep: "), *words)


def test_rivals_are_methods_too() -> None:
    rendered = render_plane("dslr", 1.3, size=40)
    stack = rendered.stack.as_batch()
    sample = Sample(stack, DepthGrid.around(stack, 8), torch.full((1, 40, 40), 1.3))
    depth = compared("focus_measure").read(sample)
    assert depth.median().item() == pytest.approx(1.3, rel=0.05)
    with pytest.raises(ValueError, match=r"(?=.*focus_measure)(?=.*suwajanakorn)(?=.*ddff).*'magic'"):
        compared("magic")


def test_flat_is_a_wall_in_the_middle_of_the_focus_distances() -> None:
    stack = render_plane("dslr", 1.3, size=8).stack.as_batch()
    stack = replace(stack, focus_distances=torch.tensor([[0.5, math.inf, 0.5, math.inf, 1.0]]))
    depth = compared("flat").read(Sample(stack, DepthGrid.around(stack, 8), torch.ones(1, 8, 8)))
    torch.testing.assert_close(depth, torch.ones(1, 8, 8))


@pytest.fixture
def benchmark_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmark" / "test"
    folder.mkdir(parents=True)
    for stack in range(3):
        for frame in range(5):
            tifffile.imwrite(folder / f"{stack:06d}_{frame:02d}All.tif", codes(stack, frame), photometric="rgb")
        write_exr(folder / f"{stack:06d}Dpt.exr", true_depth(stack))
    return folder.parent


def test_confidence_on_a_dataset(benchmark_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, picture = tmp_path / "confidence.json", tmp_path / "confidence.png"
    given: list[Any] = ["confidence", "--data", benchmark_folder, "--methods", "argmin,focus_measure", "-o", path]
    assert evaluate(monkeypatch, *given) == 0
    result = json.loads(path.read_text())
    assert result["stacks"] == 3 and result["data"] == "benchmark"
    known = sum(((depth > 0) & (depth < 3)).sum() for depth in map(true_depth, range(3)))
    for row in result["rows"]:
        assert row["pixels"] == known and 0 <= row["within_1_std"] <= row["within_2_std"] <= 1
        assert math.isfinite(row["ause_share"]) and math.isfinite(row["rms_z"])
    assert "within 1 std" in path.with_suffix(".md").read_text()
    given[4], given[-1] = "suwajanakorn", tmp_path / "joined.json"
    assert evaluate(monkeypatch, *given, "--join", path) == 0
    assert set(json.loads(given[-1].read_text())["curves"]) == {"argmin", "focus_measure", "suwajanakorn"}
    monkeypatch.setattr(sys, "argv", ["focalsweep", "figure", "confidence", str(path), "-o", str(picture)])
    with pytest.raises(SystemExit):
        command_line.main()
    assert picture.stat().st_size > 5000


def test_processes_share_a_dataset_and_agree_with_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run_folders: list[Path], benchmark_folder: Path
) -> None:
    common = ["focus-split", "--data", str(benchmark_folder), "--methods", "argmin", "--run", f"mine={run_folders[0]}"]
    assert evaluate(monkeypatch, *common, "-o", tmp_path / "one.json") == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "focalsweep.cli.main", "--", "evaluate", *common, "-o", str(tmp_path / "two.json")]
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "--device", "cpu"], env=settings, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "1 of 1" in said and "2 of 2" in said and said.count("two.json") == 1  # written once
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
    assert one["stacks"] == two["stacks"] == 3
    assert len(one["rows"]) == len(two["rows"]) == 4
    for a, b in zip(one["rows"], two["rows"], strict=True):
        figures = {name: value for name, value in a.items() if isinstance(value, float)}
        assert len(figures) > 5 and all(b[name] == pytest.approx(value, rel=1e-5) for name, value in figures.items())
        assert [a[name] for name in ("method", "rescaling")] == [b[name] for name in ("method", "rescaling")]


def test_protocols_that_cannot_be_shared_say_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert evaluate(monkeypatch, "runtime") == 2
    message = capfd.readouterr().err.strip().removeprefix("focalsweep: ")
    assert_one_sentence(message, "runtime cannot be shared", "without torchrun")


def test_what_was_joined_before_is_told_once() -> None:
    """Of three machines each is named with what it measured."""

    def result(file: str, method: str) -> dict[str, Any]:
        return {"file": file, "commit": file, "rows": [{"method": method}]}

    first = join_result(result("b", "of b"), result("a", "of a")) | {"file": "b"}
    joined = join_result(result("c", "of c"), first)
    assert [(part["file"], part["methods"]) for part in joined["joined"]] == [("a", ["of a"]), ("b", ["of b"])]
    rest = first | {"rows": [{"method": "of a"}]}
    assert [part["file"] for part in join_result(result("c", "of c"), rest)["joined"]] == ["a"]


def test_results_of_one_protocol_join(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, both = (tmp_path / f"{name}.json" for name in ("one", "two", "both"))
    assert evaluate(monkeypatch, "generator", "--quick", "--methods", "argmin", "-o", one) == 0
    assert (
        evaluate(monkeypatch, "generator", "--quick", "--methods", "argmin:range=0.1-3", "--join", one, "-o", two) == 0
    )
    assert evaluate(monkeypatch, "generator", "--quick", "--methods", "argmin:range=0.1-3;argmin", "-o", both) == 0
    joined, at_once = (json.loads(path.read_text()) for path in (two, both))
    by_method = lambda rows: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))  # noqa: E731
    assert by_method(joined["rows"]) == by_method(at_once["rows"])
    assert [part["methods"] for part in joined["joined"]] == [["argmin"]] and joined["joined"][0]["file"] == "one.json"
    assert joined["joined"][0]["weights"] == at_once["weights"] != {}
    (tmp_path / "no.json").write_text("[]")
    for path, arguments, words in (
        (one, ("stack-size", "--quick", "--methods", "argmin:range=0.1-3"), ("one.json", "protocol", "stack-size")),
        (one, ("generator", "--methods", "argmin:range=0.1-3"), ("one.json", "quick")),
        (tmp_path / "no.json", ("generator", "--quick", "--methods", "argmin"), ("no.json", "not a result")),
    ):
        capsys.readouterr()
        assert evaluate(monkeypatch, *arguments, "--join", path, "-o", tmp_path / "three.json") == 2
        said = capsys.readouterr().err.strip()  # before anything was measured
        assert_one_sentence(said.removeprefix("focalsweep: "), *words)
    assert not (tmp_path / "three.json").exists()
    assert evaluate(monkeypatch, "generator", "--quick", "--methods", "argmin", "--join", one, "-o", both) == 2
    assert "argmin too" in capsys.readouterr().err
    assert {row["method"] for row in json.loads(both.read_text())["rows"]} == {"argmin"}  # what was measured is kept


def test_help_tells_of_every_method(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        monkeypatch.setattr(sys, "argv", ["focalsweep", "evaluate", "--help"])
        command_line.main()
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert all(f"{name}: {method.about.split()[0]}" in said for name, method in all_methods().items())


def test_names_with_settings_have_semicolons_between() -> None:
    assert read_names("argmin;sweep") == read_names(" argmin, sweep,") == ["argmin", "sweep"]
    assert read_names("argmin; paper:range=0.1-3,size=full") == ["argmin", "paper:range=0.1-3,size=full"]
    assert read_names("paper:range=0.1-3,size=full") == ["paper:range=0.1-3,size=full"]
    assert read_names(" ; ,;") == [","]  # which no method is called
    assert read_names(" ,") == read_names("") == []


def test_settings_behind_a_method_are_those_of_its_planes() -> None:
    stack = render_plane("dslr", 1.3, size=40).stack.as_batch()
    usual, more = compared("argmin:range=0.1-3"), compared("argmin:range=0.1-3,planes=80")
    planes, finer = usual.planes(stack).depths, more.planes(stack).depths
    assert (len(planes), len(finer)) == (64, 80)
    torch.testing.assert_close(finer[[0, -1]], planes[[0, -1]])
    sample = Sample(stack, DepthGrid.uniform_in_inverse_depth(0.8, 3.0, 9), torch.full((1, 40, 40), 1.3))
    coarse = replace(sample, planes=DepthGrid.uniform_in_inverse_depth(0.8, 3.0, 5))
    few = compared("argmin:planes=5").read_refitted(sample)  # planes that a protocol gives are replaced too
    torch.testing.assert_close(few, usual.read(coarse))
    assert not torch.equal(few, usual.read(sample))
    for name in ("sweep:planes=1", "argmin:range=0.1-3,planes=513"):
        with pytest.raises(ValueError, match="from 2 to 512"):
            compared(name)
    with pytest.raises(ValueError, match="'flat-80'"):
        compared("flat-80")


@pytest.mark.parametrize("protocol", ["generator", "confidence"])
def test_rivals_without_weights_are_refused_before_any_work(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: object, **__: object) -> None:
        pytest.fail("stacks were made for a method that cannot read them")

    monkeypatch.delenv("FOCALSWEEP_WEIGHTS", raising=False)
    monkeypatch.setattr("focalsweep_research.protocols.generated.batch_of", work)
    monkeypatch.setattr("focalsweep_research.protocols.error_bars.evaluate_confidence", work)
    with pytest.raises(FileNotFoundError, match="weights of ddff"):
        run_protocol(protocol, ["argmin", "ddff"], [], None, None, torch.device("cpu"), True, print)
