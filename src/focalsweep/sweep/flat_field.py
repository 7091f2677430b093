"""Field curvature from something flat: a plane of inverse depth, and what departs from it alike all around the axis.

Seen through a pinhole the inverse depth of a plane is linear in the picture, however it is tilted. So of a stack of
something flat a field's curvature is what is left: u = a + b x + c y + curvature(r), with one curvature for all stacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from focalsweep.optics.profile import Curvature, Measured

Array = npt.NDArray[np.float64]
KNOTS = 10  # of the curvature, in equal steps of the square of the radius
BEND = 0.02  # of the range of focus: what the slope of the curvature may change from knot to knot
ALIKE = 1 / 1000  # of a picture errs alike: what the network says is smooth
LEAST_NOISE = 0.003  # of the range of focus
TOLERANCE = 0.03  # of the range of focus: how far from a plane something flat may come out
WIDE = 3.0  # times the tolerance, to begin with
ROUNDS = 25
HYPOTHESES, SAMPLE = 600, 3000
MOST_PIXELS = 40_000  # of a stack
LEAST_AT_RIM = 0.02  # of the weight that a knot has on average: with less the curvature ends before it
ROBUST = 1.4826  # times the median absolute value: the standard deviation, of a normal distribution


@dataclass(frozen=True, eq=False)
class Seen:
    """What a stack shows at its textured, confident pixels.

    Args:
        right, down: metres on the sensor from the optical axis.
        inverse_depth: apparent, 1/m.
        block: the number of the part of the picture that each pixel lies in: pixels of one err alike.
        focus_range: from the farthest to the nearest focus, 1/m.
        marked: whether all of it is said to be flat.
    """

    right: Array
    down: Array
    inverse_depth: Array
    block: npt.NDArray[np.int64]
    focus_range: float
    marked: bool = False

    @property
    def radius(self) -> Array:
        return np.hypot(self.right, self.down)

    def thinned(self) -> Seen:
        """Every n-th pixel of more than MOST_PIXELS."""
        step = -(-len(self.right) // MOST_PIXELS)
        arrays = {name: getattr(self, name)[::step] for name in ("right", "down", "inverse_depth", "block")}
        return replace(self, **arrays)


@dataclass(frozen=True, eq=False)
class FlatField:
    """What was found.

    Args:
        curvature: of the field.
        planes: of each stack: inverse depth on the axis (1/m), and its slopes to the right and down (1/m each metre).
        on_axis: that inverse depth with its standard deviation.
        flat: of each stack, of its pixels: the share that lies on the plane, once the curvature is taken out.
        spread: 1/m, how far those lie from it: 1.4826 times the median.
    """

    curvature: Curvature
    planes: tuple[Array, ...]
    on_axis: tuple[Measured, ...]
    flat: tuple[float, ...]
    spread: tuple[float, ...]

    def departure(self, number: int, seen: Seen) -> Array:
        """Of each pixel of a stack from its plane, the curvature still in it, 1/m."""
        a, b, c = self.planes[number]
        result: Array = seen.inverse_depth - (a + b * seen.right + c * seen.down)
        return result


def fit_flat_field(stacks: Sequence[Seen], seed: int = 0) -> FlatField:
    """Planes of all stacks and the one curvature of their lens, by robust least squares.

    What is not flat is left out: each stack begins with the plane that most of its pixels lie near, and takes in what
    goes on from there. A prior holds the curvature smooth where nothing is seen. Its error bar is the larger of the
    prior's and the jackknife's over blocks of the picture, and what flat things depart from flat for other reasons.
    """
    stacks = [seen.thinned() for seen in stacks]
    reach = max(float(np.quantile(seen.radius, 0.999)) for seen in stacks)
    knots = reach * np.sqrt(np.arange(1, KNOTS + 1) / KNOTS)
    bases = [_basis(seen, knots, reach) for seen in stacks]
    weights = [_near_best_plane(seen, reach, seed) for seen in stacks]
    noise = [TOLERANCE * seen.focus_range for seen in stacks]
    solution = np.zeros(3 * len(stacks) + KNOTS)
    for turn in range(ROUNDS):
        solution, _ = _solve(*_normal(stacks, bases, _precision(weights, noise)), stacks)
        width = max(1.0, WIDE * (1 - 2 * turn / ROUNDS))
        for number, (seen, basis) in enumerate(zip(stacks, bases, strict=True)):
            away = seen.inverse_depth - _predicted(number, basis, solution)
            scale = width * _tolerance(seen, away)
            weights[number] = 1 / (1 + (away / scale) ** 2) ** 2  # Geman and McClure's
            noise[number] = max(_spread(away[np.abs(away) < scale]), LEAST_NOISE * seen.focus_range)
    # The prior alone says what lies beyond the last knot that enough is seen of.
    seen_of = sum((weight[:, None] * basis[:, 3:]).sum(0) for weight, basis in zip(weights, bases, strict=True))
    enough = np.nonzero(seen_of > LEAST_AT_RIM * seen_of.mean())[0]
    last = int(enough.max()) + 1 if len(enough) else KNOTS
    precision = _precision(weights, noise)
    solution, std = _solve(*_normal(stacks, bases, precision), stacks)
    std = np.maximum(std, _jackknife(stacks, bases, precision))
    first = 3 * len(stacks)
    planes, shares, spreads = [], [], []
    for number, (seen, basis) in enumerate(zip(stacks, bases, strict=True)):
        away = np.abs(seen.inverse_depth - _predicted(number, basis, solution))
        on = away < TOLERANCE * seen.focus_range
        shares.append(float(on.mean()))
        spreads.append(_spread(away[on]))
        planes.append(solution[3 * number : 3 * number + 3] / [1.0, reach, reach])
    axis = tuple(Measured(float(solution[3 * n]), float(std[3 * n])) for n in range(len(stacks)))
    table = (knots, solution[first:], np.hypot(std[first:], np.mean(spreads)))
    radii, dioptres, errors = (tuple(values[:last].tolist()) for values in table)
    return FlatField(Curvature(radii, dioptres, errors), tuple(planes), axis, tuple(shares), tuple(spreads))


def _basis(seen: Seen, knots: Array, reach: float) -> Array:  # N 3 + K
    square, at = np.minimum(seen.radius, reach) ** 2, np.r_[0.0, knots**2]
    hats = [np.interp(square, at, one) for one in np.eye(len(at))[1:]]
    return np.stack([np.ones_like(square), seen.right / reach, seen.down / reach, *hats], 1)


def _predicted(number: int, basis: Array, solution: Array) -> Array:
    own = np.r_[solution[3 * number : 3 * number + 3], solution[-KNOTS:]]
    result: Array = basis @ own
    return result


def _spread(away: Array) -> float:
    return ROBUST * float(np.median(np.abs(away))) if len(away) else np.inf


def _tolerance(seen: Seen, away: Array) -> float:
    """How far a pixel may lie from the model; of something marked as flat as far as half of it does."""
    least = TOLERANCE * seen.focus_range
    return max(least, _spread(away)) if seen.marked else least


def _near_best_plane(seen: Seen, reach: float, seed: int) -> Array:
    """1 for the pixels near the plane that most lie near (a random sample consensus), else 0; 1 for what is marked."""
    if seen.marked:
        return np.ones_like(seen.right)
    random = np.random.default_rng(seed)
    points = np.stack([np.ones_like(seen.right), seen.right / reach, seen.down / reach], 1)
    some = random.choice(len(points), min(SAMPLE, len(points)), replace=False)
    threes = random.choice(some, (HYPOTHESES, 3))
    corners = points[threes]
    sound = np.abs(np.linalg.det(corners)) > 0.02  # three points in a line, or next to each other, say little
    if not sound.any():
        return np.ones_like(seen.right)
    planes = np.linalg.solve(corners[sound], seen.inverse_depth[threes][sound][..., None])[..., 0]
    near = np.abs(seen.inverse_depth[some] - planes @ points[some].T) < TOLERANCE * seen.focus_range
    best = planes[near.sum(1).argmax()]
    result: Array = (np.abs(seen.inverse_depth - points @ best) < TOLERANCE * seen.focus_range).astype(float)
    return result


def _precision(weights: Sequence[Array], noise: Sequence[float]) -> list[Array]:
    """How much each pixel says, those counted once that err alike."""
    return [weight / (max(1.0, ALIKE * len(weight)) * std**2) for weight, std in zip(weights, noise, strict=True)]


def _normal(stacks: Sequence[Seen], bases: Sequence[Array], precision: Sequence[Array]) -> tuple[Array, Array]:
    """Matrix and right side of the least squares."""
    size = 3 * len(stacks) + KNOTS
    matrix, side = np.zeros((size, size)), np.zeros(size)
    for number, (seen, basis, weight) in enumerate(zip(stacks, bases, precision, strict=True)):
        own = [*range(3 * number, 3 * number + 3), *range(size - KNOTS, size)]
        scaled = basis * weight[:, None]
        matrix[np.ix_(own, own)] += scaled.T @ basis
        side[own] += scaled.T @ seen.inverse_depth
    return matrix, side


def _solve(matrix: Array, side: Array, stacks: Sequence[Seen]) -> tuple[Array, Array]:
    """The least squares under the prior, and the standard deviation that it leaves."""
    bends = np.diff(np.eye(KNOTS + 1), 2, axis=0)[:, 1:]  # on the axis it is 0
    bends = np.r_[bends, 0.1 * np.eye(KNOTS)[:1]]  # and a field as flat as the rest allows
    prior = matrix.copy()
    least = BEND * min(seen.focus_range for seen in stacks)
    prior[-KNOTS:, -KNOTS:] += bends.T @ bends / least**2
    covariance = np.linalg.pinv(prior, hermitian=True)
    return covariance @ side, np.sqrt(np.diag(covariance))


def _jackknife(stacks: Sequence[Seen], bases: Sequence[Array], precision: Sequence[Array]) -> Array:
    """The standard deviation by leaving out one block of one picture at a time."""
    matrix, side = _normal(stacks, bases, precision)
    answers = []
    for number, seen in enumerate(stacks):
        for block in np.unique(seen.block):
            inside = seen.block == block
            alone = [np.where(inside, weight, 0.0) if n == number else 0 * weight for n, weight in enumerate(precision)]
            without = _normal(stacks, bases, alone)
            answers.append(_solve(matrix - without[0], side - without[1], stacks)[0])
    spread = np.std(answers, axis=0)
    result: Array = np.sqrt(max(len(answers) - 1, 1)) * spread
    return result
