"""Protocol `confidence`: whether methods know where they are wrong, on stacks that no training saw.

They are the test stacks of the rendered benchmark, or generated ones, with all the flaws that training stacks have.
Depths where a dataset ends, or beyond DEPTH_END, do not count: an error bar in metres says nothing of infinity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from focalsweep.estimate import auto_depth_grid, predict
from focalsweep_research.datasets.defocusnet import DATASET_END, benchmark_part
from focalsweep_research.metrics.confidence import LAPLACE, ConfidenceSums, confidence_sums
from focalsweep_research.protocols.distributed import Say, over_processes, own_share
from focalsweep_research.protocols.generated import BATCH, DATA, SEED, batch_of
from focalsweep_research.protocols.methods import compared
from focalsweep_research.protocols.stacks import some
from focalsweep_research.rivals.answer import FrameCountError
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.objectives import DEPTH_END

Samples = Iterator[tuple[Sample, Tensor]]
STACKS = 100
NAMES = ("argmin", "sweep", "focus_measure")
COLUMNS = ("within_1_std", "within_2_std", "miscalibration", "ause_share", "aurg_share", "ece")
EXACT = {
    "method": "errors of exactly that Laplace distribution",
    "within_1_std": LAPLACE["expected_within_1_std"],
    "within_2_std": LAPLACE["expected_within_2_std"],
    "miscalibration": 0.0,
    "ece": 0.0,
}


def evaluate_confidence(
    names: Sequence[str], data: Path | None, textures: str, device: torch.device, say: Say, share: float = 1.0
) -> dict[str, Any]:
    """Coverage of the std, sparsification and reliability of methods that `estimate_depth` knows by name.

    `data` is the benchmark's folder; without it stacks are generated.
    """
    methods = {name: compared(name) for name in names}
    sums = {name: ConfidenceSums() for name in names}
    notes: dict[str, str] = {}
    count, samples = _generated(textures, device, say, share) if data is None else _stored(data, device, say, share)
    for sample, farthest in samples:
        stack, depth = sample.stack.as_batch(), sample.depth
        for name in names:
            try:
                found = predict(stack, methods[name].choice, sample.planes)
            except FrameCountError as error:  # what is left would not be what the others had
                notes[name] = error.note
                continue
            found = replace(found, depth=torch.minimum(found.depth, farthest))
            sums[name] += confidence_sums(found, depth, sample.planes, depth < farthest)
    notes = dict(over_processes(list(notes.items())))
    rows, curves = [], {}
    for name in names:
        total = over_processes(sums[name])
        if name in notes:
            rows.append({"method": name, **dict.fromkeys(COLUMNS), "note": notes[name]})
            continue
        parts = total.means()
        rows.append({"method": name, **parts["coverage"], **parts["by_std"], **parts["reliability"]})
        curves[name] = {**total.by_std.curves(), "bins": total.reliability.bins()}
    return {
        "protocol": "confidence",
        "stacks": count,
        "data": "generated" if data is None else "benchmark",
        "rows": rows,
        "curves": curves,
        "table": {"columns": list(COLUMNS), "sections": [], "source": "what error bars should have"},
        "anchors": [EXACT],
    }


def _generated(textures: str, device: torch.device, say: Say, share: float) -> tuple[int, Samples]:
    """How many stacks there are; those of this process, and how far their depths count, B 1 1."""
    config = replace(DATA, seed=SEED + 4, texture_folder=textures)
    stacks = max(BATCH, round(STACKS * share / BATCH) * BATCH)

    def samples() -> Samples:
        for step in own_share(range(stacks // BATCH), say):
            sample = batch_of(config, step, BATCH, device)
            yield sample, DEPTH_END / sample.planes.as_batch(BATCH).to(sample.depth)[:, :1, None]

    return stacks, samples()


def _stored(folder: Path, device: torch.device, say: Say, share: float) -> tuple[int, Samples]:
    items = some(benchmark_part(folder, "test"), share)

    def samples() -> Samples:
        for item in own_share(items, say, 10):
            stack = item.stack.to(device)
            depth = item.depth.to(device)[None]
            yield Sample(stack.as_batch(), auto_depth_grid(stack)[0], depth), depth.new_full((1, 1, 1), DATASET_END)

    return len(items), samples()


def plot_confidence(record: Mapping[str, Any]) -> bytes:
    """A PNG: the error of what is left as the least sure pixels go, and how often a confidence is right."""
    from matplotlib.figure import Figure

    if "curves" not in record:
        raise ValueError(f"a result of {record.get('protocol')} has no curves: give one of evaluate confidence")
    figure = Figure(figsize=(8.4, 3.6), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (name, curve) in enumerate(record["curves"].items()):
        colour = f"C{number}"
        left.plot(curve["removed"][:-1], curve["error"][:-1], color=colour, label=name)
        left.plot(curve["removed"][:-1], curve["oracle"][:-1], color=colour, linestyle=":", linewidth=1)
        bins = curve["bins"]
        right.plot(
            [row["confidence"] for row in bins], [row["right"] for row in bins], "o-", color=colour, markersize=3
        )
    left.set_xlabel("least sure pixels left out (dotted: the most wrong)")
    left.set_ylabel("AbsRel of the rest")
    left.set_ylim(bottom=0)
    left.legend(fontsize=8, frameon=False)
    right.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    right.set_xlabel("confidence")
    right.set_ylabel("share within 1.5 planes")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
