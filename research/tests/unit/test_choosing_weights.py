"""research/scripts/choose_sweepnet.py: what is compared, and what shipping changes."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load

from focalsweep.model import weights
from focalsweep_research.protocols.stacks import within_planes
from focalsweep_research.training.checkpoint import Checkpoint, write_checkpoint
from focalsweep_research.training.config import read_config
from focalsweep_research.training.run import build_network, fill_from

ROOT = Path(__file__).parents[3]


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "choose_sweepnet", ROOT / "research" / "scripts" / "choose_sweepnet.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """As if the shipped weights had been trained on, and had doubled."""
    config = read_config(ROOT / "configs" / "sweepnet-refine.toml")
    network = build_network(config)
    fill_from(network, config)
    state = {key: 2 * value if value.is_floating_point() else value for key, value in network.state_dict().items()}
    write_checkpoint(tmp_path / "checkpoint.pt", Checkpoint(state, state, {}, 1, 1.0, config, 1))
    return tmp_path


def test_candidates_are_the_ends_and_their_middle(script: ModuleType, run: Path) -> None:
    states = script.candidates(run)
    for key, value in states["shipped"].items():
        torch.testing.assert_close(states["refined"][key].float(), 2 * value.float(), rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(states["mean of both"][key].float(), 1.5 * value.float(), rtol=1e-3, atol=1e-6)


def test_shipping_replaces_the_file_and_its_hash(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "weights.py"
    table.write_text(Path(weights.__file__).read_text())
    monkeypatch.setattr(script, "FILE", tmp_path / "sweepnet.safetensors")
    monkeypatch.setattr(script.weights, "__file__", str(table))
    script.ship({"a": torch.ones(2).half()})
    content = (tmp_path / "sweepnet.safetensors").read_bytes()
    assert load(content)["a"].tolist() == [1, 1]
    assert hashlib.sha256(content).hexdigest() in table.read_text()
    assert script.SHIPPED.sha256 not in table.read_text()


def test_what_lies_beyond_the_planes_does_not_count() -> None:
    found = within_planes(torch.tensor([0.5, 3.0, 3.02, 3.2]))
    assert found[:3].tolist() == pytest.approx([0.5, 3.0, 3.0]) and found[3].isnan()
