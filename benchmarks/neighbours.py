"""What the neighbourhood in the paper's cost is worth as photos get noisier: the lowest cost with and without it.

    python benchmarks/neighbours.py BENCHMARK OUT.json [STEP]

On every STEP-th test stack of the rendered benchmark. Bounding the cost and normalising it, the paper's other two
means, do not move its minimum: what they are worth only a network can tell.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from focalsweep.datasets.defocusnet import benchmark_part
from focalsweep.evaluation.environment import describe
from focalsweep.evaluation.metrics import Scoreboard
from focalsweep.evaluation.robustness import Flaws, spoiled
from focalsweep.evaluation.stacks import FARTHEST
from focalsweep.paper import PAPER_PLANES
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.costs import PaperCost
from focalsweep.synthesis.sample import Sample
from focalsweep.training.objectives import swept

NOISE = (0.0, 0.005, 0.01, 0.02, 0.04)
COSTS = {
    "with neighbours (Gaussian of 1 px)": PaperCost(),
    "each pixel alone": replace(PaperCost(), neighbourhood_sigma_px=0.0),
}


@torch.no_grad()
def main(folder: str, output: str, step: str = "1") -> None:
    stacks = benchmark_part(folder, "test")[:: int(step)]
    boards = {noise: Scoreboard(per_picture=True, rescalings=("raw",)) for noise in NOISE}
    for number, item in enumerate(stacks):
        clean = Sample(item.stack.as_batch(), PAPER_PLANES, item.depth[None].clamp(max=FARTHEST))
        for noise, board in boards.items():
            sample = spoiled(clean, Flaws(noise_std=noise), seed=number)
            for name, cost in COSTS.items():
                lowest = find_minimum(swept(sample, cost), sample.planes.as_batch(1))
                board.add(name, (1 / lowest.inverse_depth).clamp(max=FARTHEST), sample.depth)
        print(f"{number + 1} of {len(stacks)}", flush=True)
    rows = [{"noise": f"{noise:g}", **row} for noise, board in boards.items() for row in board.rows()]
    table = {"columns": ["rmse"], "across": "noise", "sections": []}
    record = {**describe(torch.device("cpu"), 0), "stacks": len(stacks), "rows": rows, "table": table}
    write_files({Path(output): lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main(*sys.argv[1:])
