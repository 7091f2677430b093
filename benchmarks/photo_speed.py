"""Focus stackers and focalsweep on the same photos: python benchmarks/photo_speed.py STACKS OUT.json [CASE ...]

STACKS is the folder of real stacks (canon60d_toys and pixel6pro_room are used). Stacks of other sizes are made of them:
frames are resampled, repeated with focus distances a little apart, and shifted by up to 3 px as a hand does. The rival
is `align_image_stack` and then `enfuse`, run as programs, one after the other; ours is `focalsweep depth` with its
default files. CPU seconds are user and system time of each program; clock and peak memory likewise. By default all of
CASES are run; rows of those left out stay as OUT.json has them. `--ours` runs ours alone (the rival's figures stay),
`--beside JOBS` runs ours alone and then beside that many busy processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

Row = dict[str, Any]
SHIFT_PX = 3.0
RANGE_STEP, DISTANCE_STEP = 0.1, 0.01  # between repetitions: of the width of a range; of a distance
BUSY = "while True: sum(i * i for i in range(10**5))"


@dataclass(frozen=True)
class Case:
    """A stack to be made: of which real one, how large (None: as it is), of how many frames."""

    stack: str
    megapixels: float | None
    frames: int


CASES = {
    "Canon, 2.5 MP x 9": Case("canon60d_toys", None, 9),
    "Canon, 2.5 MP x 28": Case("canon60d_toys", None, 28),
    "Canon, 2.5 MP x 100": Case("canon60d_toys", None, 100),
    "12 MP x 10": Case("pixel6pro_room", 12, 10),
    "24 MP x 30": Case("pixel6pro_room", 24, 30),
    "24 MP x 100": Case("pixel6pro_room", 24, 100),
    "50 MP x 8": Case("pixel6pro_room", 50, 8),
}


def make_stack(case: Case, stacks: Path, folder: Path) -> None:
    """JPEG files, near to far, and their stack.toml."""
    import cv2

    from focalsweep.photos.reading import open_photos
    from focalsweep.types import Camera

    photos = open_photos(stacks / case.stack)
    camera, count, random = photos.camera, len(photos.frames), np.random.default_rng(0)
    assert isinstance(camera, Camera)
    scale, lines = 1.0, []
    for number in range(case.frames):
        source = number * count // case.frames
        lap = number - -(-source * case.frames // count)  # which repetition of this source it is
        value = photos.settings.focus_distances[source]
        pixels = cv2.imread(str(photos.frames[source].path))
        assert pixels is not None and value is not None
        height, width = pixels.shape[:2]
        if case.megapixels:
            scale = (case.megapixels * 1e6 / (height * width)) ** 0.5
        if case.frames > count or scale != 1:
            x, y = random.uniform(-SHIFT_PX, SHIFT_PX, 2) if lap else (0.0, 0.0)
            pixels = cv2.warpAffine(
                pixels, np.array([[scale, 0, x], [0, scale, y]]), (round(width * scale), round(height * scale)),
                flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT_101,
            )  # fmt: skip
        name = f"{number:03d}.jpg"
        cv2.imwrite(str(folder / name), pixels, [cv2.IMWRITE_JPEG_QUALITY, 95])
        lines += ["[[frame]]", f'file = "{name}"']
        if value.only_range:
            further = RANGE_STEP * lap * (value.high - value.low)
            lines.append(f"focus_range = [{value.low + further}, {value.high + further}]")
        else:
            lines.append(f"focus_distance = {value.value * (1 + DISTANCE_STEP * lap)}")
    settings = {"focal_length": camera.focal_length, "f_number": camera.f_number}
    settings["pixel_pitch"] = float(camera.pixel_pitch) / scale
    head = ["[camera]", *(f"{name} = {value}" for name, value in settings.items())]
    head.append(f'focus_reference = "{photos.settings.focus_reference}"')
    (folder / "stack.toml").write_text("\n".join([*head, *lines]) + "\n")


def measured(command: list[str], folder: Path) -> Row:
    """A program run to its end: clock, CPU seconds and peak memory of it alone."""
    start = time.perf_counter()
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"{command[0]} failed: {(folder / 'log').read_text()[-2000:]}")
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu_s": used.ru_utime + used.ru_stime, "peak_bytes": used.ru_maxrss * 1024}


def run_rival(shots: Path, folder: Path) -> Row:
    """`align_image_stack` and `enfuse`, as Debian has them."""
    files = [str(path) for path in sorted(shots.glob("*.jpg"))]
    aligned = measured(["align_image_stack", "-m", "-a", "aligned_", *files], folder)
    sharp = ["--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1", "--hard-mask", "-o", "sharp.tif"]
    fused = measured(["enfuse", *sharp, *(path.name for path in sorted(folder.glob("aligned_*.tif")))], folder)
    return _total({"align_image_stack": aligned, "enfuse": fused})


def run_ours(shots: Path, folder: Path) -> Row:
    """`focalsweep depth`, and what each stage of it took."""
    row = measured([sys.executable, __file__, "--stages", str(shots), str(folder / "out")], folder)
    return {**row, "stages": json.loads((folder / "stages.json").read_text())}


def _total(stages: dict[str, Row]) -> Row:
    total: Row = {key: sum(stage[key] for stage in stages.values()) for key in ("seconds", "cpu_s")}
    peak = max(stage["peak_bytes"] for stage in stages.values())
    return {**total, "peak_bytes": peak, "stages": stages}


def command_by_stages(shots: str, output: str) -> None:
    """The command itself in this process, with a clock on the stages that it tells of."""
    import focalsweep.to_files
    from focalsweep.cli.main import main as command

    stages: dict[str, Row] = {}
    at, last = "starting", (0.0, 0.0)
    begun = time.perf_counter()

    def now() -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter() - begun, used.ru_utime + used.ru_stime

    def enter(stage: str, share: float = 0.0) -> None:
        nonlocal at, last
        here = now()
        row = stages.setdefault(at, {"seconds": 0.0, "cpu_s": 0.0})
        row["seconds"] += here[0] - last[0]
        row["cpu_s"] += here[1] - last[1]
        at, last = stage, here

    whole = focalsweep.to_files.estimate_to_files

    def timed(photos: Any, output: Any, job: Any, progress: Any) -> Any:
        enter("opening")
        return whole(photos, output, job, enter)

    focalsweep.to_files.estimate_to_files = timed  # type: ignore[assignment]
    sys.argv = ["focalsweep", "depth", shots, "-o", output, "--device", "cpu", "--quiet"]
    try:
        command()
    finally:
        enter("ended")
        Path("stages.json").write_text(json.dumps(stages))


def run_case(case: Case, stacks: Path, rival: bool, jobs: int) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("shots", "rival", "ours"):
            (folder / part).mkdir()
        make_stack(case, stacks, folder / "shots")
        row: Row = {"load_average": os.getloadavg()[0], "megapixels": case.megapixels or 2.5, "frames": case.frames}
        if rival:
            row["rival"] = run_rival(folder / "shots", folder / "rival")
        row["ours"] = run_ours(folder / "shots", folder / "ours")
        if jobs:
            busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(jobs)]
            try:
                row["beside"] = {"jobs": jobs, **run_ours(folder / "shots", folder / "ours")}
            finally:
                for process in busy:
                    process.kill()
        return row


def _put(data: bytes, file: IO[bytes]) -> None:
    file.write(data)


def main() -> None:
    if sys.argv[1] == "--stages":
        command_by_stages(*sys.argv[2:4])
        return
    import torch

    from focalsweep.results.writing import json_bytes, write_files
    from focalsweep_research.environment import describe

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("stacks", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--ours", action="store_true", help="leave the rival out")
    parser.add_argument("--beside", type=int, default=0, metavar="JOBS")
    asked = parser.parse_intermixed_args()
    rows = json.loads(asked.output.read_text())["rows"] if asked.output.is_file() else {}
    about = describe(torch.device("cpu"), 0)
    for name in asked.cases:
        row = run_case(CASES[name], asked.stacks, not asked.ours, asked.beside)
        rows[name] = {**rows.get(name, {}), **row, "commit": about["commit"]}
        print(name, json.dumps(rows[name]), flush=True)
        record = json_bytes({"benchmark": "photo speed", **about, "rows": rows})
        write_files({asked.output: partial(_put, record)})


if __name__ == "__main__":
    main()
