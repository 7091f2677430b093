"""Batches from the generator and from stacks of your own: which train, which validate."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from focalsweep_research.datasets.item import Item, Items
from focalsweep_research.training import kinds
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.data import make_sources
from focalsweep_research.training.objectives import uniform_in_depth
from tests.demo import FOLDER, demo_stack
from tests.errors import assert_one_sentence, message_of

CPU = torch.device("cpu")


def config(cost: str = "paper", **data: Any) -> TrainingConfig:
    return TrainingConfig(
        "papernet", cost, steps=1, batch_size=2, learning_rate=1e-3, image_size=(16, 16), planes=8, data=data
    )


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's stack ten times, each a window of it, with its depth."""
    folder = tmp_path_factory.mktemp("stacks")
    depth = (demo_stack().depth.numpy() * 1e4).round().astype(np.uint16)
    for number in range(10):
        stack = folder / f"stack_{number}"
        stack.mkdir()
        shutil.copy(FOLDER / "stack.toml", stack)
        window = (slice(20 * number, 20 * number + 24), slice(30, 62))
        for path in FOLDER.glob("frame_*.png"):
            cv2.imwrite(str(stack / path.name), np.asarray(cv2.imread(str(path)))[window])
        cv2.imwrite(str(stack / "depth_tenth_mm.png"), depth[window])
    return folder


def seen(source: Any, steps: int) -> set[float]:
    """The mean depth of every stack in the first steps, by which it is known."""
    return {round(float(depth.nanmean()), 2) for step in range(steps) for depth in source(step, 2, CPU).depth}


def test_stacks_of_your_own_train_and_validate(stacks: Path) -> None:
    training, validation = make_sources(config(kind="stacks", spacing="depth", scales="paper"), None, stacks, CPU)
    samples = [training(step, 2, CPU) for step in range(5)]
    assert all(uniform_in_depth(sample.planes) for sample in samples)
    assert samples[0].stack.images.shape == (2, 7, 3, 16, 16)
    nearest = torch.cat([sample.stack.focus_distances[:, 0] for sample in samples]) / 0.38
    assert torch.allclose(nearest * 2, (nearest * 2).round()) and nearest.max() > 2
    assert validation(0, 1, CPU).depth.isfinite().any()


@pytest.mark.parametrize("kind", ["generator", "stacks"])
def test_a_seed_changes_what_trains_and_not_what_validates(stacks: Path, kind: str) -> None:
    def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        sources = make_sources(replace(config(kind=kind), seed=seed), None, stacks, CPU)
        training, validation = (source(0, 2, CPU) for source in sources)
        return training.stack.images, validation.stack.images

    (first, validated), (second, again) = drawn(0), drawn(5)
    assert not torch.equal(first, second) and torch.equal(validated, again)


class Numbered(Items):
    """Twenty stacks, each known by its depth."""

    def __len__(self) -> int:
        return 20

    def read_item(self, number: int) -> Item:
        stack = demo_stack().stack.cropped(0, 0, 16, 16)
        return Item(str(number), stack, torch.full(stack.size, 0.3 + 0.1 * number))


def test_no_stack_trains_and_validates(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = kinds.DatasetKind(lambda folder, device, cache: Numbered())
    monkeypatch.setitem(kinds.known_datasets(), "numbered", numbered)
    training, validation = make_sources(config(kind="numbered"), None, Path(), CPU)
    trained, validated = seen(training, 9), seen(validation, 1)
    assert len(trained) == 18 and len(validated) == 2
    assert not trained & validated


@pytest.mark.parametrize(
    ("data", "folder", "parts"),
    [
        ({"kind": "kitti"}, True, ["kind", "stacks"]),
        ({"kind": "stacks"}, False, ["--data"]),
        ({"kind": "stacks", "rays": 8}, True, ["rays", "scales"]),
        ({"rays": 8, "sparkle": 1}, False, ["sparkle"]),
    ],
)
def test_bad_settings_get_one_sentence(stacks: Path, data: dict[str, Any], folder: bool, parts: list[str]) -> None:
    call = lambda: make_sources(config(**data), None, stacks if folder else None, CPU)  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), *parts)
