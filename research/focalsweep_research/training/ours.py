"""The networks that ship, and stacks of your own, as what can be trained."""

from __future__ import annotations

import dataclasses

from torch import nn

from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import SweepNet
from focalsweep.sweep.costs import Cost, PaperCost, ReblurCost
from focalsweep_research.datasets.folder import StackFolder
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.kinds import DATASETS, NETWORKS, DatasetKind, NetworkKind
from focalsweep_research.training.objectives import PaperObjective, SweepObjective


def register() -> None:
    NETWORKS["sweepnet"] = NetworkKind(_sweepnet, lambda config: SweepObjective(build_cost(config)))
    NETWORKS["papernet"] = NetworkKind(_papernet, lambda config: PaperObjective(build_cost(config)))
    DATASETS["stacks"] = DatasetKind(lambda folder, device, cache: StackFolder(folder))


def _sweepnet(config: TrainingConfig) -> nn.Module:
    return SweepNet(**config.network_options)


def _papernet(config: TrainingConfig) -> nn.Module:
    return PaperNet(planes=config.planes, **config.network_options)


def build_cost(config: TrainingConfig) -> Cost:
    kind = PaperCost if config.cost == "paper" else ReblurCost
    known = [key.name for key in dataclasses.fields(kind)]
    for name in config.cost_options:
        if name not in known:
            raise ValueError(f"cost_options has no key {name!r}: it is one of {', '.join(known)}")
    return kind(**config.cost_options)
