"""What is written to disk, for `tests.faults`: results, batches, training, the page."""

from __future__ import annotations

import pickle
import warnings
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
from research.tests.unit.training.toy import toy_config

from focalsweep import Camera, DepthGrid, DepthResult, FocalStack, RelativeLens
from focalsweep.batch.stores import Store
from focalsweep.results import writing
from focalsweep.results.folder import locked, write_set
from focalsweep.results.writing import json_bytes, write_files, write_result
from focalsweep.web import tasks
from focalsweep_research.training.checkpoint import Checkpoint, write_checkpoint
from tests.faults import Scenario

STRANGER = "notes.txt"


@cache
def result(metric: bool) -> DepthResult:
    depth = np.linspace(0.5, 2.0, 48, dtype=np.float32).reshape(6, 8) + metric
    return DepthResult(
        depth=depth, std=0.01 * depth, confidence=depth / 4, all_in_focus=np.repeat(depth[..., None] / 4, 3, -1),
        camera=Camera(0.05, 2.8, 6e-5) if metric else RelativeLens(40.0),
        planes=DepthGrid.uniform_in_inverse_depth(0.5, 4.0, 8), record={"method": "argmin"},
    )  # fmt: skip


@cache
def picture(metric: bool) -> bytes:
    """Drawn once: hundreds of runs need the same."""
    return writing.depth_picture(result(metric).depth, unit=result(metric).unit)


def save(folder: Path, metric: bool) -> None:
    more = {"sheet.png": b"sheet"} if metric else {}
    drawn = picture(metric)
    with patch.object(writing, "depth_picture", lambda *_, **__: drawn), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_result(result(metric), folder, ["ply"] if metric else [], more=more)


def older_result(folder: Path) -> None:
    picture(False)
    (folder / STRANGER).write_text("mine")
    save(folder, True)


def nothing(folder: Path) -> None:
    picture(False)
    (folder / STRANGER).write_text("mine")


def finish(folder: Path) -> None:
    with locked(folder):
        pass


def registered(folder: Path, count: int) -> None:
    writers = {f"{i:02d}.tif": lambda file: file.write(bytes(40 * count)) for i in range(count)}
    write_set(folder, writers, lambda files: json_bytes({"files": files}), "registered.json")


def batch_store(folder: Path) -> Store:
    return Store(str(folder))


def put(folder: Path, content: bytes) -> None:
    store = batch_store(folder)
    with store.held():
        with store.draft() as draft:
            names = ("depth.npz", "cloud.ply") if content == b"old" else ("depth.npz", "depth.png")
            writers = dict.fromkeys(names, lambda file: file.write(content))
            write_set(draft, writers, lambda files: json_bytes({"files": files}))
            store.put(draft, "a")
        store.clear()


def older_batch(folder: Path) -> None:
    put(folder, b"old")
    (folder / "a" / STRANGER).write_text("mine")


def mended_batch(folder: Path) -> None:
    store = batch_store(folder)
    with store.held():
        store.clear()
    finish(folder / "a")


def checkpoint(folder: Path, step: int) -> None:
    state = {"weight": torch.full((2000,), float(step))}
    write_checkpoint(folder / "checkpoint.pt", Checkpoint(state, state, {}, step, 1.0, toy_config()))


@cache
def pickled(number: int) -> dict[type, bytes]:
    """Once: two pickles of the same need not have the same bytes."""
    stack = FocalStack(torch.full((2, 1, 4, 4), 0.1), [0.5, 1.0], Camera(0.05, 2.8, 6e-5))
    outcome = tasks.Outcome(result(True), [], [float(number)], [], [], [])
    return {FocalStack: pickle.dumps(stack), tasks.Outcome: pickle.dumps(outcome)}


def kept(folder: Path, number: int) -> None:
    contents = pickled(number)
    with patch.object(tasks, "pickle", SimpleNamespace(dumps=lambda value: contents[value])):
        tasks.keep(folder, tasks.Outcome, FocalStack)  # type: ignore[arg-type]


def write_again(path: Path) -> None:
    """What the next run does with a file that is one by itself."""
    content = path.read_bytes()
    write_files({path: lambda file: file.write(content)})


SCENARIOS = {
    "depth, over older results": Scenario(older_result, lambda folder: save(folder, False), finish),
    "depth, into a new folder": Scenario(nothing, lambda folder: save(folder, True), finish),
    "registered frames": Scenario(lambda folder: registered(folder, 3), lambda folder: registered(folder, 2), finish),
    "batch, a stack again": Scenario(older_batch, lambda folder: put(folder, b"new"), mended_batch),
    "batch, results.csv": Scenario(
        lambda folder: batch_store(folder).write("results.csv", b"old"),
        lambda folder: batch_store(folder).write("results.csv", b"new"),
        lambda folder: write_again(folder / "results.csv"),
    ),
    "training, a checkpoint": Scenario(
        lambda folder: checkpoint(folder, 1),
        lambda folder: checkpoint(folder, 2),
        lambda folder: write_again(folder / "checkpoint.pt"),
    ),
    "page, what it shows": Scenario(lambda folder: kept(folder, 1), lambda folder: kept(folder, 2), finish),
}
