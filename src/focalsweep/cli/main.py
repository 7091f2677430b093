"""The command line. Exit status 0 done, 1 some of it failed, 2 bad input."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from focalsweep.cli import photos, web
from focalsweep.cli.batch import batch
from focalsweep.cli.console import console, find_device, say_error, say_note
from focalsweep.cli.options import Cache, Device
from focalsweep.errors import USER_ERRORS, note_of
from focalsweep.version import __version__, commit

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

UsageError: Any = typer.BadParameter.__base__  # click's, wherever this version of typer keeps it
COMMANDS = "focalsweep.commands"
"""Entry points of other packages that add commands by their functions."""


def show_version(wanted: bool) -> None:
    if wanted:
        known = commit()
        print(f"focalsweep {__version__}" + (f" ({known})" if known else ""))
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    """Metric depth from a focal stack: photos of one still scene, each focused at a different distance."""


for command in (photos.depth, photos.inspect, batch, photos.demo, web.web):
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
        Path | None,
        typer.Option(
            FLAGS_OF_OTHERS["train"]["data"],
            help="Folder of the dataset, where the config asks for one (configs/paper-*.toml).",
        ),
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


for entry in entry_points(group=COMMANDS):
    added = entry.load()
    if isinstance(added, typer.Typer):
        app.add_typer(added, name=entry.name)
    else:
        app.command(entry.name)(added)


def main() -> None:
    """Bad input is one sentence and exit status 2; anything else is a bug and shows its traceback."""
    warnings.showwarning = lambda message, *_: say_note(note_of(message))  # type: ignore[assignment,misc]
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
    except USER_ERRORS as error:
        say_error(error)
        status = 2
    sys.exit(status or 0)


def _misuse(error: Any) -> str:
    """What click says of a wrong option, in one sentence that ends with where to read more."""
    message = error.format_message().strip().rstrip(".").replace(". ", ", ")
    command = error.ctx.command_path if error.ctx else "focalsweep"
    return f"{message[:1].lower()}{message[1:]}: see {command} --help"


if __name__ == "__main__":
    main()
