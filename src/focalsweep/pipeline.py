"""`FocalStack` in, `DepthResult` out: the only join of physics and network."""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Callable

import torch
from torch import Tensor

from focalsweep.model.weights import load_network
from focalsweep.optics.light import linear_to_srgb
from focalsweep.optics.thin_lens import image_distance
from focalsweep.results.result import Array, DepthResult
from focalsweep.sweep.argmin import argmin_depth, focused_picture
from focalsweep.sweep.volume import Progress, all_in_focus, cost_volume
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep.validation import as_setting

Method = Callable[..., DepthPrediction]

NETWORK_TILE_PX = 512
NETWORK_HALO_PX = 64


def network_depth(
    stack: FocalStack, planes: DepthGrid, *, memory: int | None = None, progress: Progress | None = None
) -> DepthPrediction:
    """Depth of a batched stack as the shipped network reads the re-blur cost; large pictures go in tiles with halos."""
    channels = stack.images.shape[2]
    if channels not in (1, 3):
        raise ValueError(f'method "sweep" reads gray or RGB pictures, but these have {channels} channels: use "argmin"')
    stack = stack.to(dtype=torch.float32)  # the precision of the network's weights
    inverse_depths = planes.as_batch(len(stack.images))
    steps = inverse_depths.diff(dim=1)
    if not torch.allclose(steps, steps.mean(1, keepdim=True).expand_as(steps), rtol=1e-3, atol=0):
        raise ValueError('method "sweep" needs planes uniform in inverse depth: use DepthGrid.uniform_in_inverse_depth')
    network = load_network("sweepnet", stack.images.device)
    height, width = stack.size
    parts = [stack.images.new_empty((len(stack.images), height, width)) for _ in range(3)]
    tiles = [(rows, columns) for rows in _cuts(height) for columns in _cuts(width)]
    for number, ((row, row_area), (column, column_area)) in enumerate(tiles):
        top, left = row_area.start, column_area.start
        part = stack.cropped(top, left, row_area.stop - top, column_area.stop - left)
        volume = cost_volume(part, planes, "reblur", memory=memory)
        picture = focused_picture(part, planes, volume.argmin(1)).expand(-1, 3, -1, -1)
        prediction = network.predict(linear_to_srgb(picture) - 0.5, volume, inverse_depths)
        inner = (..., slice(row.start - top, row.stop - top), slice(column.start - left, column.stop - left))
        for whole, piece in zip(parts, (prediction.depth, prediction.std, prediction.confidence), strict=True):
            whole[:, row, column] = piece[inner]
        if progress:
            progress((number + 1) / len(tiles))
    return DepthPrediction(*parts)


def _cuts(length: int) -> list[tuple[slice, slice]]:
    """An axis cut into cores, each with the area around it that the network sees."""
    count = max(1, round(length / NETWORK_TILE_PX))
    borders = [round(i * length / count) for i in range(count + 1)]
    return [
        (slice(start, stop), slice(max(0, start - NETWORK_HALO_PX), min(length, stop + NETWORK_HALO_PX)))
        for start, stop in itertools.pairwise(borders)
    ]


METHODS: dict[str, Method] = {"argmin": argmin_depth, "sweep": network_depth}
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
        method: "argmin", the lowest re-blur cost; "sweep", what the shipped network makes of that cost (surfaces
            without texture too).
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
        projection_distance=None if stack.batched else _projection_distance(batch),
    )


def _projection_distance(stack: FocalStack) -> float:
    """The image distance that registered frames share (see focalsweep.results.geometry): the median over them."""
    distances = image_distance(stack.focus_distances, stack.camera.focal_length)
    return (as_setting("magnification", stack.magnification) * distances).detach().median().item()
