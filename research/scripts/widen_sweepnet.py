"""Weights of a SweepNet that has grown since: new inputs count for nothing yet, new layers add next to nothing.

    python research/scripts/widen_sweepnet.py OLD.safetensors NEW.safetensors

New inputs of a layer stand behind the old ones. Run once, from the weights of version 0.1 to those that training with a
guide began with.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor

from focalsweep.model.sweepnet import SweepNet
from focalsweep.results.writing import write_files

FAINT = 0.01  # of new residual blocks: at 0 a ReLU would never learn


def widened(old: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of today's network with what `old` knows."""
    torch.manual_seed(0)
    network = SweepNet()
    state = {key: value for key, value in network.state_dict().items() if value.is_floating_point()}
    for key, value in state.items():
        if key in old:
            new = torch.zeros_like(value)
            new[tuple(slice(length) for length in old[key].shape)] = old[key].float()
            state[key] = new
        elif key.startswith("grow_3."):
            state[key] = torch.zeros_like(value)
        elif key.startswith("detail.body.") and key.endswith((".1.weight", ".1.bias")):
            state[key] = torch.full_like(value, FAINT)
    unknown = set(old) - set(state)
    if unknown:
        raise ValueError(f"today's network has no {min(unknown)}")
    return {key: value.half().contiguous() for key, value in state.items()}


def main() -> None:
    old, new = map(Path, sys.argv[1:])
    content = save(widened(load(old.read_bytes())))
    write_files({new: lambda file: file.write(content)})


if __name__ == "__main__":
    main()
