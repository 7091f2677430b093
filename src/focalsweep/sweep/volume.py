"""Stack x planes -> cost volume, streamed: tiles over the picture, chunks over the planes, within a memory bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from focalsweep.errors import InputError
from focalsweep.optics.psf import Disk, Gaussian, find_psf
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.progress import Progress
from focalsweep.sweep import graphs
from focalsweep.sweep.costs import Cost, PaperCost, ReblurCost, find_cost, seen_through
from focalsweep.sweep.deconvolution import (
    FourierGrid,
    fast_length,
    fourier_grid,
    pad_periodic,
    triton_serves,
)
from focalsweep.sweep.statistics import StackStatistics
from focalsweep.sweep.tiles import Cut, Tile, cut_axis, cut_picture
from focalsweep.sweep.workers import map_chunks
from focalsweep.types import DepthGrid, FocalStack
from focalsweep.validation import check_bytes

STAGE = "sweeping"
CPU_TRANSFORM_PX = 640  # larger transforms fall out of a CPU's caches
CPU_WORKING_SET_BYTES = 2**24
LEAST_MARGIN_PX = 8


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """How a stack is swept: the blur of every plane in every frame, the tiles, the planes done at once."""

    signed_coc_px: Tensor  # B D F
    tiles: list[Tile]
    grid: FourierGrid
    planes_at_once: int
    workers: int  # chunks side by side, on a CPU

    @property
    def at_once(self) -> bool:
        """Whether one tile and one chunk are the whole sweep."""
        return len(self.tiles) == 1 and self.planes_at_once >= self.signed_coc_px.shape[1]

    @property
    def padded_coc_px(self) -> Tensor:
        """Of a sweep at once, B D F with D even, on its device."""
        ((_, coc, _),) = plane_chunks(self)
        return coc.to(self.grid.fy, non_blocking=True)


def cost_volume(
    stack: FocalStack,
    planes: DepthGrid | Any,
    cost: str | Cost = "reblur",
    *,
    padding: str = "mirror",
    statistics: StackStatistics | None = None,
    workspace: int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """How badly the frames disagree if the scene were at each plane: D H W, or B D H W for a batch; low is good.

    Differentiable in the images and in every setting that is a tensor.

    Args:
        stack: frames in linear light.
        planes: a `DepthGrid`, or depths in metres, near to far (D).
        cost: "paper", "reblur", or a `PaperCost` / `ReblurCost` with its switches.
        padding: "mirror" extends the picture beyond its borders; "circular" wraps around, as the paper's code does.
        statistics: of a larger picture that the stack was cut from, so that all its parts are measured alike.
        workspace: bytes that the sweep may use beside its input and output; None is 0.5 GB on a CPU, 4 GB on a GPU.
        progress: told how far it is.
    """
    grid = planes if isinstance(planes, DepthGrid) else DepthGrid.from_depths(planes)
    cost = seen_through(find_cost(cost), stack.camera)
    batch = stack.as_batch()
    plan = plan_sweep(batch, grid, cost, padding, workspace)
    if plan.at_once:
        coc = plan.padded_coc_px
        sweep = partial(sweep_at_once, cost, plan, statistics=statistics)
        if statistics is None and may_record(batch.images, cost, plan, workspace):
            volume = graphs.SWEEPS.run((cost, plan.grid.height, plan.grid.width, grid.count), sweep, batch.images, coc)
        else:
            volume = sweep(batch.images, coc)
        if progress:
            progress(STAGE, 1.0)
    else:
        volume = batch.images.new_empty((len(batch.images), grid.count, *batch.size))
        for tile, costs in sweep_tiles(batch, plan, cost, statistics=statistics, progress=progress):
            volume[:, :, tile.core[0], tile.core[1]] = cost.finish(costs)
    return volume if stack.batched else volume[0]


def sweep_at_once(
    cost: Cost, plan: SweepPlan, images: Tensor, coc_px: Tensor, *, statistics: StackStatistics | None = None
) -> Tensor:  # B D H W
    """A sweep of one tile and one chunk; `coc_px` is the plan's, padded to pairs of planes, on the images' device."""
    measured = cost.measure(images) if statistics is None else statistics
    spectra = tile_spectra(images, plan.tiles[0], cost, plan.grid)
    costs = cost.evaluate(spectra, coc_px, plan.grid, plan.tiles[0].area_size, measured)
    return cost.finish(costs[:, : plan.signed_coc_px.shape[1]])


def may_record(images: Tensor, cost: Cost, plan: SweepPlan, workspace: int | None) -> bool:
    """Whether a sweep is recorded and replayed (see `graphs.py`): on a GPU, all at once, in little memory."""
    if not plan.at_once:
        return False
    coc = plan.padded_coc_px
    needed = bytes_a_plane(images, (plan.grid.height, plan.grid.width)) * coc.shape[1]
    small = needed <= min(graphs.RECORD_BYTES, workspace or default_workspace(images.device))
    # Code of others (a PSF, a cost) may do what a record cannot hold.
    ours = isinstance(cost, PaperCost | ReblurCost) and isinstance(find_psf(cost.psf), Disk | Gaussian)
    return triton_serves(images, coc) and small and ours


def sweep_tiles(
    stack: FocalStack,
    plan: SweepPlan,
    cost: Cost,
    *,
    statistics: StackStatistics | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Tile, Tensor]]:
    """The costs of a batched stack, tile by tile, before `cost.finish`: B D h w over each tile's core."""
    cost = seen_through(cost, stack.camera)
    measured = cost.measure(stack.images) if statistics is None else statistics
    count = plan.signed_coc_px.shape[1]
    for number, tile in enumerate(plan.tiles):
        spectra = tile_spectra(stack.images, tile, cost, plan.grid)
        rows, columns = tile.core
        costs = stack.images.new_empty((len(stack.images), count, rows.stop - rows.start, columns.stop - columns.start))

        def evaluate(
            part: tuple[int, Tensor, int], tile: Tile = tile, spectra: Tensor = spectra, costs: Tensor = costs
        ) -> int:
            start, coc, spare = part
            chunk = cost.evaluate(spectra, coc, plan.grid, tile.area_size, measured)
            stop = start + chunk.shape[1] - spare
            costs[:, start:stop] = chunk[:, : stop - start, tile.core_in_area[0], tile.core_in_area[1]]
            return stop - start

        done = 0
        for planes_done in map_chunks(evaluate, plane_chunks(plan), plan.workers, spectra, plan.signed_coc_px):
            done += planes_done
            if progress:
                progress(STAGE, (number + done / count) / len(plan.tiles))
        yield tile, costs


