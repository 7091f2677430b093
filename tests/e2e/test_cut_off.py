"""Whole runs that are cut off, and two at once: each stack is there once, whole, and nothing else."""

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.running import focalsweep
from tests.errors import assert_one_sentence
from tests.faults import Shim
from tests.whole_runs import DEPTH, batch_once, depth_once, faults_of_batch, faults_of_depth, inject, prepare

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="no fork there")]


@pytest.mark.parametrize(("command", "every"), [("depth", 13), ("batch", 73)])
def test_faults_on_the_way_of_a_whole_run(command: str, every: int) -> None:
    """Some points here; `python -m tests.whole_runs` tries all, and `test_folder.py` all those of the results."""
    found = inject(command, every, in_turn=True)
    assert found.points > 20 and found.faults == []


def test_ten_kills_of_a_batch_spread_over_its_length(tmp_path: Path) -> None:
    """The same batch is killed ten times, later each time: at the end each stack is there once."""
    prepare(tmp_path)
    prepare(tmp_path / "count")
    status, seen = batch_once(tmp_path / "count")
    assert status == 0
    statuses = [batch_once(tmp_path, Shim(len(seen) * part // 10))[0] for part in range(10)]
    assert statuses.count(137) >= 3  # once all stacks are done there is less to do, and nothing left to kill
    assert batch_once(tmp_path)[0] == 0
    assert faults_of_batch(tmp_path) == []


def test_a_run_that_was_killed_while_results_were_put_in_place_can_be_repeated(tmp_path: Path) -> None:
    """Its older files, whose manifest had gone, were taken for somebody else's: "not written by focalsweep"."""
    prepare(tmp_path)
    depth_once(tmp_path)
    _, seen = depth_once(tmp_path)
    assert depth_once(tmp_path, Shim(seen.index("rename") + 2))[0] == 137
    assert not (tmp_path / "out" / "run.json").exists() and (tmp_path / "out" / "depth.npz").exists()
    assert depth_once(tmp_path)[0] == 0 and faults_of_depth(tmp_path) == []


def test_a_second_batch_into_one_output_refuses_in_one_sentence(tmp_path: Path) -> None:
    from focalsweep.batch.stores import Store

    prepare(tmp_path)
    with Store(str(tmp_path / "out")).held():
        refused = focalsweep("batch", tmp_path / "scans", "-o", tmp_path / "out", *DEPTH)
    assert refused.status == 2 and refused.out == ""
    assert_one_sentence(
        refused.err.removeprefix("focalsweep: ").strip(), "another run of focalsweep writes", str(tmp_path / "out")
    )
    assert batch_once(tmp_path)[0] == 0 and faults_of_batch(tmp_path) == []


def test_two_batches_at_once_into_one_output(tmp_path: Path) -> None:
    """One does the work; the other refuses, or finds it done where it came late."""
    prepare(tmp_path)
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os._exit(batch_once(tmp_path)[0])
        children.append(child)
    statuses = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert statuses in ([0, 2], [0, 0])
    assert faults_of_batch(tmp_path) == []
