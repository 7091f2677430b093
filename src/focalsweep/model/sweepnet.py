"""SweepNet: reads a re-blur cost volume of any number of planes, and a picture, into a distribution over depth.

Three steps. (1) The volume at a quarter of the size is aggregated by an hourglass whose weights are shared over planes,
with the picture's features added to every plane; a softmax over planes gives a first estimate. (2) The estimate is
brought to full size by a learned convex combination of neighbours. (3) A few convolutions look at the cost around the
estimate, correct it, and say how sure they are. Positions run from 0 (nearest plane) to 1.

A part of a large picture is read with a guide: what the same network said of the whole picture, made small. What no
part can know by itself (how far a plain wall is) comes from there, and what only full size shows is added to it.

Volumes have the axes B D H W C here, channels last: a 3-D convolution is one over the picture, all planes being a
batch, then one along the planes, all pixels being a row, and neither has to move anything in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from focalsweep.model.blocks import conv_block, pad_to_multiple
from focalsweep.types import DepthPrediction
from focalsweep.validation import check_shape

STRIDE = 32
PLANE_STRIDE = 16
LOOK = 4  # planes to either side that the correction sees
FARTHEST_FROM_GUIDE = 8.0  # times its scale


@dataclass(frozen=True, eq=False)
class SweepOutput:
    """What the network says, in positions 0..1 over the planes."""

    logits: Tensor  # B D h w at a quarter of the size: the first distribution
    coarse: Tensor  # B H W: its mean, brought to full size
    position: Tensor  # B H W: corrected
    scale: Tensor  # B H W: of a Laplace distribution around it


class SweepNet(nn.Module):
    """2.6 M parameters with the default widths."""

    def __init__(self, volume_width: int = 24, context_width: int = 32, detail_width: int = 64) -> None:
        super().__init__()
        w, c = volume_width, context_width
        self.context = Context(5 + 2, c)
        self.stem = VolumeBlock(32 + 2, w)
        self.inject = nn.ModuleList([nn.Conv2d(c * k, w * k, 1) for k in (1, 2, 4)])
        self.inject_3 = nn.Conv2d(4 * c, 6 * w, 1)
        self.level_0 = VolumeBlock(w, w)
        self.down_1 = VolumeBlock(w, 2 * w, stride=2)
        self.level_1 = VolumeBlock(2 * w, 2 * w)
        self.down_2 = VolumeBlock(2 * w, 4 * w, stride=2)
        self.level_2 = nn.Sequential(VolumeBlock(4 * w, 4 * w), VolumeBlock(4 * w, 4 * w))
        self.down_3 = VolumeBlock(4 * w, 6 * w, stride=2)
        self.level_3 = nn.Sequential(VolumeBlock(6 * w, 6 * w), VolumeBlock(6 * w, 6 * w))
        self.grow_3 = Grow(6 * w, 4 * w)
        self.grow_2 = Grow(4 * w, 2 * w)
        self.up_1 = VolumeBlock(2 * w, 2 * w)
        self.grow_1 = Grow(2 * w, w)
        self.up_0 = VolumeBlock(w, w)
        self.score = nn.Linear(w, 2)
        self.neighbours = nn.Sequential(conv_block(c, 2 * c), nn.Conv2d(2 * c, 9 * 16, 1))
        self.to_detail = nn.Conv2d(c, c // 2, 1)
        self.detail = Detail(4 * (3 + 2 * LOOK + 1 + 4) + c // 2 + 4 * 2, detail_width)

    def predict(
        self,
        image: Tensor,  # B 3 H W
        cost: Tensor,  # B D H W, 0 is good
        inverse_depths: Tensor,  # B D, near to far, uniform
    ) -> DepthPrediction:
        output: SweepOutput = self(image, cost)
        return prediction_from_positions(output.position, output.scale, inverse_depths)

    def forward(
        self,
        image: Tensor,  # B 3 H W
        cost: Tensor,  # B D H W
        lowest: Tensor | None = None,  # B H W: the plane of the lowest cost, where it is known already
        guide: Tensor | None = None,  # B 2 H W: position and scale of the whole picture here; scale inf: not known
    ) -> SweepOutput:
        check_shape("image", image, "B C H W", C=3)
        height, width = image.shape[-2:]
        check_shape("cost", cost, "B D H W", B=len(image), H=height, W=width)
        steps = cost.shape[1] - 1
        if lowest is None:
            lowest = cost.argmin(1)
        image, cost = pad_to_multiple(image, STRIDE), pad_to_multiple(cost, STRIDE)
        lowest_position = pad_to_multiple(lowest[:, None].float() / steps, STRIDE)
        # The cost's mean over planes says how clear the minimum is: 0 without texture.
        clarity = cost.mean(1, keepdim=True)
        dtype = self.score.weight.dtype
        if guide is None:
            guide = torch.stack([torch.full_like(lowest_position[:, 0], 0.5), lowest_position[:, 0] + torch.inf], 1)
        else:
            check_shape("guide", guide, "B C H W", B=len(image), C=2, H=height, W=width)
            guide = pad_to_multiple(guide.to(lowest_position), STRIDE)
        guided, spread = guide[:, :1], (guide[:, 1:] * steps).clamp_min(1)
        trust = 1 / spread
        context = torch.cat([image, lowest_position - 0.5, clarity, guided - 0.5, trust], 1).to(dtype)
        features = self.context(context.contiguous(memory_format=torch.channels_last))
        logits = self.aggregate(cost, features, guided, spread)[:, : steps + 1]
        coarse = self.upsample(position_mean(logits), features[0])
        seen = [image, clarity, lowest_position - coarse.detach(), self.mode(logits) - coarse.detach()]
        known = (trust > 0).to(trust)
        told = [(guided - coarse.detach()) * known, trust]
        position, scale = self.refine(cost, coarse, seen, features[0], told)
        crop = (slice(None), 0, slice(height), slice(width))
        return SweepOutput(logits, coarse[crop], position[crop], scale[crop])

    def aggregate(self, cost: Tensor, features: list[Tensor], guided: Tensor, spread: Tensor) -> Tensor:  # B D h w
        """The hourglass: cost B D H W to scores at a quarter of the size."""
        # Planes go in pairs, and their number is halved three times more: planes of the worst cost fill up.
        steps = cost.shape[1] - 1
        spare = -cost.shape[1] % PLANE_STRIDE
        cost = functional.pad(cost.to(self.score.weight.dtype), (0, 0, 0, 0, 0, spare), value=1.0)
        volume = torch.cat([fold(cost), distance_to_guide(guided, spread, steps, cost.shape[1]).to(cost.dtype)], -1)
        context = [
            inject(feature).permute(0, 2, 3, 1)[:, None]
            for inject, feature in zip([*self.inject, self.inject_3], features, strict=True)
        ]
        level_0 = self.level_0(self.stem(volume) + context[0])
        level_1 = self.level_1(self.down_1(level_0) + context[1])
        level_2 = self.level_2(self.down_2(level_1) + context[2])
        level_3 = self.level_3(self.down_3(level_2) + context[3])
        level_2 = level_2 + self.grow_3(level_3)
        up_1 = self.up_1(level_1 + self.grow_2(level_2))
        up_0 = self.up_0(level_0 + self.grow_1(up_1))
        batch, pairs, height, width, _ = up_0.shape
        scores = self.score(up_0).float().permute(0, 1, 4, 2, 3)  # B D/2 2 h w
        return scores.reshape(batch, 2 * pairs, height, width)  # type: ignore[no-any-return]

    def upsample(self, mean: Tensor, feature: Tensor) -> Tensor:  # B 1 H W
        """Each pixel a convex combination of the 3 x 3 estimates around it."""
        batch, height, width = mean.shape
        weights = self.neighbours(feature).float().contiguous().view(batch, 9, 16, height, width).softmax(1)
        padded = functional.pad(mean[:, None], (1, 1, 1, 1), mode="replicate")
        around = functional.unfold(padded, 3).view(batch, 9, 1, height, width)
        return functional.pixel_shuffle((weights * around).sum(1), 4)

    def mode(self, logits: Tensor) -> Tensor:  # B 1 H W
        """The most likely plane of the first distribution, as a position, at full size."""
        likely = logits.argmax(1, keepdim=True).float() / (logits.shape[1] - 1)
        return functional.interpolate(likely, scale_factor=4, mode="nearest")

    def refine(
        self, cost: Tensor, coarse: Tensor, maps: list[Tensor], feature: Tensor, told: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Position and Laplace scale, B 1 H W each, from the cost around the estimate at full size."""
        steps = cost.shape[1] - 1
        estimate = coarse.detach()
        maps = [look_up(cost, estimate[:, 0] * steps), estimate - 0.5, *maps]
        dtype = self.score.weight.dtype
        folded = functional.pixel_unshuffle(torch.cat([part.to(dtype) for part in maps], 1), 2)
        grown = functional.interpolate(self.to_detail(feature), scale_factor=2, mode="bilinear", align_corners=False)
        told_here = functional.pixel_unshuffle(torch.cat(told, 1).to(dtype), 2)
        inputs = torch.cat([folded, grown.to(dtype), told_here], 1).contiguous(memory_format=torch.channels_last)
        answer = functional.pixel_shuffle(self.detail(inputs).float(), 2)
        shift, log_scale = answer[:, :1], answer[:, 1:]
        # A shift of 1 is a plane; the scale starts at three planes and stays above a fiftieth of one.
        position = (coarse + shift / steps).clamp(0, 1)
        scale = (functional.softplus(log_scale + 3) + 0.02) / steps
        return position, scale


