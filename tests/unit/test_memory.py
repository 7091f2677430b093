"""A bound on the process: how it is shared out, and that a run in a process of its own keeps it."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

import focalsweep as fs
from focalsweep import FocalStack
from focalsweep.estimate import predict
from focalsweep.memory import (
    BYTES_A_THREAD,
    LEAST_PIXELS,
    LEAST_WORKSPACE,
    SMOOTHING_BYTES_A_PIXEL,
    MemoryBound,
    resident_bytes,
)
from focalsweep.methods.sweep import BYTES_A_VOXEL, HALO_PX, SIDES_PX
from focalsweep.methods.tiled import Tiling
from focalsweep.model.sweepnet import STRIDE
from focalsweep.types import DepthGrid
from tests.demo import demo_stack
from tests.errors import assert_one_sentence, message_of

LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
# Runs the command line, then prints the largest that the process has been.
PEAK = """
import sys
from focalsweep.cli.main import main
try:
    main()
finally:
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print("peak", int(status["VmHWM"].split()[0]) * 1024)
"""
# Makes depth of a picture of so many rows of 1000 pixels whole, and prints what that took.
WHOLE = """
import sys
import torch
from focalsweep.memory import release_freed_memory
from focalsweep.methods.sweep import smooth_uncertain
def peak():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) * 1024
release_freed_memory()
torch.set_num_threads(1)
rows, frames = int(sys.argv[1]), torch.zeros(1, 8, dtype=torch.long)
with torch.no_grad():
    smooth_uncertain(torch.rand(1, 2, 3, 64, 64), frames, torch.rand(1, 2, 64, 64) + 0.01)
    images, answer = torch.rand(1, 2, 3, rows, 1000), torch.rand(1, 2, rows, 1000) + 0.01
    before = peak()
    smooth_uncertain(images, frames, answer)
print(peak() - before)
"""
# Holds 100 MB and lets go of them, and prints how much that is, what the process grew by, and what is left of that.
GROWN = """
import json
import numpy as np
from focalsweep.memory import release_freed_memory, resident_bytes
before = resident_bytes()
held = np.ones(100 * 2**20, np.uint8)
size, grown = held.nbytes, resident_bytes() - before
del held
release_freed_memory()
print(json.dumps([size, grown, resident_bytes() - before]))
"""
TWELVE_MEGAPIXELS = MemoryBound(2**31, 350 * 2**20, (3000, 4000), 3, 10)


@LINUX
def test_resident_memory_is_that_of_the_process() -> None:
    """In a process of its own: one that ran other tests may have 100 MB at hand that it freed, and need not grow."""
    done = subprocess.run([sys.executable, "-c", GROWN], capture_output=True, text=True, check=True)
    held, grown, left = json.loads(done.stdout)
    assert 0.9 * held < grown < 1.5 * held
    assert left < 0.5 * grown


def test_frames_shrink_before_the_bound_breaks() -> None:
    bound = TWELVE_MEGAPIXELS
    assert bound.working_pixels > 3e6  # 2 GB are enough for the usual working size of ten photos of 12 megapixels
    assert bound.least < bound.total
    many = replace(bound, frames=50)
    assert LEAST_PIXELS < many.working_pixels < 3e6
    assert many.working_pixels * 50 * 3 * 4 + bound.base < bound.total
    assert replace(bound, total=10**8).working_pixels == LEAST_PIXELS


def test_least_grows_with_the_picture() -> None:
    bound = TWELVE_MEGAPIXELS
    picture = 3000 * 4000 * 3 * 4
    assert bound.base + 3 * picture < bound.least < bound.base + 5 * picture
    assert replace(bound, size=(6000, 8000)).least > 3 * picture + bound.least
    assert replace(bound, total=bound.least).working_pixels == pytest.approx(LEAST_PIXELS, rel=1e-3)


def test_threads_take_their_share() -> None:
    more = replace(TWELVE_MEGAPIXELS, threads=3)
    assert TWELVE_MEGAPIXELS.workspace(10**6) - more.workspace(10**6) == pytest.approx(2 * BYTES_A_THREAD, rel=0.05)
    small = replace(TWELVE_MEGAPIXELS, size=(300, 400))
    assert replace(small, threads=3).least > small.least


def test_workspace_is_what_is_left() -> None:
    free = replace(TWELVE_MEGAPIXELS, total=resident_bytes() + 2**30).workspace(10**6)
    assert 0.7 * 2**30 < free < 2**30
    assert replace(TWELVE_MEGAPIXELS, total=1).workspace(10**6) == LEAST_WORKSPACE


def test_tiles_fit_into_memory() -> None:
    size, planes = (1500, 2000), 64
    tiling = Tiling(SIDES_PX, HALO_PX, STRIDE, BYTES_A_VOXEL * planes)

    def widest(workspace: int | None) -> tuple[int, int]:
        """Of a core's side, and of an area's pixels."""
        tiles = tiling.cut(size, workspace)
        areas = max(height * width for height, width in (tile.area_size for tile in tiles))
        return max(tile.core[0].stop - tile.core[0].start for tile in tiles), areas

    bounds = (None, 2**34, 2**30, 2**29, 2**28, 1)
    sides = [widest(bound)[0] for bound in bounds]
    assert sides == sorted(sides, reverse=True) and sides[0] == sides[1] and sides[-1] < sides[3]
    for bound in bounds[2:5]:
        assert widest(bound)[1] * planes * BYTES_A_VOXEL <= (bound or 0)


@pytest.mark.parametrize("method", ["sweep", "argmin"])
def test_a_tight_bound_gives_the_same_depth(method: str) -> None:
    """A part of the demo stack in several tiles, within the error bars of the same at once."""
    stack = demo_stack().stack.cropped(60, 60, 144, 256)
    planes = DepthGrid.around(stack, 32)
    free = predict(stack.as_batch(), method, planes)
    tight = predict(stack.as_batch(), method, planes, workspace=20 * 2**20)
    assert not torch.equal(free.depth, tight.depth) or method == "argmin"
    assert ((tight.depth - free.depth).abs() <= torch.hypot(tight.std, free.std)).float().mean() > 0.99


def test_progress_moves_within_a_tile() -> None:
    stack = demo_stack().stack
    part = FocalStack(stack.images[..., :160, :160], stack.focus_distances, stack.camera, stack.magnification)
    shares: list[float] = []
    predict(part.as_batch(), "sweep", DepthGrid.around(part, 64), progress=lambda _, share: shares.append(share))
    assert len(shares) > 4 and shares == sorted(shares) and shares[-1] == 1
    assert max(np.diff([0, *shares])) < 0.5


def large_stack(folder: Path, height: int, width: int) -> Path:
    """Three photos of a textured plane at 0.6 m that a 50 mm lens at f/4 sees, from the lens's own formula."""
    folder.mkdir()
    noise = torch.rand((height // 4, width // 4, 3), generator=torch.Generator().manual_seed(0)).numpy()
    texture = cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR)
    pitch = 36e-3 / width
    lines = ["[camera]", "focal_length = 0.05", "f_number = 4.0", f"pixel_pitch = {pitch}", "aligned = true"]
    for number, focus in enumerate((0.5, 0.6, 0.8)):
        blur_px = 0.05**2 / 4 / (focus - 0.05) * abs(1 - focus / 0.6) / pitch
        blurred = cv2.GaussianBlur(texture, (0, 0), blur_px / 4) if blur_px > 0.1 else texture
        encoded = 255 * np.where(blurred < 0.0031308, 12.92 * blurred, 1.055 * blurred ** (1 / 2.4) - 0.055)
        cv2.imwrite(str(folder / f"{number}.jpg"), encoded.round().astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 95])
        lines += ["[[frame]]", f'file = "{number}.jpg"', f"focus_distance = {focus}"]
    (folder / "stack.toml").write_text("\n".join(lines))
    return folder


