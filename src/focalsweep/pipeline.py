"""`FocalStack` in, `DepthResult` out: the only join of physics and network."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import torch
from torch import Tensor

from focalsweep.results.result import Array, DepthResult
from focalsweep.sweep.argmin import argmin_depth
from focalsweep.sweep.volume import Progress, all_in_focus
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

Method = Callable[..., DepthPrediction]
METHODS: dict[str, Method] = {"argmin": argmin_depth}
"""What `estimate_depth` knows by name: (batched stack, planes, memory=, progress=) -> DepthPrediction."""


def estimate_depth(
    stack: FocalStack,
    method: str = "argmin",
    *,
    planes: DepthGrid | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
) -> DepthResult:
    """Depth in metres, its error bar, and the picture sharp all over.

    Args:
        stack: frames in linear light with their camera; a batch gives batched arrays.
        method: "argmin", the lowest re-blur cost.
        planes: the depths to look at; by default the stack's focus distances and a margin.
        memory: bytes that the sweep may use beside its input; None is 0.5 GB on a CPU, 4 GB on a GPU.
        progress: called with the share done, 0 to 1.
    """
    if method not in METHODS:
        raise ValueError(f"no method is called {method!r}: it is one of {', '.join(METHODS)}")
    start = time.perf_counter()
    source = "the caller" if planes else "the focus distances and a margin"
    planes = planes or DepthGrid.around(stack)
    with torch.no_grad():
        batch = stack.as_batch()
        prediction = METHODS[method](batch, planes, memory=memory, progress=progress)
        estimated = time.perf_counter()
        sharp = all_in_focus(batch, planes, 1 / prediction.depth, memory=memory)
    record = {
        "method": method,
        "planes": {
            "count": planes.count,
            "near": planes.depths[..., 0].tolist(),
            "far": planes.depths[..., -1].tolist(),
            "source": source,
        },
        "focus_distances": stack.focus_distances.tolist(),
        "seconds": {"depth": estimated - start, "all_in_focus": time.perf_counter() - estimated},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
    }

    def array(values: Tensor) -> Array:
        return (values if stack.batched else values[0]).float().cpu().numpy()

    return DepthResult(
        depth=array(prediction.depth),
        std=array(prediction.std),
        confidence=array(prediction.confidence),
        all_in_focus=array(sharp.movedim(-3, -1)),
        camera=stack.camera,
        planes=planes,
        record=record,
    )
