"""The commands of `bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from focalsweep.cli.console import console, find_device, write_record
from focalsweep.cli.options import Device

bench = typer.Typer(no_args_is_help=True, help="Measure this machine; results are JSON files.")


@bench.callback()
def every_measurement() -> None:
    """Measure this machine; results are JSON files."""


@bench.command()
def speed(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON file for the result.")] = None,
    device: Device = "auto",
    rival: Annotated[
        Path, typer.Option(help="The scikit-image pipeline to compare with; left out where there is none.")
    ] = Path("benchmarks/skimage_pipeline.py"),
    repeats: Annotated[int, typer.Option(min=3, help="Rounds over all jobs.")] = 15,
    scaling: Annotated[
        bool, typer.Option("--scaling", help="Also time and memory up to 12 megapixels (long).")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --scaling: the smallest size only.")] = False,
) -> None:
    """Both costs at 5 x 256 x 256, 64 planes, against their floor and a straightforward pipeline, in one run.

    Example: focalsweep bench speed -o speed.json
    """
    from focalsweep_research.protocols.speed import run_benchmark

    record = run_benchmark(find_device(device), rival, repeats, scaling, quick, console.print)
    table = Table("", "median ms", "quartiles")
    for name, row in record["results"].items():
        spread = f"{row['quartile_1_s'] * 1e3:.2f} - {row['quartile_3_s'] * 1e3:.2f}"
        table.add_row(name, f"{row['median_s'] * 1e3:.2f}", spread)
    for name, ratio in record["ratios"].items():
        table.add_row(name, f"{ratio:.2f} x", "")
    console.print(table)
    write_record(record, output)
