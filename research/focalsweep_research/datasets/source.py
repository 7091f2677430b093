"""Training batches from a dataset: random windows, turns, frames and scales, the same for the same step.

The paper trains so on DefocusNet's stacks: whole pictures of 256 px, 64 planes from 0.1 to 3 m, and every stack
scaled by a sigma from 1.0, 1.5, ... 9.0 (Section 4.3). Scaling multiplies depth, focus distances, focal length and
pixel pitch (the paper's b is pixels a metre, hence its b / sigma): the blur in pixels stays, so the pictures do. The
planes stay too: what comes to lie beyond the last one does not count. (The paper does not say. Counted as the last
plane it was half of all pixels, and taught PaperNet to say "far" of everything: on NYU 0.46 m came out as 0.93 m.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.types import Camera, DepthGrid, FocalStack
from focalsweep_research.datasets.item import Item
from focalsweep_research.synthesis.sample import Sample, Source

PAPER_SCALES = tuple(1 + 0.5 * k for k in range(17))
BEYOND = 0.01  # of the farthest plane's depth: rounding of what was clipped there


@dataclass(frozen=True)
class ItemsConfig:
    """How batches are drawn.

    Args:
        size: side of the square window in pixels; None takes whole pictures.
        frames: indices of the frames that are used, None for all; the focus split trains on (0, 2, 4), tests on (1, 3).
        scales: one is drawn for each stack; `PAPER_SCALES` are the paper's.
        turns: random quarter turns and mirror images.
        near, far: metres, the planes' ends; they do not follow the scale.
        planes: their number.
        spacing: "depth" is the paper's, "inverse depth" ours.
        in_memory: keep every item on the device after it was read once, as 8 bit where that loses nothing.
        seed: other draws.
    """

    size: int | None = 256
    frames: tuple[int, ...] | None = None
    scales: tuple[float, ...] = (1.0,)
    turns: bool = True
    near: float = 0.1
    far: float = 3.0
    planes: int = 64
    spacing: Literal["depth", "inverse depth"] = "inverse depth"
    in_memory: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.spacing not in ("depth", "inverse depth"):
            raise ValueError(f'spacing must be "depth" or "inverse depth", but is {self.spacing!r}')
        if not self.scales or min(self.scales) <= 0:
            raise ValueError(f"scales must be positive, but are {list(self.scales)}")
        if self.frames is not None and len(set(self.frames)) < 2:
            raise ValueError(f"frames must name at least 2 frames, but are {list(self.frames)}")

    def grid(self) -> DepthGrid:
        uniform = DepthGrid.uniform_in_depth if self.spacing == "depth" else DepthGrid.uniform_in_inverse_depth
        return uniform(self.near, self.far, self.planes)


def make_item_source(items: Sequence[Item], config: ItemsConfig) -> Source:
    """(step, batch size, device) -> a batch. Every pass over the items is in another order and meets each once.

    Depth that the dataset does not know, or that lies beyond the planes, is NaN in the sample. All stacks must have as
    many frames.
    """
    if not len(items):
        raise ValueError("there are no items to train on: is the dataset's part empty?")
    kept: dict[tuple[int, torch.device], _Packed] = {}

    def fetch(number: int, device: torch.device) -> _Packed:
        if (number, device) in kept:
            return kept[number, device]
        item = with_frames(items[number], config.frames)
        packed = _pack(replace(item, stack=item.stack.to(device), depth=item.depth.to(device)))  # a GPU packs quicker
        if config.in_memory:
            kept[number, device] = packed
        return packed

    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        numbers = range(step * batch_size, (step + 1) * batch_size)
        drawn = [_draw(len(items), lambda i: fetch(i, device), config, number) for number in numbers]
        settings = [one.settings for one in drawn]
        _check_alike(settings)
        images = torch.stack([_pixels(one.codes, one.kind) for one in drawn])
        depth = torch.stack([one.depth for one in drawn])
        planes = DepthGrid(config.grid().inverse_depths.expand(batch_size, -1))
        return Sample(_joined_settings(settings).with_images(images), planes, depth)

    return source


def with_frames(item: Item, frames: Sequence[int] | None) -> Item:
    """The same with some of its frames, in the order given: for the focus split of the paper."""
    if frames is None:
        return item
    stack = item.stack
    beyond = [i for i in frames if not 0 <= i < stack.frame_count]
    if beyond:
        raise ValueError(f"{item.name} has {stack.frame_count} frames: there is no frame {beyond[0]}")
    batch, chosen = stack.as_batch(), list(frames)
    fields = {name: getattr(batch.camera, name)[0, chosen] for name in ("focal_length", "f_number", "pixel_pitch")}
    magnification = torch.as_tensor(batch.magnification)[0, chosen]
    picked = FocalStack(stack.images[chosen], batch.focus_distances[0, chosen], Camera(**fields), magnification)
    return replace(item, stack=picked)


def as_displayed(sample: Sample) -> Sample:
    """Display-encoded values that stood as light (a blur of them adds up in them), as the light that they encode.

    The paper's cost and networks encode light for display: so they see the values themselves.
    """
    return replace(sample, stack=sample.stack.with_images(srgb_to_linear(sample.stack.images)))


def stacked(stacks: Sequence[FocalStack]) -> FocalStack:
    """Stacks of one size and number of frames as a batch; each keeps its camera."""
    _check_alike(stacks)
    return _joined_settings(stacks).with_images(torch.stack([stack.images for stack in stacks]))


def _check_alike(stacks: Sequence[FocalStack]) -> None:
    shapes = sorted({tuple(stack.images.shape) for stack in stacks})
    if len(shapes) > 1:
        raise ValueError(f"stacks of a batch must agree in frames and size, but are {shapes[0]} and {shapes[1]}")


def _joined_settings(stacks: Sequence[FocalStack]) -> FocalStack:
    """The settings of a batch, without pictures."""
    batches = [stack.as_batch() for stack in stacks]

    def joined(name: str) -> Tensor:
        return torch.cat([getattr(batch.camera, name) for batch in batches])

    joined_stack = FocalStack(
        images=torch.zeros(len(stacks), stacks[0].frame_count, 1, 1, 1),
        focus_distances=torch.cat([batch.focus_distances for batch in batches]),
        camera=Camera(joined("focal_length"), joined("f_number"), joined("pixel_pitch")),
        magnification=torch.cat([torch.as_tensor(batch.magnification) for batch in batches]),
    )
    return _without_pictures(joined_stack, torch.Size((len(stacks), *stacks[0].images.shape)))


@dataclass(frozen=True, eq=False)
class _Packed:
    """An item in little memory: 8-bit codes where its pixels are such codes, as they are or in sRGB; floats else."""

    name: str
    settings: FocalStack  # with the shape of the pictures, but without them
    codes: Tensor  # F C H W
    kind: str  # "codes", "srgb codes" or "floats"
    depth: Tensor  # H W


def _pack(item: Item) -> _Packed:
    images = item.stack.images
    codes, kind = images, "floats"
    for name, values in (("codes", images), ("srgb codes", linear_to_srgb(images))):
        rounded = values.mul(255).round().clamp(0, 255).to(torch.uint8)
        if torch.allclose(_pixels(rounded, name), images, rtol=0, atol=2e-6):
            codes, kind = rounded, name
            break
    return _Packed(item.name, _without_pictures(item.stack, images.shape), codes, kind, item.depth)


def _without_pictures(stack: FocalStack, shape: torch.Size) -> FocalStack:
    """One number in place of all pixels."""
    return stack.with_resized(torch.zeros(()).expand(shape), 1.0)


def _pixels(codes: Tensor, kind: str) -> Tensor:
    if kind == "floats":
        return codes
    values = codes.float() / 255
    return srgb_to_linear(values) if kind == "srgb codes" else values


def _draw(count: int, fetch: Callable[[int], _Packed], config: ItemsConfig, number: int) -> _Packed:
    """The stack with this number of all that are ever drawn."""
    turn, place = divmod(number, count)
    order = np.random.default_rng([config.seed, 0, turn]).permutation(count)
    packed = fetch(int(order[place]))
    rng = np.random.default_rng([config.seed, 1, number])
    codes, depth = packed.codes, packed.depth
    if config.size is not None:
        rows, columns = _window(packed, rng, config.size)
        codes, depth = codes[..., rows, columns], depth[rows, columns]
    if config.turns:
        quarters, mirrored = int(rng.integers(4)), bool(rng.integers(2))
        codes, depth = _turned(codes, quarters, mirrored), _turned(depth, quarters, mirrored)
    factor = config.scales[int(rng.integers(len(config.scales)))]
    settings = _without_pictures(packed.settings, codes.shape).scaled(factor)
    depth = depth * factor
    depth = depth.masked_fill(depth > (1 + BEYOND) * config.far, torch.nan)
    return replace(packed, settings=settings, codes=codes, depth=depth)


def _window(packed: _Packed, rng: np.random.Generator, size: int) -> tuple[slice, slice]:
    height, width = packed.settings.size
    if min(height, width) < size:
        raise ValueError(f"{packed.name} has {width} x {height} px: too small for windows of {size} px")
    top, left = int(rng.integers(height - size + 1)), int(rng.integers(width - size + 1))
    return slice(top, top + size), slice(left, left + size)


def _turned(maps: Tensor, quarters: int, mirrored: bool) -> Tensor:
    """Square pictures by quarters, others by halves only: a batch has one shape."""
    if maps.shape[-2] != maps.shape[-1]:
        quarters = quarters // 2 * 2
    return torch.rot90(maps.flip(-1) if mirrored else maps, quarters, (-2, -1)).contiguous()
