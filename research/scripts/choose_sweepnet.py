"""Whether a run that trained the shipped weights on is better than they are, or their mean: by training data alone.

    python research/scripts/choose_sweepnet.py RUN --nyu NYU --benchmark BENCHMARK [--every 12] [--ship]

On every 12th training picture of NYU (`sweep:psf=sampled`) and every 5th training stack of the rendered benchmark
(`sweep`): the network itself trains on neither, and no test picture is looked at. The one whose errors are the lowest
as shares of the shipped weights', on the mean of both, is named; with --ship it becomes the package's file, and its
SHA-256 replaces that in `model/weights.py` (the recipe is yours to write).
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor

from focalsweep.methods.registry import Choice
from focalsweep.methods.sweep import method_of_network
from focalsweep.model import weights
from focalsweep.model.sweepnet import SweepNet
from focalsweep.results.writing import write_files
from focalsweep_research.datasets.defocusnet import DATASET_END, benchmark_part
from focalsweep_research.datasets.nyu import CROPS, Nyu, NyuSetup, part_of
from focalsweep_research.metrics.errors import Scoreboard
from focalsweep_research.protocols.methods import Compared
from focalsweep_research.protocols.stacks import count, within_planes
from focalsweep_research.training.checkpoint import read_checkpoint

State = dict[str, Tensor]
SHIPPED = weights.WEIGHTS["sweepnet"]
FILE = weights.FOLDER / SHIPPED.file
STACKS_EVERY = 5


def candidates(run: Path) -> dict[str, State]:
    """In half precision, as they would ship."""
    shipped = {key: value.float() for key, value in load(FILE.read_bytes()).items()}
    averaged = read_checkpoint(run / "checkpoint.pt").ema
    refined = {key: averaged[key].float().cpu() for key in shipped}
    mean = {key: (shipped[key] + refined[key]) / 2 for key in shipped}
    states = {"shipped": shipped, "refined": refined, "mean of both": mean}
    return {name: {key: value.half() for key, value in state.items()} for name, state in states.items()}


def as_method(state: State, psf: str, device: torch.device) -> Compared:
    network = SweepNet(**SHIPPED.options)
    weights.fill(network, state, FILE, "train it from these weights")
    method = method_of_network(weights.ready(network, device), "refined")
    return Compared(Choice("refined", method, {"psf": psf}))


@torch.no_grad()
def errors(states: dict[str, State], nyu: Path, benchmark: Path, every: int) -> dict[str, list[float]]:
    """RMSE of each on both data sets."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pictures = Nyu(*part_of(nyu, "train"), setup=NyuSetup(), device=device)
    stacks = benchmark_part(benchmark, "train")
    boards = [Scoreboard(per_picture=True, rescalings=("raw",), farthest=DATASET_END) for _ in range(2)]
    methods = {name: as_method(state, "sampled", device) for name, state in states.items()}
    for i in range(0, len(pictures), every):
        count(boards[0], methods, pictures[i], device, windows=CROPS, displayed=True)
    methods = {name: as_method(state, "disk", device) for name, state in states.items()}
    for i in range(0, len(stacks), STACKS_EVERY):
        item = stacks[i]
        count(boards[1], methods, replace(item, depth=within_planes(item.depth)), device)
    found: dict[str, list[float]] = {name: [] for name in states}
    for board, what in zip(boards, ("NYU", "benchmark"), strict=True):
        for row in board.rows():
            found[row["method"]].append(row["rmse"])
            print(f"{what}, training part: {row['method']} {row['rmse']:.5f}", flush=True)
    return found


def ship(state: State) -> None:
    content = save(state)
    sha256 = hashlib.sha256(content).hexdigest()
    table = Path(weights.__file__)
    text = table.read_text().replace(SHIPPED.sha256, sha256).encode()
    write_files({FILE: lambda file: file.write(content), table: lambda file: file.write(text)})
    print(sha256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--nyu", type=Path, required=True)
    parser.add_argument("--benchmark", type=Path, required=True)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--ship", action="store_true")
    chosen = parser.parse_args()
    states = candidates(chosen.run)
    found = errors(states, chosen.nyu, chosen.benchmark, chosen.every)
    shares = {name: sum(a / b for a, b in zip(rmse, found["shipped"], strict=True)) / 2 for name, rmse in found.items()}
    best = min(shares, key=lambda name: shares[name])
    print(", ".join(f"{name} {share:.4f}" for name, share in shares.items()), f"of the shipped: {best}", flush=True)
    if chosen.ship and best != "shipped":
        ship(states[best])


if __name__ == "__main__":
    main()
