"""A config file -> a training run: network, objective and data by their names in `kinds`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from focalsweep.model.weights import fill_shipped
from focalsweep_research.training.checkpoint import read_checkpoint, restore
from focalsweep_research.training.config import TrainingConfig, read_config
from focalsweep_research.training.data import make_sources
from focalsweep_research.training.kinds import Objective, known_networks
from focalsweep_research.training.loop import Outcome, Resume, train
from focalsweep_research.training.pictures import make_pictures


def build_network(config: TrainingConfig) -> nn.Module:
    torch.manual_seed(config.seed)
    return known_networks()[config.network].build(config)


def fill_from(network: nn.Module, config: TrainingConfig) -> None:
    """The weights that training starts from, where the config names any."""
    if config.start_from == "shipped":
        fill_shipped(network, config.network)
    elif config.start_from:
        path = Path(config.start_from) / "checkpoint.pt"
        restore(network, read_checkpoint(path).ema, path)


def build_objective(config: TrainingConfig) -> Objective:
    return known_networks()[config.network].objective(config)


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
