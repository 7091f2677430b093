"""What the neighbourhood in the paper's cost is worth as photos get noisier: the lowest cost with and without it.

    python research/scripts/neighbours.py BENCHMARK OUT.json [--every 1] [--run "PaperNet=runs/paper-defocusnet" ...]

On every so many-th test stack of the rendered benchmark, at scale 1. Bounding the cost and normalising it, the paper's
other two means, do not move its minimum: what they are worth only networks can tell, those of the runs given.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from focalsweep.methods.method import Method, Options, uninformed
from focalsweep.methods.paper import PAPER_PLANES
from focalsweep.methods.registry import choose_method
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.costs import PaperCost
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.datasets.defocusnet import DATASET_END, benchmark_part
from focalsweep_research.environment import describe
from focalsweep_research.metrics.errors import Scoreboard
from focalsweep_research.protocols.methods import Compared
from focalsweep_research.protocols.robustness import Flaws, spoiled
from focalsweep_research.protocols.training_runs import methods_of_runs
from focalsweep_research.synthesis.sample import Sample

NOISE = (0.0, 0.005, 0.01, 0.02, 0.04)
COSTS = {
    "with neighbours (Gaussian of 1 px)": PaperCost(),
    "each pixel alone": replace(PaperCost(), neighbourhood_sigma_px=0.0),
}


def lowest(cost: PaperCost, stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    volume = cost_volume(stack, planes, cost)
    return uninformed(1 / find_minimum(volume, planes.as_batch(len(volume))).inverse_depth, planes)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--run", action="append", default=[], help="NAME=FOLDER of a training run")
    chosen = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained = methods_of_runs(chosen.run, COSTS, device)
    methods = {
        name: Compared(choose_method(Method(name, "", partial(lowest, cost))), own_planes=PAPER_PLANES)
        for name, cost in COSTS.items()
    } | trained.methods
    stacks = benchmark_part(chosen.benchmark, "test")[:: chosen.every]
    boards = {noise: Scoreboard(per_picture=True, rescalings=("raw",), farthest=DATASET_END) for noise in NOISE}
    for number, item in enumerate(stacks):
        stack, depth = item.stack.to(device).as_batch(), item.depth.to(device)[None].clamp(max=DATASET_END)
        for noise, board in boards.items():
            sample = spoiled(Sample(stack, PAPER_PLANES, depth), Flaws(noise_std=noise), seed=number)
            for name, method in methods.items():
                board.add(name, method.read(replace(sample, planes=method.planes(item.stack))), depth)
        print(f"{number + 1} of {len(stacks)}", flush=True)
    rows = [{"noise": f"{noise:g}", **row} for noise, board in boards.items() for row in board.rows()]
    table = {"columns": ["rmse"], "across": "noise", "sections": []}
    about = {**describe(device, 0), "stacks": len(stacks), "trained": trained.about}
    record = {**about, "rows": rows, "table": table}
    write_files({chosen.output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
