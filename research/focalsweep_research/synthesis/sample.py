"""What a generator of training data yields: stacks with their true depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from focalsweep.types import DepthGrid, FocalStack
from focalsweep.validation import check_shape


@dataclass(frozen=True, eq=False)
class Sample:
    """A batch of stacks, the planes to sweep for each (B D), and the true depth at pixel centres (B H W, metres)."""

    stack: FocalStack
    planes: DepthGrid
    depth: Tensor

    def __post_init__(self) -> None:
        batch, height, width = len(self.stack.images), *self.stack.size
        check_shape("depth", self.depth, "B H W", B=batch, H=height, W=width)


Source = Callable[[int, int, torch.device], Sample]
"""(step, batch size, device) -> a batch; the same for the same arguments, another for every step."""
