"""scripts/tables.py: what is trained and measured, in which order; trainings and measurements are pretended."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from focalsweep_research.cli.evaluate import read_names
from focalsweep_research.tables.paper_report import PENDING
from focalsweep_research.training.config import read_config

SCRIPT = Path(__file__).parents[2] / "scripts" / "tables.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables_of_the_paper", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ran(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been started; each training leaves a checkpoint."""
    commands: list[list[str]] = []

    def pretend(_: Any, __: str, arguments: list[Any], *___: Any) -> None:
        words = [str(word) for word in arguments]
        commands.append(words)
        if words[0] == "train":
            folder = Path(words[words.index("-o") + 1])
            folder.mkdir(parents=True)
            (folder / "checkpoint.pt").touch()

    monkeypatch.setattr(script.Experiments, "_run", pretend)
    return commands


def test_runs_are_trained_once_and_before_the_tables_that_show_them(
    script: ModuleType, ran: list[list[str]], tmp_path: Path
) -> None:
    tables = ["ablation", "robustness", "defocusnet"]
    script.main(tables, tmp_path, benchmark=tmp_path, stacks=4800, without="suwajanakorn")
    trained = [Path(words[words.index("-o") + 1]).name for words in ran if words[0] == "train"]
    assert len(trained) == len(set(trained)) == 5 + 4 + 1  # SweepNet and three rivals are in both of the last
    first = next(i for i, words in enumerate(ran) if words[:2] == ["evaluate", "defocusnet"])
    shown = [word for word in ran[first] if "PaperNet" in word]
    assert len(shown) == 5 and f"PaperNet, neither={tmp_path}/runs/paper-no-outlier-removal-no-normalisation" in shown
    before = {Path(words[words.index("-o") + 1]) for words in ran[:first] if words[0] == "train"}
    assert {Path(word.split("=")[1]) for word in shown} <= before
    methods = read_names(ran[-1][ran[-1].index("--methods") + 1])
    assert "focus_measure" in methods and "suwajanakorn" not in methods
    for name, batch in (("paper-defocusnet", 8), ("defocusnet", 16), ("sweepnet-defocusnet", 24)):
        config = read_config(tmp_path / "configs" / f"{name}.toml")
        assert config.steps * config.batch_size == 4800 and config.batch_size == batch
        assert config.warmup_steps < config.steps


def test_repetitions_have_seeds_and_one_name(script: ModuleType, ran: list[list[str]], tmp_path: Path) -> None:
    script.main(["nyu-trained"], tmp_path, nyu=tmp_path, stacks=48, repeat=["sweepnet-nyu=3"], at_a_time=3)
    seeds = [words[words.index("--seed") + 1] for words in ran if "--seed" in words]
    assert sorted(seeds) == ["1", "2"]
    assert sum(word.startswith("SweepNet=") for word in ran[-1]) == 3


def test_a_run_that_failed_is_left_out(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[list[Any]] = []
    monkeypatch.setattr(script.Experiments, "_run", lambda _, __, words, *___: measured.append(words))
    script.main(["nyu-trained"], tmp_path, nyu=tmp_path, stacks=48)
    assert measured[-1][0] == "evaluate" and "--run" not in measured[-1]


def test_what_is_missing_is_said_first(script: ModuleType, ran: list[list[str]], tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="give --nyu FOLDER"):
        script.main(["ablation", "nyu"], tmp_path, benchmark=tmp_path)
    with pytest.raises(typer.BadParameter, match="give --benchmark FOLDER"):
        script.main(["stack-size"], tmp_path)
    with pytest.raises(typer.BadParameter, match="no table of networks is called magic"):
        script.main(["magic"], tmp_path)
    with pytest.raises(typer.BadParameter, match="NAME=COUNT"):
        script.main(["nyu-trained"], tmp_path, nyu=tmp_path, repeat=["sweepnet-nyu"])
    assert not ran


def test_time_ends(
    script: ModuleType, ran: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main(["nyu-trained"], tmp_path, nyu=tmp_path, stacks=48, minutes=0.1)
    assert [words[0] for words in ran] == ["evaluate"] and "sweepnet-nyu: no time left" in capsys.readouterr().out


@pytest.mark.parametrize("table", PENDING)
def test_every_run_of_a_table_has_a_config(script: ModuleType, table: str) -> None:
    for run in script.runs_of(table, {}):
        assert (SCRIPT.parents[1] / "configs" / f"{run}.toml").is_file(), run
