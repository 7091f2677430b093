"""Errors of depth as sums, which add up over batches, groups of pixels and processes.

Two averages are in use: over all pixels (`ErrorSums`), and within each picture, then over the pictures (`PictureSums`,
the paper's way with its crops of NYU). `Scoreboard` keeps either for every method, group and rescaling, so that a
protocol is short:

    board = Scoreboard(per_picture=True, rescalings=("raw", "median"), bands=(0.0, 1.0, 2.0, 3.0))
    for sample in crops:  # this process's share of them
        for name, reader in readers.items():
            board.add(name, reader(sample), sample.depth)
    return {"protocol": "nyu", "rows": over_processes(board).rows()}
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Vector = npt.NDArray[np.float64]
DELTAS = {"delta_1.05": 1.05, "delta_1.25": 1.25, "delta_1.25^2": 1.25**2, "delta_1.25^3": 1.25**3}
METRICS = ("mae", "rmse", "abs_rel", *DELTAS, "sc_inv", "ssitrim")
RESCALINGS = ("raw", "median", "affine")


@dataclass(frozen=True, eq=False)
class Sums:
    """Something that adds up, field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, key.name) + getattr(other, key.name) for key in fields(self)))


@dataclass(frozen=True)
class ErrorSums(Sums):
    """Sums over pixels; `+` joins two of them, `means` reads them.

    Pictures may be counted in parts, but for ssitrim, which looks at a picture's counted pixels together.
    """

    pixels: float = 0.0
    absolute: float = 0.0  # metres
    squared: float = 0.0  # square metres
    relative: float = 0.0
    within_1_05: float = 0.0
    within_1_25: float = 0.0
    within_1_25_squared: float = 0.0
    within_1_25_cubed: float = 0.0
    log: float = 0.0  # of estimate / truth
    log_squared: float = 0.0
    trimmed: float = 0.0  # of the normalised inverse depths, see `trimmed_sums`

    def means(self) -> dict[str, float]:
        """Errors over all pixels, in the unit of the depths where they have one.

        mae, rmse, abs_rel; delta_X, the share of pixels within a factor of X; sc_inv, the standard deviation of the
        log error (Eigen 2014, as the paper has it); ssitrim, the trimmed error of inverse depth that no scale or
        shift of it changes (Ranftl 2020, Eq. 7), each picture weighing as many pixels as it has.
        """
        if not self.pixels:
            return {"pixels": 0}
        shares = (self.within_1_05, self.within_1_25, self.within_1_25_squared, self.within_1_25_cubed)
        variance = self.log_squared / self.pixels - (self.log / self.pixels) ** 2
        return {
            "mae": self.absolute / self.pixels,
            "rmse": (self.squared / self.pixels) ** 0.5,
            "abs_rel": self.relative / self.pixels,
            **{name: share / self.pixels for name, share in zip(DELTAS, shares, strict=True)},
            # Rounding may leave a little below zero; what is no number stays none.
            "sc_inv": 0.0 if variance < 0 else math.sqrt(variance),
            "ssitrim": self.trimmed / (2 * self.pixels),
            "pixels": self.pixels,
        }


@dataclass(frozen=True, eq=False)
class PictureSums(Sums):
    """Sums of the errors of whole pictures: every picture counts the same, however many of its pixels are known."""

    pictures: float = 0.0
    pixels: float = 0.0
    totals: Vector = field(default_factory=lambda: np.zeros(len(METRICS)))

    def means(self) -> dict[str, float]:
        """As `ErrorSums.means`, each the mean over pictures of that of a picture."""
        if not self.pictures:
            return {"pixels": 0, "pictures": 0}
        averages = dict(zip(METRICS, (self.totals / self.pictures).tolist(), strict=True))
        return {**averages, "pixels": self.pixels, "pictures": self.pictures}


def figures_of(sums: ErrorSums | PictureSums, note: str | None = None) -> dict[str, Any]:
    """The means for a row; null with the note where a method had to leave some of it out, so that no figure is fair."""
    return sums.means() if note is None else {**dict.fromkeys(METRICS), "note": note}


def error_sums(depth: Tensor, truth: Tensor, counted: Tensor | None = None) -> ErrorSums:
    """Of the pixels `counted` (all by default) whose truth is known: positive and finite.

    The last two axes, H W, are a picture; fewer axes are one picture. An estimate that is no number makes the errors
    none, and one that is not positive is within no factor of the truth.
    """
    return ErrorSums(*_sums(depth, truth, known_pixels(depth, truth, counted)).sum(0).tolist())


