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

from focalsweep.cli import words
from focalsweep.errors import InputError, SettingName, explain
from focalsweep.errors import say as say_with

console = Console(stderr=True)
"""Progress, notes and errors; results go to standard output."""
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def find_device(name: str):  # type: ignore[no-untyped-def]
    """The torch device of that name."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise InputError(
            "{device} must be {rule}, but is {value!r}", field="device", rule="auto, cpu or cuda", value=name
        )
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("torch finds no CUDA GPU here", field="device", value=name, remedy='use {device="cpu"}')
    return torch.device(name)


def read_size(text: str | None) -> int | None:
    """Bytes: "2GB", "500M", "1.5 GiB", or a number."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if not match:
        raise InputError(
            "{memory} must be {rule}, but is {value!r}", field="memory", rule="a size such as 2GB or 500MB", value=text
        )
    size = int(float(match[1]) * UNITS[match[2]])
    if size < 1:
        raise InputError(
            "{memory} must be {rule}, but is {value!r}",
            field="memory",
            rule="above 0, such as 2GB or 500MB",
            value=text,
        )
    return size


def read_positive(value: float | None, setting: str) -> float | None:
    """The number of an option, which no lens has at 0 or below."""
    if value is not None and not 0 < value < math.inf:
        raise InputError(
            "{name} must be {rule}, but is {value:g}",
            name=SettingName(setting), field=setting, rule="a number above 0", value=value,
        )  # fmt: skip
    return value


def read_numbers(text: str | None, setting: str) -> list[float] | None:
    """Numbers with commas between."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            "{name} must be {rule}, such as 0.35,0.5,0.9, but is {value!r}",
            name=SettingName(setting), field=setting, rule="numbers with commas between", value=text,
        ) from None  # fmt: skip


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
    """What the user should know, with flags for the settings that it names."""
    say(f"focalsweep: {say_with(note, words.WORDS)}", "yellow")


def say_error(error: Exception | str) -> None:
    """What went wrong, likewise."""
    sentence = explain(error, words.WORDS) if isinstance(error, Exception) else error
    say(f"focalsweep: {sentence}", "red")


def say(line: str, style: str = "") -> None:
    """A line on standard error, as it is: "[camera]" is no markup, and a long one is not broken."""
    console.print(Text(" ".join(line.splitlines())), style=style, highlight=False, soft_wrap=True)
