"""Errors of depth as sums, which add up over batches, groups of pixels and processes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class ErrorSums:
    """Sums over pixels; `+` joins two of them, `means` reads them."""

    pixels: float = 0.0
    absolute: float = 0.0  # metres
    squared: float = 0.0  # square metres
    relative: float = 0.0
    within_1_05: float = 0.0

    def __add__(self, other: ErrorSums) -> ErrorSums:
        return ErrorSums(*(getattr(self, key.name) + getattr(other, key.name) for key in fields(self)))

    def means(self) -> dict[str, float]:
        """MAE and RMSE in metres, AbsRel, and delta 1.05: the share of pixels within a factor of 1.05."""
        if not self.pixels:
            return {"pixels": 0}
        return {
            "mae": self.absolute / self.pixels,
            "rmse": (self.squared / self.pixels) ** 0.5,
            "abs_rel": self.relative / self.pixels,
            "delta_1.05": self.within_1_05 / self.pixels,
            "pixels": self.pixels,
        }


def error_sums(depth: Tensor, truth: Tensor, counted: Tensor | None = None) -> ErrorSums:
    """Of the pixels `counted` (all by default) whose truth is known: positive and finite."""
    known = torch.isfinite(truth) & (truth > 0)
    if counted is not None:
        known = known & counted
    estimate, true = depth[known].double(), truth[known].double()
    error = (estimate - true).abs()
    ratio = torch.maximum(estimate / true, true / estimate)
    rows = torch.stack([error.sum(), error.square().sum(), (error / true).sum(), (ratio < 1.05).double().sum()])
    return ErrorSums(float(known.sum()), *rows.tolist())
