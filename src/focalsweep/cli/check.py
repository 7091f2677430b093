"""The command `check`: whether results are as they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from focalsweep.cli.console import say_note
from focalsweep.errors import InputError


def check(
    output: Annotated[Path, typer.Argument(help="A folder of results, or of folders of results (of batch).")],
) -> None:
    """Whether the results in a folder are whole and as they were written. Finishes what a cut-off run left.

    Exit status 1 where a file is missing or was changed.

    Example: focalsweep check out/
    """
    from focalsweep.results.folder import HIDDEN, MANIFEST, REGISTERED, faults_of, listed_files, locked

    if not output.is_dir():
        raise InputError("{place} is no folder", place=output, remedy="give the folder of the results")
    faults: list[str] = []
    sets = 0
    for folder in [output, *sorted(path for path in output.iterdir() if path.is_dir() and path.name[0] != ".")]:
        if (folder / HIDDEN).exists():  # of a run that was cut off, or that is at it
            with locked(folder):
                pass
        for manifest in (MANIFEST, REGISTERED):
            if (folder / manifest).is_file():
                found = faults_of(folder, manifest)
                sets, faults = sets + 1, faults + found
                if not found:
                    print(f"{folder}: {len(listed_files(folder, manifest) or ())} files as they were written")
    if not sets:
        raise InputError("{place} has no results of focalsweep", place=output, remedy="give the folder of the results")
    for fault in faults:
        say_note(fault)
    if faults:
        raise typer.Exit(1)
