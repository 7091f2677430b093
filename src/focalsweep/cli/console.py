"""What all commands share: the console, progress by stage, devices, sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

console = Console(stderr=True)
"""Progress, notes and errors; results go to standard output."""
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def find_device(name: str):  # type: ignore[no-untyped-def]
    """The torch device of that name."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"--device must be auto, cpu or cuda, but is {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("torch finds no CUDA GPU here: use --device cpu")
    return torch.device(name)


def read_size(text: str | None) -> int | None:
    """Bytes: "2GB", "500M", "1.5 GiB", or a number."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if not match:
        raise ValueError(f"--memory must be a size such as 2GB or 500MB, but is {text!r}")
    size = int(float(match[1]) * UNITS[match[2]])
    if size < 1:
        raise ValueError(f"--memory must be above 0, such as 2GB or 500MB, but is {text!r}")
    return size


def read_positive(value: float | None, flag: str) -> float | None:
    """The number of an option, which no lens has at 0 or below."""
    if value is not None and not 0 < value < math.inf:
        raise ValueError(f"{flag} must be a number above 0, but is {value:g}")
    return value


def read_numbers(text: str | None, flag: str) -> list[float] | None:
    """Numbers with commas between."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{flag} must be numbers with commas between, such as 0.35,0.5,0.9, but is {text!r}") from None


@contextmanager
def stages(quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error that names the stage at hand; silent where that is no terminal, or if asked."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    off = quiet or not console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=off, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        shown = ""

        def show(name: str, share: float) -> None:
            nonlocal shown
            if name != shown:  # a clock of its own for every stage
                bar.reset(task, description=name)
                shown = name
            bar.update(task, completed=share)

        yield show


def write_record(record: dict[str, Any], output: Path | None) -> None:
    """A result as JSON, into the file or to standard output."""
    from focalsweep.results.writing import json_bytes, write_files

    text = json_bytes(record)
    if output is None:
        print(text.decode())
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        print(*write_files({output: lambda file: file.write(text)}))


def print_table(table: Table) -> None:
    """On standard output; as wide as it is where that is no terminal, so that no line is broken."""
    width = None if Console().is_terminal else 10_000
    Console(highlight=False, width=width).print(table)


def say_note(note: str) -> None:
    say(f"focalsweep: {note}", "yellow")


def say_error(sentence: str) -> None:
    say(f"focalsweep: {sentence}", "red")


def say(line: str, style: str = "") -> None:
    """A line on standard error, as it is: "[camera]" is no markup, and a long one is not broken."""
    console.print(Text(" ".join(line.splitlines())), style=style, highlight=False, soft_wrap=True)
