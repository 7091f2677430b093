"""Protocols on datasets of stacks with depth: the paper's experiments.

`defocusnet`: the rendered benchmark's test stacks, at the paper's scales (its Table 2, and Table 6 at scale 1).
`focus-split`: the same with the two frames that no training on the other three has seen (Table 3).
`nyu`: NYU Depth V2 blurred by the layered renderer, in twelve windows a picture (Table 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from focalsweep.optics.light import srgb_to_linear
from focalsweep.results.writing import write_files
from focalsweep_research.datasets.defocusnet import DATASET_END, benchmark_part
from focalsweep_research.datasets.item import Item
from focalsweep_research.datasets.nyu import CROP_PX, CROPS, Nyu, NyuSetup, part_of
from focalsweep_research.datasets.source import BEYOND, as_displayed, with_frames
from focalsweep_research.drawing import comparison as figures
from focalsweep_research.drawing.comparison import Scene
from focalsweep_research.metrics.bands import BandErrors
from focalsweep_research.metrics.errors import Scoreboard
from focalsweep_research.protocols.distributed import Say, is_main_process, over_processes, own_share
from focalsweep_research.protocols.methods import Compared
from focalsweep_research.rivals.answer import FrameCountError
from focalsweep_research.synthesis.sample import Sample

T = TypeVar("T")
Methods = dict[str, Compared]

BANDS = tuple(0.25 * k for k in range(13))  # of true depth, for a curve
SCALES = (1.0, 3.0, 5.0, 7.0, 9.0)  # the paper's Table 2
SPLIT_FRAMES = (1, 3)  # 0.15 and 0.7 m; training had 0.1, 0.3 and 1.5
NYU_UNIT = "1/0.3 m"  # depths times 0.3
SHOWN = 3  # stacks whose depth maps are drawn


def evaluate_defocusnet(
    methods: Methods, folder: Path, device: torch.device, say: Say, share: float = 1.0, pictures: Path | None = None
) -> dict[str, Any]:
    """Errors of each picture, then their mean, at the paper's scales; `pictures` is a folder for depth maps.

    What a scale moves beyond 3 m, where the planes end, does not count: counted as 3 m, most of a picture would be
    right by saying "far".
    """
    gallery = Gallery(pictures)
    bands = BandErrors(BANDS)
    boards = {
        scale: Scoreboard(per_picture=True, rescalings=("raw", "median"), farthest=DATASET_END) for scale in SCALES
    }
    items = some(benchmark_part(folder, "test"), share)
    for item in own_share(items, say, 10):
        for scale, board in boards.items():
            scaled = replace(item, stack=item.stack.scaled(scale), depth=within_planes(item.depth * scale))
            depths = count(board, methods, scaled, device, bands=bands if scale == 1 else None)
            if scale == 1:
                gallery.add(scaled, depths)
    gallery.write()
    rows = [{"scale": f"{scale:g}", **row} for scale, board in boards.items() for row in _rows(board)]
    return {
        "protocol": "defocusnet",
        "stacks": len(items),
        "rows": rows,
        "by_depth": over_processes(bands).rows(),
        "table": {"columns": ["rmse"], "across": "scale", "sections": ["rescaling"]},
        "anchors": [
            *_by_scale("PaperNet, outlier removal alone", 0.261, 0.415, 0.450, 0.463, 0.475),
            *_by_scale("PaperNet, normalisation alone", 0.232, 0.351, 0.377, 0.396, 0.422),
            *_by_scale("PaperNet", 0.239, 0.363, 0.373, 0.380, 0.403),
            *_by_scale("DefocusNet", 0.177),
            *_by_scale("AiFDepthNet", 0.156),
        ],
    }


def evaluate_focus_split(
    methods: Methods, folder: Path, device: torch.device, say: Say, share: float = 1.0, pictures: Path | None = None
) -> dict[str, Any]:
    """As `defocusnet` at scale 1, with the frames at 0.15 and 0.7 m alone."""
    gallery = Gallery(pictures)
    board = Scoreboard(per_picture=True, rescalings=("raw", "median"), farthest=DATASET_END)
    items = some(benchmark_part(folder, "test"), share)
    for item in own_share(items, say, 10):
        split = with_frames(item, SPLIT_FRAMES)
        gallery.add(split, count(board, methods, split, device))
    gallery.write()
    return {
        "protocol": "focus-split",
        "stacks": len(items),
        "rows": _rows(board),
        "table": {"columns": ["rmse", "mae", "abs_rel"], "sections": ["rescaling"]},
        "anchors": [
            {"method": "PaperNet", "rescaling": "raw", "rmse": 0.242},
            {"method": "DefocusNet", "rescaling": "raw", "rmse": 0.299},
        ],
    }


def evaluate_nyu(
    methods: Methods,
    folder: Path,
    device: torch.device,
    say: Say,
    share: float = 1.0,
    setup: NyuSetup | None = None,
    protocol: str = "nyu",
    cache: Path | None = None,
    pictures: Path | None = None,
) -> dict[str, Any]:
    """Errors of each window of 256 px, then their mean; raw, rescaled by the median, and affine in inverse depth.

    `nyu-trained` is the same for networks that were trained on NYU, beside the paper's of that kind; `nyu-gaussian` has
    pictures blurred by Gaussians, as in the parameters that Carvalho published, where the paper says disks.
    """
    board = Scoreboard(per_picture=True, rescalings=("raw", "median", "affine"), farthest=DATASET_END)
    bands = BandErrors(BANDS)
    gallery = Gallery(pictures)
    setup = setup or NyuSetup()
    path, ids = part_of(folder, "test")
    items = some(Nyu(path, ids, setup=setup, device=device, cache=cache), share)
    for item in own_share(items, say, 10):
        displayed = setup.light == "display"
        depths = count(board, methods, item, device, windows=CROPS, displayed=displayed, bands=bands)
        gallery.add(item, depths, len(CROPS) // 2, displayed)
    gallery.write()
    return {
        "protocol": protocol,
        "pictures": len(items),
        "light": setup.light,
        "psf": str(setup.psf),
        "rows": _rows(board),
        "by_depth": over_processes(bands).rows(),
        "table": {
            "columns": ["mae", "rmse", "abs_rel", "sc_inv", "ssitrim"],
            "sections": ["rescaling"],
            "length_unit": NYU_UNIT,
        },
        "anchors": TRAINED_ON_NYU if protocol == "nyu-trained" else [*TRAINED_ELSEWHERE, *TRAINED_ON_NYU],
    }


def some(items: Sequence[T], share: float) -> Sequence[T]:
    """Every n-th of them, so that a share is spread over all."""
    return items[:: max(1, round(1 / share))]


def within_planes(depth: Tensor) -> Tensor:
    """Depth that does not count where it lies beyond the planes."""
    return depth.masked_fill(depth > (1 + BEYOND) * DATASET_END, torch.nan).clamp(max=DATASET_END)


def count(
    board: Scoreboard,
    methods: Methods,
    item: Item,
    device: torch.device,
    windows: Sequence[tuple[int, int]] | None = None,
    displayed: bool = False,
    bands: BandErrors | None = None,
) -> dict[str, Tensor]:  # N h w, of every method that reads such a stack
    """All methods on one stack. `displayed`: its values are display-encoded and stand as light."""
    depths: dict[str, Tensor] = {}
    stack, truth = item.stack.to(device), item.depth.to(device)[None]
    known = truth if windows is None else _cut(truth, windows)
    for name, method in methods.items():
        sample = Sample(stack.as_batch(), method.planes(stack), truth)
        if displayed and method.displayed:
            sample = as_displayed(sample)
        try:
            depth = _read(method, sample, windows)
        except FrameCountError as error:
            board.refuse(name, error.note)
            continue
        board.add(name, depth, known)
        depths[name] = depth.clamp(max=DATASET_END)
        if bands:
            bands.add(name, depths[name], known)
    return depths


class Gallery:
    """The first stacks with every method's depth, for people (the paper's Figures 8 and 12): depths.png of a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._scenes: list[Scene] = []

    def add(self, item: Item, depths: dict[str, Tensor], window: int | None = None, displayed: bool = False) -> None:
        """A stack's farthest frame, truth and depths, all of it or in one window; no more than SHOWN are kept."""
        if not depths or len(self._scenes) == SHOWN:
            return
        frame = item.stack.images[int(item.stack.focus_distances.argmax())].expand(3, -1, -1)
        maps = torch.cat([srgb_to_linear(frame) if displayed else frame, item.depth[None].to(frame)])
        if window is not None:
            top, left = CROPS[window]
            maps = maps[:, top : top + CROP_PX, left : left + CROP_PX]
        light, truth = (part.float().cpu().numpy() for part in (maps[:3].movedim(0, -1), maps[3]))
        found = {name: depth[window or 0].float().cpu().numpy() for name, depth in depths.items()}
        self._scenes.append(Scene({"Focused farthest": light}, found, truth))

    def write(self) -> None:
        """Of several processes only the main one writes, and what it has seen itself."""
        if self._folder and self._scenes and is_main_process():
            png = figures.comparison(self._scenes)
            write_files({self._folder / "depths.png": lambda file: file.write(png)})


