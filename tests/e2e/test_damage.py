"""Damaged files in a good stack: a whole result or one sentence, never a traceback, never part of a result."""

import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from tests.e2e.running import FRAME_NAMES, assert_refused, runner, write_small_stack

FILES = {"depth.npz", "depth_mm.png", "depth.png", "all_in_focus.png", "sheet.png", "run.json"}
ROUNDS = 40  # of each kind of file: about 10 s in all
Damage = Callable[[np.random.Generator, bytes], bytes]


def cut(random: np.random.Generator, data: bytes) -> bytes:
    return data[: random.integers(len(data))]


def flip(random: np.random.Generator, data: bytes) -> bytes:
    """A few bytes are others, most of them in the header."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 6)):
        end = len(data) if random.random() < 0.4 else min(len(data), 400)
        changed[random.integers(end)] = random.integers(256)
    return bytes(changed)


def zero(random: np.random.Generator, data: bytes) -> bytes:
    start, length = random.integers(len(data)), random.integers(1, 200)
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


def drop(random: np.random.Generator, data: bytes) -> bytes:
    start, length = random.integers(len(data)), random.integers(1, 50)
    return data[:start] + data[start + length :]


def retype(random: np.random.Generator, data: bytes) -> bytes:
    """As a person at a keyboard would: a digit or a sign is another."""
    places = [i for i, byte in enumerate(data) if chr(byte) in '0123456789.-=[]"']
    changed = bytearray(data)
    for place in random.choice(places, 2):
        changed[place] = ord(random.choice(list('0123456789.-e=[]" ')))
    return bytes(changed)


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The small stack in every format, with its stack.toml."""
    made = tmp_path_factory.mktemp("made")
    png = write_small_stack(made / "png")
    found = {".png": png}
    for suffix in (".jpg", ".tif"):
        folder = made / suffix[1:]
        folder.mkdir()
        (folder / "stack.toml").write_text((png / "stack.toml").read_text().replace(".png", suffix))
        for name in FRAME_NAMES:
            picture = Image.fromarray(cv2.imread(str(png / name))[..., ::-1])
            picture.save((folder / name).with_suffix(suffix))
        found[suffix] = folder
    return found


@pytest.mark.parametrize("file", ["frame_0.jpg", "frame_3.png", "frame_6.tif", "stack.toml"])
def test_damage(file: str, stacks: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = runner(capfd)
    good = stacks[".png" if file == "stack.toml" else Path(file).suffix]
    shots, out = tmp_path / "shots", tmp_path / "out"
    shutil.copytree(good, shots)
    data = (shots / file).read_bytes()
    kinds: tuple[Damage, ...] = (cut, retype, flip, drop) if file == "stack.toml" else (cut, flip, zero, drop)
    statuses = set()
    for number in range(ROUNDS):
        random = np.random.default_rng([number, len(file)])
        (shots / file).write_bytes(kinds[number % len(kinds)](random, data))
        done = run("depth", shots, "-o", out)
        statuses.add(done.status)
        if done.status == 0:
            assert {path.name for path in out.iterdir()} == FILES
            with np.load(out / "depth.npz") as saved:
                assert (saved["depth"] > 0).all()
            shutil.rmtree(out)
        else:
            assert_refused(done)
            assert str(shots) in done.err or Path(file).stem in done.err, done.err
            assert not out.exists()
    assert 2 in statuses