class VolumeBlock(nn.Module):
    """3 x 3 over the picture, then 3 along the planes, each with batch norm and ReLU; B D H W C in and out."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.picture = conv_block(in_channels, out_channels, 3, stride)
        self.planes = nn.Sequential(
            nn.Conv2d(out_channels, out_channels, (3, 1), (stride, 1), padding=(1, 0), bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, volume: Tensor) -> Tensor:
        batch, planes = volume.shape[:2]
        maps = self.picture(volume.flatten(0, 1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)  # B*D h w C
        height, width, channels = maps.shape[1:]
        rows = maps.reshape(batch, planes, height * width, channels).permute(0, 3, 1, 2)  # B C D h*w
        planes_first: Tensor = self.planes(rows).permute(0, 2, 3, 1)
        return planes_first.reshape(batch, -1, height, width, channels)


class Grow(nn.Module):
    """Twice the planes, rows and columns: every voxel becomes eight, by a matrix each; B D H W C in and out."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.spread = nn.Linear(in_channels, 8 * out_channels)

    def forward(self, volume: Tensor) -> Tensor:
        batch, planes, height, width, _ = volume.shape
        parts: Tensor = self.spread(volume).view(batch, planes, height, width, 2, 2, 2, -1)
        whole = parts.permute(0, 1, 4, 2, 5, 3, 6, 7)
        return whole.reshape(batch, 2 * planes, 2 * height, 2 * width, -1)


