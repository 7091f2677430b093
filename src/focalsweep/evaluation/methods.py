"""What a method under test is: one way from a stack to depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from focalsweep.synthesis.sample import Sample
from focalsweep.types import DepthGrid, FocalStack

Reader = Callable[[Sample], Tensor]
"""A batch of stacks with their planes -> depth B H W in metres."""
Windows = Sequence[tuple[int, int]]
"""Top and left of square windows."""


@dataclass(frozen=True, eq=False)
class Method:
    """A way to read depth.

    Args:
        read: what it makes of a batch with planes.
        planes: those it takes where a protocol gives none: for a stack (not batched).
        displayed: whether it works on display-encoded values, as the paper's cost does, and not on light.
        refit: the planes it takes in place of those of a protocol, where it was trained on planes of one kind only.
        read_windows: the same for square windows of one stack, whose costs are those of the whole picture: N h w. The
            paper measures so on NYU; without it the whole picture is read, and cut afterwards.
    """

    read: Reader
    planes: Callable[[FocalStack], DepthGrid]
    displayed: bool = False
    refit: Callable[[DepthGrid], DepthGrid] | None = None
    read_windows: Callable[[Sample, Windows, int], Tensor] | None = None

    def read_refitted(self, sample: Sample) -> Tensor:
        """`read` with planes over the sample's range."""
        return self.read(replace(sample, planes=self.refit(sample.planes)) if self.refit else sample)
