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
    """A batch of stacks, the planes to sweep for each (B D), and the true depth at pixel centres (B H W, metres).

    Where these are parts of larger pictures, `whole` is those pictures made small, and `window` (B 4: left, top, width,
    height, as shares of the whole) says where in them the parts lie. Both have the same planes.
    """

    stack: FocalStack
    planes: DepthGrid
    depth: Tensor
    whole: Sample | None = None
    window: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.whole is None) != (self.window is None):
            raise ValueError("a sample has a whole and a window, or neither")
        batch, height, width = len(self.stack.images), *self.stack.size
        check_shape("depth", self.depth, "B H W", B=batch, H=height, W=width)


Source = Callable[[int, int, torch.device], Sample]
"""(step, batch size, device) -> a batch; the same for the same arguments, another for every step."""