class Context(nn.Module):
    """The picture's features at 1/4, 1/8, 1/16 and 1/32 of the size; the coarser ones have seen a wide surrounding."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(conv_block(channels, width, 5, stride=2), conv_block(width, width, 3, stride=2))
        self.second = nn.Sequential(conv_block(width, 2 * width, 3, stride=2), conv_block(2 * width, 2 * width))
        self.third = nn.Sequential(conv_block(2 * width, 4 * width, 3, stride=2), conv_block(4 * width, 4 * width))
        self.widest = nn.Sequential(conv_block(4 * width, 4 * width, 3, stride=2), conv_block(4 * width, 4 * width))
        self.join_third = conv_block(8 * width, 4 * width)
        self.join_second = conv_block(6 * width, 2 * width)
        self.join_first = conv_block(3 * width, width)

    def forward(self, image: Tensor) -> list[Tensor]:
        first = self.first(image)
        second = self.second(first)
        third = self.third(second)
        widest = self.widest(third)
        third = self.join_third(torch.cat([third, enlarge(widest, third)], 1))
        second = self.join_second(torch.cat([second, enlarge(third, second)], 1))
        first = self.join_first(torch.cat([first, enlarge(second, first)], 1))
        return [first, second, third, widest]


class Detail(nn.Module):
    """A few convolutions, four pixels of the picture in each of theirs; the answer starts at zero."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.enter = conv_block(channels, width)
        self.body = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=reach, dilation=reach, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            )
            for reach in (1, 2, 1, 4, 1)
        )
        self.leave = nn.Conv2d(width, 8, 3, padding=1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.enter(maps)
        for block in self.body:
            maps = maps + block(maps)
        answer: Tensor = self.leave(maps)
        return answer


def fold(
    cost: Tensor,  # B D H W, D even, H and W multiples of 4
) -> Tensor:  # B D/2 H/4 W/4 32
    """Two planes and 4 x 4 pixels become the channels of one voxel."""
    batch, planes, height, width = cost.shape
    parts = cost.view(batch, planes // 2, 2, height // 4, 4, width // 4, 4)
    return parts.permute(0, 1, 3, 5, 2, 4, 6).reshape(batch, planes // 2, height // 4, width // 4, 32)


def distance_to_guide(
    guided: Tensor,  # B 1 H W: a position 0..1
    spread: Tensor,  # B 1 H W: its scale, in planes
    steps: int,  # between the first and the last plane
    planes: int,  # even, those that fill up included
) -> Tensor:  # B D/2 H/4 W/4 2
    """How many times the guide's scale each plane is from it, -1 for FARTHEST_FROM_GUIDE and more, 0 where none is."""
    middle = functional.avg_pool2d(guided, 4)[:, 0, ..., None] * steps
    spread = 1 / functional.avg_pool2d(1 / spread, 4)[:, 0, ..., None]
    plane = torch.arange(planes, device=guided.device, dtype=guided.dtype)
    away = (plane - middle).abs() / (spread * FARTHEST_FROM_GUIDE)
    batch, height, width, _ = away.shape
    return -away.clamp_max(1).view(batch, height, width, planes // 2, 2).permute(0, 3, 1, 2, 4)


def enlarge(maps: Tensor, like: Tensor) -> Tensor:
    """Linear interpolation to the size of `like`."""
    return functional.interpolate(maps, size=like.shape[2:], mode="bilinear", align_corners=False)


def position_mean(logits: Tensor) -> Tensor:  # B h w
    """The mean position 0..1 of the distribution over planes B D h w."""
    positions = torch.linspace(0, 1, logits.shape[1], device=logits.device)
    return torch.einsum("bdhw,d->bhw", logits.softmax(1), positions)


def look_up(
    cost: Tensor,  # B D H W
    plane: Tensor,  # B H W, 0..D-1
) -> Tensor:  # B 2 LOOK + 1 H W
    """The cost at `plane` and at LOOK whole steps to either side, between planes; beyond the ends the last plane's."""
    last = cost.shape[1] - 1
    below = plane.floor().clamp(0, last)
    share = (plane - below)[:, None].to(cost.dtype)
    offsets = torch.arange(-LOOK, LOOK + 2, device=cost.device)[:, None, None]
    values = cost.gather(1, (below[:, None].long() + offsets).clamp(0, last))
    return torch.lerp(values[:, :-1], values[:, 1:], share)


def prediction_from_positions(
    position: Tensor,  # B H W, 0..1 over the planes
    scale: Tensor,  # B H W, of a Laplace distribution, in the same unit
    inverse_depths: Tensor,  # B D, near to far, uniform
) -> DepthPrediction:
    near, far = (inverse_depths[:, i, None, None].to(position) for i in (0, -1))
    depth = 1 / (near + position * (far - near))
    # A Laplace distribution of scale b has the standard deviation sqrt(2) b.
    spread = 2**0.5 * scale * (near - far)
    step = 1 / (inverse_depths.shape[1] - 1)
    confidence = 1 - torch.exp(-1.5 * step / scale)
    return DepthPrediction(depth, (spread * depth.square()).nan_to_num(posinf=torch.inf), confidence)
