"""The methods that `focalsweep evaluate` knows by name; the networks of training runs are in `runs`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from focalsweep import baselines
from focalsweep.baselines import networks
from focalsweep.evaluation.methods import Method, Windows
from focalsweep.model.weights import load_network, load_papernet
from focalsweep.optics.psf import Disk, Sampled
from focalsweep.paper import PAPER_PLANES, planes_over
from focalsweep.pipeline import planes_in_sight
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.costs import Cost, ReblurCost
from focalsweep.synthesis.sample import Sample
from focalsweep.training.objectives import PaperObjective, SweepObjective, depth_at, swept
from focalsweep.training.rivals import Objective
from focalsweep.types import DepthGrid, FocalStack

FIXED_PLANES = DepthGrid.uniform_in_inverse_depth(0.1, 3.0, 64)
MOST_PLANES = 512
NAMES = (
    "flat", "argmin", "argmin-fixed", "argmin-sampled", "argmin-paper",
    "sweep", "sweep-fixed", "sweep-sampled", "paper",
)  # fmt: skip


def method_of(name: str, device: torch.device) -> Method:
    """By name.

    "argmin" and "sweep" (the shipped network) look at the depths in sight, as `estimate_depth` does; "-fixed" at the
    range that datasets state, 0.1 to 3 m, in equal steps of inverse depth; "-sampled" knows that pictures were blurred
    by kernels sampled on the pixels (`Sampled(Disk())`), as NYU's are, and not by a lens. "argmin-paper" is the lowest
    of the paper's cost, on the paper's planes, "paper" what its network (as packed) makes of it. Rivals go by the names
    of `baselines.METHODS`. "flat" sees nothing: a wall in the middle of the focus distances, and after rescaling one
    at the right distance. A number after "argmin" or "sweep" and what they know is that of their planes in place of 64:
    "sweep-80", "sweep-sampled-80".
    """
    counted = re.fullmatch(r"((?:argmin|sweep)(?:-fixed|-sampled)?)-(\d+)", name)
    if counted:
        return _with_planes(method_of(counted[1], device), int(counted[2]))
    if name in baselines.METHODS:
        check_weights(name)
        return Method(lambda sample: _rival(sample, name), in_sight, displayed=name != "suwajanakorn")
    if name not in NAMES:
        names = ", ".join((*NAMES, *baselines.METHODS))
        raise ValueError(f"no method is called {name!r}: it is one of {names}")
    if name == "flat":
        return Method(_flat, _fixed)
    if name == "argmin-paper":
        return Method(lambda sample: lowest(sample, "paper"), lambda _: PAPER_PLANES, displayed=True)
    if name == "paper":
        paper, half = PaperObjective(), device.type == "cuda"
        planes = lambda _: PAPER_PLANES  # noqa: E731
        return method_of_network(load_papernet(device), paper, planes, displayed=True, half=half, refit=planes_over)
    planes = _fixed if name.endswith("-fixed") else in_sight
    cost = ReblurCost(psf=Sampled(Disk())) if name.endswith("-sampled") else ReblurCost()
    if name.startswith("argmin"):
        return Method(lambda sample: lowest(sample, cost), planes)
    return method_of_sweepnet(load_network("sweepnet", device), cost, planes)


def check_weights(name: str) -> None:
    """Raises where a rival's network has none, before hours of work and not after them."""
    if name in networks.NETWORKS:
        networks.find_weights(name)


def _with_planes(method: Method, count: int) -> Method:
    """The method with so many planes, over the range that it would look at."""
    if not 2 <= count <= MOST_PLANES:
        raise ValueError(f"a sweep has 2 to {MOST_PLANES} planes here, but {count} are asked for")

    def resampled(grid: DepthGrid) -> DepthGrid:
        return DepthGrid.uniform_in_inverse_depth(grid.depths[..., 0], grid.depths[..., -1], count)

    return replace(method, planes=lambda stack: resampled(method.planes(stack)), refit=resampled)


def method_of_sweepnet(network: nn.Module, cost: Cost, planes: Callable[[FocalStack], DepthGrid]) -> Method:
    """A SweepNet that is ready to predict."""
    objective = SweepObjective(cost)
    return Method(lambda sample: depth_at(objective.read(network, sample).position.float(), sample), planes)


def method_of_network(
    network: nn.Module,
    objective: Objective,
    planes: Callable[[FocalStack], DepthGrid],
    *,
    displayed: bool,
    half: bool,
    refit: Callable[[DepthGrid], DepthGrid] | None = None,
) -> Method:
    """A network on the device where it will run, read as its training reads it; `half`: in half precision on a GPU."""
    device = next(network.parameters()).device

    def in_precision(read: Callable[[], Tensor]) -> Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
            return read().float()

    def read(sample: Sample) -> Tensor:
        return depth_at(in_precision(lambda: objective.read(network, sample).position), sample)

    def read_windows(sample: Sample, windows: Windows, size: int) -> Tensor:
        assert isinstance(objective, PaperObjective)
        positions = in_precision(lambda: objective.read_windows(network, sample, windows, size))
        return depth_at(positions[None].flatten(1, 2), sample).view_as(positions)

    by_window = read_windows if isinstance(objective, PaperObjective) else None
    return Method(read, planes, displayed=displayed, refit=refit, read_windows=by_window)


def in_sight(stack: FocalStack) -> DepthGrid:
    """The planes over what the stack shows, as `estimate_depth` has them."""
    return planes_in_sight(stack)[0]


def _fixed(_: FocalStack) -> DepthGrid:
    return FIXED_PLANES


def _rival(sample: Sample, name: str) -> Tensor:
    return baselines.METHODS[name](sample.stack.as_batch(), sample.planes).depth


def _flat(sample: Sample) -> Tensor:
    stack = sample.stack.as_batch()
    distance = (1 / (1 / stack.focus_distances).mean(-1)).to(stack.images)
    return distance[:, None, None].expand(len(distance), *stack.images.shape[-2:])


def lowest(sample: Sample, cost: str | Cost) -> Tensor:
    """Depth at the lowest of the costs, between planes."""
    volume = swept(sample, cost)
    planes = sample.planes.as_batch(len(volume))
    return 1 / find_minimum(volume, planes).inverse_depth
