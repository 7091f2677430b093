"""The bricks that networks are built of, and the padding that lets them take pictures of any size."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval


def conv_block(in_channels: int, out_channels: int, kernel_size: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU; an odd kernel keeps the size, or divides it by the stride, rounded up."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding=kernel_size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


def down_block(in_channels: int, out_channels: int, kernel_size: int) -> nn.Sequential:
    """A stage of MVDepthNet's encoder: one convolution at full size, one that halves it."""
    return nn.Sequential(
        conv_block(in_channels, out_channels, kernel_size),
        conv_block(out_channels, out_channels, kernel_size, stride=2),
    )


def up_block(in_channels: int, out_channels: int) -> nn.Sequential:
    """Twice the size: bilinear, then one convolution."""
    return nn.Sequential(
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
        conv_block(in_channels, out_channels),
    )


def plane_probabilities(
    scores: Tensor,  # B D H W
) -> Tensor:
    """Softmax over the planes, in single precision at least: metres are read off it, also under autocast."""
    return torch.softmax(scores, 1, dtype=torch.promote_types(scores.dtype, torch.float32))


def pad_to_multiple(
    maps: Tensor,  # B C H W
    stride: int,
) -> Tensor:
    """The border repeated at the bottom and on the right until H and W are multiples of `stride`.

    The first row and column stay the first, so pixel (i, j) at 1/s of the size still covers rows s i to s i + s - 1:
    a volume at that scale is cropped back to ceil(H / s), ceil(W / s).
    """
    bottom, right = (-size % stride for size in maps.shape[-2:])
    return functional.pad(maps, (0, right, 0, bottom), mode="replicate") if bottom or right else maps


Network = TypeVar("Network", bound=nn.Module)


def fold_batch_norms(network: Network) -> Network:
    """Every batch norm of a network that only predicts goes into the convolution before it, in place."""
    for module in network.modules():
        for i in range(len(module) - 1) if isinstance(module, nn.Sequential) else ():
            convolution, norm = module[i], module[i + 1]  # type: ignore[index]
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                module[i] = fuse_conv_bn_eval(convolution, norm)  # type: ignore[operator]
                module[i + 1] = nn.Identity()  # type: ignore[operator]
    return network
