"""Tables of docs/fit.md: mistakes that are noticed, settings found on the photos, real pairs of two apertures."""

from __future__ import annotations

from collections.abc import Callable

from focalsweep_research.tables.records import Record
from focalsweep_research.tables.tables import markdown_table


def mistakes_table(records: dict[str, Record]) -> str:
    """Of deliberate mistakes: how many were made, noticed, and named first or second."""
    rows = records["mistakes"]["rows"]
    kinds: dict[str, Callable[[str], bool]] = {
        "demo": lambda stack: stack == "demo",
        "rendered stacks": lambda stack: stack.startswith(("room", "boxes")),
        "real photos": lambda stack: stack.startswith(("pixel", "canon")),
    }
    lines = []
    for mistake in [*dict.fromkeys(row["mistake"] for row in rows), "all"]:
        cells = []
        for of_kind in kinds.values():
            some = [row for row in rows if mistake in (row["mistake"], "all") and of_kind(row["stack"])]
            noticed, named = (sum(row[key] for row in some) for key in ("noticed", "named"))
            cells.append(f"{noticed}, {named} of {len(some)}" if some else "")
        lines.append([mistake, *cells])
    return markdown_table(["noticed, and named first or second", *kinds], lines)


def right_settings_table(records: dict[str, Record]) -> str:
    """What is said of stacks whose settings are right."""
    right = records["mistakes"]["right"]
    real = [row for row in right if not row["stack"].startswith(("room", "boxes", "demo"))]
    rendered = [row for row in right if row["stack"].startswith(("room", "boxes"))]
    false = sum(row["fits"] is False for row in rendered)
    lines = [[f"{len(rendered)} rendered stacks", f"{false} false alarms", "", ""]]
    for row in [next(row for row in right if row["stack"] == "demo"), *real]:
        fits = {True: "fits", False: "does not fit", None: "cannot tell"}[row["fits"]]
        blur = "" if row["blur"] is None else f"{row['blur']:.2f}"
        lines.append([row["stack"], fits, f"{row['explained']:.0%}", blur])
    return markdown_table(["", "told", "explained", "times the told blur"], lines)


def calibrations_table(records: dict[str, Record]) -> str:
    """Depth of the demo by wrong settings, by mode of calibration."""
    lines = [
        [
            row["wrong"],
            row["calibrate"],
            f"{row['median_error']:.2%}",
            f"{row['std']:.1%}",
            f"{row['beyond_3_std']:.1%}",
        ]
        for row in records["calibrations"]["rows"]
    ]
    return markdown_table(["wrong", "--calibrate", "median error", "std", "off by more than 3 std"], lines)


def measured_pairs_table(records: dict[str, Record]) -> str:
    """Real pairs beyond their focus, by where the growth of blur comes from."""
    lines = [
        [row["method"], row["blur_from"], str(row["pairs"]), f"{row['abs_rel']:.3f}", f"{row['bias']:+.1%}"]
        for row in records["measured-pairs"]["rows"]
    ]
    return markdown_table(["method", "growth of blur from", "pairs", "AbsRel", "bias"], lines)
