"""DDFF (Hazirbas et al. 2018): every frame through one VGG-16 and back, then one weight for each place in the stack.

Encoder and decoder are shared over the frames; a 1 x 1 convolution over the frames' scores gives disparity, so the
number of frames is fixed and the focus distances are never seen. The description leaves open how the decoder narrows:
here it mirrors the encoder, with transposed convolutions of 4 x 4; 39.8 M parameters for the published 40 M. The
published network started from weights of ImageNet; ours starts from nothing.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from focalsweep.model.blocks import conv_block, pad_to_multiple
from focalsweep_research.rivals.answer import NEAREST, Answer, check_frames, read_out

STRIDE = 32
DROPOUT = 0.5
LARGEST_DEPTH = 1e3  # metres: a disparity of 0 or less


class DDFF(nn.Module):
    """(pictures, focus distances) -> `Answer`.

    Args:
        frames: of every stack it will ever see.
        width: channels of the first stage, 64 in VGG.
    """

    def __init__(self, frames: int = 5, width: int = 64) -> None:
        super().__init__()
        self.frames = frames
        w = width
        widths = (w, 2 * w, 4 * w, 8 * w, 8 * w)
        depths = (2, 2, 3, 3, 3)
        self.encoder = nn.ModuleList(
            _stage([before] + [after] * count)
            for before, after, count in zip((3, *widths), widths, depths, strict=False)
        )
        self.up = nn.ModuleList(_up(channels) for channels in reversed(widths))
        self.decoder = nn.ModuleList(
            [
                _stage([8 * w, 8 * w, 8 * w, 8 * w]),
                _stage([8 * w, 8 * w, 8 * w, 4 * w]),
                _stage([8 * w, 4 * w, 4 * w, 2 * w]),  # joined by the encoder's third stage
                _stage([2 * w, 2 * w, w]),
                _stage([w, w]),
            ]
        )
        self.score = nn.Conv2d(w, 1, 3, padding=1)
        self.weights = nn.Conv2d(frames, 1, 1)
        nn.init.constant_(self.weights.weight, 1 / frames)

    def forward(
        self,
        pictures: Tensor,  # B F 3 H W, sRGB, nearest first
        distances: Tensor,  # B F: not used
    ) -> Answer:
        batch, frames, _, height, width = pictures.shape
        check_frames("DDFF", self.frames, frames)
        x = pad_to_multiple(pictures.flatten(0, 1) - 0.5, STRIDE)
        kept = []
        for stage in self.encoder:
            x = stage(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        for level, (up, stage) in enumerate(zip(self.up, self.decoder, strict=True)):
            x = nn.functional.dropout(up(x), DROPOUT, self.training) if level < 3 else up(x)
            x = stage(torch.cat([x, kept[2]], 1) if level == 2 else x)
        scores = read_out(self.score, x)[..., :height, :width].reshape(batch, frames, height, width)
        disparity = read_out(self.weights, scores)[:, 0]
        return Answer((1 / disparity.clamp_min(1 / LARGEST_DEPTH)).clamp_min(NEAREST), disparity=disparity)


def _stage(channels: list[int]) -> nn.Sequential:
    return nn.Sequential(*(conv_block(before, after) for before, after in itertools.pairwise(channels)))


def _up(channels: int) -> nn.Sequential:
    """Twice the size."""
    return nn.Sequential(
        nn.ConvTranspose2d(channels, channels, 4, 2, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
    )
