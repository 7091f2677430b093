"""The rivals' networks and the published datasets, for `focalsweep train`: by the entry point `focalsweep.training`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import nn

from focalsweep.datasets.item import Item
from focalsweep.training.config import TrainingConfig
from focalsweep.training.kinds import DatasetKind, NetworkKind, Objective, register_dataset, register_network


def register() -> None:
    from focalsweep_research.rivals.objectives import OBJECTIVES

    for name in OBJECTIVES:
        kind = NetworkKind(_build, partial(_objective, name), reads_costs=False)
        register_network(name, kind)
    register_dataset("defocusnet", DatasetKind(_benchmark))
    register_dataset("nyu", DatasetKind(_nyu, displayed=True))


def _build(config: TrainingConfig) -> nn.Module:
    from focalsweep_research.rivals import networks

    return networks.build(config.network, **config.network_options)


def _objective(name: str, config: TrainingConfig) -> Objective:
    from focalsweep_research.rivals.objectives import OBJECTIVES

    return OBJECTIVES[name]()


def _benchmark(folder: Path, device: torch.device, cache: Path | None) -> Sequence[Item]:
    from focalsweep_research.datasets.defocusnet import benchmark_part

    return benchmark_part(folder, "train")


def _nyu(folder: Path, device: torch.device, cache: Path | None) -> Sequence[Item]:
    from focalsweep_research.datasets.nyu import Nyu, part_of

    pictures, ids = part_of(folder, "train")
    return Nyu(pictures, ids, device=device, cache=cache)
