"""What a method is: a function from a batched stack, planes and options to a `DepthPrediction`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from focalsweep.progress import Progress
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack


@dataclass(frozen=True)
class Options:
    """What a method is told beside the stack and the planes.

    Args:
        workspace: bytes that it may use beside its input and output; None: as it likes.
        progress: told how far it is.
        settings: its own, by name, as text: what stands behind its name, "sweep:psf=sampled".
    """

    workspace: int | None = None
    progress: Progress | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


Predict = Callable[[FocalStack, DepthGrid, Options], DepthPrediction]
"""(batched stack, planes, options) -> depth, std and confidence on the stack's device."""


@dataclass(frozen=True, eq=False)
class Method:
    """A method that is known by name.

    Args:
        name: what it is called.
        about: what it does, in a phrase, for help texts and tables.
        predict: what it makes of a stack.
        settings: those it takes behind its name: name -> (the values it may have, what it does); no values: any text.
        weights: names of the shipped weights that it reads, for the record.
        swept: the planes that it really sweeps over the range of those that it is given.
        check: raises, in a sentence, where it cannot work here: before photos are read, not after.
        reads_displayed: it was made for display-encoded values, not for light; datasets that have them give it those.
    """

    name: str
    about: str
    predict: Predict
    settings: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    weights: tuple[str, ...] = ()
    swept: Callable[[DepthGrid, Mapping[str, str]], DepthGrid] = lambda planes, settings: planes
    check: Callable[[], None] = lambda: None
    reads_displayed: bool = False


def uninformed(depth: Tensor, planes: DepthGrid) -> DepthPrediction:  # of B H W
    """The depth of a method that says nothing of its error: std and confidence of a guess among the planes."""
    inverse = planes.as_batch(len(depth)).to(depth, non_blocking=True)
    spread = ((inverse[:, 0] - inverse[:, -1]) / math.sqrt(12))[:, None, None]
    confidence = torch.full_like(depth, min(1.0, 3 / planes.count))
    return DepthPrediction(depth, spread * depth.square(), confidence)
