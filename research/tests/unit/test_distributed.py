"""Work shared among processes: their sums add up, on each of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from focalsweep_research.protocols.distributed import Tally, over_processes, own_share

ROOT = Path(__file__).resolve().parents[3]
PROCESS = """
import json, sys, torch, torch.distributed as dist
from focalsweep_research.metrics.errors import Scoreboard, error_sums
from focalsweep_research.protocols.distributed import Tally, over_processes
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
truth = torch.full((1, 4, 4), 2.0)
board = Scoreboard(per_picture=True)
board.add("both", truth + 1 + 2 * rank, truth)
if rank:
    board.add("only one", truth + 5, truth)
tally = Tally()
tally.add((truth + 1 + 2 * rank, truth), ("both",))
tally.add((truth + 5, truth) if rank else "reads 3 frames", ("only one",))
sums, board, tally = (over_processes(part) for part in (error_sums(truth + rank, truth), board, tally))
print(json.dumps([sums.means(), board.rows(), [tally.figures(row) for row in ("both", "only one", "neither")]]))
dist.destroy_process_group()
"""


def test_processes_add_up(tmp_path: Path) -> None:
    """On both of two processes: the total of both, also where one has seen what the other has not."""
    command = [sys.executable, "-c", PROCESS]
    started = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in started]
    assert answers[0] == answers[1]
    sums, rows, (both, noted, neither) = answers[0]
    assert sums["pixels"] == 32 and sums["mae"] == 0.5 and sums["rmse"] == pytest.approx(0.5**0.5)
    assert {row["method"]: (row["mae"], row["pictures"]) for row in rows} == {"both": (2, 2), "only one": (5, 1)}
    assert both["mae"] == 2 and both["pixels"] == 32
    assert noted["mae"] is None and noted["note"] == "reads 3 frames" and neither == {"pixels": 0}


def test_a_process_alone_has_all() -> None:
    tally = Tally()
    assert over_processes(tally) is tally
    said: list[str] = []
    assert list(own_share("abcde", said.append, 2)) == list("abcde") and said == ["2 of 5", "4 of 5", "5 of 5"]


def test_a_tally_adds_stacks_and_counts_the_pixels_it_is_told() -> None:
    truth = torch.full((1, 2, 2), 2.0)
    left = torch.tensor([[[True, False], [True, False]]])
    tally = Tally()
    tally.add((truth + 1, truth), ("a", 1), ("b", 1))
    tally.add((truth + 3, truth), ("a", 1), pixels=left)
    assert tally.figures("a", 1)["pixels"] == 6 and tally.figures("b", 1)["pixels"] == 4
    assert tally.figures("a", 1)["mae"] == pytest.approx((4 * 1 + 2 * 3) / 6)
