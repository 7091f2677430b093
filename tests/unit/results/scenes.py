"""Results of scenes whose geometry is known in closed form."""

from typing import Any

import numpy as np

from focalsweep import Camera, DepthGrid, DepthResult

FOCAL_PX = 100.0  # 50 mm over 0.5 mm a pixel


def scene(inverse_depth: np.ndarray, **changes: Any) -> DepthResult:
    """A result with this inverse depth (H W, dioptres), sure of itself, in front of a lens of 100 px."""
    with np.errstate(divide="ignore"):
        depth = (1 / inverse_depth).astype(np.float32)
    height, width = depth.shape
    red, green = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    fields: dict[str, Any] = {
        "depth": depth,
        "std": np.where(np.isfinite(depth), 0.001 * depth, np.inf).astype(np.float32),
        "confidence": np.ones_like(depth),
        "all_in_focus": np.stack([red, green, 0.25 * np.ones_like(red)], -1).astype(np.float32),
        "camera": Camera(0.05, 2.8, 0.05 / FOCAL_PX),
        "planes": DepthGrid.uniform_in_inverse_depth(0.25, 100.0, 8),
    }
    return DepthResult(**{**fields, **changes})


def tilted(height: int, width: int, normal: tuple[float, float, float], offset: float) -> np.ndarray:
    """Inverse depth of the plane normal . point = offset, by intersecting each pixel's ray with it."""
    x = (np.arange(width) + 0.5 - width / 2) / FOCAL_PX
    y = (np.arange(height) + 0.5 - height / 2) / FOCAL_PX
    return (normal[0] * x + normal[1] * y[:, None] + normal[2]) / offset


def stepped(height: int, width: int, column: int, near: float = 1.0, far: float = 1.3) -> np.ndarray:
    """Inverse depth of two planes that face the camera: near left of `column`, far from there on."""
    return np.where(np.arange(width) < column, 1 / near, 1 / far) * np.ones((height, 1))
