"""AiFDepthNet (Wang et al. 2021): one attention over the frames gives both depth and the all-in-focus picture.

A 3-D network over (frame, row, column) whose encoder is Inception-v1 inflated to 3-D (I3D), with strides in rows and
columns only, and whose decoder of transposed convolutions ends in one volume. Softplus-normalised it averages the
focus distances to depth; its softmax averages the frames to a picture that is sharp all over, which is what the
network can also be trained by. Depth can lie only between the nearest and the farthest focus distance. The description
leaves the decoder's widths open: here they are chosen for the published 16.5 M parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from focalsweep.model.blocks import pad_to_multiple
from focalsweep_research.rivals.answer import Answer, check_frames, read_out

STRIDE = 32
LATERAL = (208, 128, 64, 48)  # the decoder's channels at 1/16, 1/8, 1/4, 1/2 of the size
# Of each Inception module: 1 x 1; 3 x 3 and what narrows before it; a second of these; after the pooling.
INCEPTION = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


class AiFDepthNet(nn.Module):
    """(pictures, focus distances) -> `Answer`, with the all-in-focus picture and the spread of the attention.

    Args:
        frames: of every stack it will ever see. Its convolutions run over any number, but what they learn is where in
            a stack of that number a frame stands: trained on 5 frames and shown 3 of them, errors doubled.
        width: times the published channels.
    """

    def __init__(self, frames: int = 5, width: float = 1.0) -> None:
        super().__init__()
        self.frames = frames

        def wide(channels: int) -> int:
            return max(2, round(width * channels))

        first, second = wide(64), wide(192)
        self.stem = _convolution(3, first, 7, 2)
        self.second = nn.Sequential(_convolution(first, first, 1), _convolution(first, second, 3))
        stages, channels, kept = [], second, [first, second]
        for modules in INCEPTION:
            layers: list[nn.Module] = []
            for widths in modules:
                layers.append(_Inception(channels, [wide(w) for w in widths]))
                channels = sum(wide(widths[i]) for i in (0, 2, 4, 5))
            stages.append(nn.Sequential(*layers))
            kept.append(channels)
        self.stages = nn.ModuleList(stages)
        self.up, self.lateral = nn.ModuleList(), nn.ModuleList()
        for lateral, skip in zip(LATERAL, reversed(kept[:-1]), strict=True):
            self.up.append(_up(channels, wide(lateral)))
            self.lateral.append(nn.Conv3d(skip, wide(lateral), 1))
            channels = wide(lateral)
        self.last = nn.ConvTranspose3d(channels, 1, (3, 4, 4), (1, 2, 2), 1)

    def forward(
        self,
        pictures: Tensor,  # B F 3 H W, sRGB, in the order of the distances
        distances: Tensor,  # B F, metres
    ) -> Answer:
        height, width = pictures.shape[-2:]
        check_frames("AiFDepthNet", self.frames, pictures.shape[1])
        padded = pad_to_multiple(pictures.flatten(0, 1), STRIDE)
        frames = padded.reshape(*pictures.shape[:3], *padded.shape[-2:])
        volume = self._volume(frames.transpose(1, 2) - 0.5)[..., :height, :width]
        attention = functional.softplus(volume) + 1e-6
        attention = attention / attention.sum(1, keepdim=True)
        places = distances.to(volume, non_blocking=True)[:, :, None, None]
        depth = (attention * places).sum(1)
        std = (attention * (places - depth[:, None]).square()).sum(1).sqrt()
        sharp = (torch.softmax(volume, 1)[:, :, None] * pictures).sum(1)
        return Answer(depth, std=std, sharp=sharp)

    def _volume(self, x: Tensor) -> Tensor:  # B 3 F H W -> B F H W
        x = self.stem(x)
        kept = [x]
        x = self.second(_pool(x))
        kept.append(x)
        for stage in self.stages:
            x = stage(_pool(x))
            kept.append(x)
        for up, lateral, skip in zip(self.up, self.lateral, reversed(kept[:-1]), strict=True):
            x = functional.relu(up(x) + lateral(skip))
        return read_out(self.last, x)[:, 0]


class _Inception(nn.Module):
    def __init__(self, channels: int, widths: list[int]) -> None:
        super().__init__()
        plain, narrow_a, wide_a, narrow_b, wide_b, pooled = widths
        self.plain = _convolution(channels, plain, 1)
        self.first = nn.Sequential(_convolution(channels, narrow_a, 1), _convolution(narrow_a, wide_a, 3))
        self.other = nn.Sequential(_convolution(channels, narrow_b, 1), _convolution(narrow_b, wide_b, 3))
        self.pooled = nn.Sequential(nn.MaxPool3d(3, 1, 1), _convolution(channels, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.plain(x), self.first(x), self.other(x), self.pooled(x)], 1)


def _pool(x: Tensor) -> Tensor:
    """Half the rows and columns, all the frames."""
    return functional.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1))


def _convolution(before: int, after: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(before, after, kernel, (1, stride, stride), kernel // 2, bias=False),
        nn.BatchNorm3d(after),
        nn.ReLU(inplace=True),
    )


def _up(before: int, after: int) -> nn.Sequential:
    """Twice the rows and columns."""
    return nn.Sequential(
        nn.ConvTranspose3d(before, after, (1, 4, 4), (1, 2, 2), (0, 1, 1), bias=False), nn.BatchNorm3d(after)
    )
