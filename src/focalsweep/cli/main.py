"""The command line. Exit status 0 done, 1 some of it failed, 2 bad input."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from focalsweep.cli import photos, web
from focalsweep.cli.batch import batch
from focalsweep.cli.calibrate import calibrate
from focalsweep.cli.check import check
from focalsweep.cli.console import say_error, say_note
from focalsweep.cli.measure import measure
from focalsweep.cli.refocus import refocus
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


for command in (photos.depth, photos.inspect, calibrate, batch, refocus, measure, check, photos.demo, web.web):
    app.command()(command)


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
            say_error(_usage_sentence(error))
        status = 2
    except typer.Abort:
        status = 130
    except USER_ERRORS as error:
        say_error(error)
        status = 2
    sys.exit(status or 0)


def _usage_sentence(error: Any) -> str:
    """What click says of a wrong option, in one sentence that ends with where to read more."""
    message = error.format_message().strip().rstrip(".").replace(". ", ", ")
    command = error.ctx.command_path if error.ctx else "focalsweep"
    return f"{message[:1].lower()}{message[1:]}: see {command} --help"


if __name__ == "__main__":
    main()
