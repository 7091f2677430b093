"""A problem small enough to train in a test: brightness to depth. Run as a module, it is a training program."""

import argparse
import io
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from focalsweep.types import Camera, DepthGrid, FocalStack
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.loop import train

CAMERA = Camera(focal_length=0.05, f_number=2.8, pixel_pitch=6e-5)
PLANES = DepthGrid.uniform_in_inverse_depth(0.5, 4.0, 4)


def toy_config(**changes: Any) -> TrainingConfig:
    settings = {
        "network": "sweepnet",
        "cost": "reblur",
        "steps": 6,
        "batch_size": 2,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "weight_decay": 0.01,
        "ema_decay": 0.9,
        "validation_samples": 4,
        "log_every": 1,
        "image_size": [8, 8],
        "planes": 4,
    }
    return TrainingConfig.from_dict(settings | changes, "toy.toml")


def toy_source(step: int, batch_size: int, device: torch.device) -> Sample:
    """Batch `step` holds the samples number step * batch_size and up, each drawn from its own number."""
    images = []
    for number in range(step * batch_size, (step + 1) * batch_size):
        generator = torch.Generator().manual_seed(number)
        images.append(torch.rand(2, 3, 8, 8, generator=generator))
    pixels = torch.stack(images).to(device)
    depth = 1 + pixels[:, 0].mean(1) - 0.5 * pixels[:, 1].amax(1)
    return Sample(FocalStack(pixels, [0.8, 2.0], CAMERA), PLANES, depth)


def toy_network(seed: int = 0, dropout: float = 0.0, batch_norm: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(6, 16, 3, padding=1),
        nn.BatchNorm2d(16) if batch_norm else nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 1),
    )


def toy_loss(network: nn.Module, sample: Sample) -> tuple[Tensor, Mapping[str, Tensor]]:
    depth = network(sample.stack.images.flatten(1, 2)).squeeze(1).float()
    error = (depth - sample.depth).abs()
    return error.mean(), {"worst": error.amax()}


def silent() -> Console:
    return Console(file=io.StringIO(), width=300)


def main() -> int:
    """Train the toy; exit status 0 however the run ended in good order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--checkpoint-every", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before every batch")
    parser.add_argument("--resume-if-any", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = ("steps", "batch_size", "accumulate", "checkpoint_every")
    config = toy_config(**{name: getattr(arguments, name) for name in names})

    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        time.sleep(arguments.pause)
        return toy_source(step, batch_size, device)

    outcome = train(
        config,
        toy_network(),
        source,
        toy_loss,
        arguments.folder,
        validation_source=toy_source,
        resume="if any" if arguments.resume_if_any else False,
    )
    print(outcome.status)
    return 0


if __name__ == "__main__":
    sys.exit(main())
