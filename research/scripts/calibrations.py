"""What wrong settings do to depth, with calibration and without: python research/scripts/calibrations.py OUT.json

On the demo stack, whose depth is known. Each row is a run of `estimate_depth` as users call it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from focalsweep.estimate import estimate_depth
from focalsweep.photos.demo import DEMO_STACK, demo_depth
from focalsweep.photos.reading import load_stack
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.types import FocalStack
from focalsweep_research.environment import describe
from scripts.mistakes import with_camera, with_distances

RANGE = 0.12  # to either side of wrong distances, where metadata is coarse


def with_ranges(stack: FocalStack) -> FocalStack:
    ranges = tuple(((1 - RANGE) * d, (1 + RANGE) * d) for d in stack.focus_distances.tolist())
    return replace(stack, record=replace(stack.record, focus_ranges=ranges))


def cases(right: FocalStack) -> dict[str, tuple[FocalStack, tuple[str, ...]]]:
    """Stacks by what is wrong with their settings, and the modes of calibration that are tried."""
    distances = right.focus_distances
    return {
        "nothing": (right, ("off", "auto")),
        "f-number 30 % more": (with_camera(right, stop=1.3), ("off", "auto")),
        "f-number 30 % less": (with_camera(right, stop=0.7), ("off", "auto")),
        "pitch 20 % more": (with_camera(right, pitch=1.2), ("off", "auto")),
        "pitch 20 % less": (with_camera(right, pitch=0.8), ("off", "auto")),
        "distances 10 % more": (with_distances(right, distances * 1.1), ("off", "auto", "focus")),
        "distances 10 % less": (with_distances(right, distances * 0.9), ("off", "auto", "focus")),
        "distances 10 % more, ranges": (with_ranges(with_distances(right, distances * 1.1)), ("off", "auto", "focus")),
    }


def measure(name: str, stack: FocalStack, mode: str) -> dict[str, Any]:
    truth = demo_depth()
    found = estimate_depth(stack, calibrate=mode)
    off, sure = np.abs(found.depth - truth), found.confidence > 0.5
    return {
        "wrong": name,
        "calibrate": mode,
        "median_error": float(np.median(off / truth)),
        "beyond_3_std": float((off > 3 * found.std)[sure].mean()),
        "std": float(np.median(found.std / found.depth)),
        "calibration": found.record["measured"]["calibration"],
    }


def main(output: Path) -> None:
    torch.set_num_threads(1)
    rows = []
    for name, (stack, modes) in cases(load_stack(DEMO_STACK)).items():
        for mode in modes:
            rows.append(measure(name, stack, mode))
            print(rows[-1], flush=True)
    record = {"benchmark": "calibrations", **describe(torch.device("cpu"), 0), "rows": rows}
    write_files({output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
