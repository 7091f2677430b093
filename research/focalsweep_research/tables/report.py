"""Tables in the documents, made from the JSON files that runs wrote: python -m focalsweep_research.tables.report

Run in a checkout. Every block between `<!-- table NAME -->` and `<!-- end -->` is replaced. NAME is one of TABLES, or a
result file that describes its own table (see `tables`); one that is still to be run is replaced by its command. Between
`<!-- figure NAME: WORDS -->` and `<!-- end -->` goes docs/NAME.png, or the command that draws it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from focalsweep_research.tables import fit_report, lens_report, paper_report
from focalsweep_research.tables.records import Record, read_records
from focalsweep_research.tables.tables import markdown_table, table_of

DOCUMENTS = (
    "README.md",
    "docs/physics.md",
    "docs/speed.md",
    "docs/network.md",
    "docs/photos.md",
    "docs/paper.md",
    "docs/baselines.md",
    "docs/scale.md",
    "docs/pictures.md",
    "docs/lenses.md",
    "docs/microscope.md",
    "docs/fit.md",
)


def speed_table(records: dict[str, Record]) -> str:
    """Milliseconds of both costs, their floors and the rival, on every machine that was measured."""
    measured = [records[name] for name in ("speed-cpu", "speed-h200")]
    rows = []
    for name in measured[0]["results"]:
        cells = []
        for record in measured:
            row = record["results"].get(name)
            cells.append(_milliseconds(row["median_s"], row["quartile_1_s"], row["quartile_3_s"]) if row else "")
        rows.append([name, *cells])
    for name in measured[0]["ratios"]:
        rows.append(
            [name, *(f"{record['ratios'][name]:.2f} x" if name in record["ratios"] else "" for record in measured)]
        )
    return markdown_table(["median (quartiles), ms", *(_machine(record) for record in measured)], rows)


def _milliseconds(median: float, low: float, high: float) -> str:
    digits = 0 if median > 0.01 else 2
    return f"{median * 1e3:.{digits}f} ({low * 1e3:.{digits}f} - {high * 1e3:.{digits}f})"


def _machine(record: Record) -> str:
    machine = record["machine"]
    return str(machine["gpu"]) if "gpu" in machine else f"{machine['cores']} cores, {machine['cpu']}"


def scaling_table(records: dict[str, Record]) -> str:
    """Seconds and peak memory by size and frames."""
    rows = []
    cases = {(row["megapixels"], row["frames"]): {} for row in records["scaling-cpu"]["scaling"]}  # type: ignore[var-annotated]
    for row in records["scaling-cpu"]["scaling"]:
        cases[row["megapixels"], row["frames"]][row["cost"]] = row
    for (megapixels, frames), by_cost in cases.items():
        cells = [f"{megapixels:g}", str(frames)]
        for cost in ("paper", "reblur"):
            row = by_cost[cost]
            cells += [
                f"{row['seconds']:.1f}",
                f"{row['seconds_per_megapixel_and_frame']:.2f}",
                f"{row['peak_bytes'] / 1e9:.2f}",
            ]
        rows.append(cells)
    header = ["MP", "frames"]
    for cost in ("paper", "reblur"):
        header += [f"{cost}, s", "s per MP and frame", "peak GB"]
    return markdown_table(header, rows)


def recovery_table(records: dict[str, Record]) -> str:
    """Planes found by the lowest cost: share within 2 planes and mean error, by camera."""
    rows = records["recovery"]["planes"]
    cameras = list(dict.fromkeys(row["camera"] for row in rows))
    found = {(row["case"], row["camera"]): f"{row['within_2_planes']:.1%}, {row['mean_planes']:.2f}" for row in rows}
    cases = dict.fromkeys(row["case"] for row in rows)
    return markdown_table(["", *cameras], [[case, *(found[case, camera] for camera in cameras)] for case in cases])


def demo_table(records: dict[str, Record]) -> str:
    rows = records["recovery"]["demo"]
    return markdown_table(
        ["cost", "mean", "median", "within 5 %"],
        [[row["case"], f"{row['mean']:.4f}", f"{row['median']:.4f}", f"{row['within_0.05']:.0%}"] for row in rows],
    )


def error_bar_table(records: dict[str, Record]) -> str:
    bars = records["recovery"]["error_bars"]
    return markdown_table(
        ["", "within one std", "within two"],
        [[name, f"{row['within_1_std']:.0%}", f"{row['within_2_std']:.0%}"] for name, row in bars.items()],
    )


def training_table(records: dict[str, Record]) -> str:
    """Milliseconds of a training step's parts, and samples a second end to end."""
    measured = records["training-h200"]["rows"]
    parts = list(measured[0]["milliseconds_a_batch"])
    rows = [[part, *(f"{row['milliseconds_a_batch'][part]:.0f}" for row in measured)] for part in parts]
    rows.append(["samples a second", *(f"{row['samples_a_second']:.0f}" for row in measured)])
    return markdown_table(["ms a batch", *(f"{row['network']} + {row['cost']}" for row in measured)], rows)


