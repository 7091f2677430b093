"""The command line in this process, quicker than a new one for each call, and small stacks to call it on."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import cv2
import numpy as np
import pytest
from PIL import Image

import focalsweep as package
from focalsweep.cli.main import main
from focalsweep.photos.demo import DEMO_STACK
from tests.errors import assert_one_sentence

KEPT = (0, 3, 6)  # of the frames of the demo stack
FRAME_NAMES = tuple(f"frame_{i}.png" for i in KEPT)
CUT = np.s_[160:240, 200:312]  # where it has texture


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


def runner(capfd: pytest.CaptureFixture[str]) -> Run:
    """Calls the command line; what libraries write past Python is captured too, and a traceback fails the test."""

    def run(*arguments: str | Path) -> Outcome:
        capfd.readouterr()
        command = patch.object(sys, "argv", ["focalsweep", *map(str, arguments)])
        with command, warnings.catch_warnings(), pytest.raises(SystemExit) as end:
            warnings.simplefilter("default")
            main()
        assert isinstance(end.value.code, int)
        return Outcome(end.value.code, *capfd.readouterr())

    return run


def focalsweep(*arguments: str | Path) -> Outcome:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "focalsweep.cli.main", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])}  # wherever it is called from
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_refused(outcome: Outcome, *words: str) -> None:
    """Exit status 2, nothing on standard output, and one sentence with all of the words."""
    assert outcome.status == 2, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("focalsweep: ") and outcome.err.endswith("\n"), outcome.err
    assert "Traceback" not in outcome.err and "Errno" not in outcome.err
    assert_one_sentence(outcome.err.removeprefix("focalsweep: ").removesuffix("\n"), *words)


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Everything below a folder, hidden files too: bytes of files, None for folders."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def write_small_stack(folder: Path) -> Path:
    """Three frames of the demo stack, cut to a textured piece, with their stack.toml."""
    folder.mkdir(parents=True)
    head, *frames = (DEMO_STACK / "stack.toml").read_text().split("[[frame]]")
    (folder / "stack.toml").write_text(head + "".join("[[frame]]" + frames[i] for i in KEPT))
    for i in KEPT:
        picture = np.asarray(cv2.imread(str(DEMO_STACK / f"frame_{i}.png")))
        cv2.imwrite(str(folder / f"frame_{i}.png"), picture[CUT])
    return folder


def write_photos(folder: Path, *exif: dict[int, float], suffix: str = ".jpg") -> Path:
    """The same frames without a stack.toml, each with these tags in its EXIF."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, tags in zip(KEPT, exif, strict=True):
        with Image.open(DEMO_STACK / f"frame_{i}.png") as whole:
            picture = Image.fromarray(np.asarray(whole.convert("RGB"))[CUT])
        block = Image.Exif()
        block[0x8769] = tags
        picture.save(folder / f"{i}{suffix}", exif=block)
    return folder
