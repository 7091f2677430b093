"""The command `evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focalsweep.cli.console import console, find_device, write_record
from focalsweep.cli.options import Cache, Device
from focalsweep.methods.registry import describe_methods


def evaluate(
    protocol: Annotated[
        str,
        typer.Argument(
            help="generator, stack-size, cameras, robustness, confidence, runtime; with --data defocusnet, "
            "focus-split, nyu, nyu-trained, nyu-gaussian, rooms, planes (photos), real (photos), measured."
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            help=f"{describe_methods()}. Semicolons between; settings stand behind a name: 'sweep;argmin:cost=paper'. "
            "By default those that the protocol is about.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder of a training run whose network is measured too, or NAME=FOLDER; may be repeated. Runs of one "
            "name whose seeds differ are one row, with its spread. For a SweepNet also a file of weights."
        ),
    ] = None,
    textures: Annotated[
        Path | None, typer.Option(help="Folder of pictures whose held-out ones join the procedural textures.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the dataset, for protocols on one.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file for the result; its tables go beside it.")
    ] = None,
    device: Device = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="About a tenth of the data, for a first look.")] = False,
    cache: Cache = None,
    join: Annotated[
        list[Path] | None,
        typer.Option(help="Result of the same protocol whose rows join this one's; may be repeated."),
    ] = None,
) -> None:
    """Measure methods on a protocol: all of them on the same data, in one run.

    Example: focalsweep evaluate generator --methods 'argmin;sweep' -o generator.json

    Example: focalsweep evaluate nyu --data NYU --methods 'argmin;sweep' -o nyu.json

    Example: focalsweep evaluate rooms --data ROOMS --methods 'argmin;sweep' -o rooms.json

    Example: focalsweep evaluate planes --data REAL_STACKS --methods sweep --run after=RUN -o planes.json

    Example: focalsweep evaluate measured --data STACKS -o mine.json

    Several processes share the stacks: torchrun --nproc-per-node 16 -m focalsweep.cli.main -- evaluate nyu ...
    """
    from focalsweep_research.protocols.run import join_result, processes, read_result, run_protocol
    from focalsweep_research.tables.tables import write_tables

    names = None if methods is None else read_names(methods)
    if names == [] and not run:
        raise ValueError("--methods names none: give some, such as 'argmin;sweep', or leave it out")
    pictures = output.with_suffix("") if output else None
    others = [read_result(path, protocol, quick) for path in join or []]
    with processes(protocol) as is_main:
        record = run_protocol(
            protocol, names, run or [], textures, data, find_device(device), quick, console.print, pictures, cache
        )
    if not is_main:
        return
    try:
        for other in others:
            record = join_result(record, other)
    except ValueError:
        write_record(record, output)  # what was measured is not lost
        raise
    write_record(record, output)
    if output and "table" in record:
        for path in write_tables(record, output):
            print(path)


def read_names(text: str) -> list[str]:
    """Methods with semicolons between, for their settings have commas; commas will do where none has settings."""
    separator = ";" if ":" in text or ";" in text else ","
    return [name.strip() for name in text.split(separator) if name.strip()]
