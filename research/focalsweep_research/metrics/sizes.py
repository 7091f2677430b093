"""Whether a method says the same of a stack at every size that it is worked on at, within its own error bars."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.estimate import predict
from focalsweep.methods.registry import Choice
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.metrics.errors import Sums
from focalsweep_research.metrics.flatness import inverse_bars

SHARES = (0.25, 0.5, 1.0)  # of the size
ALIKE = 0.03  # medians of one region that lie no farther apart are alike


@dataclass(frozen=True)
class SizeSums(Sums):
    """Regions and pixels of stacks, each the worst of all pairs of sizes; `+` joins two of them."""

    regions: float = 0.0
    change: float = 0.0  # of the median depth, relative
    alike: float = 0.0
    pixels: float = 0.0
    agreeing: float = 0.0

    def figures(self) -> dict[str, float | None]:
        """size_change, the mean of the regions; size_alike, the share within 3 %; size_agreement, of pixels."""
        regions, pixels = self.regions or None, self.pixels or None
        return {
            "size_change": self.change / regions if regions else None,
            "size_alike": self.alike / regions if regions else None,
            "size_agreement": self.agreeing / pixels if pixels else None,
        }


def smaller_answers(
    stack: FocalStack,  # not a batch
    choice: Choice,
    planes: DepthGrid,
    shares: Sequence[float] = SHARES[:-1],
) -> list[DepthPrediction]:
    """What a method says over the same planes of the stack made smaller, smallest first."""
    return [predict(stack.resized(share), choice, planes) for share in shares]


def region_sums(answers: Sequence[DepthPrediction], region: Tensor) -> SizeSums:  # region: H W
    """Of one region of a stack; answers are batches of one, the smallest first."""
    medians = [float(one.depth[0][_nearest(region, one.depth.shape[-2:])].median()) for one in answers]
    change = max(abs(a - b) / min(a, b) for a, b in itertools.combinations(medians, 2))
    pixels = float(region.sum())
    return SizeSums(1.0, change, float(change <= ALIKE), pixels, least_agreement(answers, region) * pixels)


def picture_sums(answers: Sequence[DepthPrediction]) -> SizeSums:
    """Of all pixels of a stack, which are no region."""
    every = torch.ones_like(answers[-1].depth[0], dtype=torch.bool)
    return SizeSums(pixels=float(every.numel()), agreeing=least_agreement(answers, every) * every.numel())


def least_agreement(answers: Sequence[DepthPrediction], region: Tensor) -> float:
    """The smallest share of pixels in which two of the answers agree."""
    return min(agreeing_share(small, large, region) for small, large in itertools.combinations(answers, 2))


def agreeing_share(small: DepthPrediction, large: DepthPrediction, mask: Tensor) -> float:
    """Of the pixels of the smaller answer: where the two lie within twice the larger of their error bars.

    The larger one is asked at the pixel nearby: nothing is averaged over an edge.
    """
    size = small.depth.shape[-2:]
    first = inverse_bars(small.depth[0], small.std[0])
    second = inverse_bars(*(_nearest(values[0], size) for values in (large.depth, large.std)))
    within = (first[0] - second[0]).abs() <= 2 * torch.maximum(first[1], second[1])
    return float(within[_nearest(mask, size)].double().mean())


def _nearest(values: Tensor, size: torch.Size) -> Tensor:
    """H W at another size: of each pixel there the nearest here."""
    found = functional.interpolate(values[None, None].float(), size=size, mode="nearest-exact")[0, 0]
    return found.to(values.dtype)
