"""What can be trained, on what: networks with their objectives, and datasets, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from focalsweep_research.datasets.item import Item
from focalsweep_research.synthesis.sample import Sample

if TYPE_CHECKING:
    from focalsweep_research.training.config import TrainingConfig
    from focalsweep_research.training.objectives import Figures, Reading

GROUP = "focalsweep_research.training"


class Objective(Protocol):
    """What a network is trained for: loss and figures for `training.loop.train`, and what it says, for people."""

    def __call__(self, network: Any, sample: Sample) -> tuple[Tensor, Figures]: ...

    def read(self, network: Any, sample: Sample) -> Reading: ...


@dataclass(frozen=True)
class NetworkKind:
    """A network that a config names.

    Args:
        build: the network of a config, with fresh weights.
        objective: what it is trained for.
        reads_costs: whether it reads a cost volume; else the frames alone, and `cost` is "none".
    """

    build: Callable[[TrainingConfig], nn.Module]
    objective: Callable[[TrainingConfig], Objective]
    reads_costs: bool = True


@dataclass(frozen=True)
class DatasetKind:
    """Stacks with depth that a config names as its `[data] kind`.

    Args:
        open: (folder, device, cache folder) -> the items to train on.
        displayed: its values are display-encoded and stand as light: networks that read values as they are displayed
            see them so.
    """

    open: Callable[[Path, torch.device, Path | None], Sequence[Item]]
    displayed: bool = False


NETWORKS: dict[str, NetworkKind] = {}
DATASETS: dict[str, DatasetKind] = {}


def known_networks() -> dict[str, NetworkKind]:
    """By name; `ours` and `theirs` fill the tables when they are first asked for."""
    _fill()
    return NETWORKS


def known_datasets() -> dict[str, DatasetKind]:
    """By the `kind` of a config's `[data]`; the generator is none of them."""
    _fill()
    return DATASETS


@cache
def _fill() -> None:
    from focalsweep_research.training import ours, theirs

    ours.register()
    theirs.register()
