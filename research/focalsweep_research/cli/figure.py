"""`focalsweep figure`: the figures of the paper, from results, stacks and networks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalsweep.photos.demo import DEMO_STACK, demo_depth

if TYPE_CHECKING:
    from focalsweep.model.papernet import PaperNet
    from focalsweep.results.result import Array
    from focalsweep.types import FocalStack
    from focalsweep_research.drawing.plots import Pixel

KINDS = ("stack-size", "depth", "robustness", "confidence", "training", "costs", "neighbours", "offsets")
DRAWN = {  # of a result: what must be in it, in words too
    "stack-size": ("frames", "errors by number of frames"),
    "depth": ("near", "errors by depth"),
    "robustness": ("factor", "errors by flaws of photos"),
    "confidence": ("curves", "errors by confidence"),
}


def figure(
    kind: Annotated[
        str,
        typer.Argument(
            help="stack-size, depth (error against it), robustness or confidence of a result file; training of runs; "
            "costs (over depth at pixels) or neighbours (with and without) of a stack; offsets of a PaperNet on one."
        ),
    ],
    source: Annotated[
        str,
        typer.Argument(
            help="JSON file of a result; folders of runs or logs of them, or NAME=FOLDER, commas between; or folder of "
            "a stack, demo for that of the package."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG file; for robustness a folder.")],
    pixel: Annotated[
        list[str] | None, typer.Option(help="ROW,COLUMN for costs and offsets; may be repeated. By default two.")
    ] = None,
    run: Annotated[
        str, typer.Option(help="For offsets: folder of a training run of PaperNet, by default the shipped one.")
    ] = "shipped",
) -> None:
    """Draw a figure of the paper, or the curves of trainings.

    Example: focalsweep figure stack-size stack-size.json -o stack_size.png

    Example: focalsweep figure training runs/a,mine=runs/b -o curves.png

    Example: focalsweep figure costs demo -o costs.png --pixel 120,80
    """
    from focalsweep_research.drawing import plots
    from focalsweep_research.protocols.error_bars import plot_confidence

    if kind not in KINDS:
        raise ValueError(f"no figure is called {kind!r}: it is one of {', '.join(KINDS)}")
    if kind == "robustness":
        print(*plots.write_factors(_read_result(source, *DRAWN[kind]), output))
        return
    of_results = {"stack-size": plots.plot_stack_size, "depth": plots.plot_depth, "confidence": plot_confidence}
    if kind in of_results:
        png = of_results[kind](_read_result(source, *DRAWN[kind]))
    elif kind == "training":
        png = plots.plot_training(_read_logs(source))
    else:
        stack, truth = _read_stack(source)
        pixels = _read_pixels(pixel or [])
        if kind == "costs":
            png = plots.plot_costs(stack, pixels, truth)
        elif kind == "neighbours":
            png = plots.plot_neighbours(stack, truth)
        else:
            png = plots.plot_offsets(_read_network(run), stack, pixels)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(png)
    print(output)


def _read_result(source: str, key: str, words: str) -> dict[str, Any]:
    """A result that has this key in its rows or beside them."""
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give a JSON file that focalsweep evaluate wrote")
    try:
        record: dict[str, Any] = json.loads(path.read_text())
        keys = {name for rows in (record["rows"], record.get("by_depth", [])) for row in rows for name in row}
        keys |= set(record)
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is not a result of focalsweep evaluate: give a JSON file that it wrote") from None
    if key not in keys:
        raise ValueError(f"{path} has no {words}: give the result of another protocol")
    return record


def _read_logs(source: str) -> dict[str, list[dict[str, Any]]]:
    """Lines by the name of the run: as it is given, or the folder of a log.jsonl, or what a kept log is called."""
    logs: dict[str, list[dict[str, Any]]] = {}
    for text in source.split(","):
        given, _, place = text.strip().rpartition("=")
        path = Path(place) / "log.jsonl" if Path(place).is_dir() else Path(place)
        name = given or (path.resolve().parent.name if path.name == "log.jsonl" else path.stem)
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist: give the folder of a run of focalsweep train, or its log")
        if name in logs:
            raise ValueError(f"two of the logs are called {name}: tell them apart by NAME=FOLDER")
        try:
            logs[name] = [json.loads(line) for line in path.read_text().splitlines()]
            measured = [line["step"] for line in logs[name] if "abs_rel" in (line.get("figures") or line["validation"])]
        except (ValueError, KeyError, TypeError, AttributeError):
            measured = []
        if not measured:
            raise ValueError(f"{path} is no log of focalsweep train: give the log.jsonl of a run")
    return logs


def _read_stack(source: str) -> tuple[FocalStack, Array | None]:
    """The stack, and its true depth where it is the demo's."""
    import numpy as np

    from focalsweep.photos.reading import load_stack

    if source != "demo":
        return load_stack(source), None
    return load_stack(DEMO_STACK), demo_depth().astype(np.float32)


def _read_network(run: str) -> PaperNet:
    from focalsweep.model.papernet import PaperNet
    from focalsweep.model.weights import load_papernet
    from focalsweep_research.training.checkpoint import read_checkpoint, restore
    from focalsweep_research.training.run import build_network

    if run == "shipped":
        return load_papernet()
    checkpoint = read_checkpoint(Path(run) / "checkpoint.pt")
    network = build_network(checkpoint.config)
    if not isinstance(network, PaperNet):
        raise ValueError(f"{run} trained {checkpoint.config.network}, which has no offsets: give a run of papernet")
    restore(network, checkpoint.ema, run)
    return network.eval()


def _read_pixels(texts: Sequence[str]) -> list[Pixel]:
    try:
        return [(int(row), int(column)) for row, column in (text.split(",") for text in texts)]
    except ValueError:
        raise ValueError(f"--pixel must be ROW,COLUMN, such as 120,80, but is {' '.join(texts)}") from None