def generator_table(records: dict[str, Record], figure: str) -> str:
    """One figure of every method on the generated stacks, and on groups of them; what ships was measured last."""
    measured = [row for row in records["generator"]["rows"] if row["method"] != "sweep"]
    measured += [row for row in records["generator-shipped"]["rows"] if row["method"] == "sweep"]
    methods = list(dict.fromkeys(row["method"] for row in measured))
    found = {(row["group"], row["method"]): row for row in measured}
    groups = [group for group in dict.fromkeys(row["group"] for row in measured) if ", noise" not in group]
    rows = []
    for group in sorted(groups, key=lambda group: GENERATOR_GROUPS.index(group.split("=")[0].split()[0])):
        values = [found[group, method].get(figure) for method in methods]
        cells = ["" if value is None else f"{value:.4f}" for value in values]
        rows.append([group, f"{found[group, methods[0]]['pixels'] / 1e6:.1f}", *cells])
    return markdown_table(["", "Mpx", *methods], rows)


GENERATOR_GROUPS = ("all", "F", "noise", "blur", "texture")


def camera_table(records: dict[str, Record]) -> str:
    """AbsRel for each camera, and how far it strays from the mean."""
    record = records["cameras"]
    methods = list(record["spread"])
    cameras = list(dict.fromkeys(row["camera"] for row in record["rows"]))
    found = {(row["camera"], row["method"]): row for row in record["rows"]}
    rows = []
    for camera in cameras:
        row = found[camera, methods[0]]
        lens = f"{row['focal_length_mm']:g} mm f/{row['f_number']:g}, from {row['nearest']:g} m"
        rows.append([camera, lens, f"{row['blur_px']:.0f}", *(f"{found[camera, m]['abs_rel']:.4f}" for m in methods)])
    rows.append(["mean", "", "", *(f"{record['spread'][m]['mean_abs_rel']:.4f}" for m in methods)])
    rows.append(["farthest from it", "", "", *(f"{record['spread'][m]['largest_deviation']:.1%}" for m in methods)])
    return markdown_table(["", "lens", "blur, px", *(f"AbsRel, {m}" for m in methods)], rows)


def real_table(records: dict[str, Record]) -> str:
    """Real stacks: size, time, and the distance of depth from where sharpness peaks."""
    rows = []
    for row in records["real"]["rows"]:
        found = row.get("agreement")
        cells = [f"{found['median_dioptres']:.3f}", f"{found['median_spacings']:.2f}"] if found else ["", ""]
        size = f"{row['width']} x {row['height']}"
        rows.append([row["stack"], str(row["frames"]), size, "metres" if row["unit"] == "m" else "relative", *cells])
    header = ["stack", "frames", "px", "depth in", "median error, dioptres", "in frame spacings"]
    return markdown_table(header, rows)


