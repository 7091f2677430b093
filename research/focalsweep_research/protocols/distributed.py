"""A protocol's work shared among the processes that torchrun started, and their sums together again."""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

import torch.distributed as dist
from torch import Tensor

from focalsweep_research.metrics.errors import ErrorSums, error_sums, figures_of

Say = Callable[[str], None]
Found = tuple[Tensor, Tensor] | str
"""Estimated and true depth; or why a method reads no such stack."""


class Addable(Protocol):
    def __add__(self, other: Any, /) -> Any: ...


T = TypeVar("T", bound=Addable)
Item = TypeVar("Item")


def over_processes(sums: T) -> T:
    """The total of the processes of torch.distributed, on each of them; of a process alone, what it has."""
    if not (dist.is_available() and dist.is_initialized()):
        return sums
    gathered: list[T] = [sums] * dist.get_world_size()
    dist.all_gather_object(gathered, sums)  # type: ignore[no-untyped-call]
    return functools.reduce(operator.add, gathered)


def is_main_process() -> bool:
    """Whether this is the first process of torch.distributed, or a process alone."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def share_of_process(items: Sequence[Item]) -> Sequence[Item]:
    """Those that this process of torch.distributed measures: every n-th, so that long ones are spread."""
    if not (dist.is_available() and dist.is_initialized()):
        return items
    return items[dist.get_rank() :: dist.get_world_size()]


def own_share(items: Sequence[Item], say: Say, say_every: int = 1) -> Iterator[Item]:
    """Those of this process, one after the other, telling how far it is."""
    mine = share_of_process(items)
    for number, item in enumerate(mine, start=1):
        yield item
        if number % say_every == 0 or number == len(mine):
            say(f"{number} of {len(mine)}")


class Tally:
    """Errors by row, and why a row has none; `+` joins those of two processes."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Any, ...], ErrorSums] = defaultdict(ErrorSums)
        self._notes: dict[tuple[Any, ...], str] = {}

    def add(self, found: Found, *rows: tuple[Any, ...], pixels: Tensor | None = None) -> None:
        """What a method found in some stacks that belong to all of these rows; `pixels` are those that count."""
        sums = ErrorSums() if isinstance(found, str) else error_sums(*found, pixels)
        for row in rows:
            self._sums[row] += sums
            if isinstance(found, str):
                self._notes[row] = found

    def figures(self, *row: Any) -> dict[str, Any]:
        return figures_of(self._sums.get(row, ErrorSums()), self._notes.get(row))

    def __add__(self, other: Self) -> Self:
        total = type(self)()
        total._notes = {**self._notes, **other._notes}
        for part in (self, other):
            for row, sums in part._sums.items():
                total._sums[row] += sums
        return total