def picture_sums(depth: Tensor, truth: Tensor, counted: Tensor | None = None) -> PictureSums:
    """As `error_sums`, kept apart by picture; one without a known pixel does not count."""
    parts = [ErrorSums(*row) for row in _sums(depth, truth, known_pixels(depth, truth, counted)).tolist()]
    means = [part.means() for part in parts if part.pixels]
    totals = np.array([[row[name] for name in METRICS] for row in means]).reshape(-1, len(METRICS)).sum(0)
    return PictureSums(float(len(means)), sum(part.pixels for part in parts), totals)


def _sums(depth: Tensor, truth: Tensor, known: Tensor) -> Tensor:
    """A row of `ErrorSums` for each picture, all at once: a GPU waits for nothing in between."""
    estimate, true, known = (_as_rows(maps) for maps in (depth, truth, known))
    estimate, true = (maps.double().where(known, 1) for maps in (estimate, true))  # what is not known has no error
    error = (estimate - true).abs()
    ratio = torch.where(estimate > 0, torch.maximum(estimate / true, true / estimate), math.inf)
    log = (estimate / true).log()
    columns = [known.sum(1), error.sum(1), error.square().sum(1), (error / true).sum(1)]
    columns += [((ratio < factor) & known).sum(1) for factor in DELTAS.values()]
    columns += [log.sum(1), log.square().sum(1), trimmed_sums(1 / estimate, 1 / true, known)]
    return torch.stack([column.double() for column in columns], 1)


def trimmed_sums(
    inverse_depth: Tensor,  # N P, double
    truth: Tensor,  # inverse depth as well
    known: Tensor,
) -> Tensor:  # N
    """MiDaS's trimmed error of each picture before its division by twice the pixels (Ranftl 2020, Eqs. 5 to 7).

    Both are shifted by their median and divided by their mean absolute deviation; of the absolute differences the
    largest fifth is left out. What has no deviation is 0 everywhere.
    """
    kept = 4 * known.sum(1) // 5
    difference = (_normalised(inverse_depth, known) - _normalised(truth, known)).abs()
    largest = _kth(difference, known, kept)
    below = (difference < largest[:, None]) & known
    trimmed = torch.where(below, difference, 0).sum(1) + (kept - below.sum(1)) * largest
    return torch.where(kept > 0, trimmed, 0)


def _normalised(values: Tensor, known: Tensor) -> Tensor:
    shifted = values - _medians(values, known)[:, None]
    deviation = torch.where(known, shifted.abs(), 0).sum(1) / known.sum(1)
    return shifted / deviation.clamp_min(torch.finfo(values.dtype).tiny)[:, None]


