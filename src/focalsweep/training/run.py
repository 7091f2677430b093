"""A config file -> a training run: the only place that knows which network goes with which objective and data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from focalsweep.baselines import networks
from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import SweepNet
from focalsweep.model.weights import fill_shipped
from focalsweep.synthesis.generator import make_source, read_generator_config
from focalsweep.training import rivals
from focalsweep.training.checkpoint import read_checkpoint, restore
from focalsweep.training.config import TrainingConfig, read_config
from focalsweep.training.loop import Outcome, train
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
    return PaperObjective(config.cost) if config.network == "papernet" else SweepObjective(config.cost)


def run_training(
    path: Path,
    output_folder: Path,
    *,
    device: torch.device,
    resume: bool = False,
    time_limit_minutes: float | None = None,
    textures: Path | None = None,
    console: Console | None = None,
) -> Outcome:
    """Train as the config says; `textures` is a folder of pictures that join the procedural ones."""
    config = read_config(path)
    if config.image_size[0] != config.image_size[1]:
        raise ValueError(f"{path}: the generator's pictures are square, but image_size is {list(config.image_size)}")
    data: dict[str, Any] = {"size": config.image_size[0], "planes": config.planes, **config.data}
    if textures:
        data["texture_folder"] = str(textures)
    training = read_generator_config({**data, "held_out": False})
    validation = read_generator_config({**data, "held_out": True, "seed": 1 + training.seed})
    network = build_network(config)
    if not resume:
        fill_from(network, config)
    objective, validation_source = build_objective(config), make_source(validation)
    return train(
        config,
        network,
        make_source(training),
        objective,
        output_folder,
        validation_source=validation_source,
        pictures=make_pictures(objective, validation_source),
        device=device,
        resume=resume,
        time_limit_minutes=time_limit_minutes,
        console=console,
    )
