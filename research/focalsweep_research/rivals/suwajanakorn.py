"""Depth from focus with a calibrated lens, after Suwajanakorn, Hernandez and Seitz (2015).

1. An all-in-focus picture is stitched from the frames: each pixel from one, by its sharpness, with neighbours from
   frames that lie close together (a Markov random field over frames).
2. At each plane the picture is blurred by what the lens does there in every frame; the plane whose blur explains the
   frames is the depth, smoothed by the same kind of random field over planes.
3. The picture is put together anew from the frames that are in focus at that depth, and 2 is done again.

Theirs also finds the lens and the focus distances, for phones that do not tell them; here they are known. The random
fields are solved by five passes of messages (`mrf`); `Found.gap` says how far the labels can be from the best: on
photos 5 to 10 % of the energy, on the stitching below 2 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from focalsweep.methods.focus_measure import pick, sharpness
from focalsweep.methods.method import Options
from focalsweep.optics.light import linear_to_srgb
from focalsweep.optics.psf import Disk
from focalsweep.photos.fusing import fuse_frames
from focalsweep.progress import Progress
from focalsweep.sweep.costs import gaussian_blur
from focalsweep.sweep.deconvolution import fast_length, fourier_grid, pad_periodic, transfer_functions
from focalsweep.sweep.volume import default_workspace, sweep_coc_px
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.rivals.mrf import Labelling, find_labels

ROUNDS = 2  # of depth and picture
STITCH_SMOOTHNESS, STITCH_LIMIT = 0.1, 3.0  # costs of labels lie within 0..1; the limit is in frames
SMOOTHNESS, LIMIT = 0.06, 12.0  # the limit is in planes
EDGE_STEP = 0.06  # of sRGB: a step of the picture that cuts the smoothing to 1/e
WINDOW_SIGMA_PX = 1.5
MISFIT = 4.0  # times the usual one: where a plane is no longer worth telling from worse ones
BYTES_A_LABEL = 48  # of the random field, for each pixel


@dataclass(frozen=True, eq=False)
class Found:
    """Depth of a batched stack, and what it came from."""

    inverse_depth: Tensor  # B H W
    picture: Tensor  # B C H W: linear light, all in focus
    labelling: Labelling  # of the planes
    costs: Tensor  # B D H W, 0..1

    @property
    def gap(self) -> Tensor:
        """B: how far the labels' energy is above the best, at most, as a share."""
        return self.labelling.gap


