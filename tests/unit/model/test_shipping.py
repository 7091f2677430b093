"""Runs made the package's weights: their mean, which loads."""

import hashlib
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import ship_sweepnet
from safetensors.torch import load_file

from focalsweep.model.sweepnet import SweepNet
from focalsweep.model.weights import fill
from focalsweep.training.checkpoint import Checkpoint, write_checkpoint
from focalsweep.training.config import TrainingConfig


def a_run(folder: Path, seed: int, network: str = "sweepnet") -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    state = SweepNet().state_dict()
    folder.mkdir()
    settings = {"network": network, "cost": "reblur", "steps": 5, "batch_size": 1, "learning_rate": 1e-3}
    config = TrainingConfig.from_dict(settings, "test")
    write_checkpoint(folder / "checkpoint.pt", Checkpoint({}, state, {}, 5, 1.0, config))
    return state


def test_the_mean_of_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (a_run(tmp_path / str(seed), seed) for seed in (1, 2))
    file = tmp_path / "mean.safetensors"
    runs = [str(tmp_path / "1"), str(tmp_path / "2")]
    monkeypatch.setattr(sys, "argv", ["ship_sweepnet.py", *runs, "--file", str(file)])
    ship_sweepnet.main()
    assert capsys.readouterr().out.strip() == hashlib.sha256(file.read_bytes()).hexdigest()
    found = load_file(file)
    name = next(key for key in found if found[key].ndim > 2)
    torch.testing.assert_close(found[name].float(), (one[name] + two[name]) / 2, rtol=1e-3, atol=1e-4)
    fill(SweepNet(), found, file, "train again")


def test_other_networks_are_refused(tmp_path: Path) -> None:
    a_run(tmp_path / "run", 1, network="papernet")
    with pytest.raises(ValueError, match="give runs of SweepNet"):
        ship_sweepnet.mean_of_runs([tmp_path / "run"])