def large_photos_table(records: dict[str, Record]) -> str:
    """Seconds and peak memory of the whole command on large photos."""
    rows = []
    for row in records["large-photos"]["rows"]:
        stack = f"{row['megapixels']:g} MP x {row['frames']} {' '.join(row['options'])}".strip()
        rows.append([stack, f"{row['seconds']:.0f}", f"{row['peak_bytes'] / 1e9:.2f}"])
    return markdown_table(["", "seconds", "peak GB"], rows)


def photo_speed_table(records: dict[str, Record]) -> str:
    """CPU seconds of focalsweep and of a focus stacker's two programs on the same photos, and peak memory."""
    rows = []
    for name, row in records["photo-speed"]["rows"].items():
        ours, rival = row["ours"], row.get("rival")
        cells = [f"{ours['cpu_s']:.1f}"]
        cells += [f"{rival['cpu_s']:.1f}", f"{ours['cpu_s'] / rival['cpu_s']:.2f}"] if rival else ["", ""]
        rows.append([name, *cells, f"{ours['peak_bytes'] / 1e9:.2f}", f"{row['load_average']:.0f}"])
    header = ["", "ours, CPU s", "stacker, CPU s", "ours / stacker", "our peak, GB", "load average"]
    return markdown_table(header, rows)


def photo_stages_table(records: dict[str, Record]) -> str:
    """CPU seconds of every stage of focalsweep on photos."""
    measured = records["photo-speed"]["rows"]
    stages = list(dict.fromkeys(stage for row in measured.values() for stage in row["ours"]["stages"]))
    rows = []
    for stage in stages:
        parts = (row["ours"]["stages"].get(stage) for row in measured.values())
        rows.append([stage, *(f"{part['cpu_s']:.1f}" if part else "" for part in parts)])
    return markdown_table(["CPU s", *measured], rows)


def registration_table(records: dict[str, Record]) -> str:
    """Errors and CPU seconds of registering neighbours, by the way it is done."""
    rows = []
    for row in records["registration"]["rows"]:
        errors = [f"{row[key]:.2f}" if row[key] is not None else "" for key in ("median_px", "most_px")]
        failed = f"{row['failed']} of {row['pairs']}"
        size = f"{row['width']} x {row['height']}"
        rows.append([row["way"], size, *errors, failed, f"{row['cpu_s_a_pair']:.2f}"])
    header = ["", "px", "median error, px", "largest, px", "failed", "CPU s a pair"]
    return markdown_table(header, rows)


def layered_table(records: dict[str, Record]) -> str:
    """PSNR of the layered renderer against Mitsuba, by focus distance."""
    measured = records["layered-against-mitsuba"]["rows"]
    distances = list(dict.fromkeys(row["focus_distance"] for row in measured))
    found = {(row["picture"], row["focus_distance"]): row for row in measured}
    rows = []
    for picture in dict.fromkeys(row["picture"] for row in measured):
        parts = (found[picture, distance] for distance in distances)
        rows.append([picture, *(f"{p['psnr_away_from_edges_db']:.1f}, {p['psnr_at_edges_db']:.1f}" for p in parts)])
    header = ["PSNR in dB away from edges, at edges", *(f"focus {distance:g} m" for distance in distances)]
    return markdown_table(header, rows)


def real_pairs_table(records: dict[str, Record]) -> str:
    """PSNR of f/8 photos re-blurred by our model against the real f/2.8 ones, by the width of the blur."""
    total = records["blur-of-real-pairs"]["all"]
    header = ["blur times", "none", *total["by_scale_db"]]
    row = ["PSNR, dB", f"{total['no_blur_db']:.1f}", *(f"{value:.1f}" for value in total["by_scale_db"].values())]
    return markdown_table(header, [row])


