"""SweepNet: reads a re-blur cost volume of any number of planes, and a picture, into a distribution over depth.

Three steps. (1) The volume at a quarter of the size is aggregated by a small 3-D hourglass whose weights are shared
over planes, with the picture's features added to every plane; a softmax over planes gives a first estimate. (2) The
estimate is brought to full size by a learned convex combination of neighbours. (3) At full size, a few convolutions
look at the cost around the estimate, correct it, and say how sure they are. Positions run from 0 (nearest plane) to 1.
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
LOOK = 4  # planes to either side that the correction sees


@dataclass(frozen=True, eq=False)
class SweepOutput:
    """What the network says, in positions 0..1 over the planes."""

    logits: Tensor  # B D h w at a quarter of the size: the first distribution
    coarse: Tensor  # B H W: its mean, brought to full size
    position: Tensor  # B H W: corrected
    scale: Tensor  # B H W: of a Laplace distribution around it


class SweepNet(nn.Module):
    """1.5 M parameters with the default widths."""

    def __init__(self, volume_width: int = 16, context_width: int = 32, detail_width: int = 32) -> None:
        super().__init__()
        w, c = volume_width, context_width
        self.context = Context(c)
        self.stem = volume_block(16, w)
        self.inject = nn.ModuleList([nn.Conv2d(c * k, w * k, 1) for k in (1, 2, 4)])
        self.level_0 = volume_block(w, w)
        self.down_1 = volume_block(w, 2 * w, stride=2)
        self.level_1 = volume_block(2 * w, 2 * w)
        self.down_2 = volume_block(2 * w, 4 * w, stride=2)
        self.level_2 = nn.Sequential(volume_block(4 * w, 4 * w), volume_block(4 * w, 4 * w))
        self.narrow_2 = nn.Conv3d(4 * w, 2 * w, 1)
        self.up_1 = volume_block(2 * w, 2 * w)
        self.narrow_1 = nn.Conv3d(2 * w, w, 1)
        self.up_0 = volume_block(w, w)
        self.score = nn.Conv3d(w, 1, 3, padding=1)
        self.neighbours = nn.Sequential(conv_block(c, 2 * c), nn.Conv2d(2 * c, 9 * 16, 1))
        self.detail = Detail(3 + 2 * LOOK + 1 + 3 + c // 2, detail_width)
        self.to_detail = nn.Conv2d(c, c // 2, 1)

    def predict(
        self,
        image: Tensor,  # B 3 H W
        cost: Tensor,  # B D H W, 0 is good
        inverse_depths: Tensor,  # B D, near to far, uniform
    ) -> DepthPrediction:
        output: SweepOutput = self(image, cost)
        near, far = (inverse_depths[:, i, None, None].to(output.position) for i in (0, -1))
        inverse_depth = near + output.position * (far - near)
        depth = 1 / inverse_depth
        # A Laplace distribution of scale b has the standard deviation sqrt(2) b.
        spread = 2**0.5 * output.scale * (near - far)
        step = 1 / (cost.shape[1] - 1)
        confidence = 1 - torch.exp(-1.5 * step / output.scale)
        return DepthPrediction(depth, (spread * depth.square()).nan_to_num(posinf=torch.inf), confidence)

    def forward(self, image: Tensor, cost: Tensor) -> SweepOutput:
        check_shape("image", image, "B C H W", C=3)
        height, width = image.shape[-2:]
        check_shape("cost", cost, "B D H W", B=len(image), H=height, W=width)
        planes = cost.shape[1]
        image, cost = pad_to_multiple(image, STRIDE), pad_to_multiple(cost, STRIDE)
        features = self.context(image)
        logits = self.aggregate(cost, features)[:, :planes]
        mean = position_mean(logits)
        coarse = self.upsample(mean, features[0])
        position, scale = self.refine(image, cost, coarse, features[0])
        crop = (..., slice(height), slice(width))
        return SweepOutput(logits, coarse[crop], position[crop], scale[crop])

    def aggregate(self, cost: Tensor, features: list[Tensor]) -> Tensor:  # B D h w
        """The 3-D hourglass: cost B D H W to scores at a quarter of the size."""
        batch, planes = cost.shape[:2]
        spare = -planes % 4  # the hourglass halves the planes twice: planes of the worst cost fill up
        cost = functional.pad(cost, (0, 0, 0, 0, 0, spare), value=1.0)
        quarter = functional.pixel_unshuffle(cost.flatten(0, 1)[:, None], 4)  # B*D 16 h w
        volume = quarter.reshape(batch, -1, *quarter.shape[1:]).transpose(1, 2)
        context = [inject(feature)[:, :, None] for inject, feature in zip(self.inject, features, strict=True)]
        level_0 = self.level_0(self.stem(volume) + context[0])
        level_1 = self.level_1(self.down_1(level_0) + context[1])
        level_2 = self.level_2(self.down_2(level_1) + context[2])
        up_1 = self.up_1(level_1 + enlarge(self.narrow_2(level_2), level_1))
        up_0 = self.up_0(level_0 + enlarge(self.narrow_1(up_1), level_0))
        return self.score(up_0)[:, 0].float()  # type: ignore[no-any-return]

    def upsample(self, mean: Tensor, feature: Tensor) -> Tensor:  # B H W
        """Each pixel a convex combination of the 3 x 3 estimates around it."""
        batch, height, width = mean.shape
        weights = self.neighbours(feature).float().view(batch, 9, 16, height, width).softmax(1)
        padded = functional.pad(mean[:, None], (1, 1, 1, 1), mode="replicate")
        around = functional.unfold(padded, 3).view(batch, 9, 1, height, width)
        return functional.pixel_shuffle((weights * around).sum(1), 4)[:, 0]

    def refine(self, image: Tensor, cost: Tensor, coarse: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]:
        """Position and Laplace scale, B H W each, from the cost around the estimate at full size."""
        steps = cost.shape[1] - 1
        seen = look_up(cost, coarse.detach() * steps)
        lowest = cost.argmin(1, keepdim=True).float() / steps
        estimate = coarse.detach()[:, None]
        grown = functional.interpolate(self.to_detail(feature), scale_factor=4, mode="bilinear", align_corners=False)
        inputs = [image, seen, estimate, lowest - estimate, cost.amin(1, keepdim=True), grown]
        shift, log_scale = self.detail(torch.cat([part.to(grown.dtype) for part in inputs], 1)).float().unbind(1)
        # A shift of 1 is a plane; the scale starts at three planes and stays above a fiftieth of one.
        position = (coarse + shift / steps).clamp(0, 1)
        scale = (functional.softplus(log_scale + 3) + 0.02) / steps
        return position, scale


class Context(nn.Module):
    """The picture's features at 1/4, 1/8 and 1/16 of the size, the coarser ones having seen a wide surrounding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(conv_block(3, width, 5, stride=2), conv_block(width, width, 3, stride=2))
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
        third = self.join_third(torch.cat([third, enlarge(self.widest(third), third)], 1))
        second = self.join_second(torch.cat([second, enlarge(third, second)], 1))
        first = self.join_first(torch.cat([first, enlarge(second, first)], 1))
        return [first, second, third]


class Detail(nn.Module):
    """A few convolutions at full size with growing reach; the answer starts at zero."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.enter = conv_block(channels, width)
        self.body = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=reach, dilation=reach, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            )
            for reach in (1, 2, 4, 1)
        )
        self.leave = nn.Conv2d(width, 2, 3, padding=1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.enter(maps)
        for block in self.body:
            maps = maps + block(maps)
        answer: Tensor = self.leave(maps)
        return answer


def volume_block(in_channels: int, out_channels: int, stride: int = 1) -> nn.Sequential:
    """3-D convolution, batch norm, ReLU."""
    return nn.Sequential(
        nn.Conv3d(in_channels, out_channels, 3, stride, padding=1, bias=False),
        nn.BatchNorm3d(out_channels),
        nn.ReLU(inplace=True),
    )


def enlarge(maps: Tensor, like: Tensor) -> Tensor:
    """Linear interpolation to the size of `like`."""
    mode = "bilinear" if maps.ndim == 4 else "trilinear"
    return functional.interpolate(maps, size=like.shape[2:], mode=mode, align_corners=False)


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
