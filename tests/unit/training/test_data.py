"""Batches from datasets: which stacks train, which validate, and what networks are shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch

from focalsweep import linear_to_srgb
from focalsweep.training.config import TrainingConfig
from focalsweep.training.data import make_sources
from focalsweep.training.objectives import uniform_in_depth
from tests.errors import assert_one_sentence, message_of
from tests.unit.datasets.test_defocusnet import codes, true_depth, write_exr
from tests.unit.datasets.test_nyu import picture, write_folder

CPU = torch.device("cpu")


def config(cost: str = "paper", **data: Any) -> TrainingConfig:
    return TrainingConfig(
        "papernet", cost, steps=1, batch_size=2, learning_rate=1e-3, image_size=(16, 16), planes=8, data=data
    )


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    for part, stacks in (("train", range(20)), ("test", range(100, 102))):
        (tmp_path / part).mkdir()
        for stack in stacks:
            for frame in range(5):
                path = tmp_path / part / f"{stack:06d}_{frame:02d}All.tif"
                tifffile.imwrite(path, codes(stack, frame), photometric="rgb")
            write_exr(tmp_path / part / f"{stack:06d}Dpt.exr", true_depth(stack))
    return tmp_path


def seen(source: Any, steps: int) -> set[float]:
    """The mean depth of every stack in the first steps, by which it is known."""
    return {round(float(depth.mean()), 4) for step in range(steps) for depth in source(step, 2, CPU).depth}


def test_no_stack_trains_and_validates(benchmark: Path) -> None:
    training, validation = make_sources(config(kind="defocusnet"), None, benchmark, CPU)
    trained, validated = seen(training, 9), seen(validation, 1)
    assert len(trained) == 18 and len(validated) == 2
    assert not trained & validated
    tested = {round(float(np.minimum(true_depth(i).astype(np.float32), 3).mean()), 4) for i in (100, 101)}
    assert not tested & (trained | validated)


@pytest.mark.parametrize("kind", ["generator", "defocusnet"])
def test_a_seed_changes_what_trains_and_not_what_validates(benchmark: Path, kind: str) -> None:
    def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        sources = make_sources(replace(config(kind=kind), seed=seed), None, benchmark, CPU)
        training, validation = (source(0, 2, CPU) for source in sources)
        return training.stack.images, validation.stack.images

    (first, validated), (second, again) = drawn(0), drawn(5)
    assert not torch.equal(first, second) and torch.equal(validated, again)


def test_the_papers_planes_scales_and_split(benchmark: Path) -> None:
    settings = {"kind": "defocusnet", "spacing": "depth", "scales": "paper", "frames": [0, 2, 4]}
    training, _ = make_sources(config(**settings), None, benchmark, CPU)
    samples = [training(step, 2, CPU) for step in range(10)]
    assert all(uniform_in_depth(sample.planes) for sample in samples)
    nearest = torch.cat([sample.stack.focus_distances[:, 0] for sample in samples]) / 0.1
    assert torch.allclose(nearest * 2, (nearest * 2).round()) and nearest.max() > 2
    ratio = samples[0].stack.focus_distances / samples[0].stack.focus_distances[:, :1]
    assert torch.allclose(ratio, torch.tensor([[1.0, 3.0, 15.0]], dtype=ratio.dtype))


def test_nyu_shows_the_paper_its_codes(tmp_path: Path) -> None:
    for number in range(10):
        steps = np.random.default_rng(number).integers(20, 250, (24, 32)).astype(np.uint8)
        write_folder(tmp_path / "train", number, picture(number), steps)
    paper, _ = make_sources(config(kind="nyu", turns=False), None, tmp_path, CPU)
    ours, _ = make_sources(config("reblur", kind="nyu", turns=False), None, tmp_path, CPU)
    light, displayed = ours(0, 2, CPU).stack.images, paper(0, 2, CPU).stack.images
    assert torch.allclose(linear_to_srgb(displayed), light, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "folder", "parts"),
    [
        ({"kind": "kitti"}, True, ["kind", "defocusnet"]),
        ({"kind": "defocusnet"}, False, ["--data"]),
        ({"kind": "defocusnet", "rays": 8}, True, ["rays", "scales"]),
        ({"rays": 8, "sparkle": 1}, False, ["sparkle"]),
    ],
)
def test_bad_settings_get_one_sentence(benchmark: Path, data: dict[str, Any], folder: bool, parts: list[str]) -> None:
    call = lambda: make_sources(config(**data), None, benchmark if folder else None, CPU)  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), *parts)
