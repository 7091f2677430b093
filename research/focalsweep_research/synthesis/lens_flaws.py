"""What lenses and hands do that the thin lens does not: frames side by side, curved fields, pupils cut by a rim."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from focalsweep_research.synthesis.tracer import Lenses

Array = npt.NDArray[np.float64]
Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class LensFlaws:
    """Of one stack.

    Args:
        shift_px: F 2, what registration left of each frame's motion.
        parallax_px: F 2, how far the lens moved, told as the motion of the nearest against the farthest.
        curvature: what the focus is off in the corners, as a share of the range of inverse depth.
        cat_eye: how far the second rim of the lens has moved in the corners, in radii.
    """

    shift_px: Array
    parallax_px: Array
    curvature: float
    cat_eye: float


def draw_lens_flaws(rng: Rng, frames: int) -> LensFlaws:
    """Each of them in a third of the stacks or so."""
    has = rng.random(4) < (0.5, 0.25, 0.35, 0.35)
    shift_px = np.exp(rng.uniform(np.log(0.05), np.log(0.8))) * rng.standard_normal((frames, 2))
    parallax_px = rng.uniform(0.1, 0.7) * rng.standard_normal((frames, 2))
    return LensFlaws(
        np.clip(shift_px, -2, 2) * has[0],
        np.clip(parallax_px, -2, 2) * has[1],
        float(rng.uniform(-0.12, 0.12) * has[2]),
        float(rng.uniform(0.1, 0.7) * has[3]),
    )


def flawed(
    lenses: Lenses,
    flaws: list[LensFlaws],
    ends: list[tuple[float, float]],  # inverse depths in sight of each stack, far and near
    sides_px: list[float],  # of the whole pictures at this scale
    reductions: list[float],  # of pictures that were made small: flaws in pixels are smaller by that
) -> Lenses:
    """The lenses with these flaws; what is at the middle of the range stays where it is when a lens moves."""
    shift_px = np.stack([flaw.shift_px / by for flaw, by in zip(flaws, reductions, strict=True)])
    parallax_px = np.stack([flaw.parallax_px / by for flaw, by in zip(flaws, reductions, strict=True)])
    far, near = (np.array([end[i] for end in ends]) for i in (0, 1))
    span = np.maximum(near - far, 0.05 * near)
    metres_a_px = 1 / (lenses.focal_px.double().numpy() * span)
    middle = (near + far) / 2 / span
    values = {
        "shift_px": shift_px - parallax_px * middle[:, None, None],
        "sway": -parallax_px * metres_a_px[:, None, None],
        "curvature": np.array([flaw.curvature for flaw in flaws]) * span,
        "cat_eye": np.array([flaw.cat_eye for flaw in flaws]),
        "corner_px": np.array(sides_px) * np.sqrt(0.5),
    }
    return replace(lenses, **{name: torch.from_numpy(value.astype(np.float32)) for name, value in values.items()})
