"""The command `train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focalsweep.cli.console import console, find_device
from focalsweep.cli.options import Cache, Device


def train(
    config: Annotated[Path, typer.Argument(help="TOML file, such as configs/sweepnet.toml.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of this run alone.")] = Path("runs/latest"),
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's checkpoint.")] = False,
    resume_if_any: Annotated[
        bool, typer.Option("--resume-if-any", help="The same, or start where there is none: for torchrun's restarts.")
    ] = False,
    time_limit: Annotated[
        float | None, typer.Option(help="Minutes after which the run ends in good order, its schedule included.")
    ] = None,
    textures: Annotated[
        Path | None, typer.Option(help="Folder of pictures with an index.csv that join the procedural textures.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the dataset, where the config asks for one (configs/paper-*.toml).")
    ] = None,
    cache: Cache = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="In place of the config's: other first weights, and data in another order."),
    ] = None,
) -> None:
    """Train a network on scenes that are generated as it goes, or on a dataset.

    Example: focalsweep train configs/sweepnet.toml -o runs/sweepnet --time-limit 25

    On several GPUs or machines under torchrun: see docs/scale.md.
    """
    from focalsweep_research.training.run import run_training

    outcome = run_training(
        config,
        output,
        device=find_device(device),
        resume="if any" if resume_if_any else resume,
        time_limit_minutes=time_limit,
        textures=textures,
        data=data,
        cache=cache,
        seed=seed,
        console=console,
    )
    print(outcome.checkpoint)
