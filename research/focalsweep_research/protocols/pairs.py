"""Protocol `measured` on pairs of two apertures and one focus: depth beyond the focus, and how fast blur really grows.

Such a pair shows how far from the focus a point is only times the growth of blur: half the growth and twice the
distance in inverse depth look the same, whatever the scene. So the growth comes from the settings, from one measured
point of the pair (`--known-distance`), or from the measured depth of other pairs of the same lens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from focalsweep.errors import InputError
from focalsweep.estimate import predict
from focalsweep.sweep.known_distance import KnownDistance, Rescaling, rescaling
from focalsweep.types import DepthGrid, DepthPrediction
from focalsweep_research.datasets.dfd import DfdPairs
from focalsweep_research.datasets.item import Item
from focalsweep_research.protocols.stacks import some

Array = npt.NDArray[Any]
NEAR, FAR = 1.75, 6.0  # metres, of the pixels that count: beyond the focus, where blur grows steadily
PLANES = (1.68, 9.0)  # metres: wide enough for a blur that grows an eighth faster than told
LEAST_INLIERS = 150  # below it a registration is not to be trusted
TEN = 10  # pairs whose measured depth the growth of blur is found from; the others are measured
LEAST_AWAY = 0.15  # dioptres from the focus, of a point that sets the scale
BORDER = 24  # pixels, of which registration has drawn some out


@dataclass
class _Row:
    """Errors of a method with one way to know the blur: of every pair, the sums over its pixels."""

    relative: list[float] = field(default_factory=list)
    signed: list[float] = field(default_factory=list)
    pixels: list[int] = field(default_factory=list)

    def add(self, depth: Array, truth: Array, counted: Array) -> None:
        off = np.minimum(depth[counted], PLANES[1]) / truth[counted] - 1
        self.relative.append(float(np.abs(off).sum()))
        self.signed.append(float(off.sum()))
        self.pixels.append(int(counted.sum()))

    def figures(self) -> dict[str, float]:
        pixels = sum(self.pixels)
        return {"abs_rel": sum(self.relative) / pixels, "bias": sum(self.signed) / pixels, "pixels": pixels}


@dataclass(frozen=True, eq=False)
class _Found:
    """What a method makes of a pair by the told blur."""

    item: Item
    prediction: DepthPrediction

    @property
    def counted(self) -> Array:
        truth = self.item.depth.numpy()
        inside = np.zeros(truth.shape, bool)
        inside[BORDER:-BORDER, BORDER:-BORDER] = True
        return inside & (truth > NEAR) & (truth < FAR)

    def maps(self) -> tuple[Array, Array, Array]:
        found = self.prediction
        depth, std, sure = (values[0].float().cpu().numpy() for values in (found.depth, found.std, found.confidence))
        return depth, std, sure

    def growth(self, focus: float) -> float:
        """Times the told growth of blur, by the measured depth: the median over the sure pixels."""
        depth, _, sure = self.maps()
        truth = self.item.depth.numpy()
        surest = sure >= np.median(sure[self.counted])
        chosen = self.counted & surest & (1 / focus - 1 / np.maximum(truth, NEAR) > LEAST_AWAY)
        if not chosen.any():
            return float("nan")
        return float(np.median((1 / focus - 1 / depth[chosen]) / (1 / focus - 1 / truth[chosen])))

    def one_point(self) -> Rescaling | None:
        """By the measured distance at the surest pixel well beyond the focus, as a user would give it."""
        depth, std, sure = self.maps()
        truth = self.item.depth.numpy()
        away = 1 / self.item.stack.focus_distances[0].item() - 1 / np.where(self.counted, truth, NEAR)
        places = np.where(self.counted & (away > 2 * LEAST_AWAY), _in_windows(sure), -1.0)
        row, column = np.unravel_index(int(places.argmax()), places.shape)
        try:
            return rescaling(
                KnownDistance(float(truth[row, column]), float(column), float(row)), depth, std, sure, self.item.stack
            )
        except InputError:  # nothing sure there
            return None


def _in_windows(confidence: Array) -> Array:
    import cv2

    return np.asarray(cv2.blur(confidence, (15, 15)))


def evaluate_pairs(
    names: list[str], pairs: DfdPairs, device: torch.device, say: Callable[[str], None], share: float
) -> dict[str, Any]:
    """Errors by the told blur, by one measured point of each pair, and by the growth that ten pairs have."""
    rows, growths = [], {}
    planes = DepthGrid.uniform_in_inverse_depth(*PLANES, 64)
    trusted = [i for i, shift in enumerate(pairs.shifts.values()) if shift.inliers >= LEAST_INLIERS]
    items = list(some(trusted or range(len(pairs)), share))
    count = min(TEN, len(items) // 2)
    tenth = set(items[:: max(1, len(items) // max(count, 1))][:count])
    for name in names:
        told, pointed, ten = _Row(), _Row(), _Row()
        found: dict[int, _Found] = {}
        for i in items:
            item = pairs[i]
            found[i] = _Found(item, predict(item.stack.to(device), name, planes))
            say(f"{name}: {item.name}")
        each = {i: found[i].growth(pairs.focus_distance) for i in items}
        growth = float(np.nanmedian([each[i] for i in tenth]))
        growths[name] = {"others": growth, "each": {found[i].item.name: each[i] for i in items}}
        one = 1 / pairs.focus_distance
        by_ten = Rescaling(one * (1 - 1 / growth), 1 / growth, 0.0)
        for i in items:
            if i in tenth:
                continue
            depth, std, _ = found[i].maps()
            truth, counted = found[i].item.depth.numpy(), found[i].counted
            told.add(depth, truth, counted)
            ten.add(by_ten.depth_and_std(depth, std)[0], truth, counted)
            by_point = found[i].one_point()
            if by_point:
                pointed.add(by_point.depth_and_std(depth, std)[0], truth, counted)
        for how, row in (("the settings", told), ("one measured point", pointed), (f"{len(tenth)} other pairs", ten)):
            rows.append({"method": name, "blur_from": how, "pairs": len(row.pixels), **row.figures()})
    return {
        "protocol": "measured", "stacks": len(items), "rows": rows, "growth": growths, "near": NEAR, "far": FAR,
        "table": {"columns": ["abs_rel", "bias"], "sections": ["blur_from"]},
    }  # fmt: skip
