"""The method "sweep": the shipped network reads the re-blur cost of every plane.

A large picture is read several times over: first small, as a whole, then larger, each time guided by what was said
before. A plain wall is known from its borders, which a tile at full size does not see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

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
from focalsweep.sweep.colour import dominant_colour, grey_for_sweep, project, project_to_dominant_colour
from focalsweep.sweep.costs import ReblurCost, seen_through
from focalsweep.sweep.exposure import brighten_picture, light_gain
from focalsweep.sweep.frames import pick_frames, sharpest_frames
from focalsweep.sweep.tiles import Tile
from focalsweep.sweep.volume import cost_volume, may_record, plan_sweep, sweep_at_once
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

SIDES_PX = (512, 384, 256, 192, 128)  # of tiles, the smaller ones where memory is short
HALO_PX = 64
BYTES_A_VOXEL = 27  # the cost volume included
GUIDE_PX = 320  # the longer side of the smallest picture that guides
GUIDED_FROM = 1.4  # times GUIDE_PX: smaller pictures are read at once
LARGEST_GUIDED = 3.0  # times as large is a picture than the one that guides it
MOST_PLANES = 128  # that it reads: of more, which it never saw, it makes less
LEARNED_PLANES = 64
SCALE_GROWTH = 0.6
"""The error hardly hangs on the number of planes, but the network tells its scale in steps between them, as it learned
them: told for n steps it is multiplied by (n / 63) ** SCALE_GROWTH. Measured on rendered stacks, 32 to 128 planes."""
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
    planes = planes_read(planes)
    frames = sharpest_frames(stack, planes).to(stack.images.device)
    light = light_gain(stack.images)
    guide, before = None, 1.0
    for scale in guiding_scales(stack.size):
        small = stack.resized(scale)
        guide = guide if guide is None else enlarge(guide, scale / before, small.size)
        guide = _read(small, planes, cost, network, frames, light, guide, replace(options, progress=None))
        before = scale
    guide = guide if guide is None else enlarge(guide, 1 / before, stack.size)
    answer = _read(stack, planes, cost, network, frames, light, guide, options, smooth=True)
    scale = answer[:, 1] * ((planes.count - 1) / (LEARNED_PLANES - 1)) ** SCALE_GROWTH
    return prediction_from_positions(answer[:, 0], scale, planes.as_batch(len(stack.images)))


def guiding_scales(size: tuple[int, int]) -> list[float]:
    """The sizes that a picture is read at before its own, as shares of it, the smallest first; none for small ones."""
    times = max(size) / GUIDE_PX
    if times < GUIDED_FROM:
        return []
    count = max(1, math.ceil(math.log(times) / math.log(LARGEST_GUIDED) - 1e-9))
    return [times ** (step / count - 1) for step in range(count)]


def enlarge(maps: Tensor, ratio: float, size: tuple[int, int]) -> Tensor:
    """Maps of a picture made small by exactly 1 / ratio, at its own size: what the last pixels lack is repeated."""
    maps = functional.interpolate(maps.float(), scale_factor=ratio, mode="bilinear", align_corners=False)
    bottom, right = (max(0, length - have) for length, have in zip(size, maps.shape[-2:], strict=True))
    return functional.pad(maps, (0, right, 0, bottom), mode="replicate")[..., : size[0], : size[1]]


def _read(
    stack: FocalStack,
    planes: DepthGrid,
    cost: ReblurCost,
    network: SweepNet,
    frames: Tensor,  # B D: the sharpest at each plane
    light: Tensor,  # B: what a dark stack is multiplied by
    guide: Tensor | None,  # B 2 H W: what was said of the same picture at a smaller size
    options: Options,
    *,
    smooth: bool = False,
) -> Tensor:  # B 2 H W
    """Position and Laplace scale of a picture at one size, in tiles if large; `smooth` where the network is unsure."""
    tiles = cut_tiles(stack.size, planes.count, options.workspace)
    if len(tiles) == 1:
        return _read_at_once(stack, planes, cost, network, frames, light, guide, options, smooth)
    grey = project_to_dominant_colour(stack, light)

    def read(area: tuple[slice, slice], volume: Tensor) -> Tensor:
        here = None if guide is None else guide[..., area[0], area[1]]
        return read_volume(network, stack.images[..., area[0], area[1]], volume, frames, here, light)

    answer = read_in_tiles(grey, planes, cost, read, tiles, options, statistics=cost.measure(grey.images))
    del grey
    return smooth_uncertain(stack.images, frames, answer, light) if smooth else answer


def cut_tiles(size: tuple[int, int], planes: int, workspace: int | None = None) -> list[Tile]:
    """The tiles that a picture is read in, one if it is small."""
    return Tiling(SIDES_PX, HALO_PX, STRIDE, BYTES_A_VOXEL * planes).cut(size, workspace)


def planes_read(planes: DepthGrid) -> DepthGrid:
    """The same range in equal steps of inverse depth, which is what the network learned, and not in too many."""
    steps = planes.inverse_depths.diff(dim=-1)
    even = torch.allclose(steps, steps.mean(-1, keepdim=True).expand_as(steps), rtol=1e-3, atol=0)
    if even and planes.count <= MOST_PLANES:
        return planes
    count = min(planes.count, MOST_PLANES)
    return DepthGrid.uniform_in_inverse_depth(planes.depths[..., 0], planes.depths[..., -1], count)


def _not_too_many(planes: DepthGrid, settings: Mapping[str, str]) -> DepthGrid:
    return planes if planes.count <= MOST_PLANES else planes_read(planes)


def _read_at_once(
    stack: FocalStack,
    planes: DepthGrid,
    cost: ReblurCost,
    network: SweepNet,
    frames: Tensor,
    light: Tensor,
    guide: Tensor | None,
    options: Options,
    smooth: bool,
) -> Tensor:
    """A picture of one tile; on a GPU the whole way from frames to answer is recorded and replayed."""

    def finished(images: Tensor, frames: Tensor, light: Tensor, answer: Tensor) -> Tensor:
        return smooth_uncertain(images, frames, answer, light) if smooth else answer

    cost, images, progress = seen_through(cost, stack.camera), stack.images, options.progress or silent
    grey_like = stack.with_images(images[:, :, :1])
    plan = plan_sweep(grey_like, planes, cost, "mirror", options.workspace)
    if may_record(images, cost, plan, options.workspace):

        def run(images: Tensor, coc_px: Tensor, frames: Tensor, light: Tensor, *guide: Tensor) -> Tensor:
            grey = project(images, dominant_colour(images) * light[:, None] if images.shape[2] > 1 else light[:, None])
            volume = sweep_at_once(cost, plan, grey, coc_px)
            answer = read_volume(network, images, volume, frames, guide[0] if guide else None, light)
            return finished(images, frames, light, answer)

        key = ("sweepnet", network, cost, plan.grid.height, plan.grid.width, planes.count, smooth)
        given = [images, plan.padded_coc_px, frames, light, *([] if guide is None else [guide])]
        answer = graphs.SWEEPS.run(key, run, *given)
    else:
        bound = left_for_sweep(options.workspace, grey_like, planes)
        told = part_of(progress, 0, SWEEP_SHARE)
        volume = cost_volume(project_to_dominant_colour(stack, light), planes, cost, workspace=bound, progress=told)
        progress("network", SWEEP_SHARE)
        answer = finished(images, frames, light, read_volume(network, images, volume, frames, guide, light))
    progress("network", 1.0)
    return answer


def read_volume(
    network: SweepNet,
    images: Tensor,  # B F C H W
    volume: Tensor,  # B D H W
    frames: Tensor,  # B D: the sharpest at each plane
    guide: Tensor | None = None,  # B 2 H W: the same of the whole picture
    light: Tensor | None = None,  # B: what a dark stack is multiplied by
) -> Tensor:  # B 2 H W
    """Position among the planes and Laplace scale, as the network sees them."""
    lowest = volume.argmin(1)
    picture = _displayed(pick_frames(images, frames, lowest), light) - 0.5
    output = network(picture, volume, lowest, guide)
    return torch.stack([output.position, output.scale], 1)


def smooth_uncertain(
    images: Tensor,  # B F C H W
    frames: Tensor,  # B D: the sharpest at each plane
    answer: Tensor,  # B 2 H W
    light: Tensor | None = None,  # B
) -> Tensor:  # B 2 H W
    """Confidence-weighted smoothing: where the network is unsure, positions come from around, along picture edges."""
    position, scale = answer.float().unbind(1)
    last = frames.shape[1] - 1
    plane = (position * last).round().long().clamp(0, last)
    picture = _displayed(pick_frames(images, frames, plane), light)
    position = smooth_by_confidence(position, scale, picture).clamp(0, 1)
    return torch.stack([position, scale], 1)


def _displayed(picture: Tensor, light: Tensor | None) -> Tensor:  # B C H W -> B 3 H W
    return linear_to_srgb(picture if light is None else brighten_picture(picture, light)).expand(-1, 3, -1, -1)


def method_of_network(network: SweepNet, name: str) -> Method:
    """A network of yours in place of the shipped one."""
    predict = partial(sweep_depth, network=network)
    return Method(name, "a network of yours reads the sweep", predict, settings=PSF_SETTING, swept=_not_too_many)


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
        grey = grey_for_sweep(stack.as_batch())
        part = grey.cropped(top, left, min(2 * CURVE_PX, height), min(2 * CURVE_PX, width))
        volume = cost_volume(part, planes, cost, statistics=cost.measure(grey.images))
    return volume[0, :, row - top, column - left].cpu()


SWEEP = Method(
    "sweep",
    "the shipped network reads the re-blur cost of every plane: surfaces without texture too",
    sweep_depth,
    settings=PSF_SETTING,
    weights=("sweepnet",),
    swept=_not_too_many,
)