def _medians(values: Tensor, known: Tensor) -> Tensor:
    """Of the known values of each row: the mean of the two in the middle where their number is even, as NumPy's."""
    count = known.sum(1)
    return (_kth(values, known, (count + 1) // 2) + _kth(values, known, count // 2 + 1)) / 2


def _kth(values: Tensor, known: Tensor, places: Tensor) -> Tensor:
    """The value at that place (1 is the smallest) of the known ones of each row; anything where there is none."""
    values = values.where(known, math.inf)
    wanted = places.clamp(1, values.shape[1]).tolist()
    if len(set(wanted)) == 1:
        return values.kthvalue(wanted[0], 1).values
    return torch.stack([row.kthvalue(place).values for row, place in zip(values, wanted, strict=True)])


def rescaled(
    depth: Tensor, truth: Tensor, how: str, counted: Tensor | None = None, farthest: float | None = None
) -> Tensor:
    """Depth made to fit the truth, each picture by itself, by the pixels that `error_sums` would count.

    Args:
        depth: ... H W.
        truth: of the same shape.
        how: "raw" changes nothing; "median" divides by the median of depth / truth, as the paper does; "affine" takes
            the scale and shift of inverse depth that leave the least squares of it.
        counted: the pixels to fit by, all by default.
        farthest: what "affine" makes of an inverse depth below its reciprocal, zero and negative ones included; the
            farthest truth of the picture by default.
    """
    if how not in RESCALINGS:
        raise ValueError(f"no rescaling is called {how!r}: it is one of {', '.join(RESCALINGS)}")
    if how == "raw":
        return depth
    known = known_pixels(depth, truth, counted)
    if how == "median":
        k = _as_rows(known)
        factors = torch.where(k.any(1), _medians(_as_rows(depth).double() / _as_rows(truth).double(), k), 1)
        return depth / factors.to(depth.dtype).view(*depth.shape[:-2], *[1] * min(2, depth.ndim))
    result = depth.clone(memory_format=torch.contiguous_format)
    for fitted, true, k in _pictures(result, truth, known):
        if not k.any():
            continue
        x, y = 1 / fitted[k].double(), 1 / true[k].double()
        spread = (x - x.mean()).square().mean()
        scale = ((x - x.mean()) * (y - y.mean())).mean() / spread.clamp_min(torch.finfo(x.dtype).tiny)
        least = 1 / farthest if farthest else y.min().item()
        inverse = (1 / fitted.double() - x.mean()) * scale + y.mean()
        fitted.copy_(1 / inverse.clamp_min(least))
    return result


def depth_bands(truth: Tensor, borders: Sequence[float]) -> dict[str, Tensor]:
    """Masks of the pixels whose true depth lies from one border, included, to the next, by their names."""
    pairs = itertools.pairwise(borders)
    return {f"{near:g} to {far:g} m": (truth >= near) & (truth < far) for near, far in pairs}


def known_pixels(depth: Tensor, truth: Tensor, counted: Tensor | None = None) -> Tensor:
    """Where the truth is positive and finite, of the pixels `counted`."""
    for name, map_ in (("depth", depth), ("counted", counted)):
        if map_ is not None and map_.shape != truth.shape:
            raise ValueError(f"{name} has the shape {tuple(map_.shape)}, truth {tuple(truth.shape)}: they must agree")
    known = torch.isfinite(truth) & (truth > 0)
    return known if counted is None else known & counted


def _as_rows(maps: Tensor) -> Tensor:  # N P
    """The pixels of each picture side by side."""
    return maps.flatten(-2).reshape(-1, maps.shape[-2] * maps.shape[-1]) if maps.ndim > 1 else maps[None]


def _pictures(*maps: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Pictures of several maps of one shape; views of those that are contiguous."""
    shape = maps[0].shape
    return zip(*(m.reshape(-1, *shape[-2:]) if len(shape) > 1 else m[None] for m in maps), strict=True)


class Scoreboard:
    """Errors of methods by group of pixels and by rescaling.

    Args:
        per_picture: average within each picture first, then over pictures, as the paper does on NYU; over all pixels
            by default.
        rescalings: of RESCALINGS; a row for each.
        bands: borders of true depth, in metres; a group for each step between them.
        farthest: where the truth ends, and so do depths, after they were rescaled; see `rescaled` too.
    """

    def __init__(
        self,
        *,
        per_picture: bool = False,
        rescalings: Sequence[str] = ("raw",),
        bands: Sequence[float] = (),
        farthest: float | None = None,
    ) -> None:
        self.settings: dict[str, Any] = {
            "per_picture": per_picture, "rescalings": tuple(rescalings), "bands": tuple(bands), "farthest": farthest
        }  # fmt: skip
        self.sums: dict[tuple[str, str, str], ErrorSums | PictureSums] = {}
        self.notes: dict[str, str] = {}

    def add(
        self,
        method: str,
        depth: Tensor,  # B H W
        truth: Tensor,  # B H W
        counted: Tensor | None = None,  # B H W
        groups: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Count a batch: all of it, by depth band, and by further `groups` of pixels. Rescaling is by all of it."""
        measure = picture_sums if self.settings["per_picture"] else error_sums
        farthest: float | None = self.settings["farthest"]
        known = known_pixels(depth, truth, counted)
        masks = {"all": known, **depth_bands(truth, self.settings["bands"]), **(groups or {})}
        for how in self.settings["rescalings"]:
            fitted = rescaled(depth, truth, how, known, farthest)
            if farthest:
                fitted = fitted.clamp(max=farthest)
            for group, mask in masks.items():
                self._count((method, group, how), measure(fitted, truth, known & mask))

    def refuse(self, method: str, note: str) -> None:
        """A method that cannot read some stack: its rows have the note and no figures."""
        self.notes[method] = note
        for how in self.settings["rescalings"]:
            self._count((method, "all", how), PictureSums() if self.settings["per_picture"] else ErrorSums())

    def _count(self, key: tuple[str, str, str], more: Any) -> None:
        self.sums[key] = self.sums[key] + more if key in self.sums else more

    def __add__(self, other: Scoreboard) -> Scoreboard:
        if self.settings != other.settings:
            raise ValueError(f"scoreboards of different settings do not add: {self.settings} and {other.settings}")
        total = Scoreboard(**self.settings)
        for key, sums in itertools.chain(self.sums.items(), other.sums.items()):
            total._count(key, sums)
        total.notes = {**self.notes, **other.notes}
        return total

    def rows(self) -> list[dict[str, Any]]:
        """A row of errors for every method, group and rescaling, for a result file."""
        return [
            {"method": method, "group": group, "rescaling": how, **figures_of(sums, self.notes.get(method))}
            for (method, group, how), sums in self.sums.items()
        ]
