"""Where training starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from research.tests.unit.training.toy import silent

from focalsweep.model.sweepnet import SweepNet
from focalsweep.model.weights import fill_shipped
from focalsweep_research.training.checkpoint import read_checkpoint
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.run import build_network, fill_from, run_training

TINY = """
network = "sweepnet"
cost = "reblur"
steps = 1
batch_size = 2
learning_rate = 1e-3
image_size = [32, 32]
planes = 32
validation_samples = 2
start_from = "{}"
[data]
rays = 8
textures = 5
"""


def config(start_from: str, network: str = "sweepnet") -> TrainingConfig:
    return TrainingConfig(
        network=network, cost="reblur", steps=1, batch_size=2, learning_rate=1e-3, start_from=start_from
    )


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs if x.is_floating_point())


def test_shipped_weights_are_a_start() -> None:
    network, shipped = build_network(config("shipped")), SweepNet()
    fill_shipped(shipped, "sweepnet")
    assert not same(network, shipped)
    fill_from(network, config("shipped"))
    assert same(network, shipped)


def test_without_a_start_weights_are_those_of_the_seed() -> None:
    network = build_network(config(""))
    fill_from(network, config(""))
    assert same(network, build_network(config("")))


def test_a_run_starts_where_another_ended(tmp_path: Path) -> None:
    for name, start in (("first", ""), ("second", str(tmp_path / "first"))):
        (tmp_path / f"{name}.toml").write_text(TINY.format(start))
    run_training(tmp_path / "first.toml", tmp_path / "first", device=torch.device("cpu"), console=silent())
    network = build_network(config(""))
    fill_from(network, config(str(tmp_path / "first")))
    kept = read_checkpoint(tmp_path / "first" / "checkpoint.pt").ema
    assert torch.equal(network.state_dict()["score.weight"], kept["score.weight"])
    outcome = run_training(tmp_path / "second.toml", tmp_path / "second", device=torch.device("cpu"), console=silent())
    assert outcome.step == 1


def test_starts_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no weights of 'papernet' are shipped"):
        fill_from(torch.nn.Linear(1, 1), config("shipped", "papernet"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fill_from(SweepNet(), config(str(tmp_path / "nowhere")))
