"""Slow, readable twins of what the networks do beside convolutions: NumPy, float64, explicit loops.

Nothing is imported from the package under test. Axes: D depth plane, H, W; no batch.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sample(plane: Array, row: float, column: float) -> float:
    """A picture (H W) between its pixels, bilinear; a place beyond the border is moved onto it."""
    height, width = plane.shape
    row, column = min(max(row, 0.0), height - 1.0), min(max(column, 0.0), width - 1.0)
    top, left = math.floor(row), math.floor(column)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = row - top, column - left
    upper = (1 - across) * plane[top, left] + across * plane[top, right]
    lower = (1 - across) * plane[bottom, left] + across * plane[bottom, right]
    return float((1 - down) * upper + down * lower)


def aggregate(volume: Array, offsets: Array, weights: Array, dilation: int) -> Array:
    """Eq. 10: volume D H W; offsets 9 2 H W, (rows, columns) in pixels, the centre's unused; weights 9 H W."""
    planes, height, width = volume.shape
    out = np.zeros((planes, height, width))
    for d in range(planes):
        for row in range(height):
            for column in range(width):
                neighbour = 0
                for v in (-1, 0, 1):
                    for u in (-1, 0, 1):
                        dv, du = (0.0, 0.0) if v == u == 0 else offsets[neighbour, :, row, column]
                        value = sample(volume[d], row + v * dilation + dv, column + u * dilation + du)
                        out[d, row, column] += weights[neighbour, row, column] * value
                        neighbour += 1
    return out


def moments(probabilities: Array, values: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (H W) of finite values (D) under probabilities (D H W): Eq. 11."""
    _, height, width = probabilities.shape
    mean, std = np.zeros((height, width)), np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            p = probabilities[:, row, column]
            mean[row, column] = sum(p[i] * values[i] for i in range(len(values)))
            variance = sum(p[i] * (values[i] - mean[row, column]) ** 2 for i in range(len(values)))
            std[row, column] = math.sqrt(variance)
    return mean, std


def confidence(probabilities: Array, values: Array, estimate: Array) -> Array:
    """The probability (H W) of the plane whose value is nearest to the estimate, and of its two neighbours."""
    planes, height, width = probabilities.shape
    out = np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            distances = [abs(value - estimate[row, column]) for value in values]
            nearest = distances.index(min(distances))
            for i in range(max(nearest - 1, 0), min(nearest + 2, planes)):
                out[row, column] += probabilities[i, row, column]
    return out
