"""A run on disk: written whole or not at all, and read without ever executing what a file says.

The randomness of step s is seeded from the config's seed and s (see loop.py), so seed and step are the state of the
random generators, for any number of processes: a checkpoint needs no other.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from focalsweep.model.weights import fill
from focalsweep.results.writing import write_files
from focalsweep_research.training.config import TrainingConfig


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a run needs to go on.

    Args:
        network, ema, optimizer: their `state_dict`s; `ema` has the averaged weights, the ones to use.
        step: updates done.
        seconds: trained so far, over all sittings.
        config: of the run; on disk a plain dict.
        batches: that a step sees, over all processes; 0 where it is not known (an older file).
    """

    network: dict[str, Any]
    ema: dict[str, Any]
    optimizer: dict[str, Any]
    step: int
    seconds: float
    config: TrainingConfig
    batches: int = 0


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file at `path` in one move: a crash at any moment leaves the old one or the new one."""
    record = {key.name: getattr(checkpoint, key.name) for key in fields(Checkpoint)}
    record["config"] = checkpoint.config.to_dict()

    def write(file: IO[bytes]) -> None:
        try:
            torch.save(record, file)
        except RuntimeError as error:  # torch's own, over what the disk said
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise

    write_files({path: write})


def read_checkpoint(path: str | Path) -> Checkpoint:
    """The checkpoint in a file, on the CPU; tensors and plain values only, whatever the file holds."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: a run writes it at its first checkpoint")
    with path.open("rb") as file:
        try:
            record = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # torch has no one error for bad bytes: OSError and KeyError occur too
            raise ValueError(f"{path} is no checkpoint, or a truncated one: take another, or train again") from None
    types = {"network": dict, "ema": dict, "optimizer": dict, "step": int, "seconds": float, "config": dict}
    for name, kind in types.items():
        if not isinstance(record, dict) or not isinstance(record.get(name), kind):
            raise ValueError(f"{path} is no checkpoint of focalsweep: it has no {name!r}")
    config = TrainingConfig.from_dict(record["config"], path)
    return Checkpoint(**{name: record[name] for name in types} | {"config": config}, batches=record.get("batches", 0))


def restore(module: nn.Module, state: dict[str, Any], path: str | Path) -> None:
    """Load weights that must fit the module in every name and shape; `path` is for the error."""
    fill(module, state, path, "it is of another network, or of other network_options than its config's")