def cluster_table(records: dict[str, Record]) -> str:
    """What a cluster that lost parts left behind, against the local command."""
    loss = records["cluster"]["loss"]
    cases = {
        "a worker and a node killed": "worker_and_node_killed",
        "the driver killed, then --resume": "driver_killed",
    }
    keys = {
        "results": "results", "lines of results.csv": "lines", "stacks with two lines": "stacks_with_two_lines",
        "files lost": "files_lost", "left over": "files_left_over", "that differ": "files_that_differ",
    }  # fmt: skip
    rows = [[title, *(str(loss[case][key]) for key in keys.values())] for title, case in cases.items()]
    return markdown_table([f"{loss['stacks']} stacks", *keys], rows)


def overhead_table(records: dict[str, Record]) -> str:
    """Local command and cluster in turn: seconds a stack by the clock and of the CPU."""
    overhead = records["cluster"]["overhead"]
    rows = []
    for row in overhead["rounds"]:
        here, there = row["local"], row["cluster"]
        cells = [here["seconds"], there["seconds"], row["ratio"], here["worker_cpu_s"], there["worker_cpu_s"]]
        cells += [there["engine_cpu_s"], row["cpu_ratio"]]
        rows.append([f"{row['load_average']:.1f}", *(f"{cell:.2f}" for cell in cells)])
    median = overhead["median"]
    rows.append(["median", "", "", f"{median['ratio']:.2f}", "", "", "", f"{median['cpu_ratio']:.2f}"])
    header = ["load", "local, s", "cluster, s", "ratio", "local, CPU s", "worker, CPU s", "engine, CPU s", "ratio"]
    return markdown_table(header, rows)


PARTS = ("opening", "aligning", "looking", "reading", "sweeping", "full size", "writing")


def parts_table(records: dict[str, Record]) -> str:
    """Seconds of each part of the work on one core."""
    rows = []
    for row in records["scale"]["rows"]:
        parts = [row["seconds"].get(part) for part in PARTS]
        cells = ["" if part is None else f"{part:.2f}" for part in parts]
        size = f"{row['megapixels']:.2f} MP x {row['frames']}"
        rows.append([size, str(row["planes"]), f"{row['worked_megapixels']:.2f}", *cells, f"{_total(row):.1f}"])
    return markdown_table(["stack", "planes", "swept at, MP", *PARTS, "all, s"], rows)


def _total(row: Record) -> float:
    return float(sum(row["seconds"].values()))


def model_table(records: dict[str, Record]) -> str:
    """The fitted model of cost: seconds by megapixels P, those swept S, frames F and planes D."""
    sweep, rest = (records["scale"]["model"][name] for name in ("sweep", "rest"))
    by_planes, by_frames = (1e3 * sweep[key] for key in ("planes_mp_s", "frames_planes_mp_s"))
    swept = f"({by_planes:.0f} ms + {by_frames:.1f} ms F) D S"
    other = f"{rest['fixed_s']:.2f} s + ({rest['mp_s']:.2f} s + {rest['frames_mp_s']:.2f} s F) P"
    rows = [
        ["sweep and network", swept, f"{sweep['worst_error']:.0%}"],
        ["the rest", other, f"{rest['worst_error']:.0%}"],
    ]
    return markdown_table(["", "on one core", "farthest off"], rows)


def million_table(records: dict[str, Record]) -> str:
    """A million stacks on paper: core hours, hours on the cluster, bytes, and where the engine's pace is the limit."""
    record = records["scale"]
    cores = record["machines"] * record["cores"]
    rows = []
    for row in (row for row in record["rows"] if row["planes"] == 64):
        seconds = _total(row)
        hours = record["stacks"] * seconds / 3600
        terabytes = [record["stacks"] * row[key] / 1e12 for key in ("bytes_in", "bytes_out")]
        pace = cores / seconds
        gigabits = pace / record["machines"] * (row["bytes_in"] + row["bytes_out"]) * 8 / 1e9
        most = record["engine_stacks_a_second"] * seconds
        rows.append(
            [f"{row['megapixels']:.2f} MP x {row['frames']}", f"{seconds:.1f}", f"{hours:,.0f}", f"{hours / cores:.1f}"]
            + [f"{value:.1f}" for value in terabytes] + [f"{pace:.0f}", f"{gigabits:.2f}", f"{most:,.0f}"]
        )  # fmt: skip
    header = ["stack", "s on one core", "core hours", f"hours on {cores} cores", "TB read", "TB written"]
    return markdown_table([*header, "stacks a second", "Gbit/s a machine", "cores that the engine feeds"], rows)


