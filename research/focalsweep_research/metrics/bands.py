"""Errors against true depth, for a curve."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from focalsweep_research.metrics.errors import Vector, known_pixels


class BandErrors:
    """Errors over all pixels of each band of true depth, for a curve; much quicker than a group for each band."""

    def __init__(self, borders: Sequence[float]) -> None:
        self.borders = tuple(borders)
        self.sums: dict[str, Vector] = {}

    def add(self, method: str, depth: Tensor, truth: Tensor) -> None:
        """Count the pixels whose truth is known; those beyond the last border belong to the last band."""
        known = known_pixels(depth, truth)
        true = truth[known].double()
        error = (depth[known].double() - true).abs()
        band = torch.bucketize(true, true.new_tensor(self.borders[1:-1]), right=True)
        count = len(self.borders) - 1
        weights = (torch.ones_like(error), error, error.square(), error / true)
        rows = torch.stack([torch.bincount(band, weight, minlength=count) for weight in weights])
        self.sums[method] = self.sums.get(method, 0) + rows.cpu().numpy()

    def __add__(self, other: BandErrors) -> BandErrors:
        total = BandErrors(self.borders)
        for part in (self, other):
            for method, sums in part.sums.items():
                total.sums[method] = total.sums.get(method, 0) + sums
        return total

    def rows(self) -> list[dict[str, Any]]:
        """By method and band, those with pixels."""
        return [
            {"method": method, "near": near, "far": far, "mae": absolute / pixels, "rmse": (squared / pixels) ** 0.5,
             "abs_rel": relative / pixels, "pixels": pixels}
            for method, sums in self.sums.items()
            for (near, far), (pixels, absolute, squared, relative) in zip(
                itertools.pairwise(self.borders), sums.T.tolist(), strict=True
            )
            if pixels
        ]  # fmt: skip
