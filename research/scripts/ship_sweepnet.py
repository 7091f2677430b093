"""Training runs of SweepNet, made the weights of the package: their mean, in half precision.

    python research/scripts/ship_sweepnet.py RUN [RUN ...] [--file FILE]

Runs that went on from one another end in one valley, and the mean of their weights lies lower than either end (Izmailov
et al., "Averaging Weights Leads to Wider Optima and Better Generalization"). FILE is by default the package's own. Its
SHA-256 is printed: it goes into `model/weights.py`, with the recipe.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from focalsweep.model.weights import FOLDER, WEIGHTS
from focalsweep.results.writing import write_files
from focalsweep_research.training.checkpoint import read_checkpoint


def mean_of_runs(folders: list[Path]) -> dict[str, Tensor]:
    """The mean of what the runs' networks had become (their running means of weights), in half precision."""
    states = []
    for folder in folders:
        checkpoint = read_checkpoint(folder / "checkpoint.pt")
        if checkpoint.config.network != "sweepnet":
            raise ValueError(f"{folder}: a run of {checkpoint.config.network}: give runs of SweepNet")
        states.append({key: value.float() for key, value in checkpoint.ema.items() if value.is_floating_point()})
    return {key: torch.stack([state[key] for state in states]).mean(0).half() for key in states[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--file", type=Path, default=FOLDER / WEIGHTS["sweepnet"].file)
    chosen = parser.parse_args()
    content = save(mean_of_runs(chosen.runs))
    write_files({chosen.file: lambda file: file.write(content)})
    print(hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    main()
