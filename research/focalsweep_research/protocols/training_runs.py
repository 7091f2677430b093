"""The networks of training runs as methods of `focalsweep evaluate`, and what they are called."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor, nn

from focalsweep.methods.method import Options, Predict
from focalsweep.methods.paper import planes_over
from focalsweep.methods.registry import choose_method
from focalsweep.methods.sweep import method_of_network
from focalsweep.model.sweepnet import SweepNet
from focalsweep.model.weights import fill, ready
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.datasets.source import ItemsConfig
from focalsweep_research.protocols.methods import Compared, Windows, read_windows, trained_method
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.checkpoint import read_checkpoint, restore
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.objectives import PaperObjective
from focalsweep_research.training.run import build_network, build_objective


@dataclass(frozen=True, eq=False)
class Runs:
    """Methods by name, how each was trained, and which of them are one row of a table."""

    methods: dict[str, Compared] = field(default_factory=dict)
    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Run:
    name: str  # given, or what was trained on what
    given: bool
    folder: Path
    config: TrainingConfig
    method: Compared
    about: dict[str, Any]


def methods_of_runs(runs: Sequence[str], taken: Collection[str], device: torch.device) -> Runs:
    """Runs by their folders (or files of weights), or as NAME=FOLDER; no name is one of `taken`.

    Runs of one name that differ in their seeds alone are a group, "NAME (n=3)". Runs that nobody named are called by
    their network, cost and data; what this does not tell apart is told apart by the folder.
    """
    found: dict[tuple[str, str], list[_Run]] = defaultdict(list)
    for run in (_read_run(text, device) for text in runs):
        found[run.name, _without_seeds(run.config)].append(run)
    kinds: dict[str, int] = defaultdict(int)
    for (name, _), alike in found.items():
        kinds[name] += 1
        if kinds[name] > 1 and alike[0].given:
            raise ValueError(
                f"runs of more than one config are called {name!r}, the last in {alike[0].folder}: "
                "give each config a name of its own"
            )
    result = Runs()
    for (name, _), alike in found.items():
        seeds = [_seeds(run.config) for run in alike]
        grouped = len(alike) > 1 and len(set(seeds)) == len(alike)
        if kinds[name] > 1 or name in taken:
            name = f"{name}, {alike[0].folder}"
        for run, seed in zip(alike, seeds, strict=True):
            own = f"{name}, seed {seed[0]}" if grouped else name
            if own in result.methods:
                own = f"{name}, {run.folder}"
            result.methods[own], result.about[own] = run.method, run.about
            if grouped:
                result.groups.setdefault(f"{name} (n={len(alike)})", []).append(own)
    return result


def _read_run(text: str, device: torch.device) -> _Run:
    name, equals, folder = text.partition("=")
    if not equals or Path(text).is_dir():
        name, folder = "", text
    if equals and not folder:
        raise ValueError(f"--run {text} has no folder: give NAME=FOLDER, or the folder of a training run")
    path = Path(folder)
    config, method, about = (method_of_file if path.suffix == ".safetensors" else method_of_run)(path, device)
    return _Run(name.strip() or run_name(config), bool(name.strip()), path, config, method, about)


def run_name(config: TrainingConfig) -> str:
    """What was trained on what, where it is not the generator's scenes."""
    options = "".join(f", {key} {value}" for key, value in config.cost_options.items())
    name = config.network if config.cost == "none" else f"{config.network} + {config.cost}{options}"
    kind = config.data.get("kind", "generator")
    frames = f", frames {' '.join(map(str, config.data['frames']))}" if config.data.get("frames") else ""
    return name if kind == "generator" else f"{name}, trained on {kind}{frames}"


def _without_seeds(config: TrainingConfig) -> str:
    settings = config.to_dict()
    settings.pop("seed")
    settings["data"] = {key: value for key, value in settings["data"].items() if key != "seed"}
    return repr(sorted(settings.items()))


def _seeds(config: TrainingConfig) -> tuple[int, int]:
    return config.seed, config.data.get("seed", 0)


def method_of_run(folder: Path, device: torch.device) -> tuple[TrainingConfig, Compared, dict[str, Any]]:
    """The averaged network of a training run's folder, and how long it was trained on what."""
    checkpoint = read_checkpoint(folder / "checkpoint.pt")
    config = checkpoint.config
    network = build_network(config)
    restore(network, checkpoint.ema, folder)
    network = network.to(device).eval()
    objective, half = build_objective(config), config.precision == "bfloat16"
    if isinstance(network, SweepNet) and config.cost == "reblur" and not config.cost_options:
        # As it would ship: large pictures are read in tiles, guided by themselves made small.
        method = method_of_network(ready(network, device), run_name(config))
    else:
        method = trained_method(run_name(config), network, objective, half=half)
    data = config.data.get("kind", "generator")
    trained = None
    if data != "generator":
        known = {key: value for key, value in config.data.items() if key in ("near", "far", "spacing")}
        trained = ItemsConfig(planes=config.planes, **known).grid()
    elif config.network == "papernet":
        trained = DepthGrid.uniform_in_inverse_depth(0.1, 3.0, 64)
    windows = None
    if isinstance(objective, PaperObjective):
        windows = partial(_read_windows, network, objective, half)
    if config.network == "papernet" and trained is not None and data != "generator":
        method = replace(method, predict=partial(over_trained_planes, method.predict, trained))
    displayed = config.cost in ("paper", "none")  # the rivals, too, read values as they are displayed
    about = {
        "steps": checkpoint.step, "minutes": checkpoint.seconds / 60, "batch_size": config.batch_size, "data": data,
        "parameters": sum(p.numel() for p in network.parameters()), "config": config.to_dict(),
    }  # fmt: skip
    return config, Compared(choose_method(method), displayed, trained, windows), about


def method_of_file(path: Path, device: torch.device) -> tuple[TrainingConfig, Compared, dict[str, Any]]:
    """Weights of a SweepNet as they ship (scripts/ship_sweepnet.py writes such a file)."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give weights that ship_sweepnet.py wrote, or a run's folder")
    content, network = path.read_bytes(), SweepNet()
    fill(network, load(content), path, "give weights of a SweepNet as it is now")
    config = TrainingConfig(network="sweepnet", cost="reblur", steps=1, batch_size=1, learning_rate=1.0)
    about = {
        "file": path.name, "sha256": hashlib.sha256(content).hexdigest(),
        "parameters": sum(p.numel() for p in network.parameters()),
    }  # fmt: skip
    method = method_of_network(ready(network, device), path.stem)
    return config, Compared(choose_method(method)), about


def over_trained_planes(
    predict: Predict, trained: DepthGrid, stack: FocalStack, planes: DepthGrid, options: Options
) -> DepthPrediction:
    """A PaperNet knows these planes alone, all multiplied by one factor."""
    return predict(stack, planes_over(planes, trained=trained), options)


def _read_windows(
    network: nn.Module, objective: PaperObjective, half: bool, sample: Sample, windows: Windows, size: int
) -> Tensor:
    return read_windows(network, objective, sample, windows, size, half=half)
