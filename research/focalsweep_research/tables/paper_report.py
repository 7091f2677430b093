"""What docs/paper.md and docs/baselines.md show beyond a result's own table, and what is still to be run.

Methods are found by the names that the commands of PENDING give them; "PaperNet (n=3)" is PaperNet too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from focalsweep_research.datasets.defocusnet import FOCUS_DISTANCES
from focalsweep_research.protocols.robustness import FACTORS
from focalsweep_research.tables.records import NEW, result_file
from focalsweep_research.tables.tables import Layout, markdown_table, results_table

Record = dict[str, Any]
ON_PAPERS_PLANES = "range=0.1-3,spacing=depth"  # as the datasets' tables ask for them
PAPER, ARGMIN = f"paper:{ON_PAPERS_PLANES},size=full", f"argmin:cost=paper,{ON_PAPERS_PLANES}"
OURS, CLASSICAL = f"sweep;{PAPER}", "focus_measure;suwajanakorn"  # "paper" is the PaperNet that ships
OURS_ON_GENERATED = "sweep;paper:size=full"  # which have planes of their own
RUNS = "--run SweepNet=runs/sweepnet-defocusnet"
RIVALS = "--run DDFF=runs/ddff --run DefocusNet=runs/defocusnet --run AiFDepthNet=runs/aifdepthnet"
ON_NYU = (
    "--run PaperNet=runs/paper-nyu --run SweepNet=runs/sweepnet-nyu --run DDFF=runs/ddff-nyu "
    "--run DefocusNet=runs/defocusnet-nyu --run AiFDepthNet=runs/aifdepthnet-nyu"
)
ABLATION = (
    '--run PaperNet=runs/paper-defocusnet --run "PaperNet, normalisation alone=runs/paper-no-outlier-removal" '
    '--run "PaperNet, outlier removal alone=runs/paper-no-normalisation" '
    '--run "PaperNet, neither=runs/paper-no-outlier-removal-no-normalisation" '
    '--run "PaperNet, without neighbours=runs/paper-no-neighbours"'
)
SPLIT = (
    "--run PaperNet=runs/paper-focus-split --run SweepNet=runs/sweepnet-focus-split "
    "--run DefocusNet=runs/defocusnet-focus-split --run DDFF=runs/ddff --run AiFDepthNet=runs/aifdepthnet"
)
PENDING = {
    "defocusnet": f"evaluate defocusnet --data BENCHMARK --methods 'flat;{ARGMIN};{OURS};{CLASSICAL}' {RUNS} "
    f'{RIVALS} --run "AiFDepthNet, by the sharp picture=runs/aifdepthnet-aif"',
    "ablation": f"evaluate defocusnet --data BENCHMARK --methods '{ARGMIN};sweep' {ABLATION}",
    "focus-split": f"evaluate focus-split --data BENCHMARK --methods 'sweep;argmin;{CLASSICAL}' {SPLIT}",
    "nyu": "evaluate nyu --data NYU "
    f"--methods 'flat;{ARGMIN};sweep:psf=sampled;sweep:planes=80,psf=sampled;{OURS};{CLASSICAL}' {RUNS} "
    f"{RIVALS.replace('runs/ddff', 'runs/ddff-3-frames').replace('runs/aifdepthnet', 'runs/aifdepthnet-3-frames')}",
    "nyu-trained": f"evaluate nyu-trained --data NYU --methods 'sweep;sweep:psf=sampled' {ON_NYU}",
    "nyu-gaussian": f"evaluate nyu-gaussian --data NYU --methods 'flat;{ARGMIN};{OURS};focus_measure'",
    "stack-size": f"evaluate stack-size --methods 'argmin;{OURS_ON_GENERATED};{CLASSICAL}' {RUNS} {RIVALS}",
    "runtime-cpu": "evaluate runtime --device cpu",
    "runtime-h200": "evaluate runtime --device cuda",
    "real-methods": f"evaluate real --data STACKS --methods 'sweep;paper;{CLASSICAL};defocusnet;aifdepthnet'",
    "confidence": "evaluate confidence --data BENCHMARK --methods 'argmin;sweep;focus_measure;suwajanakorn'",
    "robustness": f"evaluate robustness --methods 'argmin;{OURS_ON_GENERATED};{CLASSICAL}' {RUNS} {RIVALS}",
}
"""Result files by name, and the command that makes each, less `focalsweep` and `-o` its file."""

LOGS = {
    "DefocusNet": "defocusnet-as-published",
    "DDFF": "ddff",
    "DDFF-3": "ddff-3-frames",
    "AiFDepthNet": "aifdepthnet",
    "AiFDepthNet-3": "aifdepthnet-3-frames",
}
CURVES = ",".join(f"{name}={{runs/benchmark-{log}.jsonl}}" for name, log in LOGS.items())
FIGURES = {
    "learning_curves": f"figure training {CURVES}",
    "cost_curves": "figure costs demo",
    "neighbours": "figure neighbours demo",
    "offsets": "figure offsets demo",
    "stack_size": "figure stack-size {stack-size.json}",
    "confidence": "figure confidence {confidence.json}",
    "error_by_depth": "figure depth {defocusnet.json}",
    "error_by_depth_nyu": "figure depth {nyu.json}",
    **{f"robustness_{factor}": "figure robustness {robustness.json}" for factor in FACTORS},
}
"""Pictures in docs/ by name, and the command that draws each, less `focalsweep` and where it goes; {result files}."""


def to_be_run(name: str) -> str:
    return f"*Not run yet:* `focalsweep {PENDING[name]} -o {NEW}/{name}.json`"


def to_be_drawn(name: str, root: Path = Path()) -> str:
    return f"*Not drawn yet:* `focalsweep {drawing(name, root)}`"


def drawing(name: str, root: Path = Path()) -> str:
    """The command that draws a figure, less `focalsweep`."""
    target = "docs" if name.startswith("robustness_") else f"docs/{name}.png"
    return re.sub(r"\{(.*?)\}", lambda match: result_file(match[1], root), FIGURES[name]) + f" -o {target}"


def ratio_table(records: Mapping[str, Record]) -> str:
    """RMSE of ours over that of DefocusNet, on a new camera and on other focus distances, beside the paper's."""
    needed = {"nyu": ("raw", "median"), "focus-split": ("raw",)}
    anchors = {("nyu", "raw"): 0.186 / 0.621, ("nyu", "median"): 0.141 / 0.322, ("focus-split", "raw"): 0.242 / 0.299}
    rows = []
    for protocol, rescalings in needed.items():
        if protocol not in records:
            continue
        for how in rescalings:
            paper_net = PAPER if protocol == "nyu" else "PaperNet"  # what ships knows the split's frames
            rmse = {
                name: _figure(records[protocol], name, how, "rmse")
                for name in (paper_net, "SweepNet", "sweep", "DefocusNet")
            }
            rival = rmse.pop("DefocusNet")
            cells = ["" if not value or not rival else f"{value / rival:.2f}" for value in rmse.values()]
            rows.append([f"{protocol}, {how}", *cells, f"*{anchors[protocol, how]:.2f}*"])
    if not rows:
        return to_be_run("nyu")
    header = ["RMSE over DefocusNet's", "PaperNet", "SweepNet, same data", "sweep (shipped)", "*the paper's PaperNet*"]
    return markdown_table(header, rows)