def plane_position(inverse_depth: Tensor, planes: Tensor) -> Tensor:
    """Where inverse depths B H W lie among planes B D (near to far): 2.5 is midway between planes 2 and 3."""
    u = inverse_depth.flatten(1).contiguous()
    far = torch.searchsorted(-planes.contiguous(), -u).clamp(1, planes.shape[1] - 1)
    before, after = planes.gather(1, far - 1), planes.gather(1, far)
    # Two frames of a stack may have one distance: a step of 0.
    step = (before - after).clamp_min(torch.finfo(u.dtype).tiny)
    share: Tensor = ((before - u) / step).clamp(0, 1)
    position: Tensor = share + (far - 1)
    return position.reshape(inverse_depth.shape)


def plane_chunks(plan: SweepPlan) -> Iterator[tuple[int, Tensor, int]]:
    """The first plane, the blur (B D F) and the number of spare planes of each chunk.

    Planes go in pairs: the last of an odd number goes with itself, as a spare.
    """
    count = plan.signed_coc_px.shape[1]
    for start in range(0, count, plan.planes_at_once):
        coc = plan.signed_coc_px[:, start : start + plan.planes_at_once]
        spare = coc.shape[1] % 2
        yield start, torch.cat([coc, coc[:, -1:]], 1) if spare else coc, spare


def tile_spectra(images: Tensor, tile: Tile, cost: Cost, grid: FourierGrid) -> Tensor:
    """The transformed frames of a tile, B F C h w."""
    area = images[..., tile.area[0], tile.area[1]]
    spectra: Tensor = torch.fft.fft2(pad_periodic(area, grid.height, grid.width, cost.display_encoded))
    return spectra


