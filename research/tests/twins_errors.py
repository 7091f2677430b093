"""Errors of depth and of confidence in loops, one picture at a time: slow, and read at a glance."""

import math
from typing import Any

import numpy as np

from focalsweep_research.metrics.errors import METRICS


def picture_errors(depth: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Errors of one picture, pixel by pixel."""
    pairs = [(float(d), float(t)) for d, t in zip(depth.ravel(), truth.ravel(), strict=True) if 0 < t < math.inf]
    n = len(pairs)
    logs = [math.log(d) - math.log(t) for d, t in pairs]
    worst = [max(d / t, t / d) for d, t in pairs]
    deltas = {"delta_1.05": 1.05, "delta_1.25": 1.25, "delta_1.25^2": 1.5625, "delta_1.25^3": 1.953125}
    return {
        "mae": sum(abs(d - t) for d, t in pairs) / n,
        "rmse": math.sqrt(sum((d - t) ** 2 for d, t in pairs) / n),
        "abs_rel": sum(abs(d - t) / t for d, t in pairs) / n,
        **{name: sum(w < limit for w in worst) / n for name, limit in deltas.items()},
        "sc_inv": float(np.std(logs)),
        "ssitrim": trimmed([1 / d for d, _ in pairs], [1 / t for _, t in pairs]),
        "pixels": n,
    }


def trimmed(a: list[float], b: list[float]) -> float:
    """Ranftl 2020, Eqs. 5 to 7."""

    def normalised(values: list[float]) -> np.ndarray:
        shift = np.median(values)
        return (np.array(values) - shift) / np.mean(np.abs(np.array(values) - shift))

    residuals = sorted(np.abs(normalised(a) - normalised(b)).tolist())
    return sum(residuals[: int(len(a) * 4 / 5)]) / (2 * len(a))


def mean_of_pictures(depth: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    rows = [picture_errors(d, t) for d, t in zip(depth, truth, strict=True) if ((t > 0) & np.isfinite(t)).any()]
    return {name: float(np.mean([row[name] for row in rows])) for name in METRICS}


def median_rescaled(depth: np.ndarray, truth: np.ndarray) -> np.ndarray:
    known = (truth > 0) & np.isfinite(truth)
    return depth / np.median(depth[known] / truth[known])


def affine_rescaled(depth: np.ndarray, truth: np.ndarray, farthest: float | None = None) -> np.ndarray:
    """By NumPy's own least squares."""
    known = (truth > 0) & np.isfinite(truth)
    system = np.stack([1 / depth[known], np.ones(known.sum())], 1)
    scale, shift = np.linalg.lstsq(system, 1 / truth[known], rcond=None)[0]
    limit = farthest or truth[known].max()
    inverse = scale / depth + shift
    return np.array([[1 / u if u > 1 / limit else limit for u in row] for row in inverse])


def sparsification_curve(errors: np.ndarray, by: np.ndarray, steps: int, root: bool) -> list[float]:
    """The mean error of what remains as the largest `by` go, k / steps of them; no two of `by` are equal."""
    order = sorted(range(len(errors)), key=lambda i: by[i])
    curve = []
    for k in range(steps):
        remaining = [float(errors[i]) for i in order[: len(errors) - len(errors) * k // steps]]
        curve.append(math.sqrt(np.mean(np.square(remaining))) if root else float(np.mean(remaining)))
    return [*curve, 0.0]


def reliability(confidence: np.ndarray, hit: np.ndarray, bins: int) -> list[tuple[float, float, int]]:
    """By bin that has pixels: mean confidence, share of hits, pixels."""
    found: dict[int, list[Any]] = {}
    for c, h in zip(confidence.tolist(), hit.tolist(), strict=True):
        found.setdefault(min(int(c * bins), bins - 1), []).append((c, h))
    return [
        (float(np.mean([c for c, _ in found[k]])), float(np.mean([h for _, h in found[k]])), len(found[k]))
        for k in sorted(found)
    ]
