"""What every dataset holds: focal stacks with their true depth. A dataset is a `Sequence[Item]` that reads on `[i]`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

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


class Items(Sequence[Item]):
    """A sequence that reads an item when it is asked for it; a slice of it reads nothing either."""

    @abstractmethod
    def read_item(self, number: int) -> Item:
        """The item at a place from 0, read anew."""

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Items: ...
    def __getitem__(self, index: int | slice) -> Item | Items:
        places = range(len(self))[index]
        return _Part(self, places) if isinstance(places, range) else self.read_item(places)


class _Part(Items):
    def __init__(self, items: Items, places: range) -> None:
        self._items, self._places = items, places

    def __len__(self) -> int:
        return len(self._places)

    def read_item(self, number: int) -> Item:
        return self._items.read_item(self._places[number])
