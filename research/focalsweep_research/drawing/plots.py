"""The paper's figures, from result files, from stacks, and from PaperNet: `focalsweep figure` draws them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.estimate import auto_depth_grid
from focalsweep.methods.paper import planes_over, within_blur
from focalsweep.model.aggregation import CENTRE, NEIGHBOURS
from focalsweep.model.papernet import PaperNet
from focalsweep.optics.light import linear_to_srgb
from focalsweep.results.result import Array
from focalsweep.sweep.argmin import find_minimum
from focalsweep.sweep.colour import project_to_dominant_colour
from focalsweep.sweep.costs import PaperCost, ReblurCost
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import DepthGrid, FocalStack
from focalsweep_research.drawing.comparison import Scene, comparison
from focalsweep_research.protocols.robustness import FACTORS

Pixel = tuple[int, int]  # row, column
LABELS = {"abs_rel": "AbsRel", "rmse": "RMSE, m", "mae": "MAE, m"}
COSTS: dict[str, PaperCost | ReblurCost] = {
    "paper, as it comes": PaperCost(outlier_removal=False, normalise=False),
    "paper, outlier removal and normalisation": PaperCost(),
    "re-blur (ours)": ReblurCost(),
}
METHODS = (
    "sweep", "argmin", "focus_measure", "paper", "SweepNet", "DefocusNet", "AiFDepthNet", "suwajanakorn", "DDFF",
    "argmin:cost=paper",
)  # fmt: skip
"""Each has one colour in every figure, in the order of matplotlib's."""
WIDE_RANGE = 15  # of errors: beyond it the small ones would lie on the axis
LEGEND_LETTERS = 20  # of a line of the legend
DILATION = 2  # of the aggregation's neighbours at rest
WINDOW_PX = 24  # around a pixel whose offsets are shown


def plot_stack_size(record: Mapping[str, Any], metric: str = "abs_rel") -> bytes:
    """A PNG: the error of every method against the number of frames (the paper's Figure 10)."""
    rows = [{**row, "frames": int(row["frames"])} for row in record["rows"] if row.get("noise") == "both"]
    return _lines(rows, "frames", "number of frames", metric)


def plot_depth(record: Mapping[str, Any], metric: str = "abs_rel") -> bytes:
    """A PNG: the error of every method against the true depth, in bands of it."""
    rows = [{**row, "middle": (row["near"] + row["far"]) / 2} for row in record.get("by_depth", ())]
    return _lines(rows, "middle", "true depth, m", metric)


def plot_factor(record: Mapping[str, Any], factor: str, metric: str = "abs_rel") -> bytes:
    """A PNG: the error of every method over the levels of one factor, from a result of `evaluate_robustness`."""
    rows = [row for row in record["rows"] if row["factor"] == factor]
    if not rows:
        measured = ", ".join(dict.fromkeys(row["factor"] for row in record["rows"]))
        raise ValueError(f"the result has no factor {factor!r}: it has {measured}")
    return _lines(rows, "level", FACTORS[factor].label if factor in FACTORS else factor, metric, factor == "jpeg")


def write_factors(record: Mapping[str, Any], folder: Path, metric: str = "abs_rel") -> list[Path]:
    """robustness_FACTOR.png for every factor of a result."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for factor in dict.fromkeys(row["factor"] for row in record["rows"]):
        paths.append(folder / f"robustness_{factor}.png")
        paths[-1].write_bytes(plot_factor(record, factor, metric))
    return paths


def plot_training(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> bytes:
    """A PNG: AbsRel of runs against the steps, of training as a line and of validation as points.

    Args:
        logs: the lines of log.jsonl by the name of the run; every network reports AbsRel.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.6, 3.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for number, (name, lines) in enumerate(logs.items()):
        seen, kept = _curve(lines, "figures"), _curve(lines, "validation")
        axes.plot(*seen, color=f"C{number}", alpha=0.5, linewidth=1)
        axes.plot(*kept, "o", color=f"C{number}", label=name, markersize=5)
    axes.set_xlabel("steps")
    axes.set_ylabel("AbsRel: training (line), validation (points)")
    axes.set_yscale("log")
    axes.grid(alpha=0.3, which="both")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return _png(figure)


def _curve(lines: Sequence[Mapping[str, Any]], part: str) -> tuple[list[int], list[float]]:
    """Steps and AbsRel, where a line has it."""
    found = [(line["step"], line[part]["abs_rel"]) for line in lines if line.get(part, {}).get("abs_rel") is not None]
    return [step for step, _ in found], [value for _, value in found]