def plan_sweep(stack: FocalStack, planes: DepthGrid, cost: Cost, padding: str, workspace: int | None) -> SweepPlan:
    """Lay the sweep of a batched stack out within `workspace` bytes."""
    check_bytes("workspace", workspace)
    if padding not in ("mirror", "circular"):
        raise ValueError(f'padding must be "mirror" or "circular", but is {padding!r}')
    images = stack.images
    coc = sweep_coc_px(stack, planes)
    if padding == "circular":
        tiles, transform = [_whole_picture(stack.size)], stack.size
    else:
        # Less a trifle: rounding must not decide on the transform, or the unit of length would.
        margin = math.ceil(coc.detach().abs().max().item() - 1e-6) + LEAST_MARGIN_PX
        tiles, transform = _tile_picture(stack, margin, margin + cost.reach_px, workspace)
    grid = fourier_grid(*transform, images.device, images.dtype)
    planes_at_once = _planes_at_once(stack, planes.count, transform, workspace)
    chunk_bytes = planes_at_once * bytes_a_plane(images, transform)
    workers = max(1, min(torch.get_num_threads(), (workspace or default_workspace(images.device)) // chunk_bytes))
    return SweepPlan(coc, tiles, grid, planes_at_once, workers)


def sweep_coc_px(stack: FocalStack, planes: DepthGrid) -> Tensor:  # B D F
    """The signed blur of every plane in every frame of a batched stack, float64 on the CPU."""
    slope = blur_slope_px(stack.focus_distances, stack.camera, stack.magnification)
    inverse_depths = planes.as_batch(stack.images.shape[0])
    return slope[:, None] * (1 / stack.focus_distances[:, None] - inverse_depths[:, :, None])


def default_workspace(device: torch.device) -> int:
    return 2**29 if device.type == "cpu" else 2**32


def bytes_a_plane(images: Tensor, transform: tuple[int, int]) -> int:
    """What one plane of a sweep takes while it is evaluated: transfer functions, filtered spectra, their transforms."""
    batch, frames, channels = images.shape[:3]
    maps = 3 * (frames + 1) * channels + 4 * frames  # all frames at once
    if images.device.type == "cpu":
        maps = 3 * frames + 7 * channels + 4  # a frame at a time
    return batch * maps * transform[0] * transform[1] * images.element_size()


def _planes_at_once(stack: FocalStack, count: int, transform: tuple[int, int], workspace: int | None) -> int:
    device = stack.images.device
    budget = CPU_WORKING_SET_BYTES if device.type == "cpu" else workspace or default_workspace(device)
    return max(2, min(count, budget // bytes_a_plane(stack.images, transform)) // 2 * 2)


def _whole_picture(size: tuple[int, int]) -> Tile:
    whole = (slice(0, size[0]), slice(0, size[1]))
    return Tile(core=whole, area=whole)


def _tile_picture(
    stack: FocalStack, margin: int, halo: int, workspace: int | None
) -> tuple[list[Tile], tuple[int, int]]:
    """Tiles, all with one transform size, so that a plane of a tile fits in `workspace` bytes."""
    device = stack.images.device
    workspace = workspace or default_workspace(device)
    whole = (fast_length(stack.size[0] + margin), fast_length(stack.size[1] + margin))
    limit = CPU_TRANSFORM_PX if device.type == "cpu" else 4096
    limit = max(limit, fast_length(4 * (2 * halo + margin)))  # a wide blur needs a wide halo: keep most of a tile core
    if max(whole) <= limit and 2 * bytes_a_plane(stack.images, whole) <= workspace:
        return [_whole_picture(stack.size)], whole
    while 2 * bytes_a_plane(stack.images, (limit, limit)) > workspace:
        limit = limit * 3 // 4
    limit = fast_length(limit)
    if limit - margin - 2 * halo < 16:
        raise InputError(
            "a workspace of {megabytes:.0f} MB is too small for blur of up to {blur_px} px",
            field="memory", value=workspace, megabytes=workspace / 2**20, blur_px=margin - LEAST_MARGIN_PX,
            remedy="allow more {memory}, narrow the range of {planes}, or make the pictures smaller",
        )  # fmt: skip
    rows, height = _cut(stack.size[0], limit, margin, halo)
    columns, width = _cut(stack.size[1], limit, margin, halo)
    return cut_picture(rows, columns), (height, width)


def _cut(length: int, limit: int, margin: int, halo: int) -> tuple[list[Cut], int]:
    """One axis cut into nearly equal cores with their areas, and the transform length that holds every area."""
    if length + margin <= limit:
        return [(slice(0, length), slice(0, length))], fast_length(length + margin)
    cuts = cut_axis(length, math.ceil(length / (limit - margin - 2 * halo)), halo)
    widest = max(area.stop - area.start for _, area in cuts)
    return cuts, fast_length(widest + margin)
