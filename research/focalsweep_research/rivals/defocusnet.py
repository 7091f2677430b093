"""DefocusNet (Maximov et al. 2020): a blur map for each frame, then depth from the blur maps.

Two U-Nets, each shared over the frames, in which the maximum over the frames joins the features of every frame at
each level, so that any number of frames in any order is one stack. The first sees a picture and gives its blur; the
second sees blur and focus distance, its decoder is helped by the first one's encoder, and the maximum over its frames
gives depth. The description leaves open how many convolutions a level has and how the frames end in one map: here two
on the way down, one at the lowest level and on the way up, and the maximum; 3.72 M parameters for the published 3.7 M.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from focalsweep.model.blocks import pad_to_multiple
from focalsweep_research.rivals.answer import NEAREST, Answer, read_out

LEVELS = 5
SLOPE = 0.2  # of the leaky ReLUs
FARTHEST_FOCUS = 1.5  # metres, the benchmark's: the unit of distances, or frames of another focus lose their scale
STRIDE = 2 ** (LEVELS - 1)


class DefocusNet(nn.Module):
    """(pictures, focus distances) -> `Answer`, with the blur of every frame.

    Args:
        width: channels of the first level, 16 as published.
    """

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.blur = _FrameNet(3, width, helped=False)
        self.depth = _FrameNet(1 + 1, width, helped=True)
        self.blur_of, self.depth_of = (nn.Conv2d(width, 1, 3, padding=1) for _ in range(2))
        for module in self.modules():  # without norms, signals of PyTorch's own start fade from layer to layer
            if isinstance(module, nn.Conv2d) and module.out_channels > 1:
                nn.init.kaiming_normal_(module.weight, SLOPE)

    def forward(
        self,
        pictures: Tensor,  # B F 3 H W, sRGB
        distances: Tensor,  # B F, metres
    ) -> Answer:
        batch, frames, _, height, width = pictures.shape
        padded = pad_to_multiple(pictures.flatten(0, 1), STRIDE)
        share = (distances / FARTHEST_FOCUS).reshape(-1, 1, 1, 1)
        where = share.expand(-1, 1, *padded.shape[-2:]).to(padded, non_blocking=True)
        features, helping = self.blur(padded, frames)
        blur = read_out(self.blur_of, features)
        seen, _ = self.depth(torch.cat([blur, where], 1), frames, helping)
        depth = read_out(self.depth_of, seen.reshape(batch, frames, *seen.shape[1:]).amax(1))[:, 0, :height, :width]
        maps = blur.reshape(batch, frames, *blur.shape[-2:])[..., :height, :width]
        return Answer(depth.clamp_min(NEAREST), blur=maps, metres=depth)


class _FrameNet(nn.Module):
    """A U-Net on B F frames whose maxima over F join on the way down; `helped`, another encoder joins on the way up."""

    def __init__(self, channels: int, width: int, helped: bool) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(LEVELS)]
        inputs = [channels, *(2 * w for w in widths[:-1])]
        self.down = nn.ModuleList(
            _convolutions([before, after, after] if level < LEVELS - 1 else [before, after])
            for level, (before, after) in enumerate(zip(inputs, widths, strict=True))
        )
        self.up = nn.ModuleList(_up(2 * w, w) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(_convolutions([(3 if helped else 2) * w, w]) for w in reversed(widths[:-1]))

    def forward(self, x: Tensor, frames: int, helping: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        kept: list[Tensor] = []
        for convolutions in self.down:
            if kept:
                x = nn.functional.max_pool2d(torch.cat([x, _maxima(x, frames)], 1), 2)
            x = convolutions(x)
            kept.append(x)
        for level in range(LEVELS - 1):
            place = LEVELS - 2 - level
            own = kept[place]
            parts = [self.up[level](x), *([_maxima(own, frames), helping[place]] if helping else [own])]
            x = self.join[level](torch.cat(parts, 1))
        return x, kept


def _maxima(features: Tensor, frames: int) -> Tensor:
    stacks = features.reshape(-1, frames, *features.shape[1:])
    return stacks.amax(1, keepdim=True).expand_as(stacks).flatten(0, 1)


def _up(before: int, after: int) -> nn.Sequential:
    """Twice the size: bilinear, then one convolution."""
    return nn.Sequential(
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), *_convolutions([before, after])
    )


def _convolutions(channels: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*layers)