def _lines(rows: Sequence[Mapping[str, Any]], across: str, words: str, metric: str, falling: bool = False) -> bytes:
    """A line for each method, with bars where it has a spread over runs; points alone where `across` holds names.

    `falling`: what is worse has the lower number, and still lies to the right.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not rows:
        raise ValueError(f"the result has no errors by {across}: give one of another protocol")
    levels = list(dict.fromkeys(row[across] for row in rows))
    named = any(isinstance(level, str) for level in levels)
    figure = Figure(figsize=(6.6, 3.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    drawn: list[float] = []
    for method, colour in _colours(row["method"] for row in rows).items():
        found = [row for row in rows if row["method"] == method and row.get(metric) is not None]
        spread = [row.get("std", {}).get(metric, 0.0) for row in found]
        places = [levels.index(row[across]) if named else row[across] for row in found]
        values = [row[metric] for row in found]
        form = "o" if named else "o-" if colour < len(METHODS) else "s--"  # colours come again
        axes.errorbar(
            places, values, spread if any(spread) else None, fmt=form, color=f"C{colour}", label=_wrapped(method),
            markersize=4, capsize=3,
        )  # fmt: skip
        drawn += values
    axes.set_xlabel(words)
    axes.set_ylabel(LABELS.get(metric, metric))
    if drawn and min(drawn) > 0 and max(drawn) > WIDE_RANGE * min(drawn):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if named:
        axes.set_xticks(range(len(levels)), levels)
        axes.margins(x=0.2)
    elif all(isinstance(level, int) for level in levels):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if falling:
        axes.invert_xaxis()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return _png(figure)


def _colours(methods: Iterable[str]) -> dict[str, int]:
    """The number of each method's colour, the same for "(n=3)" runs of it; those not in METHODS have the next."""
    colours: dict[str, int] = {}
    for method in dict.fromkeys(methods):
        name = _without_planes(method.partition(" (n=")[0])
        colours[method] = METHODS.index(name) if name in METHODS else len(METHODS) + len(colours)
    return dict(sorted(colours.items(), key=lambda item: item[1]))


def _without_planes(name: str) -> str:
    """A row's name without what a protocol asks of planes and size: "paper:range=0.1-3,size=full" is "paper"."""
    method, _, settings = name.partition(":")
    kept = [part for part in settings.split(",") if part and part.partition("=")[0] not in ("range", "spacing", "size")]
    return f"{method}:{','.join(kept)}" if kept else method


def _wrapped(name: str) -> str:
    """A row's name for a legend: lines end after commas, and are short where they can be."""
    lines = [""]
    for part in re.findall(r"[^,]+,?", name):
        if len(lines[-1] + part) > LEGEND_LETTERS and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip() for line in lines)


@torch.no_grad()
def plot_costs(stack: FocalStack, pixels: Sequence[Pixel] = (), truth: Array | None = None) -> bytes:
    """A PNG: three costs over depth at pixels of a picture, the true depth as a red line (the paper's Figure 6).

    Args:
        stack: not batched.
        pixels: at most a few; by default one with much texture and one with little.
        truth: H W, metres, where it is known.
    """
    from matplotlib.figure import Figure

    pixels = _inside(pixels or _telling_pixels(stack), stack)
    planes, _ = auto_depth_grid(stack)
    depths = planes.inverse_depths.numpy()
    volumes = {words: _volume(stack, planes, cost) for words, cost in COSTS.items()}
    figure = Figure(figsize=(3.2 * (1 + len(COSTS)), 2.8 * len(pixels)), dpi=120, layout="constrained")
    for number, (row, column) in enumerate(pixels):
        axes = figure.add_subplot(len(pixels), 1 + len(COSTS), number * (1 + len(COSTS)) + 1)
        axes.imshow(_farthest(stack))
        axes.plot(column, row, "o", color="lime", markeredgecolor="black")
        axes.set_axis_off()
        for place, (words, volume) in enumerate(volumes.items(), 2):
            axes = figure.add_subplot(len(pixels), 1 + len(COSTS), number * (1 + len(COSTS)) + place)
            axes.plot(depths, volume[:, row, column].cpu().numpy())
            if truth is not None:
                axes.axvline(1 / truth[row, column], color="red", linewidth=1)
            axes.set_title(words, fontsize=9)
            axes.set_xlabel("inverse depth, 1/m")
            axes.grid(alpha=0.3)
    return _png(figure)


@torch.no_grad()
def plot_neighbours(stack: FocalStack, truth: Array | None = None) -> bytes:
    """A PNG: depth at the lowest of the paper's cost without and with neighbouring pixels (Figure 5), and of ours."""
    planes, _ = auto_depth_grid(stack)
    costs: dict[str, PaperCost | ReblurCost] = {
        "Paper, without neighbours": PaperCost(neighbourhood_sigma_px=0.0),
        "Paper, with neighbours": PaperCost(),
        "Re-blur (ours)": ReblurCost(),
    }
    inverse = planes.as_batch(1)
    depths = {
        words: (1 / find_minimum(_volume(stack, planes, cost)[None], inverse).inverse_depth[0]).float().cpu().numpy()
        for words, cost in costs.items()
    }
    frame = np.moveaxis(stack.images[int(stack.focus_distances.argmax())].float().cpu().numpy(), 0, -1)
    return comparison([Scene({"Focused farthest": frame}, depths, truth)], title="The lowest cost alone, no network")


