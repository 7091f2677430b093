"""What JPEG does to a picture, batched on the device: colour, halved chroma, block transform, rounding, and back.

The entropy coding, which loses nothing, is left out. Tables and their scaling by quality are those of the standard's
annex K as the common encoders use them.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

LUMA = (
    (16, 11, 10, 16, 24, 40, 51, 61), (12, 12, 14, 19, 26, 58, 60, 55), (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62), (18, 22, 37, 56, 68, 109, 103, 77), (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101), (72, 92, 95, 98, 112, 100, 103, 99),
)  # fmt: skip
CHROMA = (
    (17, 18, 24, 47, 99, 99, 99, 99), (18, 21, 26, 66, 99, 99, 99, 99), (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99), *(((99,) * 8,) * 4),
)  # fmt: skip
TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))


def jpeg(
    pictures: Tensor,  # N 3 H W, display-encoded, 0..1
    quality: Tensor,  # N, 1..100
) -> Tensor:  # N 3 H W
    """The pictures after encoding with 4:2:0 chroma and decoding, rounded to 8 bit."""
    height, width = pictures.shape[-2:]
    padded = functional.pad(pictures * 255, (0, -width % 16, 0, -height % 16), mode="replicate").round()
    ycc = torch.einsum("dc,nchw->ndhw", _constant(TO_YCC, pictures.device), padded).round()
    luma = _round_blocks(ycc[:, :1] - 128, _scaled(LUMA, quality)) + 128
    chroma = _round_blocks(functional.avg_pool2d(ycc[:, 1:], 2).round(), _scaled(CHROMA, quality))
    chroma = functional.interpolate(chroma, scale_factor=2, mode="bilinear", align_corners=False)
    inverse = torch.linalg.inv(torch.tensor(TO_YCC, dtype=torch.float64)).float().to(pictures.device)
    back = torch.einsum("cd,ndhw->nchw", inverse, torch.cat([luma, chroma], 1))
    return back[..., :height, :width].round().clamp(0, 255) / 255


def _round_blocks(maps: Tensor, table: Tensor) -> Tensor:
    """8 x 8 blocks of N C H W rounded to multiples of the table (N 8 8) in frequency."""
    batch, channels, height, width = maps.shape
    cosine = _cosine(maps.device)
    blocks = maps.view(batch, channels, height // 8, 8, width // 8, 8)
    spectrum = torch.einsum("ui,ncaibj,vj->ncaubv", cosine, blocks, cosine)
    step = table[:, None, None, :, None, :]
    rounded = (spectrum / step).round() * step
    return torch.einsum("ui,ncaubv,vj->ncaibj", cosine, rounded, cosine).reshape(maps.shape)


def _scaled(table: tuple[tuple[int, ...], ...], quality: Tensor) -> Tensor:  # N 8 8
    percent = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality)[:, None, None]
    return torch.floor((_constant(table, quality.device) * percent + 50) / 100).clamp(1, 255)


@cache
def _constant(values: tuple[tuple[float, ...], ...], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)


@cache
def _cosine(device: torch.device) -> Tensor:
    """The orthonormal cosine transform of 8 values."""
    k, i = torch.arange(8.0)[:, None], torch.arange(8.0)
    matrix = torch.cos((2 * i + 1) * k * math.pi / 16) / 2
    matrix[0] /= math.sqrt(2)
    return matrix.to(device)
