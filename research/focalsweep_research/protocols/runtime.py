"""Protocol `runtime`: milliseconds a stack of 5 x 256 x 256, parameters and peak memory of every method (Table 5).

Pictures are the demo's, in memory and on the device; nothing is read or written, the range is given, and no
all-in-focus picture is made. Networks without weights at hand are timed untrained: that takes as long.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from focalsweep.estimate import predict
from focalsweep.methods.paper import PAPER_PLANES, farthest_frame, within_blur
from focalsweep.methods.paper import predict as read_paper
from focalsweep.methods.sweep import read_volume, smooth_uncertain
from focalsweep.model.papernet import PaperNet
from focalsweep.model.weights import load_network, load_papernet
from focalsweep.photos.demo import DEMO_STACK
from focalsweep.photos.reading import load_stack
from focalsweep.sweep.argmin import find_minimum, read_costs
from focalsweep.sweep.colour import project_to_dominant_colour
from focalsweep.sweep.costs import PaperCost, ReblurCost
from focalsweep.sweep.frames import sharpest_frames
from focalsweep.sweep.graphs import SWEEPS, GraphCache
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import DepthGrid, FocalStack
from focalsweep_research.protocols.speed import Say, peak_memory, summary, time_jobs
from focalsweep_research.rivals import networks

SIZE_PX, FRAMES = 256, 5
REPEATS = 15
PAPER, ARGMIN_OF_PAPER = "paper:size=full", "argmin:cost=paper"
NAMES = (
    "sweep",
    "argmin",
    PAPER,
    ARGMIN_OF_PAPER,
    "focus_measure",
    "suwajanakorn",
    "ddff",
    "defocusnet",
    "aifdepthnet",
)
ANCHORS = [
    {"method": "PaperNet", "sweep_ms": 4278.0, "network_ms": 25.2, "total_ms": 4303.2},
    {"method": "DefocusNet", "network_ms": 28.5, "total_ms": 28.5},
]
Job = Callable[[], Any]


@dataclass(frozen=True, eq=False)
class Parts:
    """A method as jobs: all of it, and its sweep and what reads the sweep where it has both."""

    total: Job
    sweep: Job | None = None
    network: Job | None = None
    parameters: int = 0


def evaluate_runtime(names: list[str], device: torch.device, say: Say, share: float = 1.0) -> dict[str, Any]:
    """Methods of NAMES in turn, so that ratios mean something on a noisy machine; `share` below 1 repeats less."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"runtime has no method {unknown[0]!r}: it is one of {', '.join(NAMES)}")
    stack = a_stack(device)
    methods = {name: parts_of(name, stack) for name in names}
    jobs = {
        (name, part): job
        for name, parts in methods.items()
        for part in ("total", "sweep", "network")
        if (job := getattr(parts, part)) is not None
    }
    seconds = time_jobs({f"{name}, {part}": job for (name, part), job in jobs.items()}, device, _repeats(share), say)
    rows = []
    for name, parts in methods.items():
        found = {
            part: summary(seconds[f"{name}, {part}"]) for part in ("total", "sweep", "network") if (name, part) in jobs
        }
        peak = peak_on_gpu(parts.total, device) if device.type == "cuda" else peak_on_cpu(name)
        say(f"{name}: {1e3 * found['total']['median_s']:.2f} ms, {peak / 1e6:.0f} MB")
        rows.append(
            {
                "method": name,
                **{f"{part}_ms": 1e3 * figures["median_s"] for part, figures in found.items()},
                "million_parameters": parts.parameters / 1e6,
                "peak_mb": peak / 1e6,
                "seconds": found,
            }
        )
    columns = ["total_ms", "sweep_ms", "network_ms", "million_parameters", "peak_mb"]
    return {
        "protocol": "runtime",
        "input": {"frames": FRAMES, "channels": 3, "height": SIZE_PX, "width": SIZE_PX, "planes": 64},
        "device": device.type,
        "rows": rows,
        "table": {"columns": columns, "sections": []},
        "anchors": ANCHORS,
    }