def run_bounded(shots: Path, memory: str) -> tuple[int, list[str], str, Path]:
    """The peak, the notes, standard error and the results of a run in a process of its own."""
    out = shots.parent / f"out{memory}"
    command = [sys.executable, "-c", PEAK, "depth", str(shots), "-o", str(out), "--device", "cpu", "--memory", memory]
    command += ["--calibrate", "off"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert done.returncode == 0, done.stderr
    notes = json.loads((out / "run.json").read_text())["warnings"]
    return int(done.stdout.split("peak ")[1]), notes, done.stderr, out


@LINUX
def test_a_run_keeps_its_bound(tmp_path: Path) -> None:
    """0.3 GB of Python and torch come first; without a bound the network alone takes 0.6 GB."""
    shots = large_stack(tmp_path / "shots", 640, 960)
    peak, notes, _, out = run_bounded(shots, "800MB")
    print(f"peak {peak / 2**20:.0f} MB of 800")
    assert peak < 800 * 2**20
    assert notes == []
    with np.load(out / "depth.npz") as saved:
        assert saved["depth"].shape == (640, 960)
        assert np.median(saved["depth"]) == pytest.approx(0.6, rel=0.01)


@LINUX
def test_a_bound_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    shots = large_stack(tmp_path / "shots", 240, 360)
    peak, notes, errors, _ = run_bounded(shots, "100MB")
    (note,) = notes
    assert_one_sentence(note, "memory of 0.1 GB", "360 x 240 px", "at least")
    assert f"focalsweep: --{note}" in errors  # run.json says arguments, the command line flags
    least = float(note.split("at least ")[1].split(" GB")[0]) * 1e9
    assert peak < 1.1 * least


@LINUX
def test_making_depth_whole_takes_what_is_counted_for_it() -> None:
    run = subprocess.run([sys.executable, "-c", WHOLE, "3000"], capture_output=True, text=True, check=True)
    assert 0.7 * SMOOTHING_BYTES_A_PIXEL < int(run.stdout) / 3e6 < 1.05 * SMOOTHING_BYTES_A_PIXEL


def test_frames_shrink_before_making_depth_whole_breaks_the_bound() -> None:
    grey = MemoryBound(8 * 10**9, 350 * 2**20, (1000, 2000), 1, 10)
    beside = 100 * 2**20 + grey.base
    assert grey.working_pixels > LEAST_PIXELS
    assert grey.working_pixels * (4 * (10 + 2) + SMOOTHING_BYTES_A_PIXEL) + beside < grey.total


@pytest.mark.parametrize("bound", [-5, 0, -1e9, math.nan, math.inf, True, "2GB"])
@pytest.mark.parametrize("batched", [False, True])
def test_bounds_that_are_none_are_refused_and_never_searched_for(bound: Any, batched: bool) -> None:
    """A sweep within -5 bytes looked for a tile small enough, for ever."""
    images = torch.rand(3, 1, 40, 40, generator=torch.Generator().manual_seed(0))
    stack = fs.FocalStack(images[None] if batched else images, [0.5, 0.7, 1.0], fs.Camera(0.05, 2.8, 6e-5))
    planes = fs.DepthGrid.uniform_in_inverse_depth(0.5, 1.0, 8)
    for name, call in {
        "memory": lambda: fs.estimate_depth(stack, "argmin", memory=bound),
        "workspace": lambda: fs.cost_volume(stack, planes, workspace=bound),
    }.items():
        message = message_of(call, TypeError if isinstance(bound, bool | str) else ValueError)
        assert_one_sentence(message, name, "bytes", repr(bound))
