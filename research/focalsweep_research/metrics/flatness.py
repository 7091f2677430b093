"""How flat an estimate is where the scene is flat, and whether the tiles of a large picture meet.

Seen through a pinhole, the inverse depth of a plane is linear in the picture, u = a + b x + c y, however it is tilted:
what departs from the best such u is an error, without any true depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

BAND_PX, SEGMENT_PX = 8, 32  # of what is compared to either side of a line
ROBUST = 1.4826  # times the median absolute value: the standard deviation, of a normal distribution
ROUNDS = 20
MOST_PIXELS = 100_000  # of a fit: every n-th pixel of more


@dataclass(frozen=True)
class Flatness:
    """Of one region. Departures are of inverse depth (1/m, or without a unit).

    Args:
        pixels: how many it has.
        depth: median.
        rms: root of the mean square of the departure from the plane of least squares.
        robust: 1.4826 times the median departure from the plane of least absolute departure.
        spread: from the 10th to the 90th percentile of the departure from that plane.
        bar: root of the mean square of the error bar, of inverse depth too.
        of_std: `rms` over `bar`.
        off_2_std: share of pixels that lie off the second plane by more than two error bars.
    """

    pixels: int
    depth: float
    rms: float
    robust: float
    spread: float
    bar: float
    of_std: float
    off_2_std: float


def flatness(
    depth: Tensor,  # H W
    std: Tensor,  # H W
    region: Tensor,  # H W, bool
) -> Flatness:
    """The departure of a region from a plane."""
    if not bool(region.any()):
        raise ValueError("a region needs pixels, but has none: is it outside of the picture?")
    rows, columns = region.nonzero().T
    step = -(-len(rows) // MOST_PIXELS)
    rows, columns = rows[::step], columns[::step]
    inverse, bar = inverse_bars(depth[rows, columns], std[rows, columns])
    least_squares, robust = fit_planes(rows, columns, inverse)
    rms, expected = (float(values.square().mean().sqrt()) for values in (inverse - least_squares, bar))
    away = inverse - robust
    low, high = (float(away.quantile(share)) for share in (0.1, 0.9))
    return Flatness(
        pixels=int(region.sum()),
        depth=float(depth[region].median()),
        rms=rms,
        robust=ROBUST * float(away.abs().median()),
        spread=high - low,
        bar=expected,
        of_std=rms / max(expected, 1e-12),
        off_2_std=float((away.abs() > 2 * bar).double().mean()),
    )


def inverse_bars(depth: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse depth and its standard deviation, double; at infinity, where std has no meaning, the latter is 0."""
    inverse = 1 / depth.double()
    return inverse, (std.double() * inverse.square()).nan_to_num(nan=0.0, posinf=0.0)


def fit_planes(rows: Tensor, columns: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """At these pixels: the plane of least squares, and that of least absolute departure (reweighted squares)."""
    centred = [
        (axis.double() - axis.double().mean()) / max(float(axis.max() - axis.min()), 1.0) for axis in (rows, columns)
    ]
    basis = torch.stack([torch.ones_like(centred[0]), *centred], 1)
    weight = torch.ones_like(values)
    fits = []
    for _ in range(ROUNDS):
        root = weight.sqrt()[:, None]
        solution = torch.linalg.lstsq(root * basis, root * values[:, None], driver="gelsd").solution
        fits.append((basis @ solution)[:, 0])
        away = (values - fits[-1]).abs()
        weight = 1 / away.clamp_min(max(1e-3 * float(away.mean()), 1e-12))
    return fits[0], fits[-1]


@dataclass(frozen=True)
class Seams:
    """Median size of a step of inverse depth across lines: the borders of tiles, and lines where none is."""

    at_borders: float
    elsewhere: float

    @property
    def ratio(self) -> float:
        """1 where tiles meet as anything else does."""
        return self.at_borders / max(self.elsewhere, 1e-12)


def seams(
    depth: Tensor,  # H W
    rows: Sequence[int],  # the first row of every tile but the uppermost
    columns: Sequence[int],
) -> Seams | None:
    """How tiles meet; None for a picture of one tile.

    A step is how far bands of BAND_PX to either side lie apart, less what they rise anyway, in segments of SEGMENT_PX.
    """
    inverse = 1 / depth.double()
    at, elsewhere = [], []
    for maps, borders in ((inverse, columns), (inverse.T, rows)):
        length = maps.shape[1]
        if not borders:
            continue
        at += [steps_across(maps, line) for line in borders]
        lines = range(2 * BAND_PX, length - 2 * BAND_PX + 1, BAND_PX)
        far = [line for line in lines if min(abs(line - border) for border in borders) >= 4 * BAND_PX]
        elsewhere += [steps_across(maps, line) for line in far]
    if not at or not elsewhere:
        return None
    return Seams(*(float(torch.cat(steps).median()) for steps in (at, elsewhere)))


def steps_across(maps: Tensor, column: int) -> Tensor:
    """Of each segment of rows: the size of the step between the pixels left of a column and those from it on."""
    bands = maps[:, column - 2 * BAND_PX : column + 2 * BAND_PX].reshape(-1, 4, BAND_PX).mean(2)
    rows = min(SEGMENT_PX, len(bands))
    bands = bands[: len(bands) // rows * rows].reshape(-1, rows, 4).mean(1)
    left, before, after, right = bands.unbind(1)
    rise: Tensor = (before - left + right - after) / 2
    return (after - before - rise).abs()
