"""Whether a method knows where it is wrong: error against confidence, as sums that add up like those of `metrics`.

Three questions. Does the error fall as the least sure pixels are left out (sparsification, Ilg 2018)? Does the truth
lie within the error bar as often as it should (coverage)? Is a confidence of 0.8 right four times in five
(reliability)? `confidence_sums` asks all of a prediction:

    sums = ConfidenceSums()
    for sample in samples:
        sums += confidence_sums(predict(sample), sample.depth, sample.planes)
    over_processes(sums).means()
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from focalsweep.sweep.volume import plane_position
from focalsweep.types import DepthGrid, DepthPrediction
from focalsweep_research.metrics.errors import Sums, Vector, known_pixels

STEPS = 100  # of the share of pixels left out
BINS = 20
ERRORS = ("mae", "rmse", "abs_rel")
LAPLACE = {"expected_within_1_std": 1 - math.exp(-math.sqrt(2)), "expected_within_2_std": 1 - math.exp(-math.sqrt(8))}


_curve = partial(np.zeros, STEPS + 1)
_bins = partial(np.zeros, BINS)


@dataclass(frozen=True, eq=False)
class SparsificationSums(Sums):
    """Sums over pictures of the error that remains as pixels are left out, 1 % more at each step until none is left."""

    pictures: float = 0.0
    remaining: Vector = field(default_factory=_curve)  # the least sure first
    oracle: Vector = field(default_factory=_curve)  # the most wrong first

    def curves(self) -> dict[str, list[float]]:
        """Of the share left out: the mean error of the rest, by uncertainty and by the error itself."""
        pictures = max(1.0, self.pictures)
        return {
            "removed": np.linspace(0, 1, STEPS + 1).tolist(),
            "error": (self.remaining / pictures).tolist(),
            "oracle": (self.oracle / pictures).tolist(),
        }

    def means(self) -> dict[str, float]:
        """ause: the area between the curve and the oracle's; aurg: between chance, a level line, and the curve.

        Both in the unit of the error, and as a share of the error of all pixels. ause is 0 at best; aurg is 0 where
        the uncertainty says nothing, and negative where it misleads.
        """
        if not self.pictures:
            return {"pictures": 0}
        everything = float(self.remaining[0] / self.pictures)
        areas = {
            "ause": _area(self.remaining - self.oracle) / self.pictures,
            "aurg": _area(np.append(np.full(STEPS, self.remaining[0]), 0) - self.remaining) / self.pictures,
        }
        shares = {f"{name}_share": area / everything if everything else 0.0 for name, area in areas.items()}
        return {**areas, **shares, "pictures": self.pictures}


def _area(curve: Vector) -> float:
    return float(np.trapezoid(curve, dx=1 / STEPS))


@dataclass(frozen=True, eq=False)
class CoverageSums(Sums):
    """How errors compare with the standard deviation that was given for them."""

    pixels: float = 0.0
    within_1_std: float = 0.0
    within_2_std: float = 0.0
    squared: float = 0.0  # error / std
    levels: Vector = field(
        default_factory=_bins
    )  # pixels by the least level of a central Laplace interval that holds the truth

    def means(self) -> dict[str, float]:
        """Shares within 1 and 2 std and what a Laplace distribution has there; rms_z, error / std, 1 at best.

        miscalibration: the mean over levels 5 %, 10 %, ... of how far the share of truths within the central interval
        of a level, by a Laplace distribution, is from the level.
        """
        if not self.pixels:
            return {"pixels": 0}
        shares = np.cumsum(self.levels) / self.pixels
        nominal = np.arange(1, BINS + 1) / BINS
        return {
            "within_1_std": self.within_1_std / self.pixels,
            "within_2_std": self.within_2_std / self.pixels,
            **LAPLACE,
            "rms_z": math.sqrt(self.squared / self.pixels),
            "miscalibration": float(np.abs(shares - nominal)[:-1].mean()),
            "pixels": self.pixels,
        }


@dataclass(frozen=True, eq=False)
class ReliabilitySums(Sums):
    """Pixels by confidence, in bins of 0.05: how sure they were, and how many were right."""

    pixels: Vector = field(default_factory=_bins)
    confidence: Vector = field(default_factory=_bins)
    right: Vector = field(default_factory=_bins)

    def bins(self) -> list[dict[str, float]]:
        """Of every bin that has pixels."""
        rows = zip(self.pixels.tolist(), self.confidence.tolist(), self.right.tolist(), strict=True)
        return [{"confidence": sure / n, "right": right / n, "pixels": n} for n, sure, right in rows if n]

    def means(self) -> dict[str, float]:
        """ece, the expected calibration error: the mean over pixels of how far a bin's confidence is from its share."""
        pixels = float(self.pixels.sum())
        if not pixels:
            return {"pixels": 0}
        return {
            "ece": float(np.abs(self.confidence - self.right).sum() / pixels),
            "mean_confidence": float(self.confidence.sum() / pixels),
            "right": float(self.right.sum() / pixels),
            "pixels": pixels,
        }


