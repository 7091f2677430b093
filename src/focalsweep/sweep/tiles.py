"""A picture too large for a network at once, cut into tiles."""

from __future__ import annotations

import itertools

Cut = tuple[slice, slice]
"""A core, and the area around it that the network sees."""


def cut_axis(length: int, tile_px: int, halo_px: int, stride: int) -> list[Cut]:
    """An axis cut into cores of about `tile_px`, each with up to `halo_px` to either side.

    Cores begin at multiples of the network's stride, and so do areas where the halo is one: its coarse pixels are the
    same in all tiles.
    """
    count = max(1, round(length / tile_px))
    borders = [*(stride * round(i * length / count / stride) for i in range(count)), length]
    return [
        (slice(start, stop), slice(max(0, start - halo_px), min(length, stop + halo_px)))
        for start, stop in itertools.pairwise(borders)
    ]


def cut_picture(size: tuple[int, int], tile_px: int, halo_px: int, stride: int) -> list[tuple[Cut, Cut]]:
    """Rows and columns of every tile."""
    rows, columns = (cut_axis(length, tile_px, halo_px, stride) for length in size)
    return list(itertools.product(rows, columns))


def core_of(row: Cut, column: Cut) -> tuple[slice, slice]:
    """Where the core lies within the area, as rows and columns."""
    return tuple(  # type: ignore[return-value]
        slice(core.start - area.start, core.stop - area.start) for core, area in (row, column)
    )