def stragglers_table(records: dict[str, Record]) -> str:
    rows = [
        [name, f"{row['hours']:.2f}", f"{row['efficiency']:.1%}", f"{row['computed_again']:,}", f"{row['tail_s']:.0f}"]
        for name, row in records["scale"]["scenarios"].items()
    ]
    return markdown_table(["", "hours", "of the cores used", "computed again", "from the first idle worker, s"], rows)


TABLES: dict[str, Callable[[dict[str, Record]], str]] = {
    "speed": speed_table,
    "scaling": scaling_table,
    "recovery": recovery_table,
    "demo": demo_table,
    "error-bars": error_bar_table,
    "training": training_table,
    "generator-abs-rel": partial(generator_table, figure="abs_rel"),
    "generator-delta": partial(generator_table, figure="delta_1.05"),
    "generator-mae": partial(generator_table, figure="mae"),
    "generator-rmse": partial(generator_table, figure="rmse"),
    "cameras": camera_table,
    "real": real_table,
    "layered": layered_table,
    "real-pairs": real_pairs_table,
    "lenses-rendered": lens_report.rendered_lens_table,
    "wave-optics": lens_report.wave_optics_table,
    "lenses-carpet": lens_report.carpet_table,
    "large-photos": large_photos_table,
    "photo-speed": photo_speed_table,
    "photo-stages": photo_stages_table,
    "registration": registration_table,
    "in-domain": paper_report.in_domain_table,
    "ratios": paper_report.ratio_table,
    "robustness": paper_report.robustness_tables,
    "papernet-packed": paper_report.packing_table,
    "mistakes": fit_report.mistakes_table,
    "right-settings": fit_report.right_settings_table,
    "calibrations": fit_report.calibrations_table,
    "measured-pairs": fit_report.measured_pairs_table,
    "cluster": cluster_table,
    "cluster-overhead": overhead_table,
    "scale-parts": parts_table,
    "scale-model": model_table,
    "scale-million": million_table,
    "scale-stragglers": stragglers_table,
}


def fill(text: str, records: dict[str, Record], root: Path = Path()) -> str:
    """The document with every table made anew, and every figure that is in docs/ under `root`."""

    def picture(match: re.Match[str]) -> str:
        name, words = match[1], match[2]
        if name not in paper_report.FIGURES:
            raise ValueError(f"no figure is called {name!r}: it is one of {', '.join(paper_report.FIGURES)}")
        drawn = (root / "docs" / f"{name}.png").is_file()
        shown = f"![{words}]({name}.png)" if drawn else paper_report.to_be_drawn(name, root)
        return f"<!-- figure {name}: {words} -->\n{shown}\n<!-- end -->"

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name in TABLES:
            table = TABLES[name](records)
        elif "table" in records.get(name, {}):
            table = table_of(records[name]).markdown()
        elif name in paper_report.PENDING and name not in records:
            table = paper_report.to_be_run(name)
        else:
            described = [key for key, record in records.items() if "table" in record]
            raise ValueError(f"no table is called {name!r}: it is one of {', '.join([*TABLES, *described])}")
        return f"<!-- table {name} -->\n{table}\n<!-- end -->"

    text = re.sub(r"<!-- figure (\w+): (.*?) -->.*?<!-- end -->", picture, text, flags=re.DOTALL)
    return re.sub(r"<!-- table ([\w-]+) -->.*?<!-- end -->", replace, text, flags=re.DOTALL)


def main() -> None:
    records = read_records()
    for name in DOCUMENTS:
        path = Path(name)
        path.write_text(fill(path.read_text(), records))
        print(path)


if __name__ == "__main__":
    main()
