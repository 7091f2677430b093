"""Time and peak memory of large photos: python benchmarks/large_photos.py PHOTOS OUT.json [CASE ...]

PHOTOS is a folder of photos whose settings are known. Stacks of 12 megapixels x 10 and 50 x 5 are made of them: frames
are resampled, and repeated with distances 3 % apart where there are too few. What they show does not matter here.
Cases are 0, 1, 2 of CASES, by default all; rows of those left out stay as OUT.json has them. Each row tells how many
jobs the machine had beside it (its load average at the start): seconds count only where that is near 0.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from focalsweep.photos.photo_stack import Photos
from focalsweep.photos.reading import open_photos
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.types import Camera
from focalsweep_research.environment import describe

CASES = ((12, 10, ()), (12, 10, ("--memory", "2GB")), (50, 5, ()))


def make_stack(photos: Photos, megapixels: float, frames: int, folder: Path) -> None:
    """JPEG files of that size, and a stack.toml."""
    import cv2

    count = len(photos.frames)
    camera = photos.camera
    assert isinstance(camera, Camera)
    lines: list[str] = []
    for number in range(frames):
        source, lap = photos.frames[number % count], number // count
        pixels = cv2.imread(str(source.path))
        assert pixels is not None
        scale = (megapixels * 1e6 / (pixels.shape[0] * pixels.shape[1])) ** 0.5
        name = f"{number}.jpg"
        cv2.imwrite(str(folder / name), cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC))
        distance = photos.focus_distances[number % count] * 1.03**lap
        lines += ["[[frame]]", f'file = "{name}"', f"focus_distance = {distance}"]
        if number == 0:
            lines[:0] = [
                "[camera]", f"focal_length = {camera.focal_length}", f"f_number = {camera.f_number}",
                f"pixel_pitch = {float(camera.pixel_pitch) / scale}", 'focus_reference = "lens"',
            ]  # fmt: skip
    (folder / "stack.toml").write_text("\n".join(lines) + "\n")


def run_case(photos: Photos, megapixels: float, frames: int, options: tuple[str, ...]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shots").mkdir()
        make_stack(photos, megapixels, frames, folder / "shots")
        command = [
            sys.executable,
            "-m",
            "focalsweep.cli.main",
            "depth",
            str(folder / "shots"),
            "-o",
            str(folder / "out"),
        ]
        load = os.getloadavg()[0]
        start = time.perf_counter()
        # A process of its own for each case: the peak of children is that of the largest of them.
        measured = subprocess.run(
            [sys.executable, __file__, "--peak", *command, "--device", "cpu", *options], capture_output=True, text=True
        )
        seconds = time.perf_counter() - start
        peak = int(measured.stdout.rsplit("peak ", 1)[1]) if "peak " in measured.stdout else 0
    return {
        "megapixels": megapixels, "frames": frames, "options": list(options), "status": measured.returncode,
        "seconds": seconds, "peak_bytes": peak, "load_average": load,
    }  # fmt: skip


def main() -> None:
    if sys.argv[1] == "--peak":
        done = subprocess.run(sys.argv[2:])
        print(f"peak {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}")
        sys.exit(done.returncode)
    photos = open_photos(sys.argv[1])
    output = Path(sys.argv[2])
    about = describe(torch.device("cpu"), 0)
    rows = json.loads(output.read_text())["rows"] if output.is_file() else [{} for _ in CASES]
    for number in map(int, sys.argv[3:] or range(len(CASES))):
        rows[number] = {**run_case(photos, *CASES[number]), "commit": about["commit"]}
        print(rows[number], flush=True)
    record = {"benchmark": "large photos", **about, "rows": rows}
    write_files({output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
