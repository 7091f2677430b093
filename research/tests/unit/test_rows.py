"""A row of a table is what `estimate_depth` gives for the row's name, to the last digit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
import torch
from research.tests.unit.datasets.test_defocusnet import codes, true_depth, write_exr
from research.tests.unit.datasets.test_nyu import write_folder

import focalsweep as fs
from focalsweep.methods.method import Method, Options
from focalsweep.methods.registry import choose_method
from focalsweep_research.datasets.defocusnet import DATASET_END
from focalsweep_research.datasets.item import Item
from focalsweep_research.protocols import generated, stacks
from focalsweep_research.protocols import run as protocols
from focalsweep_research.protocols.methods import Compared, compared
from focalsweep_research.protocols.run import run_protocol
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.objectives import DEPTH_END

CPU = torch.device("cpu")
SIDE = 64  # of the pictures on "NYU", which are one window each
PAPER, ARGMIN_OF_PAPER = "paper:range=0.1-3,spacing=depth,size=full", "argmin:cost=paper,range=0.1-3,spacing=depth"
ON_GENERATED = (
    "sweep",
    "argmin",
    "argmin:cost=paper",
    "paper:size=full",
    "sweep:psf=sampled",
    "sweep:planes=20",
    "flat",
)
ON_DATASETS = ("sweep", "argmin", "argmin:range=0.1-3", ARGMIN_OF_PAPER, PAPER, "sweep:planes=20,psf=sampled")
Found = list[tuple[str, Any, torch.Tensor]]
"""Row, what it was measured on, depth as the protocol counts it."""


def depths_on_generated(monkeypatch: pytest.MonkeyPatch) -> Found:
    data = GeneratorConfig(size=64, planes=24, rays=4, textures=4, solids=5, held_out=True)
    for name, value in {"DATA": data, "FRAMES": (3,), "NOISE": (0.005,), "BATCH": 2, "STACKS": 20}.items():
        monkeypatch.setattr(generated, name, value)
    found: Found = []
    made: list[Sample] = []
    make, estimate = generated.batch_of, generated.estimate

    def remember_sample(*arguments: Any) -> Sample:
        made.append(make(*arguments))
        return made[-1]

    def remember_depth(reader: Any, sample: Sample) -> Any:
        answer = estimate(reader, sample)
        found.append((reader.__self__.choice.label, sample, answer[0]))
        return answer

    monkeypatch.setattr(generated, "batch_of", remember_sample)
    monkeypatch.setattr(generated, "estimate", remember_depth)
    run_protocol("generator", list(ON_GENERATED), [], None, None, CPU, True, print)
    assert len(found) == len(made) * len(ON_GENERATED) > 0
    return found


def depths_on_dataset(protocol: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    found: Found = []
    count = stacks.count

    def remember(board: Any, methods: Any, item: Item, *arguments: Any, **settings: Any) -> Any:
        depths = count(board, methods, item, *arguments, **settings)
        found.extend((name, item, depth) for name, depth in depths.items())
        return depths

    monkeypatch.setattr(stacks, "count", remember)
    run_protocol(protocol, list(ON_DATASETS), [], None, folder, CPU, False, print)
    assert len(found) >= 2 * len(ON_DATASETS)
    return found


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmark" / "test"
    folder.mkdir(parents=True)
    for stack in range(2):
        for frame in range(5):
            smooth = cv2.GaussianBlur(codes(stack, frame), (0, 0), 0.5 + 0.3 * frame)
            tifffile.imwrite(folder / f"{stack:06d}_{frame:02d}All.tif", smooth, photometric="rgb")
        write_exr(folder / f"{stack:06d}Dpt.exr", true_depth(stack))
    return folder.parent


@pytest.fixture
def nyu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stacks, "CROPS", ((0, 0),))
    monkeypatch.setattr(stacks, "CROP_PX", SIDE)
    for number in (3, 8):
        random = np.random.default_rng(number)
        coarse = random.uniform(0, 255, (12, 12, 3)).astype(np.float32)
        pixels = cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC).clip(0, 255).astype(np.uint8)
        steps = cv2.resize(random.integers(40, 250, (3, 3)).astype(np.uint8), (SIDE, SIDE))
        write_folder(tmp_path / "nyu", number, pixels, steps)
    return tmp_path / "nyu"


def user_on_generated(row: str, sample: Sample) -> torch.Tensor:
    """What a user gets who gives the stacks, the row's name, and the planes that the protocol gives."""
    planes = choose_method(row).grid(sample.planes)  # the name may ask for another number of them
    depth = torch.from_numpy(fs.estimate_depth(sample.stack, row, planes=planes).depth)
    return torch.minimum(depth, DEPTH_END / sample.planes.as_batch(len(depth)).to(depth)[:, :1, None])


