"""Protocol `rooms`: held-out objects in furnished rooms, in full light transport (`focalsweep render rooms`).

Every method reads a stack the whole way that users go (`estimate_depth`), with its own planes and working size. Errors
are over all pixels of a group; stacks of the phone and the SLR have three times the pixels of the paper's camera.

Groups of pixels: `edges` lie within 4 px of a jump of depth; of the others `plain` ones have a texture below 0.01 (the
standard deviation of linear light in 9 x 9 px, noise off), `faint` ones one below 0.04, `textured` ones more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.estimate import estimate_depth
from focalsweep.results.result import DepthResult
from focalsweep.types import DepthPrediction
from focalsweep_research.datasets.item import Item
from focalsweep_research.datasets.rooms import RoomItem, Rooms
from focalsweep_research.metrics.confidence import ConfidenceSums, confidence_sums
from focalsweep_research.metrics.seeds import OF_ERROR_BARS
from focalsweep_research.protocols.distributed import Say, Tally, over_processes, own_share
from focalsweep_research.protocols.generated import BLUR, BLUR_PX, TEXTURE, between, range_blur_px
from focalsweep_research.protocols.methods import Compared
from focalsweep_research.protocols.stacks import Gallery, some
from focalsweep_research.rivals.answer import FrameCountError

FARTHEST = 20.0  # metres: estimates are cut there; no room is deeper than 7
EDGE = 0.02  # second difference of inverse depth over inverse depth: 0 on any plane, small where two planes meet
EDGE_PX = 4
COLUMNS = ("abs_rel", "rmse", "delta_1.05", "miscalibration", "ause_share")
PARTS = ("plain", "faint", "textured", "edges")


@dataclass(eq=False)
class Bars:
    """How error bars do, by row; `+` joins those of two processes."""

    sums: dict[tuple[str, str], ConfidenceSums] = field(default_factory=dict)

    def add(self, row: tuple[str, str], sums: ConfidenceSums) -> None:
        self.sums[row] = self.sums[row] + sums if row in self.sums else sums

    def figures(self, row: tuple[str, str]) -> dict[str, float | None]:
        means = self.sums[row].means() if row in self.sums else {}
        found = {**means.get("coverage", {}), **means.get("by_std", {}), **means.get("reliability", {})}
        return {name: found.get(name) for name in OF_ERROR_BARS}

    def __add__(self, other: Bars) -> Bars:
        total = Bars(dict(self.sums))
        for row, sums in other.sums.items():
            total.add(row, sums)
        return total


def evaluate_rooms(
    methods: dict[str, Compared],
    folder: Path,
    device: torch.device,
    say: Say,
    share: float = 1.0,
    pictures: Path | None = None,
) -> dict[str, Any]:
    """Errors and error bars of every method by group; `pictures` is a folder for depth maps."""
    rooms, tally, bars, gallery = Rooms(folder), Tally(), Bars(), Gallery(pictures)
    places = some(range(len(rooms)), share)
    for place in own_share(places, say):
        room = rooms.read(place)
        masks = {group: mask[None].to(device) for group, mask in pixel_groups(room).items()}
        whole, depths = stack_groups(room), {}
        truth = room.item.depth[None].to(device)
        for name, method in methods.items():
            try:
                result = estimate_depth(room.item.stack.to(device), method.choice, planes=method.own_planes)
            except FrameCountError as error:
                tally.add(error.note, *((name, group) for group in (*whole, *PARTS)))
                continue
            found = prediction_of(result, device)
            depths[name] = found.depth
            tally.add((found.depth, truth), *((name, group) for group in whole))
            sums = confidence_sums(found, truth, result.planes)
            for group in whole:
                bars.add((name, group), sums)
            for group, mask in masks.items():
                tally.add((found.depth, truth), (name, group), pixels=mask)
                bars.add((name, group), confidence_sums(found, truth, result.planes, mask))
        gallery.add(room.item, depths)
    gallery.write()
    tally, bars = over_processes(tally), over_processes(bars)
    cameras = list(dict.fromkeys(rooms.read(place).camera for place in places))
    rows = [
        {"method": name, "group": group, **tally.figures(name, group), **bars.figures((name, group))}
        for group in _groups(cameras)
        for name in methods
        if "note" in (figures := tally.figures(name, group)) or figures["pixels"]
    ]
    return {
        "protocol": "rooms",
        "stacks": len(places),
        "rows": rows,
        "table": {"columns": list(COLUMNS), "sections": ["group"]},
    }


def _groups(cameras: list[str]) -> Iterator[str]:
    blurs = [BLUR.format(*ends) for ends in itertools.pairwise(BLUR_PX)]
    flaws = ("clean", "flawed")
    yield from ("all", *flaws, *cameras, *(f"{camera}, {flaw}" for camera in cameras for flaw in flaws))
    yield from (*PARTS, *blurs)


def stack_groups(room: RoomItem) -> list[str]:
    """Those that all pixels of a stack belong to."""
    flaw = "flawed" if room.flawed else "clean"
    blur = between(BLUR, BLUR_PX, torch.tensor(_blur_px(room.item)))
    return ["all", flaw, room.camera, f"{room.camera}, {flaw}", *(group for group, inside in blur.items() if inside)]


def pixel_groups(room: RoomItem) -> dict[str, Tensor]:  # of H W
    """Edges, and the other pixels by their texture."""
    edges = near_edges(room.item.depth)
    faint, textured = TEXTURE[1], TEXTURE[2]
    texture = room.texture
    parts = (texture < faint, (texture >= faint) & (texture < textured), texture >= textured)
    return {**{group: part & ~edges for group, part in zip(PARTS, parts, strict=False)}, "edges": edges}


def near_edges(depth: Tensor) -> Tensor:  # H W
    """Within EDGE_PX of a place where inverse depth bends as no surface does: planes are linear in it."""
    inverse = (1 / depth)[None, None]
    jumps = torch.zeros_like(inverse)
    for axis in (-1, -2):
        bend = inverse.diff(n=2, dim=axis).abs()
        width = (1, 1, 0, 0) if axis == -1 else (0, 0, 1, 1)
        jumps = torch.maximum(jumps, functional.pad(bend, width) / inverse)
    near = functional.max_pool2d((jumps > EDGE).float(), 2 * EDGE_PX + 1, stride=1, padding=EDGE_PX)
    return near[0, 0] > 0


def prediction_of(result: DepthResult, device: torch.device) -> DepthPrediction:
    """A result's maps as a batch of one; depth is cut at FARTHEST."""
    depth, std, confidence = (
        torch.from_numpy(maps)[None].to(device) for maps in (result.depth, result.std, result.confidence)
    )
    return DepthPrediction(depth.clamp(max=FARTHEST), std, confidence)


def _blur_px(item: Item) -> float:
    return range_blur_px(item.stack.as_batch(), item.depth[None]).item()
