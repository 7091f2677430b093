"""Depth that was found on small pictures, back at full size along the edges of the full-size picture.

Joint bilateral upsampling in inverse depth, with planes for values. Each of the 4 x 4 coarse pixels around a full-size
one says where its own surface would pass there, by its value and its slope. They are averaged with weights that fall
with the distance (a cubic B-spline), with the difference in colour, and with doubt: a coarse pixel of several colours
may stand on an edge and mix two depths. A plane is therefore kept whatever the picture shows, and a depth edge goes
where the colour changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb
from focalsweep.progress import Progress
from focalsweep.validation import check_shape

COLOUR_STD = 0.05  # of the sRGB range: a smaller difference is one surface's texture
LEAST_COLOUR_WEIGHT = 1e-3  # where no neighbour has the pixel's colour, the distance decides
LEAST_CONFIDENCE_WEIGHT = 0.02
PIXELS_A_BAND = 2**16  # some twenty maps of a band stay in a core's cache
OFFSETS = (-1, 0, 1, 2)  # of the coarse pixels along an axis, from the last one before the full-size pixel


class FullSizeMaps(NamedTuple):
    """Three maps, H W."""

    depth: Tensor  # metres; infinity is allowed
    std: Tensor  # metres, one standard deviation
    confidence: Tensor  # 0 to 1


class Axis(NamedTuple):
    """Where the N full-size pixels along an axis lie among the coarse ones: 4 N each."""

    indices: Tensor  # of the coarse neighbours
    offsets: Tensor  # in coarse pixels, from the neighbour to the pixel
    weights: Tensor  # of the cubic B-spline


def upsample_guided(
    depth: Tensor,  # h w, metres; infinity is allowed
    std: Tensor,  # h w, metres
    confidence: Tensor,  # h w, 0..1
    guide_small: Tensor,  # h w C, linear light: the picture that the depth belongs to
    guide_full: Tensor,  # H W C, linear light
    progress: Progress | None = None,
) -> FullSizeMaps:
    """Depth, its std and confidence at the size of `guide_full`, on its device.

    Depth lies within the least and the greatest of the 4 x 4 coarse neighbours, so nothing overshoots (and a slope does
    not go on beyond the outermost coarse centres). Where neighbours of the same colour disagree, the std grows by their
    spread. Works in bands of rows: beside the three results it takes some twenty maps of the coarse size.
    """
    check_shape("depth", depth, "H W")
    height, width = depth.shape
    check_shape("std", std, "H W", H=height, W=width)
    check_shape("confidence", confidence, "H W", H=height, W=width)
    check_shape("guide_small", guide_small, "H W C", H=height, W=width)
    check_shape("guide_full", guide_full, "H W C", C=guide_small.shape[-1])
    rows, columns = guide_full.shape[:2]
    if rows < height or columns < width:
        raise ValueError(f"guide_full of {rows} x {columns} px is smaller than the depth of {height} x {width} px")
    if not bool((depth > 0).all()):
        raise ValueError("depth must be positive everywhere to be brought to full size: it has zero, negative or NaN")
    guide_full = guide_full.float()
    device = guide_full.device
    colours = linear_to_srgb(guide_small.to(guide_full).movedim(-1, 0))
    trust = (confidence.to(guide_full) + LEAST_CONFIDENCE_WEIGHT) / (1 + _mixture(colours, guide_full) / COLOUR_STD**2)
    maps = _coarse_maps(depth.to(guide_full), std.to(guide_full), confidence.to(guide_full))
    small = torch.cat([maps, trust[None], colours])
    down, across = _axis(height, rows, device), _axis(width, columns, device)
    full = torch.empty((3, rows, columns), device=device)
    for band, picture in _bands(guide_full):
        part = Axis(*(values[:, band] for values in down))
        full[:, band] = _upsample_band(small, picture, part, across)
        if progress:
            progress("full size", band.stop / rows)
    return FullSizeMaps(*full)


def _bands(guide: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows of a picture H W C, and its sRGB values there as C rows W."""
    rows, columns = guide.shape[:2]
    step = max(1, PIXELS_A_BAND // columns)
    for top in range(0, rows, step):
        band = slice(top, min(rows, top + step))
        yield band, linear_to_srgb(guide[band].movedim(-1, 0)).contiguous()


def _mixture(
    colours: Tensor,  # C h w, sRGB
    guide_full: Tensor,  # H W C
) -> Tensor:  # h w
    """Mean squared distance in colour of the full-size pixels from the coarse one that they lie in."""
    height, width = colours.shape[1:]
    row = torch.arange(guide_full.shape[0], device=colours.device) * height // guide_full.shape[0]
    column = torch.arange(guide_full.shape[1], device=colours.device) * width // guide_full.shape[1]
    by_row = colours.new_zeros((height, len(column)))
    for band, picture in _bands(guide_full):
        near = colours[:, int(row[band][0]) : int(row[band][-1]) + 1].index_select(2, column)
        squares = near.index_select(1, row[band] - row[band][0]).sub_(picture).square_().sum(0)
        by_row.index_add_(0, row[band], squares)
    total = colours.new_zeros((width, height)).index_add_(0, column, by_row.T.contiguous()).T
    return total / (row.bincount(minlength=height)[:, None] * column.bincount(minlength=width))


def _coarse_maps(depth: Tensor, std: Tensor, confidence: Tensor) -> Tensor:
    """What a neighbour says, stacked: inverse depth, its slopes down and across, its variance, confidence."""
    inverse = 1 / depth
    spread = std * inverse.square()  # of inverse depth
    known = torch.isfinite(spread)  # not where both are infinite
    typical = spread[known].median() if bool(known.any()) else spread.new_zeros(())
    variance = torch.where(known, spread, typical).square()
    return torch.stack([inverse, _limited_slope(inverse.T).T, _limited_slope(inverse), variance, confidence])


def _limited_slope(values: Tensor) -> Tensor:
    """Along the last axis: the lesser of the steps to both sides, 0 where they have opposite signs (minmod).

    So a plane has its slope, and a pixel beside a step has that of its own surface. At the border the next two steps
    inwards count.
    """
    if values.shape[-1] < 3:
        return torch.zeros_like(values)
    step = values.diff(dim=-1)
    before, after = torch.cat([step[:, 1:2], step], -1), torch.cat([step, step[:, -2:-1]], -1)
    lesser = torch.where(before.abs() < after.abs(), before, after)
    return torch.where(before * after > 0, lesser, 0.0)


def _axis(coarse: int, full: int, device: torch.device) -> Axis:
    """Pixel centres: full-size pixel i lies at (i + 1/2) coarse / full - 1/2 among the coarse ones."""
    position = (torch.arange(full, dtype=torch.float64) + 0.5) * (coarse / full) - 0.5
    neighbour = position.floor() + torch.tensor(OFFSETS, dtype=torch.float64)[:, None]
    distance = (position - neighbour).abs()
    near = 2 / 3 - distance.square() + distance**3 / 2
    far = (2 - distance).clamp_min(0) ** 3 / 6
    inside = neighbour.clamp(0, coarse - 1)
    return Axis(
        indices=inside.long().to(device),
        offsets=(position - inside).float().to(device),
        weights=torch.where(distance < 1, near, far).float().to(device),
    )


def _upsample_band(
    small: Tensor,  # maps h w
    colours: Tensor,  # C rows columns, sRGB
    down: Axis,
    across: Axis,
) -> Tensor:  # 3 rows columns
    first, last = int(down.indices.min()), int(down.indices.max()) + 1
    shape = colours.shape[-2:]
    total, value, square, sure = (colours.new_zeros(shape) for _ in range(4))
    lowest, highest = colours.new_full(shape, torch.inf), colours.new_full(shape, -torch.inf)
    origin = small[0, down.indices[1]][:, across.indices[1]]  # sums run over small differences from it
    for x_index, x_offset, x_weight in zip(*across, strict=True):
        columns = small[:, first:last].index_select(2, x_index)
        for y_index, y_offset, y_weight in zip(*down, strict=True):
            near = columns.index_select(1, y_index - first)
            inverse, slope_down, slope_across, variance, confidence, trust = near[:6]
            difference = (near[6:] - colours).square_().sum(0)
            weight = difference.mul_(-0.5 / COLOUR_STD**2).exp_().add_(LEAST_COLOUR_WEIGHT)
            weight.mul_(y_weight[:, None] * x_weight).mul_(trust)
            torch.minimum(lowest, inverse, out=lowest)
            torch.maximum(highest, inverse, out=highest)
            predicted = slope_down.mul_(y_offset[:, None]).add_(slope_across.mul_(x_offset)).add_(inverse).sub_(origin)
            total.add_(weight)
            value.addcmul_(weight, predicted)
            square.addcmul_(weight, predicted.square_().add_(variance))
            sure.addcmul_(weight, confidence)
    value.div_(total)
    variance = square.div_(total).sub_(value.square()).clamp_min_(0)
    inverse = torch.minimum(torch.maximum(value.add_(origin), lowest), highest)
    std = torch.where(inverse > 0, variance.sqrt() / inverse.square(), torch.inf)
    return torch.stack([1 / inverse, std, sure.div_(total).clamp_(0, 1)])