@torch.no_grad()
def plot_offsets(network: PaperNet, stack: FocalStack, pixels: Sequence[Pixel] = ()) -> bytes:
    """A PNG: where the upsample blocks gather costs, at rest and as it was learned (the paper's Figure 7)."""
    from matplotlib.figure import Figure

    pixels = _inside(pixels or _telling_pixels(stack), stack)
    blocks = {4: network.refine_4, 2: network.refine_2, 1: network.refine_1}
    kept: dict[tuple[int, str], Tensor] = {}

    def keeper(scale: int, name: str) -> Callable[..., None]:
        return lambda module, given, answer: kept.update({(scale, name): answer[0].float().cpu()})

    hooks = [
        getattr(block, name).register_forward_hook(keeper(scale, name))
        for scale, block in blocks.items()
        for name in ("offsets", "weights")
    ]
    try:
        planes = within_blur(stack, planes_over(auto_depth_grid(stack)[0]))
        picture = linear_to_srgb(stack.images[int(stack.focus_distances.argmax())])[None].expand(-1, 3, -1, -1)
        network(picture.float(), _volume(stack, planes, PaperCost())[None])
    finally:
        for hook in hooks:
            hook.remove()
    columns = 1 + len(blocks)
    figure = Figure(figsize=(3.2 * columns, 3.2 * len(pixels)), dpi=120, layout="constrained")
    for number, (row, column) in enumerate(pixels):
        for place, scale in enumerate((0, *blocks), 1):
            axes = figure.add_subplot(len(pixels), columns, columns * number + place)
            axes.imshow(_farthest(stack))
            axes.set_axis_off()
            axes.plot(column, row, "+" if scale else "s", color="deepskyblue", fillstyle="none", markersize=10)
            if not scale:
                continue
            at = (row // scale, column // scale)
            moves = kept[scale, "offsets"][:, at[0], at[1]].view(NEIGHBOURS, 2).clone()
            moves[CENTRE] = 0
            shares = torch.softmax(kept[scale, "weights"][:, at[0], at[1]], 0).numpy()
            rest, learned = (gathered_from(at, by, scale) for by in (torch.zeros_like(moves), moves))
            axes.scatter(rest[:, 1], rest[:, 0], s=50, facecolors="none", edgecolors="white")
            axes.scatter(learned[:, 1], learned[:, 0], s=20 + 300 * shares, c="lime", edgecolors="black", alpha=0.8)
            axes.set_title(f"at 1/{scale} of the size" if scale > 1 else "at full size", fontsize=9)
            axes.set_xlim(column - WINDOW_PX, column + WINDOW_PX)
            axes.set_ylim(row + WINDOW_PX, row - WINDOW_PX)
    return _png(figure)


def gathered_from(pixel: Pixel, moves: Tensor, scale: int = 1) -> Array:
    """Rows and columns of a pixel's nine places, 9 2: a grid of DILATION px, row by row, and the moves.

    Of a pixel at 1 / `scale` of the size the places are those of the full size.
    """
    steps = DILATION * torch.arange(-1, 2)
    at_rest = torch.cartesian_prod(steps, steps) + torch.tensor(pixel)
    return ((at_rest + moves + 0.5) * scale - 0.5).numpy().astype(np.float32)


def _volume(stack: FocalStack, planes: DepthGrid, cost: PaperCost | ReblurCost) -> Tensor:  # D H W
    batch = stack.as_batch()
    return cost_volume(project_to_dominant_colour(batch) if isinstance(cost, ReblurCost) else batch, planes, cost)[0]


def _farthest(stack: FocalStack) -> Array:
    frame = linear_to_srgb(stack.images[int(stack.focus_distances.argmax())].float().cpu()).clamp(0, 1)
    return frame.expand(3, -1, -1).movedim(0, -1).numpy()


def _telling_pixels(stack: FocalStack) -> list[Pixel]:
    """One where the frames have much contrast, and one where they have little; not at the border."""
    grey = stack.images.float().mean((0, 1))
    margin = max(1, min(grey.shape) // 8)
    contrast = torch.nn.functional.avg_pool2d(
        torch.gradient(grey)[0].square()[None, None] + torch.gradient(grey)[1].square()[None, None], 9, 1, 4
    )[0, 0, margin:-margin, margin:-margin]
    places = (int(contrast.argmax()), int(contrast.argmin()))
    return [(place // contrast.shape[1] + margin, place % contrast.shape[1] + margin) for place in places]


def _inside(pixels: Iterable[Pixel], stack: FocalStack) -> list[Pixel]:
    height, width = stack.size
    for row, column in pixels:
        if not (0 <= row < height and 0 <= column < width):
            raise ValueError(f"row {row}, column {column} lies outside a picture of {width} x {height} px")
    return list(pixels)


def _png(figure: Any) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
