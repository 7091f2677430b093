"""What the neighbourhood in the paper's cost is worth as photos get noisier: the lowest cost with and without it.

    python benchmarks/neighbours.py BENCHMARK OUT.json [--every 1] [--run "PaperNet=runs/paper-defocusnet" ...]

On every so many-th test stack of the rendered benchmark, at scale 1. Bounding the cost and normalising it, the paper's
other two means, do not move its minimum: what they are worth only networks can tell, those of the runs given.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from focalsweep.cli.methods import lowest
from focalsweep.cli.runs import methods_of_runs
from focalsweep.datasets.defocusnet import benchmark_part
from focalsweep.evaluation.environment import describe
from focalsweep.evaluation.methods import Method
from focalsweep.evaluation.metrics import Scoreboard
from focalsweep.evaluation.robustness import Flaws, spoiled
from focalsweep.evaluation.stacks import FARTHEST
from focalsweep.paper import PAPER_PLANES
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.sweep.costs import PaperCost
from focalsweep.synthesis.sample import Sample

NOISE = (0.0, 0.005, 0.01, 0.02, 0.04)
COSTS = {
    "with neighbours (Gaussian of 1 px)": PaperCost(),
    "each pixel alone": replace(PaperCost(), neighbourhood_sigma_px=0.0),
}


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
        name: Method(partial(lowest, cost=cost), lambda _: PAPER_PLANES) for name, cost in COSTS.items()
    } | trained.methods
    stacks = benchmark_part(chosen.benchmark, "test")[:: chosen.every]
    boards = {noise: Scoreboard(per_picture=True, rescalings=("raw",), farthest=FARTHEST) for noise in NOISE}
    for number, item in enumerate(stacks):
        stack, depth = item.stack.to(device).as_batch(), item.depth.to(device)[None].clamp(max=FARTHEST)
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