def user_on_dataset(row: str, item: Item, displayed: bool) -> torch.Tensor:
    """The same for one stack of a dataset, whose planes the name says or the stack shows."""
    stack = item.stack
    if displayed and compared(row).displayed:
        stack = stack.with_images(fs.srgb_to_linear(stack.images))  # its values stand as light
    return torch.from_numpy(fs.estimate_depth(stack, row).depth)[None].clamp(max=DATASET_END)


def rows_that_differ(found: Found, user: Any) -> set[str]:
    return {row for row, given, depth in found if not torch.equal(user(row, given), depth)}


def test_rows_on_generated_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = depths_on_generated(monkeypatch)
    assert {row for row, _, _ in found} == set(ON_GENERATED)
    assert rows_that_differ(found, user_on_generated) == set()
    by_row = {row: depth for row, _, depth in found}
    assert not torch.equal(by_row["sweep"], by_row["sweep:psf=sampled"])  # a setting has an effect


@pytest.mark.parametrize("protocol", ["defocusnet", "focus-split"])
def test_rows_on_the_benchmark(protocol: str, benchmark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = depths_on_dataset(protocol, benchmark, monkeypatch)
    assert {row for row, _, _ in found} == set(ON_DATASETS)
    assert rows_that_differ(found, lambda row, item: user_on_dataset(row, item, False)) == set()


def test_rows_on_nyu(nyu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's network reads windows there: with one that is all of the picture nothing is left to differ."""
    found = depths_on_dataset("nyu", nyu, monkeypatch)
    assert {row for row, _, _ in found} == set(ON_DATASETS)
    assert rows_that_differ(found, lambda row, item: user_on_dataset(row, item, True)) == set()


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Three methods of the protocols, and of nobody else, err by the last digit."""
    names = {"sweep", "argmin", "paper"}

    def slightly_off(row: str) -> Compared:
        honest = compared(row)
        method = honest.choice.method
        if method.name not in names:
            return honest

        def predict(stack: fs.FocalStack, planes: fs.DepthGrid, options: Options) -> fs.DepthPrediction:
            found = method.predict(stack, planes, options)
            return replace(found, depth=torch.nextafter(found.depth, found.depth + 1))

        changed = Method(method.name, method.about, predict, method.settings, method.weights, method.swept)
        windows = honest.read_windows
        later = windows and (lambda *given: torch.nextafter(windows(*given), torch.tensor(torch.inf)))
        return replace(honest, choice=replace(honest.choice, method=changed), read_windows=later)

    monkeypatch.setattr(protocols, "compared_by_name", slightly_off)
    yield names


def test_an_altered_method_is_noticed(
    altered: set[str], benchmark: Path, nyu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = depths_on_generated(monkeypatch)
    assert rows_that_differ(found, user_on_generated) == set(ON_GENERATED) - {"flat"}
    for protocol, folder in (("focus-split", benchmark), ("nyu", nyu)):
        with monkeypatch.context() as patch:
            found = depths_on_dataset(protocol, folder, patch)
        wrong = rows_that_differ(found, lambda row, item: user_on_dataset(row, item, protocol == "nyu"))  # noqa: B023
        assert wrong == set(ON_DATASETS), protocol