def _read(method: Compared, sample: Sample, windows: Sequence[tuple[int, int]] | None) -> Tensor:
    if windows is None:
        return method.read(sample)
    if method.read_windows:
        return method.read_windows(sample, windows, CROP_PX)
    return _cut(method.read(sample), windows)


def _cut(maps: Tensor, windows: Sequence[tuple[int, int]]) -> Tensor:  # N 256 256
    return torch.stack([maps[0, top : top + CROP_PX, left : left + CROP_PX] for top, left in windows])


def _rows(board: Scoreboard) -> list[dict[str, Any]]:
    return over_processes(board).rows()


def _by_scale(method: str, *rmse: float) -> list[dict[str, Any]]:
    return [
        {"method": method, "rescaling": "raw", "scale": f"{scale:g}", "rmse": value}
        for scale, value in zip(SCALES, rmse, strict=False)
    ]


def _anchor(method: str, rescaling: str, *figures: float) -> dict[str, Any]:
    names = ("mae", "rmse", "abs_rel", "sc_inv", "ssitrim")
    return {"method": method, "rescaling": rescaling, **dict(zip(names, figures, strict=True))}


TRAINED_ELSEWHERE = [
    _anchor("DDFF", "raw", 0.719, 0.773, 0.793, 0.199, 0.318),
    _anchor("AiFDepthNet", "raw", 0.425, 0.491, 0.412, 0.319, 0.509),
    _anchor("DefocusNet", "raw", 0.599, 0.621, 0.706, 0.213, 0.209),
    _anchor("PaperNet", "raw", 0.139, 0.186, 0.181, 0.157, 0.209),
    _anchor("DDFF", "median", 0.138, 0.313, 0.165, 0.199, 0.318),
    _anchor("AiFDepthNet", "median", 0.239, 0.312, 0.276, 0.319, 0.509),
    _anchor("DefocusNet", "median", 0.184, 0.322, 0.188, 0.213, 0.209),
    _anchor("PaperNet", "median", 0.097, 0.141, 0.126, 0.157, 0.209),
]
TRAINED_ON_NYU = [
    _anchor("DefocusNet, trained on NYU", "raw", 0.016, 0.029, 0.018, 0.030, 0.033),
    _anchor("PaperNet, trained on NYU", "raw", 0.032, 0.054, 0.034, 0.050, 0.062),
]
