"""How well the lowest cost alone finds depth, written to a JSON file:

    python research/scripts/recovery.py OUT.json

Planes: fronto-parallel 1/f textures at six depths for three cameras, noise 0.005 (see tests/rendering.py). Rendered
finely and averaged by sensor pixels, and once more with kernels sampled on the pixels themselves.
Demo: the ray-traced stack that ships in the package, with occlusions and a textureless object.
"""

import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from focalsweep import DepthGrid, Disk, PaperCost, ReblurCost, cost_volume, estimate_depth, load_stack
from focalsweep.optics.psf import Sampled
from focalsweep.photos.demo import DEMO_STACK
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.sweep.argmin import find_minimum
from focalsweep_research.environment import describe
from tests.rendering import RIGS, render_plane

Cost = PaperCost | ReblurCost
TRUE_PLANES = (6, 14, 22, 32, 42, 52)
SIZE = 128


def plane_errors(rig: str, cost: Cost, oversampling: int, noise_std: float = 0.005) -> torch.Tensor:
    """Distance in planes between the lowest cost and the truth, at the textured pixels of all true planes."""
    grid = DepthGrid.around(render_plane(rig, 1.0, size=24).stack)
    errors = []
    for plane in TRUE_PLANES:
        scene = render_plane(
            rig, grid.depths[plane].item(), size=SIZE, noise_std=noise_std, seed=plane, oversampling=oversampling
        )
        lowest = cost_volume(scene.stack, grid, cost).argmin(0)
        errors.append((lowest - plane).abs()[scene.textured].float())
    return torch.cat(errors)


def plane_rows() -> list[dict[str, Any]]:
    cases: list[tuple[str, Cost, int, float]] = [
        ("paper", PaperCost(), 3, 0.005),
        ("reblur", ReblurCost(), 3, 0.005),
        ("reblur, noise 0.015", ReblurCost(), 3, 0.015),
        ("reblur, tight prior, noise 0.015", ReblurCost(prior_looseness=1.0), 3, 0.015),
        (
            "reblur, tight prior, log determinant, noise 0.015",
            ReblurCost(prior_looseness=1.0, log_determinant=True),
            3,
            0.015,
        ),
        ("paper, kernels on pixels", PaperCost(), 1, 0.005),
        ("reblur, kernels on pixels", ReblurCost(), 1, 0.005),
        ("reblur with Sampled(Disk()), kernels on pixels", ReblurCost(psf=Sampled(Disk())), 1, 0.005),
    ]
    rows = []
    for name, cost, oversampling, noise_std in cases:
        for rig in RIGS:
            errors = plane_errors(rig, cost, oversampling, noise_std)
            within = (errors <= 2).float().mean().item()
            rows.append({"case": name, "camera": rig, "within_2_planes": within, "mean_planes": errors.mean().item()})
            print(f"{name}, {rig}: {within:.1%} within 2 planes, mean error {errors.mean():.3f} planes", flush=True)
    return rows


def demo_rows() -> list[dict[str, Any]]:
    stack = load_stack(DEMO_STACK)
    grid = DepthGrid.around(stack)
    steps = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED)
    truth = torch.from_numpy(1 / (np.asarray(steps, dtype=np.float64) * 1e-4))
    span = (grid.inverse_depths[0] - grid.inverse_depths[-1]).item()
    cases: dict[str, Cost] = {
        "paper": PaperCost(),
        "reblur, window 1.5 px": ReblurCost(squash=False, window_sigma_px=1.5),
        "reblur, window 2 px (the default)": ReblurCost(squash=False),
        "reblur, window 3 px": ReblurCost(squash=False, window_sigma_px=3.0),
        "reblur, tight prior": ReblurCost(squash=False, prior_looseness=1.0),
        "reblur, tight prior, log determinant": ReblurCost(squash=False, prior_looseness=1.0, log_determinant=True),
    }
    rows = []
    for name, cost in cases.items():
        volume = cost_volume(stack, grid, cost)[None]
        error = (find_minimum(volume, grid.inverse_depths[None]).inverse_depth[0] - truth).abs() / span
        rows.append(
            {
                "case": name,
                "mean": error.mean().item(),
                "median": error.median().item(),
                "within_0.05": (error < 0.05).double().mean().item(),
            }
        )
        print(name, rows[-1], flush=True)
    return rows


def error_bars() -> dict[str, Any]:
    """Shares of pixels within one and two of the std that `estimate_depth` gives."""
    stack = load_stack(DEMO_STACK)
    steps = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED)
    result = estimate_depth(stack)
    demo = np.abs(result.depth - np.asarray(steps, dtype=np.float64) * 1e-4) / result.std
    scores = []
    for rig in RIGS:
        grid = DepthGrid.around(render_plane(rig, 1.0, size=24).stack)
        for plane in TRUE_PLANES:
            scene = render_plane(rig, grid.depths[plane].item(), size=SIZE, seed=plane)
            found = estimate_depth(scene.stack, planes=grid)
            scores.append((np.abs(found.depth - scene.depth) / found.std)[scene.textured.numpy()])
    planes = np.concatenate(scores)
    return {
        name: {"within_1_std": float((z < 1).mean()), "within_2_std": float((z < 2).mean())}
        for name, z in (("demo", demo), ("planes", planes))
    }


def main(target: str) -> None:
    record = {
        "benchmark": "recovery",
        **describe(torch.device("cpu"), seed=0),
        "planes": plane_rows(),
        "demo": demo_rows(),
        "error_bars": error_bars(),
    }
    print(record["error_bars"])
    write_files({Path(target): lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main(sys.argv[1])
