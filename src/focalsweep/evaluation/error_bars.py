"""Protocol `confidence`: whether methods know where they are wrong, on generated stacks that no training saw.

The stacks have all the flaws that training stacks have. Depths beyond FARTHEST do not count: an error bar in metres
says nothing of infinity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import torch

from focalsweep.baselines.protocol import FrameCountError
from focalsweep.evaluation.confidence import LAPLACE, ConfidenceSums, confidence_sums
from focalsweep.evaluation.generated import BATCH, DATA, FARTHEST, SEED, batch_of
from focalsweep.evaluation.shares import Say, in_turn, over_processes
from focalsweep.pipeline import METHODS

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
    names: Sequence[str], textures: str, device: torch.device, say: Say, share: float = 1.0
) -> dict[str, Any]:
    """Coverage of the std, sparsification and reliability of methods that `estimate_depth` knows by name."""
    for name in names:
        if name not in METHODS:
            raise ValueError(f"no method is called {name!r}: it is one of {', '.join(METHODS)}")
    config = replace(DATA, seed=SEED + 4, texture_folder=textures)
    stacks = max(BATCH, round(STACKS * share / BATCH) * BATCH)
    sums = {name: ConfidenceSums() for name in names}
    notes: dict[str, str] = {}
    for step in in_turn(range(stacks // BATCH), say):
        sample = batch_of(config, step, BATCH, device)
        stack, depth = sample.stack.as_batch(), sample.depth
        counted = depth < FARTHEST / sample.planes.as_batch(len(depth)).to(depth)[:, :1, None]
        for name in names:
            try:
                prediction = METHODS[name](stack, sample.planes)
            except FrameCountError as error:  # what is left would not be what the others had
                notes[name] = error.note
            else:
                sums[name] += confidence_sums(prediction, depth, sample.planes, counted)
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
        "stacks": stacks,
        "rows": rows,
        "curves": curves,
        "table": {"columns": list(COLUMNS), "sections": [], "source": "what error bars should have"},
        "anchors": [EXACT],
    }


def plot_confidence(record: Mapping[str, Any]) -> bytes:
    """A PNG: the error of what is left as the least sure pixels go, and how often a confidence is right."""
    from matplotlib.figure import Figure

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
