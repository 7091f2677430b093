"""The methods we stand beside, each callable like ours; what a method needs is imported when it is called.

    estimate_depth(stack, method="focus_measure")

`focus_measure` and `suwajanakorn` need nothing; the networks need weights (see `baselines.networks`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from focalsweep.baselines.protocol import Baseline
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

CLASSICAL = ("focus_measure", "suwajanakorn")
TRAINED = ("ddff", "defocusnet", "aifdepthnet", "aifdepthnet-aif")


def _depth(
    name: str,
    stack: FocalStack,
    planes: DepthGrid,
    *,
    memory: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> DepthPrediction:
    if name in TRAINED:
        method: Baseline = importlib.import_module("focalsweep.baselines.networks").network_method(name)
    else:
        method = importlib.import_module(f"focalsweep.baselines.{name}").estimate
    return method(stack, planes, memory=memory, progress=progress)


METHODS: dict[str, Baseline] = {name: partial(_depth, name) for name in (*CLASSICAL, *TRAINED)}
"""By name: (batched stack, planes, memory=, progress=) -> DepthPrediction."""
