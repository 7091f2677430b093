"""The command line as a shell user meets it: exit status, files, one sentence for bad input."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from focalsweep.cli.photos import DEMO_STACK

FILES = {"depth.npz", "depth_mm.png", "depth.png", "all_in_focus.png", "run.json"}


def focalsweep(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "focalsweep.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def small_stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo stack, cropped to its textured lower right corner and with three of its frames."""
    folder = tmp_path_factory.mktemp("shots")
    text = (DEMO_STACK / "stack.toml").read_text()
    head, *frames = text.split("[[frame]]")
    kept = [frames[i] for i in (0, 3, 6)]
    (folder / "stack.toml").write_text(head + "".join("[[frame]]" + frame for frame in kept))
    for i in (0, 3, 6):
        picture = cv2.imread(str(DEMO_STACK / f"frame_{i}.png"))
        cv2.imwrite(str(folder / f"frame_{i}.png"), picture[160:288, 200:360])
    return folder


def test_demo_is_close_to_the_truth(tmp_path: Path) -> None:
    done = focalsweep("demo", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == FILES
    with np.load(tmp_path / "depth.npz") as saved:
        depth = saved["depth"]
    truth = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED) * 1e-4
    assert np.median(np.abs(depth - truth) / truth) < 0.008
    assert "median error" in done.stderr


def test_depth_writes_what_it_says(small_stack: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    done = focalsweep("depth", small_stack, "-o", out)
    assert done.returncode == 0, done.stderr
    assert {Path(line).name for line in done.stdout.splitlines()} == FILES
    run = json.loads((out / "run.json").read_text())
    assert run["method"] == "sweep"
    assert len(run["focus_distances"]) == 3


def test_truncated_photo_is_one_sentence_and_leaves_nothing(small_stack: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shots"
    shutil.copytree(small_stack, folder)
    picture = folder / "frame_3.png"
    picture.write_bytes(picture.read_bytes()[:40])
    done = focalsweep("depth", folder, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "frame_3.png" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["depth", "no/such/folder"], "not a folder"),
        (["depth", str(DEMO_STACK), "--device", "abacus"], "abacus"),
        (["depth", str(DEMO_STACK), "--method", "guess"], "guess"),
        (["bench", "speed", "--repeats", "0"], "repeats"),
        (["evaluate", "guess"], "'guess'"),
    ],
)
def test_bad_arguments(arguments: list[str], words: str) -> None:
    done = focalsweep(*arguments)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr


def test_help_teaches() -> None:
    done = focalsweep("depth", "--help")
    assert done.returncode == 0
    assert "stack.toml" in done.stdout and "Example" in done.stdout