def _repeats(share: float) -> int:
    return max(3, round(REPEATS * share))


def a_stack(device: torch.device) -> FocalStack:  # batched
    """The demo's first frames, the middle of the picture."""
    stack = load_stack(DEMO_STACK)
    top, left = ((length - SIZE_PX) // 2 for length in stack.size)
    part = stack.cropped(top, left, SIZE_PX, SIZE_PX)
    picked = FocalStack(part.images[:FRAMES], part.focus_distances[:FRAMES], part.camera)
    return picked.to(device, torch.float32).as_batch()


def parts_of(name: str, stack: FocalStack) -> Parts:
    """A method on a batched stack."""
    device = stack.images.device
    planes = DepthGrid.around(stack.one_of_batch(0), 64)
    if name in networks.NETWORKS:
        network = networks.build(name).to(device).eval()
        return Parts(lambda: networks.predict(network, stack, planes), parameters=_count(network))
    if name == "sweep":
        return _sweep_parts(stack, planes)
    if name == "argmin":
        cost, grey = ReblurCost(squash=False), project_to_dominant_colour(stack)
        volume = cost_volume(grey, planes, cost)
        return Parts(
            lambda: predict(stack, name, planes),
            lambda: cost_volume(project_to_dominant_colour(stack), planes, cost),
            lambda: read_costs(grey, planes, cost, volume),
        )
    if name in (PAPER, ARGMIN_OF_PAPER):
        return _paper_parts(name, stack, PAPER_PLANES)
    return Parts(lambda: predict(stack, name, planes))


def _sweep_parts(stack: FocalStack, planes: DepthGrid) -> Parts:
    network = load_network("sweepnet", stack.images.device)
    frames = sharpest_frames(stack, planes).to(stack.images.device)
    volume = cost_volume(project_to_dominant_colour(stack), planes, "reblur")

    def read(volume: Tensor) -> Tensor:
        return smooth_uncertain(stack.images, frames, read_volume(network, stack.images, volume, frames))

    records = GraphCache()  # on a GPU the whole of it is one recorded graph: so must its part be
    return Parts(
        lambda: predict(stack, "sweep", planes),
        lambda: cost_volume(project_to_dominant_colour(stack), planes, "reblur"),
        (lambda: records.run("network", read, volume)) if volume.is_cuda else (lambda: read(volume)),
        _count(network),
    )


def _paper_parts(name: str, stack: FocalStack, planes: DepthGrid) -> Parts:
    """A method that reads the paper's cost: its network, or the lowest."""
    swept = within_blur(stack, planes) if name == PAPER else planes

    def sweep() -> Tensor:
        return cost_volume(stack, swept, PaperCost())

    volume, inverse = sweep(), planes.as_batch(1).to(stack.images)
    if name != PAPER:
        return Parts(lambda: predict(stack, name, planes), sweep, lambda: find_minimum(volume, planes.as_batch(1)))
    network = load_papernet(stack.images.device)
    read = partial(read_paper, network, farthest_frame(stack), volume, inverse)
    return Parts(lambda: predict(stack, name, planes), sweep, read, _count(PaperNet()))


def _count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@torch.no_grad()
def peak_on_gpu(job: Job, device: torch.device) -> int:
    """Bytes beside what lay on the device before: input, weights and other methods' memory."""
    SWEEPS.clear()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    for _ in range(2):  # the second call records its graph, which keeps memory
        job()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def peak_on_cpu(name: str) -> int:
    """Bytes that a fresh process takes beyond what it has before the first run, weights included."""
    done = subprocess.run([sys.executable, "-m", __name__, name], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the memory of {name} could not be measured: {done.stderr.strip()[-400:]}")
    return int(json.loads(done.stdout))


@torch.no_grad()
def _grown(name: str) -> int:
    stack = a_stack(torch.device("cpu"))
    before = peak_memory()
    parts_of(name, stack).total()
    return peak_memory() - before


if __name__ == "__main__":
    print(json.dumps(_grown(sys.argv[1])))
