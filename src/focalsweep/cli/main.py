"""The command line. Exit status 0 done, 1 some of it failed, 2 bad input."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from focalsweep.cli import photos, web
from focalsweep.cli.batch import batch
from focalsweep.cli.console import console, find_device, say_error, say_note, write_record
from focalsweep.cli.figures import figure
from focalsweep.cli.render import render
from focalsweep.failures import FAILURES, sentence

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Metric depth from a focal stack: photos of one still scene, each focused at a different distance.",
)
bench = typer.Typer(no_args_is_help=True, help="Measure this machine; results are JSON files.")
app.add_typer(bench, name="bench")

UsageError: Any = typer.BadParameter.__base__  # click's, wherever this version of typer keeps it
Cache = Annotated[
    Path | None, typer.Option(help="Folder that keeps the stacks rendered from NYU's pictures, for further runs.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU where there is one.")]
for command in (photos.depth, photos.inspect, batch, photos.demo, web.web, render, figure):
    app.command()(command)


@app.command()
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
    from focalsweep.training.run import run_training

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


@app.command()
def evaluate(
    protocol: Annotated[
        str,
        typer.Argument(
            help="generator, stack-size, cameras, robustness, confidence, runtime; with --data defocusnet, "
            "focus-split, nyu, nyu-trained, nyu-gaussian, real (photos), measured (stacks with depth)."
        ),
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between: paper, argmin-paper; argmin, sweep, also with -fixed, -sampled, and with "
            "another number of planes, sweep-80; flat; rivals, such as focus_measure. By default those that the "
            "protocol is about."
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder of a training run whose network is measured too, or NAME=FOLDER; may be repeated. Runs of one "
            "name whose seeds differ are one row, with its spread."
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

    Example: focalsweep evaluate generator --methods argmin,sweep -o generator.json

    Example: focalsweep evaluate nyu --data NYU --methods argmin,sweep -o nyu.json

    Example: focalsweep evaluate measured --data STACKS -o mine.json

    Several processes share the stacks: torchrun --nproc-per-node 16 -m focalsweep.cli.main -- evaluate nyu ...
    """
    from focalsweep.cli.evaluate import join_result, processes, read_result, run_protocol
    from focalsweep.evaluation.tables import write_tables

    names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    if names == [] and not run:
        raise ValueError("--methods names none: give some, such as argmin,sweep, or leave it out")
    pictures = output.with_suffix("") if output else None
    others = [read_result(path, protocol, quick) for path in join or []]
    with processes(protocol) as leads:
        record = run_protocol(
            protocol, names, run or [], textures, data, find_device(device), quick, console.print, pictures, cache
        )
    if not leads:
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
    from focalsweep.evaluation.speed import run_benchmark

    record = run_benchmark(find_device(device), rival, repeats, scaling, quick, console.print)
    table = Table("", "median ms", "quartiles")
    for name, row in record["results"].items():
        spread = f"{row['quartile_1_s'] * 1e3:.2f} - {row['quartile_3_s'] * 1e3:.2f}"
        table.add_row(name, f"{row['median_s'] * 1e3:.2f}", spread)
    for name, ratio in record["ratios"].items():
        table.add_row(name, f"{ratio:.2f} x", "")
    console.print(table)
    write_record(record, output)


def main() -> None:
    """Bad input is one sentence and exit status 2; anything else is a bug and shows its traceback."""
    warnings.showwarning = lambda message, *_: say_note(str(message))  # type: ignore[assignment,misc]
    try:
        status = app(prog_name="focalsweep", standalone_mode=False)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            say_error(_misuse(error))
        status = 2
    except typer.Abort:
        status = 130
    except FAILURES as error:
        say_error(sentence(error))
        status = 2
    sys.exit(status or 0)


def _misuse(error: Any) -> str:
    """What click says of a wrong option, in one sentence that ends with where to read more."""
    told = error.format_message().strip().rstrip(".").replace(". ", ", ")
    command = error.ctx.command_path if error.ctx else "focalsweep"
    return f"{told[:1].lower()}{told[1:]}: see {command} --help"


if __name__ == "__main__":
    main()
