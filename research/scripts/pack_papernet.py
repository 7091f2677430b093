"""The paper's network of a training run, packed in 8 bits for `method="paper"`.

    python research/scripts/pack_papernet.py RUN OUT.json [BENCHMARK] [FILE]

RUN is the folder of a run of configs/paper-defocusnet.toml on the rendered benchmark (nothing else may be shipped).
FILE is written, by default the package's own. OUT.json and the file itself keep the size and what the 8 bits cost:
the errors of both networks on the test stacks of BENCHMARK, or without it how far their depths differ on a few
generated stacks.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from focalsweep.methods.method import Method
from focalsweep.methods.paper import PAPER_PLANES, paper_depth
from focalsweep.methods.registry import Choice
from focalsweep.model.papernet import PaperNet
from focalsweep.model.quantised import pack, unpack
from focalsweep.model.weights import FOLDER, PAPERNET, SCANNED_OBJECTS, fill
from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe
from focalsweep_research.protocols.methods import Compared
from focalsweep_research.protocols.stacks import evaluate_defocusnet
from focalsweep_research.synthesis.generator import make_source
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.training.checkpoint import Checkpoint, read_checkpoint

LARGEST_BYTES = 28 * 2**20
CODES = (127, 95, 63)  # the first that is small enough
STACKS = 4
DATA = GeneratorConfig(held_out=True, seed=7, rays=32, textures=16)  # where there is no benchmark


def read_run(folder: Path) -> Checkpoint:
    """The checkpoint of a run of the paper's network, cost and planes."""
    checkpoint = read_checkpoint(folder / "checkpoint.pt")
    config = checkpoint.config
    data = config.data
    wrong = {
        "network": config.network != "papernet",
        "cost": config.cost != "paper",
        "cost_options": bool(config.cost_options),
        "planes": config.planes != PAPER_PLANES.count or (data.get("near", 0.1), data.get("far", 3.0)) != (0.1, 3.0),
        "data": data.get("kind") != "defocusnet" or data.get("spacing") != "depth",
    }
    for key, is_wrong in wrong.items():
        if is_wrong:
            raise ValueError(f"{folder}: {key} is not the paper's: pack a run of configs/paper-defocusnet.toml")
    return checkpoint


def packed(checkpoint: Checkpoint, about: dict[str, Any], largest_bytes: int = LARGEST_BYTES) -> tuple[bytes, int]:
    """The file, and the largest code that it has."""
    state = {key: value for key, value in checkpoint.ema.items() if not key.endswith("num_batches_tracked")}
    for largest_code in CODES:
        content = pack(state, {**about, "largest_code": largest_code}, largest_code)
        if len(content) <= largest_bytes:
            return content, largest_code
    raise ValueError(f"the weights take {len(content)} bytes with codes to {CODES[-1]}: more than {largest_bytes}")


def method(state: dict[str, Any], options: dict[str, Any], path: Path, device: torch.device) -> Compared:
    network = PaperNet(**options)
    fill(network, state, path, "take a run of PaperNet")
    read = partial(paper_depth, network=network.to(device).eval())
    choice = Choice("packed", Method("packed", "", read), {"size": "full"})
    return Compared(choice, displayed=True, own_planes=PAPER_PLANES)


@torch.no_grad()
def cost_of_packing(methods: dict[str, Compared], benchmark: Path | None, device: torch.device) -> dict[str, Any]:
    """RMSE at the paper's scales on the test stacks of a benchmark; else the mean difference of depth, relative."""
    if benchmark:
        rows = evaluate_defocusnet(methods, benchmark, device, print)["rows"]
        raw = [row for row in rows if row["rescaling"] == "raw"]
        return {"rmse": {name: {r["scale"]: r["rmse"] for r in raw if r["method"] == name} for name in methods}}
    sample = make_source(DATA)(0, STACKS, device)
    full, short = (each.read_refitted(sample) for each in methods.values())
    return {"mean_relative_difference": ((short - full).abs() / full).mean().item()}


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    run, output = Path(sys.argv[1]), Path(sys.argv[2])
    benchmark = Path(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] else None
    path = Path(sys.argv[4]) if len(sys.argv) > 4 else FOLDER / PAPERNET
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    checkpoint = read_run(run)
    options = {"planes": checkpoint.config.planes, **checkpoint.config.network_options}
    about: dict[str, Any] = {
        "recipe": f"focalsweep train configs/paper-defocusnet.toml, {checkpoint.step} steps"
        + (", the last of several cycles, each from the weights before" if checkpoint.config.start_from else ""),
        "licence": "MIT",
        "attribution": SCANNED_OBJECTS + "; the scenes are those scanned objects, lit by Poly Haven's skies (CC0)",
        "valid_range": {"planes": [0.1, 3.0], "spacing": "depth", "scales": [1.0, 9.0]},
        "options": options,
    }
    content, _ = packed(checkpoint, about)
    methods = {
        "full precision": method(checkpoint.ema, options, run, device),
        "8 bits": method(unpack(content), options, path, device),
    }
    about["results"] = cost_of_packing(methods, benchmark, device)
    content, largest_code = packed(checkpoint, about)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_files({path: lambda file: file.write(content)})
    record = {
        "benchmark": "packed PaperNet", **describe(device, 0), "file_bytes": len(content),
        "largest_code": largest_code, "steps": checkpoint.step, "minutes": checkpoint.seconds / 60, **about["results"],
    }  # fmt: skip
    write_files({output: lambda file: file.write(json_bytes(record))})
    print(f"{path}: {len(content) / 2**20:.1f} MiB, codes to {largest_code}; {about['results']}")


if __name__ == "__main__":
    main()
