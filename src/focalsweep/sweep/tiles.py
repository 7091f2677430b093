"""A picture too large to be worked on at once, cut into tiles: the same cuts for the sweep and for every network."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

Cut = tuple[slice, slice]
"""Of an axis: a core, and the area around it that is looked at."""


@dataclass(frozen=True)
class Tile:
    """A part of the picture: `core` is what it answers for, `area` what it looks at (the core and a halo)."""

    core: tuple[slice, slice]
    area: tuple[slice, slice]

    @property
    def area_size(self) -> tuple[int, int]:
        rows, columns = self.area
        return rows.stop - rows.start, columns.stop - columns.start

    @property
    def core_in_area(self) -> tuple[slice, slice]:
        rows, columns = (
            slice(core.start - area.start, core.stop - area.start)
            for core, area in zip(self.core, self.area, strict=True)
        )
        return rows, columns


def cut_axis(length: int, count: int, halo_px: int, stride: int = 1) -> list[Cut]:
    """An axis cut into `count` nearly equal cores, each with up to `halo_px` to either side.

    Cores begin at multiples of a network's stride, and so do areas where the halo is one: its coarse pixels are the
    same in all tiles.
    """
    borders = [*(stride * round(i * length / count / stride) for i in range(count)), length]
    return [
        (slice(start, stop), slice(max(0, start - halo_px), min(length, stop + halo_px)))
        for start, stop in itertools.pairwise(borders)
    ]


def cut_picture(rows: list[Cut], columns: list[Cut]) -> list[Tile]:
    """The tiles of cut axes, row by row."""
    return [Tile((y[0], x[0]), (y[1], x[1])) for y, x in itertools.product(rows, columns)]
