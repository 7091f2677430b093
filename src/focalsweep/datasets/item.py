"""What every dataset holds: focal stacks with their true depth. A dataset is a `Sequence[Item]` that reads on `[i]`."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from focalsweep.types import FocalStack
from focalsweep.validation import check_shape


@dataclass(frozen=True, eq=False)
class Item:
    """A stack that is not a batch, its name, and the depth of its pixels (H W, metres from the lens; NaN: unknown)."""

    name: str
    stack: FocalStack
    depth: Tensor

    def __post_init__(self) -> None:
        if self.stack.batched:
            raise ValueError(f"{self.name}: an item holds one stack, not a batch")
        height, width = self.stack.size
        check_shape(f"depth of {self.name}", self.depth, "H W", H=height, W=width)
