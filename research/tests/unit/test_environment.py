"""The commit in a result file: git's, or what the machine was told."""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from focalsweep.model.weights import FOLDER, PAPERNET, WEIGHTS
from focalsweep_research.environment import describe


def test_the_commit_is_told_where_there_is_no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_git(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    assert describe(torch.device("cpu"), 3)["commit"] is None
    monkeypatch.setenv("FOCALSWEEP_COMMIT", "0123456789ab")
    record = describe(torch.device("cpu"), 3)
    assert record["commit"] == "0123456789ab" and record["seed"] == 3


def test_the_weights_are_those_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = describe(torch.device("cpu"), 3)["weights"]
    content = (FOLDER / WEIGHTS["sweepnet"].file).read_bytes()
    assert weights["sweepnet"] == hashlib.sha256(content).hexdigest()[:12]
    monkeypatch.setattr("focalsweep.model.weights.FOLDER", tmp_path)
    assert "papernet" not in describe(torch.device("cpu"), 3)["weights"]
    (tmp_path / PAPERNET).write_bytes(b"abc")
    assert describe(torch.device("cpu"), 3)["weights"]["papernet"] == hashlib.sha256(b"abc").hexdigest()[:12]


def test_git_is_believed_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"status": "", "rev-parse": "abcdef012345\n"}

    def git(command: list[str], **_: Any) -> Any:
        return subprocess.CompletedProcess(command, 0, stdout=answers[command[1]])

    monkeypatch.setattr(subprocess, "run", git)
    monkeypatch.setenv("FOCALSWEEP_COMMIT", "0123456789ab")
    assert describe(torch.device("cpu"), 3)["commit"] == "abcdef012345"
    answers["status"] = " M src/focalsweep/types.py"
    assert describe(torch.device("cpu"), 3)["commit"] == "abcdef012345+"
