"""Protocol `planes`: flat things that were marked in real stacks (`research/planes.toml`): how flat they come out.

Real photos have no true depth, but a wall, a carpet or a printed page is a plane, and the inverse depth of a plane is
linear in the picture. Every method reads each stack at the size that `estimate_depth` works at, over the same planes,
and at half and a quarter of it. Departures are told as a share of the range of focus (1/nearest - 1/farthest distance).

`device` matters to the methods alone: photos are registered on the CPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch

from focalsweep.estimate import predict
from focalsweep.methods.sweep import cut_tiles
from focalsweep.results.writing import write_files
from focalsweep.types import DepthPrediction
from focalsweep_research.datasets.marked import Region, read_marks
from focalsweep_research.datasets.prepared import Prepared, prepare
from focalsweep_research.drawing.side_by_side import StackMaps, side_by_side
from focalsweep_research.metrics.flatness import flatness, seams
from focalsweep_research.metrics.sizes import picture_sums, region_sums, smaller_answers
from focalsweep_research.protocols.distributed import Say, is_main_process, over_processes, share_of_process
from focalsweep_research.protocols.methods import Compared
from focalsweep_research.rivals.answer import FrameCountError

COLUMNS = ("rms_share", "robust_share", "bar_share", "off_2_std", "size_change", "size_agreement", "seam_ratio")
EVERY = "all marked"
QUICK = 0.5  # of the working size


def evaluate_planes(
    methods: dict[str, Compared],
    folder: Path,
    device: torch.device,
    say: Say,
    share: float = 1.0,
    pictures: Path | None = None,
    cache: Path | None = None,
    marks: dict[str, list[Region]] | None = None,
) -> dict[str, Any]:
    """Rows of every method by region and by stack, and their mean over the regions.

    Args:
        methods: by their rows' names.
        folder: holds a folder of photos for each stack; those without a mark are shown in pictures alone.
        device: where the methods work.
        say: told of progress.
        share: below 1 the stacks are smaller.
        pictures: a folder for before_after.png, all methods side by side; None for none.
        cache: a folder that keeps the registered stacks: registering takes longer than measuring.
        marks: of research/planes.toml by default.
    """
    marks, orders = read_marks() if marks is None else (marks, {})
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and (pictures or path.name in marks))
    if not folders:
        raise FileNotFoundError(f"{folder} has no stack with a marked region: they are {', '.join(sorted(marks))}")
    rows: list[dict[str, Any]] = []
    shown: list[StackMaps] = []
    left_out: list[tuple[str, str]] = []
    for path in share_of_process(folders):
        try:
            prepared = prepare(
                path, marks.get(path.name, []), QUICK if share < 1 else 1.0, cache, orders.get(path.name)
            )
        except ValueError as error:  # of a kind that focalsweep does not read yet
            left_out.append((path.name, str(error)))
            say(f"{path.name}: left out, {error}")
            continue
        answers: dict[str, DepthPrediction] = {}
        for name, method in methods.items():
            try:
                more, answers[name] = measure(prepared, name, method, device)
            except FrameCountError as error:
                more = [
                    {"method": name, "group": f"{path.name}, {region}", "note": error.note}
                    for region in prepared.regions
                ]
            rows += more
        shown.append(StackMaps.of(prepared.name, prepared.stack, prepared.planes, answers, prepared.regions))
        say(f"{prepared.name}: {', '.join(answers)}")
    rows, shown, left_out = over_processes(rows), over_processes(shown), over_processes(left_out)
    rows = [*mean_rows(rows, list(methods)), *sorted(rows, key=lambda row: str(row["group"]))]
    if pictures and is_main_process():
        png = side_by_side(sorted(shown, key=lambda maps: maps.name))
        write_files({pictures / "before_after.png": partial(_write, png)})
    return {
        "protocol": "planes",
        "stacks": sorted(maps.name for maps in shown),
        "left_out": dict(left_out),
        "rows": rows,
        "table": {"columns": list(COLUMNS), "sections": ["group"]},
    }


def measure(
    prepared: Prepared, name: str, method: Compared, device: torch.device
) -> tuple[list[dict[str, Any]], DepthPrediction]:
    """A row for each region and one for the stack, and the answer at the working size, on the CPU."""
    stack, planes = (
        prepared.stack.to(device),
        method.own_planes or method.choice.grid(prepared.planes) or prepared.planes,
    )
    answers = [*smaller_answers(stack, method.choice, planes), predict(stack, method.choice, planes)]
    answers = [DepthPrediction(one.depth.cpu(), one.std.cpu(), one.confidence.cpu()) for one in answers]
    whole = answers[-1]
    rows = []
    for region, mask in prepared.regions.items():
        found = flatness(whole.depth[0], whole.std[0], mask)
        row = {"method": name, "group": f"{prepared.name}, {region}", "region": region, **asdict(found)}
        for key in ("rms", "robust", "spread", "bar"):
            row[f"{key}_share"] = row[key] / prepared.focus_range
        rows.append(row | region_sums(answers, mask).figures())
    tiles = cut_tiles(stack.size, planes.count)
    borders = ([tile.core[axis].start for tile in tiles] for axis in (0, 1))
    steps = seams(whole.depth[0], *(sorted(set(starts) - {0}) for starts in borders))
    row = {"method": name, "group": prepared.name, "width": stack.size[1], "height": stack.size[0]}
    row |= picture_sums(answers).figures() | {"focus_range": prepared.focus_range}
    if steps is not None:
        at, elsewhere = (step / prepared.focus_range for step in (steps.at_borders, steps.elsewhere))
        row |= {"seam_share": at, "elsewhere_share": elsewhere, "seam_ratio": steps.ratio}
    return [*rows, row], whole


def mean_rows(rows: list[dict[str, Any]], methods: list[str]) -> Iterator[dict[str, Any]]:
    """Of every method: the mean over all regions, each counting the same; none where it could not read some stack."""
    for method in methods:
        own = [row for row in rows if row["method"] == method and "region" in row]
        notes = [row["note"] for row in rows if row["method"] == method and "note" in row]
        if notes or not own:
            yield {"method": method, "group": EVERY, **dict.fromkeys(COLUMNS), "note": (notes or ["nothing marked"])[0]}
            continue
        means = {key: statistics.fmean(row[key] for row in own) for key in COLUMNS if key in own[0]}
        yield {"method": method, "group": EVERY, **means, "regions": len(own)}


def _write(content: bytes, file: IO[bytes]) -> None:
    file.write(content)