def _figure(record: Record, method: str, rescaling: str, metric: str) -> float | None:
    for row in record["rows"]:
        names = (method, f"{method} (n=")
        here = row["method"] == names[0] or row["method"].startswith(names[1])
        if here and row.get("rescaling", "raw") == rescaling and row.get("group", "all") == "all":
            value = row.get(metric)
            return None if value is None else float(value)
    return None


def in_domain_table(records: Mapping[str, Record]) -> str:
    """The paper's Table 6: errors on the benchmark's own test stacks, raw, at scale 1.

    Beyond its farthest focus distance this camera blurs almost alike, and some methods cannot answer: the RMSE of all
    pixels before it stands apart.
    """
    if "defocusnet" not in records:
        return to_be_run("defocusnet")
    record = records["defocusnet"]
    here = {"scale": "1", "rescaling": "raw", "group": "all"}
    focused = _rmse_up_to(record.get("by_depth", []), max(FOCUS_DISTANCES))
    rows = [
        {**row, "rmse_focused": focused.get(row["method"])}
        for row in record["rows"]
        if all(row.get(key) == value for key, value in here.items())
    ]
    anchors = [
        {"method": name, "rmse": rmse}
        for name, rmse in (("AiFDepthNet", 0.156), ("DefocusNet", 0.177), ("PaperNet", 0.239))
    ]
    columns = ["rmse", "mae", "abs_rel", *(["rmse_focused"] if focused else [])]
    return results_table(rows, Layout(columns=columns, sections=()), anchors).markdown()


def _rmse_up_to(bands: Sequence[Record], farthest: float) -> dict[str, float]:
    """By method, of all pixels in the bands of depth that end there or before."""
    squares: dict[str, float] = defaultdict(float)
    pixels: dict[str, float] = defaultdict(float)
    for band in bands:
        if band["far"] <= farthest and band["pixels"]:
            squares[band["method"]] += band["pixels"] * band["rmse"] ** 2
            pixels[band["method"]] += band["pixels"]
    return {method: float((squares[method] / count) ** 0.5) for method, count in pixels.items()}


def robustness_tables(records: Mapping[str, Record]) -> str:
    """AbsRel of every method over the levels of each factor."""
    if "robustness" not in records:
        return to_be_run("robustness")
    rows = records["robustness"]["rows"]
    tables = []
    for factor in dict.fromkeys(row["factor"] for row in rows):
        layout = Layout(columns=["abs_rel"], sections=(), across="level")
        part = [row for row in rows if row["factor"] == factor]
        label = FACTORS[factor].label if factor in FACTORS else factor
        tables.append(f"{label[:1].upper()}{label[1:]}:\n\n{results_table(part, layout).markdown()}")
    return "\n\n".join(tables)


def packing_table(records: Mapping[str, Record]) -> str:
    """What 8 bits cost the paper's network."""
    if "papernet-packed" not in records:
        return f"*Not run yet:* `python research/scripts/pack_papernet.py RUN {NEW}/papernet-packed.json BENCHMARK`"
    record = records["papernet-packed"]
    size = f"{record['file_bytes'] / 2**20:.1f} MiB"
    if "rmse" not in record:
        return markdown_table(
            ["file", "mean difference of depth"], [[size, f"{record['mean_relative_difference']:.2%}"]]
        )
    scales = list(next(iter(record["rmse"].values())))
    rows = [[name, *(f"{by_scale[scale]:.4f}" for scale in scales)] for name, by_scale in record["rmse"].items()]
    return markdown_table([f"RMSE by scale (file: {size})", *scales], rows)
