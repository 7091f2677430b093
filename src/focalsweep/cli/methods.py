"""The methods that `focalsweep evaluate` knows: by name, and the networks of training runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalsweep import baselines
from focalsweep.datasets.source import ItemsConfig
from focalsweep.evaluation.methods import Method, Windows
from focalsweep.model.weights import load_network
from focalsweep.optics.psf import Disk, Sampled
from focalsweep.pipeline import planes_in_sight
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.costs import Cost, ReblurCost
from focalsweep.synthesis.sample import Sample
from focalsweep.training.checkpoint import read_checkpoint, restore
from focalsweep.training.objectives import PaperObjective, SweepObjective, depth_at, swept
from focalsweep.training.run import build_network, build_objective
from focalsweep.types import DepthGrid, FocalStack

PAPER_PLANES = DepthGrid.uniform_in_depth()
FIXED_PLANES = DepthGrid.uniform_in_inverse_depth(0.1, 3.0, 64)
NAMES = ("argmin", "argmin-fixed", "argmin-sampled", "argmin-paper", "sweep", "sweep-fixed", "sweep-sampled")


def method_of(name: str, device: torch.device) -> Method:
    """By name.

    "argmin" and "sweep" (the shipped network) look at the depths in sight, as `estimate_depth` does; "-fixed" at the
    range that datasets state, 0.1 to 3 m, in equal steps of inverse depth; "-sampled" knows that pictures were blurred
    by kernels sampled on the pixels (`Sampled(Disk())`), as NYU's are, and not by a lens. "argmin-paper" is the lowest
    of the paper's cost, on the paper's planes. Rivals go by the names of `baselines.METHODS`.
    """
    if name in baselines.METHODS:
        return Method(lambda sample: _rival(sample, name), _in_sight, displayed=name != "suwajanakorn")
    if name not in NAMES:
        names = ", ".join((*NAMES, *baselines.METHODS))
        raise ValueError(f"no method is called {name!r}: it is one of {names}")
    if name == "argmin-paper":
        return Method(lambda sample: _lowest(sample, "paper"), lambda _: PAPER_PLANES, displayed=True)
    planes = _fixed if name.endswith("-fixed") else _in_sight
    cost = ReblurCost(psf=Sampled(Disk())) if name.endswith("-sampled") else ReblurCost()
    if name.startswith("argmin"):
        return Method(lambda sample: _lowest(sample, cost), planes)
    network, objective = load_network("sweepnet", device), SweepObjective(cost)
    return Method(lambda sample: depth_at(objective.read(network, sample).position.float(), sample), planes)


def method_of_run(folder: Path, device: torch.device) -> tuple[str, Method, dict[str, Any]]:
    """The averaged network of a training run's folder, its name, and how long it was trained on what."""
    checkpoint = read_checkpoint(folder / "checkpoint.pt")
    config = checkpoint.config
    network = build_network(config)
    restore(network, checkpoint.ema, folder)
    network = network.to(device).eval()
    objective = build_objective(config)
    data = config.data.get("kind", "generator")

    def in_precision(read: Callable[[], Tensor]) -> Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.precision == "bfloat16"):
            return read().float()

    def read(sample: Sample) -> Tensor:
        return depth_at(in_precision(lambda: objective.read(network, sample).position), sample)

    def read_windows(sample: Sample, windows: Windows, size: int) -> Tensor:
        assert isinstance(objective, PaperObjective)
        positions = in_precision(lambda: objective.read_windows(network, sample, windows, size))
        return depth_at(positions[None].flatten(1, 2), sample).view_as(positions)

    if data == "generator":
        planes = _fixed if config.network == "papernet" else _in_sight
    else:
        known = {key: value for key, value in config.data.items() if key in ("near", "far", "spacing")}
        grid = ItemsConfig(planes=config.planes, **known).grid()
        planes = lambda _: grid  # noqa: E731
    method = Method(
        read,
        planes,
        displayed=config.cost in ("paper", "none"),  # the rivals, too, read values as they are displayed
        read_windows=read_windows if isinstance(objective, PaperObjective) else None,
    )
    options = "".join(f", {key} {value}" for key, value in config.cost_options.items())
    about = {
        "steps": checkpoint.step, "minutes": checkpoint.seconds / 60, "batch_size": config.batch_size, "data": data
    }  # fmt: skip
    name = config.network if config.cost == "none" else f"{config.network} + {config.cost}{options}"
    return name, method, about


def _in_sight(stack: FocalStack) -> DepthGrid:
    return planes_in_sight(stack)[0]


def _fixed(_: FocalStack) -> DepthGrid:
    return FIXED_PLANES


def _rival(sample: Sample, name: str) -> Tensor:
    return baselines.METHODS[name](sample.stack.as_batch(), sample.planes).depth


def _lowest(sample: Sample, cost: str | Cost) -> Tensor:
    volume = swept(sample, cost)
    planes = sample.planes.as_batch(len(volume))
    return 1 / find_minimum(volume, planes).inverse_depth
