"""`focalsweep evaluate`: methods against protocols, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from focalsweep import baselines
from focalsweep.evaluation import generated, robustness
from focalsweep.evaluation.environment import describe
from focalsweep.evaluation.generated import Reader
from focalsweep.model.weights import load_network
from focalsweep.sweep.argmin import find_minimum
from focalsweep.synthesis.sample import Sample
from focalsweep.training.checkpoint import read_checkpoint, restore
from focalsweep.training.objectives import SweepObjective, depth_at, swept
from focalsweep.training.run import build_network, build_objective

PROTOCOLS: dict[str, Callable[..., dict[str, Any]]] = {
    "generator": generated.evaluate_generator,
    "cameras": generated.evaluate_cameras,
    "robustness": robustness.evaluate_robustness,
}


def run_protocol(
    protocol: str,
    methods: list[str],
    checkpoints: list[Path],
    textures: Path | None,
    device: torch.device,
    quick: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """A protocol's result with the machine and versions; methods by name, and networks of training runs by folder.

    A network that several runs trained is told apart by their folders.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"no protocol is called {protocol!r}: it is one of {', '.join(PROTOCOLS)}")
    readers = {name: reader_of(name, device) for name in methods}
    trained = {}
    for folder in checkpoints:
        name, reader, about = reader_of_run(folder, device)
        if name in readers:
            name = f"{name}, {folder}"
        readers[name], trained[name] = reader, about
    with torch.no_grad():
        result = PROTOCOLS[protocol](readers, str(textures or ""), device, say, 0.1 if quick else 1.0)
    data = {"textures": "procedural and pictures" if textures else "procedural", "quick": quick, "trained": trained}
    return {**describe(device, generated.SEED), **data, **result}


def reader_of(name: str, device: torch.device) -> Reader:
    """ "argmin" and "argmin-paper" are the lowest costs; "sweep" is the shipped network; and rivals by their names."""
    if name in ("argmin", "argmin-paper"):
        return lambda sample: _lowest(sample, "paper" if name == "argmin-paper" else "reblur")
    if name in baselines.METHODS:
        return lambda sample: baselines.METHODS[name](sample.stack.as_batch(), sample.planes).depth
    if name != "sweep":
        names = ", ".join(("argmin", "argmin-paper", "sweep", *baselines.METHODS))
        raise ValueError(f"no method is called {name!r}: it is one of {names}")
    network, objective = load_network("sweepnet", device), SweepObjective()
    return lambda sample: depth_at(objective.read(network, sample).position.float(), sample)


def reader_of_run(folder: Path, device: torch.device) -> tuple[str, Reader, dict[str, Any]]:
    """The averaged network of a training run's folder, its name and how long it was trained."""
    checkpoint = read_checkpoint(folder / "checkpoint.pt")
    config = checkpoint.config
    network = build_network(config)
    restore(network, checkpoint.ema, folder)
    network = network.to(device).eval()
    objective = build_objective(config)

    def read(sample: Sample) -> torch.Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.precision == "bfloat16"):
            position = objective.read(network, sample).position
        return depth_at(position.float(), sample)

    about = {"steps": checkpoint.step, "minutes": checkpoint.seconds / 60, "batch_size": config.batch_size}
    return config.network if config.cost == "none" else f"{config.network} + {config.cost}", read, about


def _lowest(sample: Sample, cost: str) -> torch.Tensor:
    volume = swept(sample, cost)
    planes = sample.planes.as_batch(len(volume))
    return 1 / find_minimum(volume, planes).inverse_depth
