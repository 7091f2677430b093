"""A network that reads cost volumes, tile by tile: what fits into memory at once, and how far the work is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from focalsweep.methods.method import Options
from focalsweep.progress import part_of, renamed, silent
from focalsweep.sweep.costs import Cost
from focalsweep.sweep.statistics import StackStatistics
from focalsweep.sweep.tiles import Cut, Tile, cut_axis, cut_picture
from focalsweep.sweep.volume import cost_volume, default_workspace
from focalsweep.types import DepthGrid, FocalStack

SWEEP_SHARE = 0.6  # of the time, the rest is the network's

Read = Callable[[tuple[slice, slice], Tensor], Tensor]
"""(rows and columns of a tile's area, its cost volume B D h w) -> the network's maps there, B M h w."""


@dataclass(frozen=True)
class Tiling:
    """How a network's pictures are cut.

    Args:
        sides_px: of the tiles, the largest first: smaller ones where memory is short.
        halo_px: around each, a multiple of the stride.
        stride: of the network.
        bytes_a_pixel: that it takes for each pixel of a tile and its halo, the cost volume included.
    """

    sides_px: tuple[int, ...]
    halo_px: int
    stride: int
    bytes_a_pixel: int

    def cut(self, size: tuple[int, int], workspace: int | None) -> list[Tile]:
        """The largest tiles that the network can read within the workspace, or the smallest there are."""
        sides = self.sides_px[:1] if workspace is None else self.sides_px
        for side_px in sides:
            rows, columns = (self._cut_axis(length, side_px) for length in size)
            height, width = (max(area.stop - area.start for _, area in cuts) for cuts in (rows, columns))
            if workspace is None or height * width * self.bytes_a_pixel <= workspace:
                break
        return cut_picture(rows, columns)

    def _cut_axis(self, length: int, side_px: int) -> list[Cut]:
        return cut_axis(length, max(1, round(length / side_px)), self.halo_px, self.stride)


def read_in_tiles(
    stack: FocalStack,  # batched: what is swept
    planes: DepthGrid,
    cost: Cost,
    read: Read,
    tiles: list[Tile],
    options: Options,
    *,
    statistics: StackStatistics | None = None,
) -> Tensor:  # B M H W
    """Sweep and read every tile; the parts that they answer for make the whole.

    `statistics` of the whole picture make its parts agree where they meet.
    """
    answer = torch.empty(0)
    progress = options.progress or silent
    for number, tile in enumerate(tiles):
        begins, share = number / len(tiles), 1 / len(tiles)
        (rows, columns), height_width = tile.area, tile.area_size
        part = stack.cropped(rows.start, columns.start, *height_width)
        progress("sweeping", begins)
        swept = part_of(renamed(progress, "sweeping"), begins, SWEEP_SHARE * share)
        bound = left_for_sweep(options.workspace, part, planes)
        volume = cost_volume(part, planes, cost, statistics=statistics, workspace=bound, progress=swept)
        progress("network", begins + SWEEP_SHARE * share)
        piece = read(tile.area, volume)
        if not len(answer):
            answer = piece.new_empty((*piece.shape[:2], *stack.size))
        answer[..., tile.core[0], tile.core[1]] = piece[..., tile.core_in_area[0], tile.core_in_area[1]]
        del part, volume, piece  # before the next tile is swept
        progress("network", begins + share)
    return answer


def left_for_sweep(workspace: int | None, stack: FocalStack, planes: DepthGrid) -> int | None:
    """Of a bound, less what a tile takes anyway: its costs twice, the spectra of its frames."""
    if workspace is None:
        return None
    batch, frames = stack.images.shape[:2]
    taken = 8 * (planes.count + frames) * batch * math.prod(stack.size)
    return max(1, min(workspace - taken, default_workspace(stack.images.device)))
