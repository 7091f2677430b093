"""The paper's network and its loss (Section 3, "Architecture and loss function"), to be read beside it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from focalsweep.model.aggregation import NEIGHBOURS, aggregate
from focalsweep.model.blocks import conv_block, down_block, pad_to_multiple, plane_probabilities, up_block
from focalsweep.model.regression import prediction_from_probabilities, soft_argmin
from focalsweep.types import DepthPrediction
from focalsweep.validation import check_shape

STRIDE = 32  # of the encoder: five halvings
ENCODER_KERNELS = (7, 5, 3, 3, 3)


class UpsampleBlock(nn.Module):
    """Twice the size: the coarser volume and the encoder's features give a refined volume, and how to aggregate it."""

    def __init__(self, planes: int, skip_channels: int, channels: int) -> None:
        super().__init__()
        self.upsample = up_block(planes, planes)
        self.merge = conv_block(planes + skip_channels, channels)
        self.score = nn.Conv2d(channels, planes, 3, padding=1)
        self.offsets = nn.Conv2d(channels, 2 * NEIGHBOURS, 3, padding=2, dilation=2)
        self.weights = nn.Conv2d(channels, NEIGHBOURS, 3, padding=2, dilation=2)
        for parameter in self.offsets.parameters():
            nn.init.zeros_(parameter)  # training starts on the regular grid

    def forward(
        self,
        coarse: Tensor,  # B D H/2 W/2
        skip: Tensor,  # B C H W
    ) -> Tensor:
        """Probabilities, B D H W. Softmax comes first: aggregated probabilities still sum to one."""
        features = self.merge(torch.cat((self.upsample(coarse.to(skip)), skip), 1))
        refined = plane_probabilities(self.score(features))
        weights = torch.softmax(self.weights(features).to(refined), 1)
        return aggregate(refined, self.offsets(features), weights)  # Eq. 10


class PaperNet(nn.Module):
    """Image and cost volume in, refined volumes at 1/8, 1/4, 1/2 and 1 of the size out; depth is their soft argmin.

    The encoder is MVDepthNet's. Every level of the decoder has weights of its own, as the paper draws it (its released
    code shares two levels by mistake). Pictures of any size are padded to a multiple of 32 and cropped back.

    Args:
        planes: D, as many as the cost volume has; the paper's 64.
        encoder_channels: of the five stages, at 1/2, 1/4, 1/8, 1/16 and 1/32.
        refine_channels: of the upsample blocks, at 1/4, 1/2 and 1.
    """

    def __init__(
        self,
        planes: int = 64,
        encoder_channels: tuple[int, int, int, int, int] = (128, 256, 512, 512, 512),
        refine_channels: tuple[int, int, int] = (256, 128, 8),
    ) -> None:
        super().__init__()
        if planes < 2:
            raise ValueError(f"planes must be at least 2, but is {planes}")
        self.planes = planes
        half, quarter, eighth, sixteenth, deepest = encoder_channels
        inputs = (3 + planes, *encoder_channels[:-1])
        stages = zip(inputs, encoder_channels, ENCODER_KERNELS, strict=True)
        self.encoder = nn.ModuleList(down_block(*stage) for stage in stages)
        self.upsample_16 = up_block(deepest, sixteenth)
        self.merge_16 = conv_block(2 * sixteenth, sixteenth)
        self.upsample_8 = up_block(sixteenth, eighth)
        self.merge_8 = conv_block(2 * eighth, eighth)
        self.score_8 = nn.Conv2d(eighth, planes, 3, padding=1)
        self.refine_4 = UpsampleBlock(planes, quarter, refine_channels[0])
        self.refine_2 = UpsampleBlock(planes, half, refine_channels[1])
        self.refine_1 = UpsampleBlock(planes, 3, refine_channels[2])

    def predict(
        self,
        image: Tensor,  # B 3 H W, display-encoded RGB of the farthest frame
        cost: Tensor,  # B D H W, in 0..1
        inverse_depths: Tensor,  # B D, near to far
    ) -> DepthPrediction:
        """Depth at full size: the mean of the planes' depths in metres (Eq. 11)."""
        return prediction_from_probabilities(self(image, cost)[-1], inverse_depths)

    def forward(
        self,
        image: Tensor,  # B 3 H W
        cost: Tensor,  # B D H W
    ) -> list[Tensor]:
        """Probabilities over the planes at 1/8, 1/4, 1/2 and 1 of the size: B D ceil(H / s) ceil(W / s) each."""
        check_shape("image", image, "B C H W", C=3)
        batch, _, height, width = image.shape
        check_shape("cost", cost, "B D H W", B=batch, D=self.planes, H=height, W=width)
        features = pad_to_multiple(torch.cat((image, cost), 1), STRIDE).contiguous(memory_format=torch.channels_last)
        padded_image = features[:, :3]

        skips = []
        for stage in self.encoder:
            features = stage(features)
            skips.append(features)
        half, quarter, eighth, sixteenth, deepest = skips

        features = self.merge_16(torch.cat((self.upsample_16(deepest), sixteenth), 1))
        features = self.merge_8(torch.cat((self.upsample_8(features), eighth), 1))
        volume_8 = plane_probabilities(self.score_8(features))
        volume_4 = self.refine_4(volume_8, quarter)
        volume_2 = self.refine_2(volume_4, half)
        volume_1 = self.refine_1(volume_2, padded_image)

        volumes = ((8, volume_8), (4, volume_4), (2, volume_2), (1, volume_1))
        return [volume[..., : -(-height // s), : -(-width // s)] for s, volume in volumes]


def paper_loss(
    scales: Sequence[Tensor],  # B D ceil(H / s) ceil(W / s), coarse to fine, each scale twice the one before
    depth: Tensor,  # B H W, metres
    depths: Tensor,  # B D, metres, of the planes
) -> Tensor:
    """Mean over the scales of the mean absolute error of depth in metres (paper, Eq. 12).

    The ground truth of a coarse pixel is that of the pixel nearest to its centre: an average would invent depths
    between foreground and background. Pixels whose truth is not positive and finite count nowhere.
    """
    check_shape("depth", depth, "B H W")
    errors = []
    for level, probabilities in enumerate(scales):
        truth = _nearest(depth, 2 ** (len(scales) - 1 - level))
        batch, height, width = truth.shape
        check_shape(f"scales[{level}]", probabilities, "B D H W", B=batch, H=height, W=width)
        known = torch.isfinite(truth) & (truth > 0)
        error = (soft_argmin(probabilities, depths) - truth.where(known, 0)).abs()
        errors.append((error * known).sum() / known.sum().clamp_min(1))
    return torch.stack(errors).mean()


def _nearest(
    maps: Tensor,  # B H W
    step: int,
) -> Tensor:
    """Every `step`-th pixel, taken beside the middle of its block: B ceil(H / step) ceil(W / step)."""
    rows, columns = (
        torch.arange(0, size, step, device=maps.device).add(step // 2).clamp_max(size - 1) for size in maps.shape[-2:]
    )
    return maps[:, rows[:, None], columns]
