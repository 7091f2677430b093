"""The command line: depth, demo, train, evaluate, bench. Exit status 0 done, 1 failed, 2 bad input."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Metric depth from a focal stack: photos of one still scene, each focused at a different distance.",
)
bench = typer.Typer(no_args_is_help=True, help="Measure this machine; results are JSON files.")
app.add_typer(bench, name="bench")
console = Console(stderr=True)

DEMO_STACK = Path(__file__).resolve().parent.parent / "demo_stack"
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the results; made if it is not there.")]
Method = Annotated[
    str, typer.Option(help="How depth is read off the sweep: sweep (the network), or argmin (the lowest cost).")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU where there is one.")]


@app.command()
def depth(
    photos: Annotated[Path, typer.Argument(help="Folder of photos with a stack.toml (see the README).")],
    output: Output = Path("out"),
    method: Method = "sweep",
    device: Device = "auto",
) -> None:
    """Depth in metres, its error bar and the picture sharp all over, from a folder of photos.

    The frames are taken as registered. Writes depth.npz (depth, std, confidence, camera), depth_mm.png (16 bit),
    depth.png (for people), all_in_focus.png and run.json.

    Example: focalsweep depth shots/ -o out/
    """
    import focalsweep

    with progress_bar("sweeping") as progress:
        stack = focalsweep.load_stack(photos).to(device=find_device(device))
        result = focalsweep.estimate_depth(stack, method, progress=progress)
    near, far = (float(value) for value in (result.depth.min(), result.depth.max()))
    for path in result.save(output):
        print(path)
    console.print(f"depth from {near:.3g} to {far:.3g} m; look at {output / 'depth.png'}")


@app.command()
def demo(output: Output = Path("out/demo"), method: Method = "sweep", device: Device = "auto") -> None:
    """The same on a small ray-traced stack that ships in the package, and how far off the result is."""
    import cv2
    import numpy as np

    depth(DEMO_STACK, output, method, device)
    with np.load(output / "depth.npz") as saved:
        estimate = saved["depth"]
    steps = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED)
    truth = np.asarray(steps, dtype=np.float64) * 1e-4
    relative = np.abs(estimate - truth) / truth
    console.print(f"against the true depth: median error {np.median(relative):.2%}, mean {relative.mean():.2%}")


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="TOML file, such as configs/sweepnet.toml.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of this run alone.")] = Path("runs/latest"),
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's checkpoint.")] = False,
    time_limit: Annotated[
        float | None, typer.Option(help="Minutes after which the run ends in good order, its schedule included.")
    ] = None,
    textures: Annotated[
        Path | None, typer.Option(help="Folder of pictures with an index.csv that join the procedural textures.")
    ] = None,
) -> None:
    """Train a network on scenes that are generated as it goes.

    Example: focalsweep train configs/sweepnet.toml -o runs/sweepnet --time-limit 25
    """
    from focalsweep.training.run import run_training

    outcome = run_training(
        config,
        output,
        device=find_device(device),
        resume=resume,
        time_limit_minutes=time_limit,
        textures=textures,
        console=console,
    )
    print(outcome.checkpoint)


@app.command()
def evaluate(
    protocol: Annotated[str, typer.Argument(help="generator, or cameras.")],
    methods: Annotated[
        str, typer.Option(help="Names with commas between: argmin, argmin-paper, sweep.")
    ] = "argmin,argmin-paper,sweep",
    run: Annotated[
        list[Path] | None, typer.Option(help="Folder of a training run whose network is measured too; may be repeated.")
    ] = None,
    textures: Annotated[
        Path | None, typer.Option(help="Folder of pictures whose held-out ones join the procedural textures.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON file for the result.")] = None,
    device: Device = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="A small part of the data.")] = False,
) -> None:
    """Measure methods on a protocol: all of them on the same data, in one run.

    Example: focalsweep evaluate generator --methods argmin,sweep -o generator.json
    """
    from focalsweep.cli.evaluate import run_protocol

    names = [name.strip() for name in methods.split(",") if name.strip()]
    record = run_protocol(protocol, names, run or [], textures, find_device(device), quick, console.print)
    _show_record(record, output)


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
    """Both costs at 5 x 256 x 256, 64 planes, against their floor and a straightforward pipeline, in one run."""
    from focalsweep.evaluation.speed import run_benchmark

    record = run_benchmark(find_device(device), rival, repeats, scaling, quick, console.print)
    table = Table("", "median ms", "quartiles")
    for name, row in record["results"].items():
        spread = f"{row['quartile_1_s'] * 1e3:.2f} - {row['quartile_3_s'] * 1e3:.2f}"
        table.add_row(name, f"{row['median_s'] * 1e3:.2f}", spread)
    for name, ratio in record["ratios"].items():
        table.add_row(name, f"{ratio:.2f} x", "")
    console.print(table)
    _show_record(record, output)


def _show_record(record: dict[str, Any], output: Path | None) -> None:
    """A result as JSON, into the file or to standard output."""
    from focalsweep.results.writing import json_bytes, write_files

    text = json_bytes(record)
    if output is None:
        print(text.decode())
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        print(*write_files({output: lambda file: file.write(text)}))


def find_device(name: str):  # type: ignore[no-untyped-def]
    """The torch device of that name."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"no device is called {name!r}: it is auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("torch finds no CUDA GPU here: use --device cpu")
    return torch.device(name)


@contextmanager
def progress_bar(label: str) -> Iterator:  # type: ignore[type-arg]
    """A bar on standard error for a share done; silent where that is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def main() -> None:
    """Bad input is one sentence and exit status 2; anything else is a bug and shows its traceback."""

    def say(message: Warning | str, *_: object) -> None:
        console.print(f"focalsweep: {message}", style="yellow", highlight=False, soft_wrap=True)

    warnings.showwarning = say  # type: ignore[assignment]
    try:
        app()
    except (ValueError, TypeError, FloatingPointError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        console.print(f"focalsweep: {error}", style="red", highlight=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
