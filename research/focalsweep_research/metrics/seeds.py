"""Rows of several training runs that differ in their seed alone, as one row: the mean and its spread."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from focalsweep_research.metrics.errors import METRICS

OF_ERROR_BARS = ("within_1_std", "within_2_std", "miscalibration", "ause_share", "aurg_share", "ece")
OF_FLATNESS = ("rms_share", "robust_share", "spread_share", "bar_share", "off_2_std", "seam_ratio")
OF_SIZES = ("size_change", "size_alike", "size_agreement")
IDENTITY = ("group", "rescaling", "scale", "camera", "factor", "level", "near")  # what tells the rows of a method apart


def over_seeds(rows: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Rows with those of each group's methods joined.

    A joined row has the mean of each metric and, in "std", its standard deviation over the runs (n - 1 in the
    denominator); what is no metric is the first run's. It stands where the first of them stood.

    Args:
        rows: of a result.
        groups: names of methods by the name of the row that stands for them, such as "PaperNet (n=3)".
    """
    group_of = {method: group for group, methods in groups.items() for method in methods}
    joined: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        name = group_of.get(row["method"], row["method"])
        joined.setdefault((name, *(row.get(key) for key in IDENTITY)), []).append(row)
    return [_mean(parts, name) if name in groups else dict(parts[0]) for (name, *_), parts in joined.items()]


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    means: dict[str, Any] = {}
    spreads: dict[str, float] = {}
    for metric in (metric for metric in (*METRICS, *OF_ERROR_BARS, *OF_FLATNESS, *OF_SIZES) if metric in rows[0]):
        values = [row.get(metric) for row in rows]
        known = [float(value) for value in values if value is not None]
        if len(known) < len(rows):  # a mean over fewer runs than the name says would be another's
            means[metric] = None
        else:
            means[metric] = statistics.fmean(known)
            spreads[metric] = statistics.stdev(known) if len(known) > 1 else 0.0
    note = next((row["note"] for row in rows if "note" in row), "")
    return {**rows[0], "method": name, **means, **({"note": note} if note else {}), "std": spreads}
