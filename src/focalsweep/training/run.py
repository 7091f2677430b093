"""A config file -> a training run: the only place that knows which network goes with which objective and data."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from focalsweep.baselines import networks
from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import SweepNet
from focalsweep.model.weights import fill_shipped
from focalsweep.sweep.costs import Cost, PaperCost, ReblurCost
from focalsweep.training import rivals
from focalsweep.training.checkpoint import read_checkpoint, restore
from focalsweep.training.config import TrainingConfig, read_config
from focalsweep.training.data import make_sources
from focalsweep.training.loop import Outcome, Resume, train
from focalsweep.training.objectives import PaperObjective, SweepObjective
from focalsweep.training.pictures import make_pictures


def build_network(config: TrainingConfig) -> nn.Module:
    torch.manual_seed(config.seed)
    if config.network in rivals.OBJECTIVES:
        return networks.build(config.network, **config.network_options)
    if config.network == "papernet":
        return PaperNet(planes=config.planes, **config.network_options)
    return SweepNet(**config.network_options)


def fill_from(network: nn.Module, config: TrainingConfig) -> None:
    """The weights that training starts from, where the config names any."""
    if config.start_from == "shipped":
        fill_shipped(network, config.network)
    elif config.start_from:
        path = Path(config.start_from) / "checkpoint.pt"
        restore(network, read_checkpoint(path).ema, path)


def build_objective(config: TrainingConfig) -> rivals.Objective:
    if config.network in rivals.OBJECTIVES:
        return rivals.OBJECTIVES[config.network]()
    cost = build_cost(config)
    return PaperObjective(cost) if config.network == "papernet" else SweepObjective(cost)


def build_cost(config: TrainingConfig) -> Cost:
    kind = PaperCost if config.cost == "paper" else ReblurCost
    known = [key.name for key in dataclasses.fields(kind)]
    for name in config.cost_options:
        if name not in known:
            raise ValueError(f"cost_options has no key {name!r}: it is one of {', '.join(known)}")
    return kind(**config.cost_options)


def run_training(
    path: Path,
    output_folder: Path,
    *,
    device: torch.device,
    resume: Resume = False,
    time_limit_minutes: float | None = None,
    textures: Path | None = None,
    data: Path | None = None,
    cache: Path | None = None,
    seed: int | None = None,
    console: Console | None = None,
) -> Outcome:
    """Train as the config says; `textures` is a folder of pictures that join the procedural ones, `data` a dataset.

    `cache` keeps the stacks that are rendered from it. `seed` stands in place of the config's: other weights to begin
    with and other draws of the data, none of them held-out scenes.
    """
    config = read_config(path)
    if seed is not None:
        config = dataclasses.replace(config, seed=seed)
    try:
        training_source, validation_source = make_sources(config, textures, data, device, cache)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    network = build_network(config)
    if resume is not True:
        fill_from(network, config)
    objective = build_objective(config)
    return train(
        config,
        network,
        training_source,
        objective,
        output_folder,
        validation_source=validation_source,
        pictures=make_pictures(objective, validation_source),
        device=device,
        resume=resume,
        time_limit_minutes=time_limit_minutes,
        console=console,
    )
