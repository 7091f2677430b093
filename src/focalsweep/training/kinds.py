"""What can be trained, on what: networks with their objectives, and datasets, by name.

Other packages add theirs by the entry point `focalsweep.training`: a function without arguments that calls
`register_network` and `register_dataset`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from focalsweep.datasets.item import Item
from focalsweep.synthesis.sample import Sample

if TYPE_CHECKING:
    from focalsweep.training.config import TrainingConfig
    from focalsweep.training.objectives import Figures, Reading

GROUP = "focalsweep.training"


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


_networks: dict[str, NetworkKind] = {}
_datasets: dict[str, DatasetKind] = {}


def register_network(name: str, kind: NetworkKind) -> None:
    _networks[name] = kind


def register_dataset(name: str, kind: DatasetKind) -> None:
    _datasets[name] = kind


def known_networks() -> dict[str, NetworkKind]:
    _load_other_packages()
    return _networks


def known_datasets() -> dict[str, DatasetKind]:
    _load_other_packages()
    return _datasets


@cache
def _load_other_packages() -> None:
    from focalsweep.training import ours

    ours.register()
    for entry in entry_points(group=GROUP):
        entry.load()()
