"""The methods that `focalsweep evaluate` knows by name; the networks of training runs are in `runs`."""

from __future__ import annotations

import torch
from torch import Tensor

from focalsweep import baselines
from focalsweep.evaluation.methods import Method
from focalsweep.model.weights import load_network
from focalsweep.optics.psf import Disk, Sampled
from focalsweep.paper import PAPER_PLANES
from focalsweep.pipeline import planes_in_sight
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.costs import Cost, ReblurCost
from focalsweep.synthesis.sample import Sample
from focalsweep.training.objectives import SweepObjective, depth_at, swept
from focalsweep.types import DepthGrid, FocalStack

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
        return Method(lambda sample: _rival(sample, name), in_sight, displayed=name != "suwajanakorn")
    if name not in NAMES:
        names = ", ".join((*NAMES, *baselines.METHODS))
        raise ValueError(f"no method is called {name!r}: it is one of {names}")
    if name == "argmin-paper":
        return Method(lambda sample: _lowest(sample, "paper"), lambda _: PAPER_PLANES, displayed=True)
    planes = _fixed if name.endswith("-fixed") else in_sight
    cost = ReblurCost(psf=Sampled(Disk())) if name.endswith("-sampled") else ReblurCost()
    if name.startswith("argmin"):
        return Method(lambda sample: _lowest(sample, cost), planes)
    network, objective = load_network("sweepnet", device), SweepObjective(cost)
    return Method(lambda sample: depth_at(objective.read(network, sample).position.float(), sample), planes)


def in_sight(stack: FocalStack) -> DepthGrid:
    """The planes over what the stack shows, as `estimate_depth` has them."""
    return planes_in_sight(stack)[0]


def _fixed(_: FocalStack) -> DepthGrid:
    return FIXED_PLANES


def _rival(sample: Sample, name: str) -> Tensor:
    return baselines.METHODS[name](sample.stack.as_batch(), sample.planes).depth


def _lowest(sample: Sample, cost: str | Cost) -> Tensor:
    volume = swept(sample, cost)
    planes = sample.planes.as_batch(len(volume))
    return 1 / find_minimum(volume, planes).inverse_depth
