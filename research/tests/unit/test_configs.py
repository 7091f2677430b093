"""The configs of both packages: what they say with their bases is what the published results were trained with."""

import json
import tomllib
from pathlib import Path

import pytest

from focalsweep_research.training.config import TrainingConfig, _read_with_base, read_config
from focalsweep_research.training.kinds import known_networks
from focalsweep_research.training.ours import build_cost

ROOT = Path(__file__).parents[3]
TRAINED = json.loads((ROOT / "research" / "tests" / "trained_settings.json").read_text())
"""By name, every key of the configs of version 0.1, which had no bases; "inf" is infinity."""
CONFIGS = {path.stem: path for folder in ("configs", "research/configs") for path in (ROOT / folder).glob("*.toml")}


@pytest.mark.parametrize("name", TRAINED)
def test_a_config_says_what_it_said(name: str) -> None:
    settings = {key: float("inf") if value == "inf" else value for key, value in TRAINED[name].items()}
    expected = TrainingConfig.from_dict(settings, name)
    found = read_config(CONFIGS[name])
    assert found == expected and found.to_dict() == expected.to_dict()


def test_none_is_lost() -> None:
    assert set(CONFIGS) >= set(TRAINED)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_of_use(name: str) -> None:
    """It begins with its command, and what it names can be built."""
    path = CONFIGS[name]
    command = f"focalsweep train {path.relative_to(ROOT)} -o "
    assert command in path.read_text().splitlines()[0]
    config = read_config(path)
    assert config.network in known_networks()
    if config.cost != "none":
        build_cost(config)


@pytest.mark.parametrize("name", [name for name, path in CONFIGS.items() if "\nbase = " in path.read_text()])
def test_a_config_on_a_base_says_only_what_differs(name: str) -> None:
    said = tomllib.loads(CONFIGS[name].read_text())
    base = _read_with_base(CONFIGS[name].parent / said.pop("base"), [])
    for key, value in said.items():
        pairs = value.items() if isinstance(value, dict) else [(key, value)]
        below = base.get(key, {}) if isinstance(value, dict) else base
        for inner, own in pairs:
            assert below.get(inner) != own, f"{key}.{inner} is what its base says"
