"""The method "sweep": the shipped network reads the re-blur cost of every plane."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from focalsweep.errors import InputError
from focalsweep.methods.method import Method, Options
from focalsweep.methods.tiled import SWEEP_SHARE, Tiling, left_for_sweep, read_in_tiles
from focalsweep.model.smoothing import smooth_by_confidence
from focalsweep.model.sweepnet import STRIDE, SweepNet, prediction_from_positions
from focalsweep.model.weights import load_network
from focalsweep.optics.light import linear_to_srgb
from focalsweep.optics.psf import Disk, Sampled
from focalsweep.progress import part_of, silent
from focalsweep.sweep import graphs
from focalsweep.sweep.colour import dominant_colour, project, project_to_dominant_colour
from focalsweep.sweep.costs import ReblurCost
from focalsweep.sweep.frames import pick_frames, sharpest_frames
from focalsweep.sweep.volume import cost_volume, may_record, plan_sweep, sweep_at_once
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

SIDES_PX = (512, 384, 256, 192, 128)  # of tiles, the smaller ones where memory is short
HALO_PX = 64
BYTES_A_VOXEL = 27  # the cost volume included
CURVE_PX = 64  # swept to either side of a pixel whose cost is asked for
PSF_SETTING = {"psf": (("disk", "sampled"), "sampled: blurred by kernels of whole pixels, as some renderers do it")}


def reblur_cost(psf: str = "disk", *, squash: bool = True) -> ReblurCost:
    """The cost by the name of a PSF: "disk", or "sampled", a disk's kernel on the pixels."""
    return ReblurCost(psf=Sampled(Disk()) if psf == "sampled" else "disk", squash=squash)


def sweep_depth(
    stack: FocalStack, planes: DepthGrid, options: Options, network: SweepNet | None = None
) -> DepthPrediction:
    """Depth of a batched stack; large pictures go in tiles with halos. By default the shipped network reads it.

    Colour, noise and texture are measured on the whole picture, so that tiles agree where they meet.
    """
    channels = stack.images.shape[2]
    if channels not in (1, 3):
        raise InputError(
            "sweep reads gray or RGB pictures, but these have {value} channels",
            field="method", value=channels, remedy="use argmin",
        )  # fmt: skip
    stack = stack.to(dtype=torch.float32)  # the precision of the network's weights
    network = network or load_network("sweepnet", stack.images.device)
    cost = reblur_cost(options.settings.get("psf", "disk"))
    planes = _evenly_spaced(planes)
    tiling = Tiling(SIDES_PX, HALO_PX, STRIDE, BYTES_A_VOXEL * planes.count)
    tiles = tiling.cut(stack.size, options.workspace)
    frames = sharpest_frames(stack, planes).to(stack.images.device)
    if len(tiles) == 1:
        answer = _read_at_once(stack, planes, cost, network, frames, options)
    else:
        grey = project_to_dominant_colour(stack)

        def read(area: tuple[slice, slice], volume: Tensor) -> Tensor:
            return read_volume(network, stack.images[..., area[0], area[1]], volume, frames)

        answer = read_in_tiles(grey, planes, cost, read, tiles, options, statistics=cost.measure(grey.images))
        del grey
        answer = smooth_uncertain(stack.images, frames, answer)
    return prediction_from_positions(answer[:, 0], answer[:, 1], planes.as_batch(len(stack.images)))


def _evenly_spaced(planes: DepthGrid) -> DepthGrid:
    """The same range in equal steps of inverse depth, which is what the network learned."""
    steps = planes.inverse_depths.diff(dim=-1)
    if torch.allclose(steps, steps.mean(-1, keepdim=True).expand_as(steps), rtol=1e-3, atol=0):
        return planes
    return DepthGrid.uniform_in_inverse_depth(planes.depths[..., 0], planes.depths[..., -1], planes.count)


def _read_at_once(
    stack: FocalStack, planes: DepthGrid, cost: ReblurCost, network: SweepNet, frames: Tensor, options: Options
) -> Tensor:
    """A picture of one tile; on a GPU the whole way from frames to answer is recorded and replayed."""
    images, progress = stack.images, options.progress or silent
    grey_like = stack.with_images(images[:, :, :1])
    plan = plan_sweep(grey_like, planes, cost, "mirror", options.workspace)
    if may_record(images, cost, plan, options.workspace):

        def run(images: Tensor, coc_px: Tensor, frames: Tensor) -> Tensor:
            grey = project(images, dominant_colour(images)) if images.shape[2] > 1 else images
            answer = read_volume(network, images, sweep_at_once(cost, plan, grey, coc_px), frames)
            return smooth_uncertain(images, frames, answer)

        key = ("sweepnet", network, cost, plan.grid.height, plan.grid.width, planes.count)
        answer = graphs.SWEEPS.run(key, run, images, plan.padded_coc_px, frames)
    else:
        bound = left_for_sweep(options.workspace, grey_like, planes)
        told = part_of(progress, 0, SWEEP_SHARE)
        volume = cost_volume(project_to_dominant_colour(stack), planes, cost, workspace=bound, progress=told)
        progress("network", SWEEP_SHARE)
        answer = smooth_uncertain(images, frames, read_volume(network, images, volume, frames))
    progress("network", 1.0)
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


def smooth_uncertain(
    images: Tensor,  # B F C H W
    frames: Tensor,  # B D: the sharpest at each plane
    answer: Tensor,  # B 2 H W
) -> Tensor:  # B 2 H W
    """Confidence-weighted smoothing: where the network is unsure, positions come from around, along picture edges."""
    position, scale = answer.float().unbind(1)
    last = frames.shape[1] - 1
    plane = (position * last).round().long().clamp(0, last)
    picture = linear_to_srgb(pick_frames(images, frames, plane)).expand(-1, 3, -1, -1)
    position = smooth_by_confidence(position, scale, picture).clamp(0, 1)
    return torch.stack([position, scale], 1)


def method_of_network(network: SweepNet, name: str) -> Method:
    """A network of yours in place of the shipped one."""
    predict = partial(sweep_depth, network=network)
    return Method(name, "a network of yours reads the sweep", predict, settings=PSF_SETTING)


def cost_curve(stack: FocalStack, planes: DepthGrid, row: int, column: int) -> Tensor:  # D
    """The cost of every plane at one pixel of an unbatched stack: what `sweep_depth` read there, lowest fits best.

    Only the surroundings of the pixel are swept, with the noise and texture of the whole picture.
    """
    height, width = stack.size
    if not (0 <= row < height and 0 <= column < width):
        raise ValueError(f"row {row}, column {column} lies outside a picture of {width} x {height} px")
    top = min(max(0, row - CURVE_PX), max(0, height - 2 * CURVE_PX))
    left = min(max(0, column - CURVE_PX), max(0, width - 2 * CURVE_PX))
    cost = reblur_cost()
    with torch.no_grad():
        grey = project_to_dominant_colour(stack.as_batch())
        part = grey.cropped(top, left, min(2 * CURVE_PX, height), min(2 * CURVE_PX, width))
        volume = cost_volume(part, planes, cost, statistics=cost.measure(grey.images))
    return volume[0, :, row - top, column - left].cpu()


SWEEP = Method(
    "sweep",
    "the shipped network reads the re-blur cost of every plane: surfaces without texture too",
    sweep_depth,
    settings=PSF_SETTING,
    weights=("sweepnet",),
)
