"""Stacks with measured depth: the demo's, whose truth is known."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from research.tests.unit.datasets.test_mobile_depth import write_scene

from focalsweep import estimate_depth
from focalsweep_research.protocols.measured import evaluate_measured
from focalsweep_research.tables.tables import table_of
from tests.demo import FOLDER, demo_stack
from tests.errors import assert_one_sentence, message_of

CPU = torch.device("cpu")


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER, tmp_path / "stacks" / "a pear")
    return tmp_path / "stacks"


def test_errors_of_what_estimate_depth_says(stacks: Path, tmp_path: Path) -> None:
    record = evaluate_measured(["argmin", "focus_measure"], stacks, tmp_path / "pictures", CPU, print)
    rows = {(row["method"], row["rescaling"]): row for row in record["rows"]}
    assert record["stacks"] == 1 and {how for _, how in rows} == {"raw", "median", "affine"}
    truth = demo_stack().depth.numpy()
    depth = estimate_depth(demo_stack().stack, "argmin").depth
    assert rows["argmin", "raw"]["abs_rel"] == pytest.approx(np.mean(np.abs(depth - truth) / truth), rel=1e-3)
    assert rows["argmin", "raw"]["abs_rel"] < rows["focus_measure", "raw"]["abs_rel"] < 0.2
    picture = np.asarray(Image.open(tmp_path / "pictures" / "a_pear.png").convert("RGB"))
    assert picture.std() > 20
    assert "| argmin | " in table_of(record).markdown()


def test_a_stack_without_depth_is_refused(tmp_path: Path) -> None:
    write_scene(tmp_path, "Figure5", "keyboard", "keyboard")
    message = message_of(lambda: evaluate_measured(["argmin"], tmp_path, None, CPU, print), ValueError)
    assert_one_sentence(message, "keyboard", "no depth", "evaluate real")
