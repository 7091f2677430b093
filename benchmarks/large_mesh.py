"""A mesh of a large picture, CPU seconds and peak memory of the process: python benchmarks/large_mesh.py OUT.json"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import focalsweep as fs
from focalsweep.photos.demo import DEMO_STACK
from focalsweep.results.mesh_files import glb_bytes
from focalsweep.results.writing import json_bytes, write_files

SIZE = (4000, 6000)
GB_A_UNIT = 1e-6 if sys.platform == "linux" else 1e-9  # of ru_maxrss


def enlarged(values: Any) -> Any:
    return np.asarray(cv2.resize(values, SIZE[::-1], interpolation=cv2.INTER_LINEAR), np.float32)


def main() -> None:
    small = fs.estimate_depth(DEMO_STACK)
    scale = SIZE[1] / small.depth.shape[1]
    maps = {name: enlarged(getattr(small, name)) for name in ("depth", "std", "confidence", "all_in_focus")}
    large = replace(small, **maps, camera=small.camera.resized(scale), principal_point=None)
    start, clock = time.process_time(), time.perf_counter()
    data = glb_bytes(large)
    row = {
        "benchmark": "large mesh", "pixels": SIZE[0] * SIZE[1], "bytes": len(data),
        "cpu_seconds": time.process_time() - start, "seconds": time.perf_counter() - clock,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * GB_A_UNIT,
    }  # fmt: skip
    print(row)
    write_files({Path(sys.argv[1]): lambda file: file.write(json_bytes(row))})


if __name__ == "__main__":
    main()