def suwajanakorn_depth(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    """Depth of a batched stack; pictures that ask for more than the workspace are worked on at a smaller size.

    The confidence is the share of the chosen plane and its neighbours in exp(-cost), and is not calibrated.
    """
    stack = stack.to(dtype=torch.float32)
    height, width = stack.size
    labels = len(stack.images) * max(planes.count, stack.frame_count)
    allowed = options.workspace or default_workspace(stack.images.device)
    scale = math.sqrt(allowed / (BYTES_A_LABEL * labels * height * width))
    found = solve(
        stack if scale >= 1 else stack.resized(max(scale, 16 / min(height, width))), planes, progress=options.progress
    )
    inverse_depths = planes.as_batch(len(stack.images)).to(found.inverse_depth)
    label, last = found.labelling.labels, planes.count - 1
    weights = torch.softmax(-10 * found.costs, 1)
    near = [(label + k).clamp(0, last) for k in (-1, 0, 1)]
    inside = [label > 0, label >= 0, label < last]
    confidence = sum(
        (weights.gather(1, at[:, None])[:, 0] * ok for at, ok in zip(near, inside, strict=True)),
        torch.zeros_like(found.inverse_depth),
    )
    spread = (weights * (inverse_depths[:, :, None, None] - found.inverse_depth[:, None]).square()).sum(1)
    maps = torch.stack([found.inverse_depth, spread.sqrt(), confidence], 1)
    if maps.shape[-2:] != stack.size:
        maps = torch.nn.functional.interpolate(maps, size=stack.size, mode="bilinear", align_corners=False)
    depth = 1 / maps[:, 0].clamp_min(1e-6)
    return DepthPrediction(depth, maps[:, 1] * depth.square(), maps[:, 2].clamp(0, 1))


def solve(stack: FocalStack, planes: DepthGrid, *, rounds: int = ROUNDS, progress: Progress | None = None) -> Found:
    """Picture and depth of a batched stack at its own size."""
    encoded = linear_to_srgb(stack.images.clamp(0, 1))
    picture = pick(stack.images, stitch(encoded, stack.focus_distances).labels)
    for number in range(rounds):
        if progress:
            progress("sweeping", (number + 0.3) / (rounds + 0.3))
        costs = reblur_costs(stack, planes, picture)
        guide = linear_to_srgb(picture.clamp(0, 1))
        labelling = find_labels(costs, *_edges(guide, SMOOTHNESS), LIMIT)
        inverse = _between_planes(labelling, planes)
        if number < rounds - 1:
            picture = _in_focus(stack, 1 / inverse)
    if progress:
        progress("sweeping", 1.0)
    return Found(inverse, picture, labelling, costs)


def stitch(
    images: Tensor,  # B F C H W, sRGB
    focus_distances: Tensor,  # B F
) -> Labelling:
    """A frame for each pixel: the sharpest, but neighbours come from frames that are close in focus."""
    order = focus_distances.argsort(dim=1).to(images.device)
    sharp = sharpness(images).gather(1, order[:, :, None, None].expand(-1, -1, *images.shape[-2:]))
    costs = 1 - (sharp / sharp.amax(1, keepdim=True)).sqrt()
    guide = pick(images, order.gather(1, costs.argmin(1).flatten(1)).reshape(costs[:, 0].shape))
    found = find_labels(costs, *_edges(guide, STITCH_SMOOTHNESS), STITCH_LIMIT)
    frames = order.gather(1, found.labels.flatten(1)).reshape(found.labels.shape)
    return Labelling(frames, found.beliefs, found.energy, found.bounds)


def reblur_costs(
    stack: FocalStack,
    planes: DepthGrid,
    picture: Tensor,  # B C H W, linear light
) -> Tensor:  # B D H W, 0..1
    """How badly each plane's blur of the picture explains the frames: windowed squares, saturated.

    A unit of misfit is the median over the pixels of the best plane's, so noise and texture set the scale.
    """
    grey, frames = picture.mean(1), stack.images.mean(2)
    blur_px = sweep_coc_px(stack, planes)
    margin = math.ceil(float(blur_px.abs().max()) / 2) + 1
    height, width = (fast_length(size + 2 * margin) for size in grey.shape[-2:])
    grid = fourier_grid(height, width, grey.device, grey.dtype)
    spectrum = torch.fft.rfft2(pad_periodic(grey, height, width))
    costs = grey.new_empty((len(grey), planes.count, *grey.shape[-2:]))
    for plane in range(planes.count):
        otf = transfer_functions(Disk(), blur_px[:, plane].to(grey), grid)[..., : width // 2 + 1]  # B F H W/2
        blurred = torch.fft.irfft2(otf * spectrum[:, None], s=(height, width))[..., : grey.shape[-2], : grey.shape[-1]]
        costs[:, plane] = gaussian_blur((blurred - frames).square().mean(1), WINDOW_SIGMA_PX)
    usual = costs.amin(1).flatten(1).median(1).values[:, None, None, None].clamp_min(1e-10)
    return -torch.expm1(-(costs - costs.amin(1, keepdim=True)) / (MISFIT * usual))


def _edges(guide: Tensor, smoothness: float) -> tuple[Tensor, Tensor]:
    """Weights to the right and down, less where the picture has a step."""
    right, down = (smoothness * (0.05 + torch.exp(-guide.diff(dim=d).abs().mean(1) / EDGE_STEP)) for d in (-1, -2))
    return right, down


def _between_planes(labelling: Labelling, planes: DepthGrid) -> Tensor:  # B H W
    """Inverse depth at the vertex of a parabola through the beliefs of a label and its neighbours."""
    label, beliefs = labelling.labels, labelling.beliefs
    last = beliefs.shape[1] - 1
    at = label.clamp(1, last - 1)[:, None] if last > 1 else label[:, None]
    before, here, after = (beliefs.gather(1, (at + k).clamp(0, last))[:, 0] for k in (-1, 0, 1))
    bend = before - 2 * here + after
    offset = torch.where(bend > 1e-9, (before - after) / (2 * bend.clamp_min(1e-9)), 0.0).clamp(-0.5, 0.5)
    offset = torch.where((label > 0) & (label < last), offset, 0.0)
    grid = planes.as_batch(len(label)).to(beliefs)
    index = torch.stack([label, (label + offset.sign().long()).clamp(0, last)], 1)
    own, other = grid[:, :, None, None].expand_as(beliefs).gather(1, index).unbind(1)
    return own + offset.abs() * (other - own)


def _in_focus(stack: FocalStack, depth: Tensor) -> Tensor:  # B C H W
    """The frames that are in focus at each pixel's depth."""
    pictures = [
        fuse_frames([frame.movedim(0, -1) for frame in images], distances.to(depth), one)
        for images, distances, one in zip(stack.images, stack.focus_distances, depth, strict=True)
    ]
    return torch.stack(pictures).movedim(-1, 1)
