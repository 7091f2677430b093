"""Protocol `measured`: what `estimate_depth` makes of stacks whose depth someone has measured, yours or published."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from focalsweep.estimate import estimate_depth
from focalsweep.results.writing import write_files
from focalsweep_research.datasets.dfd import DfdPairs
from focalsweep_research.datasets.item import Item
from focalsweep_research.datasets.opening import open_dataset
from focalsweep_research.drawing.comparison import Scene, comparison
from focalsweep_research.metrics.errors import Scoreboard
from focalsweep_research.protocols.distributed import over_processes, own_share
from focalsweep_research.protocols.pairs import evaluate_pairs
from focalsweep_research.protocols.stacks import some
from focalsweep_research.rivals.answer import FrameCountError

NAMES = ("sweep", "argmin", "focus_measure")


def evaluate_measured(
    names: list[str],
    path: Path,
    pictures: Path | None,
    device: torch.device,
    say: Callable[[str], None],
    share: float = 1.0,
) -> dict[str, Any]:
    """Errors of each stack, then their mean: raw, rescaled by the median, and affine in inverse depth.

    Args:
        names: of methods of `estimate_depth`, each with its own way to choose planes and size.
        path: see `open_dataset`.
        pictures: a folder that receives a picture of each stack, the truth and every method's depth; None for none.
        device: where to work.
        say: told of progress.
        share: below 1, so many of the stacks.
    """
    data = open_dataset(path)
    if isinstance(data, DfdPairs):
        return evaluate_pairs(names, data, device, say, share)
    board = Scoreboard(per_picture=True, rescalings=("raw", "median", "affine"))
    items = some(data, share)
    for item in own_share(items, say):
        if not bool(torch.isfinite(item.depth).any()):
            raise ValueError(f"{item.name} has no depth to compare with: evaluate real takes stacks without")
        depths: dict[str, Any] = {}
        for name in names:
            try:
                depth = estimate_depth(item.stack.to(device), name).depth
            except FrameCountError as error:
                board.refuse(name, error.note)
                continue
            board.add(name, torch.from_numpy(depth)[None], item.depth[None])
            depths[name] = depth
        if pictures:
            name = re.sub(r"[^\w.-]", "_", item.name)
            write_files({pictures / f"{name}.png": partial(_write_picture, item, depths)})
    columns = ["rmse", "mae", "abs_rel", "delta_1.25"]
    rows = over_processes(board).rows()
    return {
        "protocol": "measured", "stacks": len(items), "rows": rows,
        "table": {"columns": columns, "sections": ["rescaling"]},
    }  # fmt: skip


def _write_picture(item: Item, depths: dict[str, Any], file: IO[bytes]) -> None:
    frame = item.stack.images[int(item.stack.focus_distances.argmax())].expand(3, -1, -1)
    light = np.moveaxis(frame.float().cpu().numpy(), 0, -1)
    file.write(comparison([Scene({"Focused farthest": light}, depths, item.depth.numpy())], title=item.name))