@dataclass(frozen=True, eq=False)
class ConfidenceSums(Sums):
    """All three, with the sparsification of relative errors by std / depth and by 1 - confidence."""

    by_std: SparsificationSums = field(default_factory=SparsificationSums)
    by_confidence: SparsificationSums = field(default_factory=SparsificationSums)
    coverage: CoverageSums = field(default_factory=CoverageSums)
    reliability: ReliabilitySums = field(default_factory=ReliabilitySums)

    def means(self) -> dict[str, dict[str, float]]:
        """For a result file."""
        names = ("by_std", "by_confidence", "coverage", "reliability")
        return {name: getattr(self, name).means() for name in names}


def confidence_sums(
    prediction: DepthPrediction,
    truth: Tensor,  # B H W
    planes: DepthGrid,
    counted: Tensor | None = None,  # B H W
) -> ConfidenceSums:
    """Of the pixels `counted` (all by default) whose truth is known."""
    depth = prediction.depth
    return ConfidenceSums(
        sparsification_sums(depth, truth, prediction.std / depth, counted),
        sparsification_sums(depth, truth, -prediction.confidence, counted),
        coverage_sums(depth, truth, prediction.std, counted),
        reliability_sums(
            prediction.confidence, within_a_plane(depth, truth, planes), known_pixels(depth, truth, counted)
        ),
    )


def sparsification_sums(
    depth: Tensor,  # B H W, or H W
    truth: Tensor,
    uncertainty: Tensor,  # of any unit: larger is less sure, no number the least
    counted: Tensor | None = None,
    error: str = "abs_rel",
) -> SparsificationSums:
    """Each picture by itself. Pixels of one uncertainty go in no order: each has the mean error of them all.

    Args:
        error: "mae", "rmse" or "abs_rel". A std in metres ranks the first two, std / depth the last.
    """
    if error not in ERRORS:
        raise ValueError(f"no error to sparsify is called {error!r}: it is one of {', '.join(ERRORS)}")
    known = known_pixels(depth, truth, counted)
    total = SparsificationSums()
    maps = [map_.reshape(-1, *truth.shape[-2:]) for map_ in (depth, truth, uncertainty, known)]
    for d, t, u, k in zip(*maps, strict=True):
        if not k.any():
            continue
        wrong = (d[k].double() - t[k].double()).abs()
        wrong = wrong.square() if error == "rmse" else wrong / t[k].double() if error == "abs_rel" else wrong
        curves = [_remaining(wrong, by) for by in (u[k], wrong)]
        if error == "rmse":
            curves = [np.sqrt(curve) for curve in curves]
        total += SparsificationSums(1.0, *curves)
    return total


def _remaining(wrong: Tensor, by: Tensor) -> Vector:
    """The mean of the smallest n, n - n / STEPS, ... by `by`; 0 of none at the end."""
    ranks, order = by.sort()
    _, run, lengths = torch.unique_consecutive(ranks, return_inverse=True, return_counts=True)
    means = torch.zeros_like(lengths, dtype=wrong.dtype).index_add_(0, run, wrong[order]) / lengths
    total = means[run].cumsum(0)
    n = len(wrong)
    kept = n - n * torch.arange(STEPS, device=wrong.device) // STEPS
    return np.append((total[kept - 1] / kept).cpu().numpy(), 0.0)


def coverage_sums(depth: Tensor, truth: Tensor, std: Tensor, counted: Tensor | None = None) -> CoverageSums:
    """Of maps of one shape; an error of 0 is within a std of 0."""
    known = known_pixels(depth, truth, counted)
    error, bar = (depth[known].double() - truth[known].double()).abs(), std[known].double()
    z = torch.where(error == 0, 0.0, error / bar)
    level = -torch.expm1(-math.sqrt(2) * z)
    levels = torch.histc(level, BINS, 0, 1)
    pixels, one, two, squared = torch.stack(
        [known.sum(), (error <= bar).sum(), (error <= 2 * bar).sum(), z.square().sum()]
    ).tolist()
    return CoverageSums(pixels, one, two, squared, levels.cpu().numpy())


def reliability_sums(confidence: Tensor, right: Tensor, counted: Tensor | None = None) -> ReliabilitySums:
    """Of a confidence in 0..1 and of where it was `right` (both of one shape), at the pixels `counted`."""
    chosen = torch.ones_like(right) if counted is None else counted
    sure = confidence[chosen].double()
    if len(sure) and not bool(((sure >= 0) & (sure <= 1)).all()):
        raise ValueError(f"confidence lies within 0 and 1, but goes from {float(sure.min())} to {float(sure.max())}")
    place = (sure * BINS).long().clamp_max(BINS - 1)
    sums = [torch.bincount(place, weight, BINS) for weight in (torch.ones_like(sure), sure, right[chosen].double())]
    return ReliabilitySums(*(total.cpu().numpy() for total in sums))


def within_a_plane(
    depth: Tensor,  # B H W
    truth: Tensor,  # B H W
    planes: DepthGrid,
) -> Tensor:
    """Where the true plane is the estimate's or its neighbour, so within 1.5: what `confidence` is the chance of."""
    grid = planes.as_batch(len(depth)).to(depth)
    found, true = (plane_position(1 / map_, grid) for map_ in (depth, truth.to(depth)))
    return (found - true).abs() < 1.5
