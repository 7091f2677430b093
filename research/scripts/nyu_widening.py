"""What Carvalho's widening of near surfaces costs on NYU: python research/scripts/nyu_widening.py NYU OUT.json [STEP]

The renderer widens every slice of depth by 4 px, so that sloping surfaces have no cracks. A picture then shows, at each
pixel, the nearest depth within 4 px, while the true depth that errors are told by stays as it was. Measured on every
STEP-th picture (10 by default), in the protocol's twelve windows: the error of exactly that nearest depth, which the
picture shows, though it is not a bound (a smoother answer may err less); and the shipped network's, with and without
the widening.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from focalsweep.results.layered import DILATION_PX
from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.datasets.defocusnet import DATASET_END
from focalsweep_research.datasets.nyu import CROP_PX, CROPS, Nyu, NyuSetup, part_of
from focalsweep_research.environment import describe
from focalsweep_research.protocols.methods import compared
from focalsweep_research.protocols.stacks import NYU_UNIT
from focalsweep_research.synthesis.sample import Sample

METHOD = "sweep:psf=sampled"


def nearest_within(depth: Tensor, radius_px: int) -> Tensor:  # H W
    """The least depth of the disk around each pixel."""
    height, width = depth.shape
    padded = torch.nn.functional.pad(depth[None, None], [radius_px] * 4, mode="replicate")[0, 0]
    around = [
        padded[radius_px + dy : radius_px + dy + height, radius_px + dx : radius_px + dx + width]
        for dy in range(-radius_px, radius_px + 1)
        for dx in range(-radius_px, radius_px + 1)
        if dx * dx + dy * dy <= radius_px * radius_px
    ]
    return torch.stack(around).amin(0)


def rmse(depth: Tensor, truth: Tensor) -> float:
    """The mean over the windows, as the protocol has it."""
    error = depth.clamp(max=DATASET_END) - truth
    windows = torch.stack([error[top : top + CROP_PX, left : left + CROP_PX] for top, left in CROPS])
    return float(windows.square().mean((1, 2)).sqrt().mean())


@torch.no_grad()
def main(folder: str, output: str, step: str = "10") -> None:
    method = compared(METHOD)
    setups = {"as rendered": NyuSetup(), "not widened": NyuSetup(dilation_px=0)}
    rows: dict[str, list[float]] = {"nearest depth within 4 px": [], **{f"{METHOD}, {name}": [] for name in setups}}
    path, ids = part_of(folder, "test")
    sets = {name: Nyu(path, ids, setup=setup) for name, setup in setups.items()}
    places = range(0, len(sets["as rendered"]), int(step))
    for number, place in enumerate(places, start=1):
        for name, pictures in sets.items():
            item = pictures[place]
            sample = Sample(item.stack.as_batch(), method.planes(item.stack), item.depth[None])
            rows[f"{METHOD}, {name}"].append(rmse(method.read(sample)[0], item.depth))
        rows["nearest depth within 4 px"].append(rmse(nearest_within(item.depth, DILATION_PX), item.depth))
        print(f"{number} of {len(places)}", {name: round(values[-1], 4) for name, values in rows.items()}, flush=True)
    means = [{"method": name, "rmse": sum(values) / len(values)} for name, values in rows.items()]
    print(means)
    table = {"columns": ["rmse"], "length_unit": NYU_UNIT}
    record = {**describe(torch.device("cpu"), 0), "pictures": len(places), "rows": means, "table": table}
    write_files({Path(output): lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main(*sys.argv[1:])
