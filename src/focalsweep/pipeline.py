"""`FocalStack` in, `DepthResult` out: the only join of physics and network."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from focalsweep import baselines
from focalsweep.model.smoothing import smooth_by_trust
from focalsweep.model.sweepnet import STRIDE, SweepNet, prediction_from_positions
from focalsweep.model.weights import load_network
from focalsweep.optics.light import linear_to_srgb
from focalsweep.optics.thin_lens import image_distance
from focalsweep.paper import paper_depth, planes_over
from focalsweep.results.result import Array, DepthResult
from focalsweep.sweep import graphs
from focalsweep.sweep.argmin import argmin_depth, pick_frames, sharpest_frames
from focalsweep.sweep.calibration import find_range
from focalsweep.sweep.colour import in_strongest_colour, project, strongest_colour
from focalsweep.sweep.costs import ReblurCost
from focalsweep.sweep.full_size import blend_frames, working_scale
from focalsweep.sweep.tiles import cut_axis
from focalsweep.sweep.upsampling import upsample_guided
from focalsweep.sweep.volume import (
    Progress,
    all_in_focus,
    cost_volume,
    default_memory,
    may_record,
    plan_sweep,
    sweep_at_once,
)
from focalsweep.types import Camera, DepthGrid, DepthPrediction, FocalStack
from focalsweep.validation import as_setting

Method = Callable[..., DepthPrediction]

COST = ReblurCost()
LEAST_REDUCTION = 0.9  # a picture is not resampled for less
GLANCE_PX = 360  # the longer side of the pictures that the range is read from
NETWORK_TILE_PX = 512
CURVE_PX = 64  # swept to either side of a pixel whose cost is asked for
NETWORK_HALO_PX = 64  # a multiple of the network's stride
NETWORK_BYTES = 27  # for each pixel of a tile and its halo and each plane, the cost volume included
SMALLER_TILES_PX = (384, 256, 192, 128)  # where memory is short
SWEEP_SHARE = 0.6  # of the time, the rest is the network's


@dataclass
class StageProgress:
    """A `Progress` that also tells what goes on: "sweeping" the planes, or the "network" reading their costs."""

    say: Callable[[str, float], None]
    stage: str = "sweeping"

    def __call__(self, share: float) -> None:
        self.say(self.stage, share)


def network_depth(
    stack: FocalStack, planes: DepthGrid, *, memory: int | None = None, progress: Progress | None = None
) -> DepthPrediction:
    """Depth of a batched stack as the shipped network reads the re-blur cost; large pictures go in tiles with halos.

    Colour, noise and texture are measured on the whole picture, so that tiles agree where they meet.
    """
    channels = stack.images.shape[2]
    if channels not in (1, 3):
        raise ValueError(f'method "sweep" reads gray or RGB pictures, but these have {channels} channels: use "argmin"')
    stack = stack.to(dtype=torch.float32)  # the precision of the network's weights
    planes = _evenly_spaced(planes)
    inverse_depths = planes.as_batch(len(stack.images))
    tile_px = _tile_px(stack.size, planes.count, memory)
    tiles = [(rows, columns) for rows in _cuts(stack.size[0], tile_px) for columns in _cuts(stack.size[1], tile_px)]
    if len(tiles) == 1:
        answer = _read_at_once(stack, planes, memory, progress)
    else:
        answer = _read_tiles(stack, planes, tiles, memory, progress)
    return prediction_from_positions(answer[:, 0], answer[:, 1], inverse_depths)


def _evenly_spaced(planes: DepthGrid) -> DepthGrid:
    """The same range in equal steps of inverse depth, which is what the network learned."""
    steps = planes.inverse_depths.diff(dim=-1)
    if torch.allclose(steps, steps.mean(-1, keepdim=True).expand_as(steps), rtol=1e-3, atol=0):
        return planes
    return DepthGrid.uniform_in_inverse_depth(planes.depths[..., 0], planes.depths[..., -1], planes.count)


def _read_tiles(
    stack: FocalStack, planes: DepthGrid, tiles: list[Any], memory: int | None, progress: Progress | None
) -> Tensor:  # B 2 H W
    network = load_network("sweepnet", stack.images.device)
    grey = in_strongest_colour(stack)
    statistics = COST.measure(grey.images)
    frames = sharpest_frames(stack, planes).to(stack.images.device)
    answer = stack.images.new_empty((len(stack.images), 2, *stack.size))
    for number, ((row, row_area), (column, column_area)) in enumerate(tiles):
        top, left = row_area.start, column_area.start
        part = grey.cropped(top, left, row_area.stop - top, column_area.stop - left)
        _begin("sweeping", progress, number / len(tiles))
        swept = _part_of(progress, number / len(tiles), SWEEP_SHARE / len(tiles))
        bound = _left_for_sweep(memory, part, planes)
        volume = cost_volume(part, planes, COST, statistics=statistics, memory=bound, progress=swept)
        _begin("network", progress, (number + SWEEP_SHARE) / len(tiles))
        piece = read_volume(network, stack.images[..., row_area, column_area], volume, frames)
        answer[:, :, row, column] = piece[
            ..., row.start - top : row.stop - top, column.start - left : column.stop - left
        ]
        del volume, piece  # before the next tile is swept
        if progress:
            progress((number + 1) / len(tiles))
    del grey, part
    return made_whole(stack.images, frames, answer)


def _begin(stage: str, progress: Progress | None, share: float) -> None:
    if isinstance(progress, StageProgress):
        progress.stage = stage
        progress(share)


def _part_of(progress: Progress | None, start: float, share: float) -> Progress | None:
    return progress and (lambda done: progress(start + share * done))


def _left_for_sweep(memory: int | None, stack: FocalStack, planes: DepthGrid) -> int | None:
    """Of a bound, less what a tile takes anyway: its costs twice, the spectra of its frames."""
    if memory is None:
        return None
    batch, frames, _, height, width = stack.images.shape
    taken = 8 * (planes.count + frames) * batch * height * width
    return max(1, min(memory - taken, default_memory(stack.images.device)))


def _read_at_once(stack: FocalStack, planes: DepthGrid, memory: int | None, progress: Progress | None) -> Tensor:
    """A picture of one tile; on a GPU the whole way from frames to answer is recorded and replayed."""
    network = load_network("sweepnet", stack.images.device)
    images, frames = stack.images, sharpest_frames(stack, planes).to(stack.images.device)
    grey_like = stack.with_images(images[:, :, :1])
    plan = plan_sweep(grey_like, planes, COST, "mirror", memory)
    if not may_record(images, COST, plan, memory):
        swept, bound = _part_of(progress, 0, SWEEP_SHARE), _left_for_sweep(memory, grey_like, planes)
        volume = cost_volume(in_strongest_colour(stack), planes, COST, memory=bound, progress=swept)
        _begin("network", progress, SWEEP_SHARE)
        answer = made_whole(images, frames, read_volume(network, images, volume, frames))
        if progress:
            progress(1.0)
        return answer

    def run(images: Tensor, coc_px: Tensor, frames: Tensor) -> Tensor:
        grey = project(images, strongest_colour(images)) if images.shape[2] > 1 else images
        answer = read_volume(network, images, sweep_at_once(COST, plan, grey, coc_px), frames)
        return made_whole(images, frames, answer)

    key = ("sweepnet", plan.grid.height, plan.grid.width, planes.count)
    answer = graphs.SWEEPS.run(key, run, images, plan.padded_coc_px, frames)
    if progress:
        progress(1.0)
    return answer


def read_volume(
    network: SweepNet,
    images: Tensor,  # B F C H W
    volume: Tensor,  # B D H W
    frames: Tensor,  # B D: the sharpest at each plane
) -> Tensor:  # B 2 H W
    """Position among the planes and Laplace scale, as the network sees them."""
    lowest = volume.argmin(1)
    picture = linear_to_srgb(pick_frames(images, frames, lowest)).expand(-1, 3, -1, -1) - 0.5
    output = network(picture, volume, lowest)
    return torch.stack([output.position, output.scale], 1)


def made_whole(
    images: Tensor,  # B F C H W
    frames: Tensor,  # B D: the sharpest at each plane
    answer: Tensor,  # B 2 H W
) -> Tensor:  # B 2 H W
    """The positions where the network is unsure taken from around them, along the edges of the picture."""
    position, scale = answer.float().unbind(1)
    last = frames.shape[1] - 1
    plane = (position * last).round().long().clamp(0, last)
    picture = linear_to_srgb(pick_frames(images, frames, plane)).expand(-1, 3, -1, -1)
    position = smooth_by_trust(position, scale, picture).clamp(0, 1)
    return torch.stack([position, scale], 1)


def _tile_px(size: tuple[int, int], plane_count: int, memory: int | None) -> int:
    """The side of the largest tiles that the network can read within `memory` bytes, or of the smallest there are."""
    for tile_px in (NETWORK_TILE_PX, *SMALLER_TILES_PX) if memory is not None else ():
        height, width = (max(area.stop - area.start for _, area in _cuts(length, tile_px)) for length in size)
        if height * width * plane_count * NETWORK_BYTES <= memory:
            return tile_px
    return NETWORK_TILE_PX if memory is None else min(SMALLER_TILES_PX)


def _cuts(length: int, tile_px: int) -> list[tuple[slice, slice]]:
    """An axis cut into cores, each with the area around it that the network sees."""
    return cut_axis(length, tile_px, NETWORK_HALO_PX, STRIDE)


METHODS: dict[str, Method] = {
    "argmin": argmin_depth, "sweep": network_depth, "paper": paper_depth, **baselines.METHODS
}  # fmt: skip
"""What `estimate_depth` knows by name: (batched stack, planes, memory=, progress=) -> DepthPrediction."""


def estimate_depth(
    stack: FocalStack,
    method: str = "sweep",
    *,
    planes: DepthGrid | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
) -> DepthResult:
    """Depth in metres, its error bar, and the picture sharp all over.

    Pictures whose blur is wider than the network has seen are worked on at a smaller size; the answer is brought back
    to full size along the picture's edges.

    Args:
        stack: frames in linear light with their camera; a batch gives batched arrays.
        method: "sweep", what the shipped network makes of the re-blur cost (surfaces without texture too); "argmin",
            the lowest cost alone; "paper", the paper's network on its own cost and planes; or a rival: "focus_measure",
            "suwajanakorn", and with weights that you trained (see `focalsweep.baselines.networks`) "ddff",
            "defocusnet", "aifdepthnet", "aifdepthnet-aif".
        planes: the depths to look at; by default 64 planes over those in sight, within or beyond the focus distances.
        memory: bytes that sweep and network may use beside their input and output, by smaller tiles; None is about
            1.5 GB on a CPU.
        progress: called with the share done, 0 to 1.
    """
    source = "the caller"
    if planes is None:
        planes, source = planes_in_sight(stack)
    scale = 1.0 if stack.batched else working_scale(stack, planes, stack.size)
    if scale > LEAST_REDUCTION:
        return estimate_as_it_is(stack, method, planes, source, memory=memory, progress=progress)
    small = stack.resized(scale)
    result = estimate_as_it_is(small, method, planes, source, blend=True, memory=memory, progress=progress)
    return at_full_size(result, _blended(stack, torch.from_numpy(result.depth)), stack.camera)


def planes_in_sight(stack: FocalStack, count: int = 64) -> tuple[DepthGrid, str]:
    """Planes over the depths that the stack shows (each stack of a batch on its own), and how they were found."""
    _check_focus(stack)
    with torch.no_grad():
        scale = min(1.0, GLANCE_PX / max(stack.size))
        glance = in_strongest_colour((stack.resized(scale) if scale < 1 else stack).as_batch())
        found = [find_range(glance.one_of_batch(i), count) for i in range(len(glance.images))]
    if not stack.batched:
        return found[0]
    near, far = (torch.stack([grid.depths[end] for grid, _ in found]) for end in (0, -1))
    return DepthGrid.uniform_in_inverse_depth(near, far, count), "the depths in sight of each stack"


def _check_focus(stack: FocalStack) -> None:
    """Raises where frames differ in aperture alone: their blur does not tell what is nearer from what is farther."""
    distances = stack.as_batch().focus_distances
    alike = (distances == distances[:, :1]).all(-1)
    if bool(alike.any()):
        raise ValueError(
            f"all frames are focused at {distances[alike][0, 0].item():g} m, so that blur does not tell near from far: "
            "add frames focused elsewhere, or give planes on one side of it"
        )


def cost_curve(stack: FocalStack, planes: DepthGrid, row: int, column: int) -> Tensor:  # D
    """The cost of every plane at one pixel of an unbatched stack: what `estimate_depth` read there, lowest fits best.

    Only the surroundings of the pixel are swept, with the noise and texture of the whole picture.
    """
    height, width = stack.size
    if not (0 <= row < height and 0 <= column < width):
        raise ValueError(f"row {row}, column {column} lies outside a picture of {width} x {height} px")
    top = min(max(0, row - CURVE_PX), max(0, height - 2 * CURVE_PX))
    left = min(max(0, column - CURVE_PX), max(0, width - 2 * CURVE_PX))
    with torch.no_grad():
        grey = in_strongest_colour(stack.as_batch())
        part = grey.cropped(top, left, min(2 * CURVE_PX, height), min(2 * CURVE_PX, width))
        volume = cost_volume(part, planes, COST, statistics=COST.measure(grey.images))
    return volume[0, :, row - top, column - left].cpu()


def _blended(stack: FocalStack, depth: Tensor) -> Tensor:  # H W C
    frames = (image.movedim(0, -1).float().cpu() for image in stack.images.detach())
    return blend_frames(frames, stack.focus_distances, depth.cpu())


def estimate_as_it_is(
    stack: FocalStack,
    method: str,
    planes: DepthGrid,
    source: str,
    *,
    blend: bool = False,
    memory: int | None = None,
    progress: Progress | None = None,
) -> DepthResult:
    """`estimate_depth` at the size of the stack; `source` says where the planes come from.

    With `blend` the sharp picture is put together from the frames, which is quicker and forgives frames that do not
    register to the pixel; without, it is the latent image of the sweep.
    """
    if method not in METHODS:
        raise ValueError(f"no method is called {method!r}: it is one of {', '.join(METHODS)}")
    start = time.perf_counter()
    with torch.no_grad():
        batch = stack.as_batch()
        prediction = METHODS[method](batch, planes, memory=memory, progress=progress)
        estimated = time.perf_counter()
        if blend:
            sharp = _blended(stack, prediction.depth[0])[None]
        else:
            sharp = all_in_focus(batch, planes, 1 / prediction.depth, memory=memory).movedim(-3, -1)
    if method == "paper":
        planes = planes_over(planes)  # those that it swept; the nearest may be blurred by more than the picture's width
    record = {
        "method": method,
        "planes": {
            "count": planes.count,
            "near": planes.depths[..., 0].tolist(),
            "far": planes.depths[..., -1].tolist(),
            "source": source,
        },
        "focus_distances": stack.focus_distances.tolist(),
        "worked_at": {"width": stack.size[1], "height": stack.size[0]},
        "seconds": {"depth": estimated - start, "all_in_focus": time.perf_counter() - estimated},
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
    }

    def array(values: Tensor) -> Array:
        return (values if stack.batched else values[0]).float().cpu().numpy()

    return DepthResult(
        depth=array(prediction.depth),
        std=array(prediction.std),
        confidence=array(prediction.confidence),
        all_in_focus=array(sharp),
        camera=stack.camera,
        planes=planes,
        record=record,
        projection_distance=None if stack.batched else _projection_distance(batch),
    )


def at_full_size(
    result: DepthResult,
    sharp: Tensor,  # H W C: the all-in-focus picture at full size
    camera: Camera,  # of the full-size pictures
    progress: Progress | None = None,
) -> DepthResult:
    """A result of smaller pictures brought to full size along the edges of the full-size picture."""
    start = time.perf_counter()
    depth, std, confidence = (torch.from_numpy(maps) for maps in (result.depth, result.std, result.confidence))
    small = torch.from_numpy(result.all_in_focus).clamp_min(0)
    full = upsample_guided(depth, std, confidence, small, sharp, progress)
    seconds = {**result.record["seconds"], "full_size": time.perf_counter() - start}
    return replace(
        result,
        depth=full.depth.numpy(),
        std=full.std.numpy(),
        confidence=full.confidence.numpy(),
        all_in_focus=sharp.numpy(),
        camera=camera,
        record={**result.record, "seconds": seconds},
    )


def _projection_distance(stack: FocalStack) -> float:
    """The image distance that registered frames share (see focalsweep.results.geometry): the median over them."""
    distances = image_distance(stack.focus_distances, stack.camera.focal_length)
    return (as_setting("magnification", stack.magnification) * distances).detach().median().item()
