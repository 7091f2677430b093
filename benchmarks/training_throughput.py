"""Training samples a second with fresh scenes, and where the time goes.

    python benchmarks/training_throughput.py OUT.json TEXTURES [CONFIG ...]

TEXTURES is a folder of pictures, or "" for procedural textures alone. For each config: a batch's scenes alone (drawn,
traced, spoiled by noise and JPEG), its cost volume alone, the step alone and all of it end to end as training
runs it, scenes of the next batch being made beside the step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe
from focalsweep_research.synthesis.generator import draw_scenes, held_atlas, make_source, trace
from focalsweep_research.synthesis.generator_config import read_generator_config
from focalsweep_research.synthesis.sensor import degrade
from focalsweep_research.training.config import TrainingConfig, read_config
from focalsweep_research.training.loop import make_optimizer
from focalsweep_research.training.objectives import swept
from focalsweep_research.training.run import build_network, build_objective

FRAMES = 5


def measure(config: TrainingConfig, device: torch.device, rounds: int, textures: str) -> dict[str, Any]:
    """Milliseconds a batch, and samples a second."""
    batch = config.batch_size
    data = {"size": config.image_size[0], "planes": config.planes, **config.data, "frames": [FRAMES, FRAMES]}
    generator = read_generator_config({**data, "texture_folder": textures})
    source = make_source(generator)
    network = build_network(config).to(device).train()
    optimizer = make_optimizer(config, network)
    objective = build_objective(config)
    atlas = held_atlas(generator.textures, generator.texture_folder, generator.held_out)
    drawing = draw_scenes(generator, atlas.count, 0, batch)
    sample = source(0, batch, device)
    on_device = atlas.to(device)
    traced = trace(generator, on_device, drawing, 0, device)
    sensors = [draw.sensor for draw in traced.draws]

    def step(sample: Any) -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.precision == "bfloat16"):
            loss, _ = objective(network, sample)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), config.gradient_clip)
        optimizer.step()

    def milliseconds(job: Callable[[int], Any]) -> float:
        for k in range(3):
            job(k)
        _wait(device)
        start = time.perf_counter()
        for k in range(rounds):
            job(3 + k)
        _wait(device)
        return (time.perf_counter() - start) / rounds * 1e3

    times = {
        "draw scenes (CPU)": milliseconds(lambda k: draw_scenes(generator, atlas.count, k, batch)),
        "trace": milliseconds(lambda k: trace(generator, on_device, drawing, k, device)),
        "noise, 8 bits, JPEG": milliseconds(lambda k: degrade(traced.images, sensors, 0, k)),
        "cost volume": milliseconds(lambda k: swept(sample, config.cost)),
        "cost volume and network step": milliseconds(lambda k: step(sample)),
        "end to end": milliseconds(lambda k: step(source(k, batch, device))),
    }
    times["network step"] = times["cost volume and network step"] - times["cost volume"]
    return {
        "network": config.network, "cost": config.cost, "batch": batch, "frames": FRAMES, "size": config.image_size[0],
        "milliseconds_a_batch": times, "samples_a_second": batch / times["end to end"] * 1e3,
    }  # fmt: skip


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    output, textures, *configs = sys.argv[1:]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    for path in configs or ["configs/sweepnet.toml", "configs/papernet.toml", "configs/papernet-reblur.toml"]:
        rows.append(measure(read_config(path), device, 20 if device.type == "cuda" else 1, textures))
        print(rows[-1], flush=True)
    record = {"benchmark": "training throughput", **describe(device, 0), "rows": rows}
    write_files({Path(output): lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
