"""The command on many stacks: `batch`, on this machine or on a Ray cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalsweep.cli.console import say, say_note, stages
from focalsweep.cli.options import (
    Calibrate,
    Device,
    Export,
    Memory,
    Method,
    Quiet,
    Relative,
    Sheet,
    Strict,
    Surface,
    check_output,
    read_job,
)
from focalsweep.cli.words import FLAGS_OF_OTHERS, WORDS

FLAGS = FLAGS_OF_OTHERS["batch"]

if TYPE_CHECKING:
    from focalsweep.batch.one_stack import Row
    from focalsweep.batch.stores import Store
    from focalsweep.to_files import Job


def batch(
    folder: Annotated[str, typer.Argument(help="A folder whose folders are stacks, or a URL: s3://bucket/scans.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Folder for the results, made if it is not there, or a URL.")
    ] = "out",
    method: Method = "sweep",
    device: Device = "auto",
    relative: Relative = False,
    calibrate: Calibrate = "auto",
    strict: Strict = False,
    memory: Memory = None,
    export: Export = "",
    surface: Surface = "closed",
    sheet: Sheet = False,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out stacks that have a result already.")] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            FLAGS["address"],
            help="Work on the Ray cluster at HOST:PORT, or auto; local starts one of this machine's cores.",
        ),
    ] = None,
    cores: Annotated[int, typer.Option(FLAGS["cores"], min=1, help="With --ray: CPU cores for each worker.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Every stack of a folder of folders; results.csv has a line for each. One bad stack does not stop the rest.

    Exit status 1 where any of them failed. results.parquet has the same lines, where pyarrow is installed.

    Example: focalsweep batch scans/ -o results/ --resume

    focalsweep batch s3://bucket/scans -o s3://bucket/results --ray auto --resume
    """
    from focalsweep.batch.stores import Store
    from focalsweep.batch.summary import Summary

    scans, results = Store(folder), Store(output)
    names = [name for name in scans.folders() if not _is_output(scans, name, results)]
    if not names:
        raise ValueError(f"{folder} has no folders: put the photos of each stack into one, or use focalsweep depth")
    if results.path:
        check_output(results.path)
    # Which device the workers of a cluster have is their machines' affair.
    job = read_job(
        method, "cpu" if ray else device, None, None, True, memory, export, sheet, relative, strict,
        surface=surface, calibrate=calibrate,
    )  # fmt: skip
    with results.held():
        results.clear()
        kept = results.done().intersection(names) if resume else set()
        silent: Any = lambda line: None  # noqa: E731
        summary = Summary(names, results, kept, silent if quiet else say, silent if quiet else say_note)
        todo = [name for name in names if name not in kept]
        if ray and todo:
            from focalsweep.batch.on_ray import rows_from_ray

            rows = rows_from_ray(todo, scans, results, job, address=ray, device=device, cores=cores, words=WORDS)
        else:
            rows = _rows(todo, scans, results, job, quiet)
        with redirect_stdout(sys.stderr):  # Ray tells of lost workers on standard output
            for row in rows:
                summary.add(row)
        summary.write()
        results.clear()
    print(results.place("results.csv"))
    if summary.failed:
        raise typer.Exit(1)


def _rows(names: list[str], scans: Store, results: Store, job: Job, quiet: bool) -> Iterator[Row]:
    """The row of every stack, worked on here, one after the other."""
    from focalsweep.batch.one_stack import work_on

    for name in names:
        with stages(quiet) as stage:
            row = work_on(name, scans, results, job, stage, words=WORDS)
        yield row


def _is_output(scans: Store, name: str, results: Store) -> bool:
    """Whether the results lie among the stacks, in this folder."""
    if scans.path and results.path:
        return (scans.path / name).resolve() == results.path.resolve()
    return scans.place(name) == results.url.rstrip("/")
