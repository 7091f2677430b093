"""The networks that ship, and stacks of your own, as what can be trained."""

from __future__ import annotations

import dataclasses

from torch import nn

from focalsweep.datasets.folder import StackFolder
from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import SweepNet
from focalsweep.sweep.costs import Cost, PaperCost, ReblurCost
from focalsweep.training.config import TrainingConfig
from focalsweep.training.kinds import DatasetKind, NetworkKind, register_dataset, register_network
from focalsweep.training.objectives import PaperObjective, SweepObjective


def register() -> None:
    register_network("sweepnet", NetworkKind(_sweepnet, lambda config: SweepObjective(build_cost(config))))
    register_network("papernet", NetworkKind(_papernet, lambda config: PaperObjective(build_cost(config))))
    register_dataset("stacks", DatasetKind(lambda folder, device, cache: StackFolder(folder)))


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
