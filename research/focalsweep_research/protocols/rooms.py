"""Protocol `rooms`: held-out objects in furnished rooms, in full light transport (`focalsweep render rooms`).

Every method reads a stack the whole way that users go (`estimate_depth`), with its own planes and working size. Errors
are over all pixels of a group; stacks of the phone and the SLR have three times the pixels of the paper's camera.

Groups of pixels: `edges` lie within 4 px of a jump of depth; of the others `plain` ones have a texture below 0.01 (the
standard deviation of linear light in 9 x 9 px, noise off), `faint` ones one below 0.04, `textured` ones more.

Each stack is read at a half and a quarter of its size too, over the same planes: `size_alike` is the share of its cells
(without edges) whose median depths agree within 3 %, `size_agreement` that of pixels within two error bars.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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
from focalsweep_research.metrics.sizes import SHARES, SizeSums, picture_sums, region_sums, smaller_answers
from focalsweep_research.protocols.distributed import Say, Tally, over_processes, own_share
from focalsweep_research.protocols.generated import BLUR, BLUR_PX, TEXTURE, between, range_blur_px
from focalsweep_research.protocols.methods import Compared
from focalsweep_research.protocols.stacks import Gallery, some
from focalsweep_research.rivals.answer import FrameCountError

FARTHEST = 20.0  # metres: estimates are cut there; no room is deeper than 7
EDGE = 0.02  # second difference of inverse depth over inverse depth: 0 on any plane, small where two planes meet
EDGE_PX = 4
CELLS, LEAST_PX = 8, 48  # of a picture's side; of the shorter side of the smallest picture
COLUMNS = ("abs_rel", "rmse", "delta_1.05", "miscalibration", "ause_share", "size_alike", "size_agreement")
PARTS = ("plain", "faint", "textured", "edges")


@dataclass(eq=False)
class RowSums:
    """Sums of any kind by row; `+` joins those of two processes."""

    sums: dict[tuple[str, str], Any] = field(default_factory=dict)

    def add(self, row: tuple[str, str], sums: ConfidenceSums | SizeSums) -> None:
        self.sums[row] = self.sums[row] + sums if row in self.sums else sums

    def __add__(self, other: RowSums) -> RowSums:
        total = RowSums(dict(self.sums))
        for row, sums in other.sums.items():
            total.add(row, sums)
        return total


def bar_figures(sums: ConfidenceSums | None) -> dict[str, float | None]:
    """How error bars do."""
    means = sums.means() if sums else {}
    found = {**means.get("coverage", {}), **means.get("by_std", {}), **means.get("reliability", {})}
    return {name: found.get(name) for name in OF_ERROR_BARS}


def evaluate_rooms(
    methods: dict[str, Compared],
    folder: Path,
    device: torch.device,
    say: Say,
    share: float = 1.0,
    pictures: Path | None = None,
) -> dict[str, Any]:
    """Errors and error bars of every method by group; `pictures` is a folder for depth maps."""
    rooms, tally, gallery = Rooms(folder), Tally(), Gallery(pictures)
    bars, sizes = RowSums(), RowSums()
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
            agreement = agreement_over_sizes(room, method, result, found)
            if agreement:
                for group in whole:
                    sizes.add((name, group), agreement)
            for group, mask in masks.items():
                tally.add((found.depth, truth), (name, group), pixels=mask)
                bars.add((name, group), confidence_sums(found, truth, result.planes, mask))
        gallery.add(room.item, depths)
    gallery.write()
    tally, bars, sizes = over_processes(tally), over_processes(bars), over_processes(sizes)
    cameras = list(dict.fromkeys(rooms.read(place).camera for place in places))
    rows = [
        {
            "method": name,
            "group": group,
            **tally.figures(name, group),
            **bar_figures(bars.sums.get((name, group))),
            **sizes.sums.get((name, group), SizeSums()).figures(),
        }
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


def agreement_over_sizes(
    room: RoomItem, method: Compared, result: DepthResult, found: DepthPrediction
) -> SizeSums | None:
    """Of a stack and its cells without edges, read at a quarter, half and all of its size; None for tiny pictures."""
    if min(room.item.stack.size) * SHARES[0] < LEAST_PX:
        return None
    stack = room.item.stack.to(found.depth.device)
    smaller = [
        replace(one, depth=one.depth.clamp(max=FARTHEST))
        for one in smaller_answers(stack, method.choice, result.planes)
    ]
    answers = [*smaller, found]
    return sum((region_sums(answers, cell) for cell in smooth_cells(room, found.depth.device)), picture_sums(answers))


def smooth_cells(room: RoomItem, device: torch.device) -> Iterator[Tensor]:  # of H W
    """Those of CELLS x CELLS parts of the picture that hold no edge."""
    edges = near_edges(room.item.depth)
    rows, columns = ([round(i * length / CELLS) for i in range(CELLS + 1)] for length in edges.shape)
    for (top, bottom), (left, right) in itertools.product(itertools.pairwise(rows), itertools.pairwise(columns)):
        if not bool(edges[top:bottom, left:right].any()):
            cell = torch.zeros_like(edges)
            cell[top:bottom, left:right] = True
            yield cell.to(device)


def prediction_of(result: DepthResult, device: torch.device) -> DepthPrediction:
    """A result's maps as a batch of one; depth is cut at FARTHEST."""
    depth, std, confidence = (
        torch.from_numpy(maps)[None].to(device) for maps in (result.depth, result.std, result.confidence)
    )
    return DepthPrediction(depth.clamp(max=FARTHEST), std, confidence)


def _blur_px(item: Item) -> float:
    return range_blur_px(item.stack.as_batch(), item.depth[None]).item()
