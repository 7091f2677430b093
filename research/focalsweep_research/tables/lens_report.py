"""Tables of docs/lenses.md and docs/microscope.md: profiles of lenses, heights under a microscope."""

from __future__ import annotations

from focalsweep_research.tables.records import Record
from focalsweep_research.tables.tables import markdown_table


def rendered_lens_table(records: dict[str, Record]) -> str:
    """Median error of depth in corners and middle by scene: as seen, with a profile, through a flat field."""
    rows: dict[tuple[str, str], dict[str, Record]] = {}
    for row in records["lenses"]["rows"]:
        if row["data"] in ("traced", "layered"):
            rows.setdefault((f"{row['scene']} ({row['data']})", row["corners_seem"]), {})[row["lens"]] = row
    table = []
    for (scene, bend), by_lens in rows.items():
        lenses = [by_lens.get(name) for name in ("curved", "curved, with the profile", "flat")]
        cells = [f"{row[f'{part}_error']:.1%}" if row else "" for part in ("corner", "middle") for row in lenses]
        table.append([scene + (", corners seem farther" if bend == "farther" else ""), *cells])
    header = [f"{part}: {lens}" for part in ("corners", "middle") for lens in ("no profile", "with it", "flat field")]
    return markdown_table(["scene", *header], table)


def carpet_table(records: dict[str, Record]) -> str:
    """How far the corners of a real carpet lie from the plane of its middle."""
    rows = []
    for row in records["lenses"]["rows"]:
        if row["data"] == "carpet":
            cells = [f"{row[name]:+.1%}" for name in ("corner_left", "corner_right")]
            cells += [f"{row['inner']:.1%}", f"{row['of_std']:.1f}"]
            rows.append([row["photos"], row["profile_of"] or "none", *cells])
    header = ["photos", "profile from photos", "left corner", "right corner", "middle, median", "corners, in std"]
    return markdown_table(header, rows)


def wave_optics_table(records: dict[str, Record]) -> str:
    """Heights under a microscope: error in steps, and tilt, by method."""
    rows: dict[str, dict[str, Record]] = {}
    for row in records["wave-optics"]["rows"]:
        rows.setdefault(row["case"], {})[row["method"]] = row
    methods = list(next(iter(rows.values())))
    lines = []
    for case, by_method in rows.items():
        step = next(iter(by_method.values()))["step"] * 1e6
        cells = [f"{by_method[name]['median_error_steps']:.3f}" for name in methods]
        cells += [f"{by_method[name]['tilt']:.3f}" if "tilt" in by_method[name] else "" for name in methods]
        lines.append([case, f"{step:.3g} um", *cells])
    header = [f"{what}: {name}" for what in ("median error", "tilt") for name in methods]
    return markdown_table(["", "step", *header], lines)
