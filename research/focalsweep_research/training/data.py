"""Where a run's batches come from: the generator, or a dataset of stacks with depth; a part of each only validates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from focalsweep_research.datasets.item import Item
from focalsweep_research.datasets.source import PAPER_SCALES, ItemsConfig, as_displayed, make_item_source
from focalsweep_research.synthesis.generator import make_source
from focalsweep_research.synthesis.generator_config import read_generator_config
from focalsweep_research.synthesis.sample import Source
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.kinds import known_datasets

VALIDATION_EVERY = 10  # of a dataset's training stacks, one in ten only validates; test stacks are never touched
DATA_SEEDS = 1000  # between the data's seeds of two runs: validation and protocols count on from theirs


def make_sources(
    config: TrainingConfig, textures: Path | None, folder: Path | None, device: torch.device, cache: Path | None = None
) -> tuple[Source, Source]:
    """For training and validation, as `[data]` of the config says; `folder` holds the dataset, `cache` is a folder
    that keeps what is rendered from it.

    What is drawn for training changes with the config's seed. What validates stays, so that runs can be compared.
    """
    data = dict(config.data)
    kind = data.pop("kind", "generator")
    if kind == "generator":
        return _generator_sources(config, data, textures)
    datasets = known_datasets()
    if kind not in datasets:
        raise ValueError(f"[data] kind must be one of generator, {', '.join(datasets)}, but is {kind!r}")
    if folder is None:
        raise ValueError(f"[data] asks for the stacks of {kind}: give their folder with --data")
    items = datasets[kind].open(folder, device, cache)
    settings = _read_items_config(config, data)
    training = replace(settings, seed=settings.seed + DATA_SEEDS * config.seed)
    validation = replace(settings, turns=False, seed=settings.seed + 1)
    sources = make_item_source(_Every(items, False), training), make_item_source(_Every(items, True), validation)
    if datasets[kind].displayed and config.cost in ("paper", "none"):  # networks that read values as they are displayed
        return _displayed(sources[0]), _displayed(sources[1])
    return sources


def _displayed(source: Source) -> Source:
    return lambda step, batch_size, device: as_displayed(source(step, batch_size, device))


def _generator_sources(config: TrainingConfig, data: dict[str, Any], textures: Path | None) -> tuple[Source, Source]:
    if config.image_size[0] != config.image_size[1]:
        raise ValueError(f"the generator's pictures are square, but image_size is {list(config.image_size)}")
    data = {"size": config.image_size[0], "planes": config.planes, **data}
    if textures:
        data["texture_folder"] = str(textures)
    settings = read_generator_config({**data, "held_out": False})
    training = replace(settings, seed=settings.seed + DATA_SEEDS * config.seed)
    validation = replace(settings, held_out=True, replays=1, seed=settings.seed + 1)
    return make_source(training), make_source(validation)


def _read_items_config(config: TrainingConfig, data: dict[str, Any]) -> ItemsConfig:
    known = {key.name for key in fields(ItemsConfig)} - {"size", "planes"}
    for key in data:
        if key not in known:
            raise ValueError(f"[data] has no key {key!r}: it is one of kind, {', '.join(sorted(known))}")
    if data.get("scales") == "paper":
        data["scales"] = PAPER_SCALES
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return ItemsConfig(size=config.image_size[0], planes=config.planes, **values)


class _Every(Sequence[Item]):
    """The items that validate (every tenth), or the others."""

    def __init__(self, items: Sequence[Item], validates: bool) -> None:
        last = VALIDATION_EVERY - 1
        self._items = items
        self._places = [i for i in range(len(items)) if (i % VALIDATION_EVERY == last) == validates]
        if not self._places:
            raise ValueError(f"{len(items)} stacks are too few to train and to validate on: give {VALIDATION_EVERY}")

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        return self._items[self._places[index]]
