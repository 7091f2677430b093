"""A data set is known by its form."""

from pathlib import Path

import h5py
import numpy as np
from research.tests.unit.datasets.test_ddff import file  # noqa: F401
from research.tests.unit.datasets.test_folder import write_stack
from research.tests.unit.datasets.test_mobile_depth import write_scene

from focalsweep_research.datasets.ddff import Ddff
from focalsweep_research.datasets.folder import StackFolder
from focalsweep_research.datasets.mobile_depth import MobileDepth
from focalsweep_research.datasets.opening import open_dataset
from tests.errors import assert_one_sentence, message_of


def test_the_validation_part_of_ddff_12(file: Path) -> None:  # noqa: F811
    data = open_dataset(file)
    assert isinstance(data, Ddff) and [item.name for item in data] == ["val_0000"]


def test_mobile_depth_has_every_frame(tmp_path: Path) -> None:
    write_scene(tmp_path, "Figure5", "keyboard", "keyboard")
    data = open_dataset(tmp_path)
    assert isinstance(data, MobileDepth) and data[0].stack.frame_count == 6


def test_other_folders_hold_stacks(tmp_path: Path) -> None:
    write_stack(tmp_path / "one")
    data = open_dataset(tmp_path)
    assert isinstance(data, StackFolder) and data[0].name == "one"


def test_a_file_without_validation_is_the_test_part(tmp_path: Path) -> None:
    path = tmp_path / "ddff-dataset-test.h5"
    with h5py.File(path, "w") as out:
        out["stack_test"] = np.zeros((2, 10, 8, 8, 3), np.uint8)
    assert [item.name for item in open_dataset(path)] == ["test_0000", "test_0001"]


def test_what_is_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no data")
    assert_one_sentence(message_of(lambda: open_dataset(tmp_path / "notes.txt"), ValueError), "notes.txt")
    assert_one_sentence(message_of(lambda: open_dataset(tmp_path / "nowhere"), FileNotFoundError), "nowhere")
    assert_one_sentence(message_of(lambda: open_dataset(tmp_path), FileNotFoundError), "stack.toml")
