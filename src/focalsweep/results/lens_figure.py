"""The picture of a lens profile's fit: what departs from a plane before and after, and the curve that it follows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from focalsweep.optics.profile import LensProfile

RINGS = 24
COLUMNS, HEIGHT_IN, WIDTH_IN = 3, 3.4, 13.0


@dataclass(frozen=True, eq=False)
class FlatView:
    """A stack of something flat, as it was seen.

    Args:
        name: of its folder.
        size: H W.
        usable: H W, the pixels that the rest is of.
        radius: metres on the sensor from the optical axis, of each.
        departure: from the plane, 1/m, with the curvature in it.
        inverse_depth: 1/m.
    """

    name: str
    size: tuple[int, int]
    usable: npt.NDArray[np.bool_]
    radius: npt.NDArray[np.float64]
    departure: npt.NDArray[np.float64]
    inverse_depth: npt.NDArray[np.float64]


def lens_figure(profile: LensProfile, views: Sequence[FlatView]) -> bytes:
    """A PNG: for each stack two maps of the departure, as seen and by the profile, and the curvature by radius."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = len(views)
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN * rows + 0.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{profile.title}, f/{profile.f_number:g}: departure from a plane, 1/m", fontsize=12)
    axes = figure.subplots(rows, COLUMNS, squeeze=False, width_ratios=(1.2, 1.2, 1))
    # The plane was fitted to what was seen, before told distances are scaled: so is the curve here.
    curvature = profile.curvature
    assert curvature is not None  # it was just fitted
    for view, (before, after, curve) in zip(views, axes, strict=True):
        fitted = curvature.at(torch.from_numpy(view.radius))[0].numpy() / profile.focus_scale.value
        most = max(float(np.quantile(np.abs(fitted), 0.99)), 0.02 * float(np.ptp(view.inverse_depth)))
        for axis, values, words in (
            (before, view.departure, f"{view.name}: as seen"),
            (after, view.departure - fitted, "with the profile"),
        ):
            picture = np.full(view.size, np.nan)
            picture[view.usable] = values
            shown = axis.imshow(picture, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
            axis.set_title(words, fontsize=10)
            axis.set_xticks([])
            axis.set_yticks([])
            figure.colorbar(shown, ax=axis, shrink=0.8)
        at, middle, low, high = _rings(view)
        mm = 1e3 * at
        curve.fill_between(mm, low, high, color="0.85", label="half of the pixels")
        curve.plot(mm, middle, "o", color="0.3", markersize=3, label="median")
        line = torch.linspace(0, float(view.radius.max()), 200, dtype=torch.float64)
        value, std = (part.numpy() / profile.focus_scale.value for part in curvature.at(line))
        curve.plot(1e3 * line.numpy(), value, color="C3", label="profile")
        curve.fill_between(1e3 * line.numpy(), value - std, value + std, color="C3", alpha=0.25, linewidth=0)
        curve.set_ylim(min(-most, float(value.min()) - 0.2 * most), max(most, float(value.max())) + 0.3 * most)
        curve.set_xlabel("mm from the axis, on the sensor")
        curve.legend(fontsize=8, loc="upper left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _rings(view: FlatView) -> tuple[npt.NDArray[np.float64], ...]:
    """Middle radius, median and quartiles of the departure in rings of equal area."""
    order = np.argsort(view.radius)
    parts = [part for part in np.array_split(order, RINGS) if len(part)]
    quartiles = np.array([np.quantile(view.departure[part], (0.5, 0.25, 0.75)) for part in parts])
    return (np.array([np.median(view.radius[part]) for part in parts]), *quartiles.T)
