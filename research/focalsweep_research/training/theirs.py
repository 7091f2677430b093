"""The networks of the rivals and the published datasets, as what can be trained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import nn

from focalsweep_research.datasets.item import Item
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.kinds import DATASETS, NETWORKS, DatasetKind, NetworkKind, Objective


def register() -> None:
    from focalsweep_research.rivals.objectives import OBJECTIVES

    for name in OBJECTIVES:
        kind = NetworkKind(_build, partial(_objective, name), reads_costs=False)
        NETWORKS[name] = kind
    DATASETS["defocusnet"] = DatasetKind(_benchmark)
    DATASETS["nyu"] = DatasetKind(_nyu, displayed=True)


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
