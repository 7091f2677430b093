"""Figures of the documents that need neither a GPU nor a benchmark: each command prints its own.

    python examples/small_measurements.py colour                                # docs/network.md: one channel or three
    python examples/small_measurements.py solids                                # docs/network.md: what a tile can see
    python examples/small_measurements.py focus FOLDER                          # docs/photos.md: refined distances
    python examples/small_measurements.py beyond RESULT.json METHOD DEPTH       # docs/paper.md: errors far away

They need the research package (pip install ./research). RESULT.json is what `focalsweep evaluate` wrote.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalsweep import FocalStack, ReblurCost, cost_volume
from focalsweep.estimate import estimate
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.colour import project_to_dominant_colour
from focalsweep.sweep.volume import plane_position
from focalsweep_research.protocols.real import sharpness_agreement
from focalsweep_research.synthesis.cameras import draw_camera
from focalsweep_research.synthesis.culling import solids_in_reach
from focalsweep_research.synthesis.generator import draw_scenes, make_source
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.scenes import EMPTY
from focalsweep_research.synthesis.tracer import depth

STACKS, SIZE_PX, SEED, FRAMES, SCENES = 24, 128, 5, 5, 64


def colour() -> None:
    """Error of the lowest re-blur cost in planes, on generated stacks, by the channels that are swept."""
    channels: dict[str, Callable[[FocalStack], FocalStack]] = {
        "dominant colour": project_to_dominant_colour,
        "RGB": lambda stack: stack,
        "mean of R, G and B": lambda stack: stack.with_images(stack.images.mean(2, keepdim=True)),
        "green": lambda stack: stack.with_images(stack.images[:, :, 1:2]),
    }
    errors: dict[str, list[Tensor]] = {name: [] for name in channels}
    source = make_source(GeneratorConfig(size=SIZE_PX, held_out=True, seed=SEED, frames=(FRAMES, FRAMES)))
    for step in range(STACKS):
        sample = source(step, 1, torch.device("cpu"))
        inverse = sample.planes.as_batch(1).float()
        true = plane_position(1 / sample.depth, inverse)
        for name, choose in channels.items():
            with torch.no_grad():
                volume = cost_volume(choose(sample.stack), sample.planes, ReblurCost(squash=False))
            found = plane_position(find_minimum(volume, inverse).inverse_depth, inverse)
            errors[name].append((found - true).abs().flatten())
    for name, parts in errors.items():
        print(f"{name}: {torch.cat(parts).mean():.2f} planes off on average")


def solids() -> None:
    """How many solids of a generated scene a tile of 8 x 16 px has in reach, and how many there are."""
    config = GeneratorConfig(seed=SEED)
    size = (config.size, config.size)
    tried, there = [], []
    for step in range(SCENES):
        drawing = draw_scenes(config, config.textures, step, 1)
        view = drawing.views[0]
        inverse = 1 / depth(drawing.scenes, torch.tensor([view.focal_px]), size)
        seen = (inverse.min().item(), inverse.max().item())
        camera = draw_camera(drawing.rngs[0], config, view, seen, FRAMES)
        lens = torch.tensor([camera.focal_px]), torch.tensor([camera.aperture])
        bits = solids_in_reach(drawing.scenes, *lens, 1 / torch.tensor([camera.focus_distances]), size)
        tried.append(sum((bits >> i) & 1 for i in range(drawing.scenes.kind.shape[1])).float().mean().item())
        there.append((drawing.scenes.kind != EMPTY).sum().item())
    print(f"a tile tries {sum(tried) / SCENES:.1f} of {sum(there) / SCENES:.1f} solids on average")


def focus(folder: Path) -> None:
    """How far depth lies from where sharpness peaks, with focus distances refined inside their ranges and without."""
    for refine in (False, True):
        found = estimate(folder, refine=refine)
        agreement = sharpness_agreement(found.stack, torch.from_numpy(found.result.depth))
        print(f"refine={refine}: {agreement['median_spacings']:.2f} of a frame spacing off in the median")


def bands(path: Path, method: str) -> list[dict[str, Any]]:
    """Errors by bands of true depth, in a result of `focalsweep evaluate`."""
    record = json.loads(path.read_text())
    found = [band for band in record["by_depth"] if band["method"] == method and band["pixels"]]
    if not found:
        known = sorted({band["method"] for band in record["by_depth"]})
        raise ValueError(f"{path} has no errors by depth of {method!r}: it is one of {', '.join(known)}")
    return found


def beyond(path: Path, method: str, nearest: float) -> None:
    """The share of the pixels that lie beyond a depth, and of the method's squared error that they have."""
    found = bands(path, method)
    pixels, squares = ([band["pixels"] * band["rmse"] ** power for band in found] for power in (0, 2))
    far = [band["near"] >= nearest for band in found]
    shares = [sum(v for v, counts in zip(part, far, strict=True) if counts) / sum(part) for part in (pixels, squares)]
    print(f"beyond {nearest:g}: {shares[0]:.1%} of the pixels, {shares[1]:.0%} of the squared error of {method}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (colour, solids):
        commands.add_parser(command.__name__).set_defaults(run=lambda chosen, run=command: run())
    one = commands.add_parser("focus")
    one.add_argument("folder", type=Path)
    one.set_defaults(run=lambda chosen: focus(chosen.folder))
    two = commands.add_parser("beyond")
    two.add_argument("result", type=Path)
    two.add_argument("method")
    two.add_argument("depth", type=float)
    two.set_defaults(run=lambda chosen: beyond(chosen.result, chosen.method, chosen.depth))
    chosen = parser.parse_args()
    chosen.run(chosen)


if __name__ == "__main__":
    main()
