"""OpenCV's ECC and our registration on hand-held stacks with known motion: python benchmarks/registration.py OUT.json

Rendered stacks (4 % breathing, 20 px of shift, half a degree, blur to 12 px, 10 % exposure drift, as the tests have
them). For each pair of neighbours: the error at the corners in pixels, and CPU seconds, the pyramids included. OpenCV's
`findTransformECCMultiScale` (from 5.0) takes the square roots of light in 8 bit, with affine and with homography, which
are the models it has that hold a zoom.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

import cv2
import numpy as np

SIZES, SEEDS = ((480, 640),), (0, 1)


def ours(first: Any, second: Any) -> Any:
    from focalsweep.photos.registration import build_pyramid, normal_coordinates, register

    found = register(build_pyramid(first), build_pyramid(second))
    normal = normal_coordinates(first.shape[:2])
    return np.linalg.inv(normal) @ found.transform @ normal


def opencv(first: Any, second: Any, motion: int) -> Any:
    gray = [(255 * np.sqrt(picture.mean(-1).clip(0, 1))).astype(np.uint8) for picture in (first, second)]
    settings = cv2.ECCParameters()
    settings.motionType = motion
    start = np.eye(3 if motion == cv2.MOTION_HOMOGRAPHY else 2, 3, dtype=np.float32)
    _, found = cv2.findTransformECCMultiScale(gray[0], gray[1], start, settings)
    found = np.asarray(found)
    return found if len(found) == 3 else np.vstack([found, [0, 0, 1]])


@cache
def shots(size: tuple[int, int], seed: int) -> Any:
    from tests.unit.photos.handheld import Shake, photograph

    return photograph(Shake(size=size), seed)


def measure(way: Callable[[Any, Any], Any], size: tuple[int, int]) -> dict[str, Any]:
    from tests.unit.photos.handheld import corner_error_px

    errors, seconds, failed = [], 0.0, 0
    for seed in SEEDS:
        frames, moves, _ = shots(size, seed)
        for i in range(len(frames) - 1):
            start = time.process_time()
            try:
                found = way(frames[i], frames[i + 1])
                errors.append(corner_error_px(found, moves[i + 1] @ np.linalg.inv(moves[i]), size))
            except cv2.error:
                failed += 1
            seconds += time.process_time() - start
    pairs = len(errors) + failed
    median, most = (float(np.median(errors)), float(max(errors))) if errors else (None, None)
    return {"median_px": median, "most_px": most, "failed": failed, "pairs": pairs, "cpu_s_a_pair": seconds / pairs}


def main() -> None:
    import torch

    from focalsweep.results.writing import json_bytes, write_files
    from focalsweep_research.environment import describe

    cv2.setNumThreads(1)
    ways: dict[str, Callable[[Any, Any], Any]] = {"ours": ours}
    if hasattr(cv2, "findTransformECCMultiScale"):
        ways["ECC, affine"] = partial(opencv, motion=cv2.MOTION_AFFINE)
        ways["ECC, homography"] = partial(opencv, motion=cv2.MOTION_HOMOGRAPHY)
    rows = []
    for size in SIZES:
        for name, way in ways.items():
            rows.append({"way": name, "height": size[0], "width": size[1], **measure(way, size)})
            print(rows[-1], flush=True)
    record = json_bytes(
        {"benchmark": "registration", "opencv": cv2.__version__, **describe(torch.device("cpu"), 0), "rows": rows}
    )

    def put(file: IO[bytes]) -> None:
        file.write(record)

    write_files({Path(sys.argv[1]): put})


if __name__ == "__main__":
    main()
