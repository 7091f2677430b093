"""Our model of blur against a real lens: python research/scripts/blur_of_real_pairs.py FOLDER OUT [STEP]

FOLDER holds Carvalho's pairs (see datasets/dfd.py): one view at f/2.8 and at f/8, and its depth. The f/8
picture is blurred as the thin lens at f/2.8 says it must be, by the measured depth, and compared with the real f/2.8
picture: with the model's own amount of blur, with wrong amounts, with wrong focus distances, and without blur.

OUT receives blur-of-real-pairs.json and blur_of_real_pairs.png. STEP 3 takes every third scene.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb
from focalsweep.results.layered import render_layered
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.types import Camera
from focalsweep_research.datasets.dfd import DfdPairs
from focalsweep_research.datasets.item import Item
from focalsweep_research.environment import describe

SCALES = (0.5, 0.6, 0.71, 0.84, 1.0, 1.19, 1.41, 1.68, 2.0)  # times the model's own blur
FOCUS_DISTANCES = (1.2, 1.4, 1.64, 1.8, 2.0, 2.4)  # metres
LEAST_INLIERS = 150  # below it a registration is not to be trusted
BORDER_PX = 24
PICTURED = 3


def reblurred(item: Item, focus_distances: list[float], scales: list[float]) -> Tensor:  # F C H W
    """The f/8 picture with what blur it lacks: variances add up, so c^2 = c_2.8^2 - c_8^2."""
    camera = item.stack.metric_camera
    wide, narrow = (float(n) for n in torch.as_tensor(camera.f_number))
    lacking = (1 - (wide / narrow) ** 2) ** 0.5
    lens = Camera(camera.focal_length, wide, camera.pixel_pitch)
    magnification = lacking * torch.tensor(scales, dtype=torch.float64)
    depth = item.depth.nan_to_num(nan=float(item.depth.nanmedian()))
    return render_layered(
        item.stack.images[1], depth, lens, focus_distances, dilation_px=0, magnification=magnification
    )


def matched(picture: Tensor, target: Tensor) -> Tensor:
    """The exposures of the two photos differ a little: one factor a channel."""
    return picture * (target.mean((-2, -1), keepdim=True) / picture.mean((-2, -1), keepdim=True))


def inner(picture: Tensor) -> Tensor:
    return picture[..., BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX]


def psnr(picture: Tensor, target: Tensor) -> float:
    """Of display-encoded values, as eyes see them."""
    shown, wanted = (linear_to_srgb(inner(image).clamp(0, 1)) for image in (matched(picture, target), target))
    return float(-10 * torch.log10((shown - wanted).square().mean()))


def measure(item: Item, own_focus: float) -> dict[str, Any]:
    real, sharp = item.stack.images
    distances = [own_focus] * len(SCALES) + list(FOCUS_DISTANCES)
    pictures = reblurred(item, distances, [*SCALES, *[1.0] * len(FOCUS_DISTANCES)])
    decibels = [psnr(picture, real) for picture in pictures]
    return {
        "scene": item.name,
        "no_blur_db": psnr(sharp, real),
        "scales_db": decibels[: len(SCALES)],
        "focus_db": decibels[len(SCALES) :],
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    scales, focus = (np.array([row[key] for row in rows]) for key in ("scales_db", "focus_db"))
    none = np.array([row["no_blur_db"] for row in rows])
    # The vertex of the parabola through the best scale and its neighbours, in the logarithm.
    mean = scales.mean(0)
    best = int(np.clip(mean.argmax(), 1, len(SCALES) - 2))
    fit = np.polyfit(np.log(SCALES[best - 1 : best + 2]), mean[best - 1 : best + 2], 2)
    own = scales[:, SCALES.index(1.0)]
    return {
        "scenes": len(rows),
        "no_blur_db": float(none.mean()),
        "by_scale_db": dict(zip(map(str, SCALES), mean.tolist(), strict=True)),
        "by_focus_distance_db": dict(zip(map(str, FOCUS_DISTANCES), focus.mean(0).tolist(), strict=True)),
        "best_scale": float(np.exp(-fit[1] / (2 * fit[0]))),
        "share_better_than_no_blur": float((own > none).mean()),
    }


def contact_sheet(items: list[Item], own_focus: float) -> np.ndarray[Any, Any]:
    """f/8, f/8 re-blurred, f/2.8, and what is left between the last two (times 4), a row a scene."""
    rows = []
    for item in items:
        real, sharp = item.stack.images
        ours = matched(reblurred(item, [own_focus], [1.0])[0], real)
        shown = [linear_to_srgb(picture.clamp(0, 1)) for picture in (sharp, ours, real)]
        shown.append((0.5 + 4 * (shown[1] - shown[2])).clamp(0, 1))
        rows.append(torch.cat([inner(picture) for picture in shown], -1))
    sheet = torch.cat(rows, -2).movedim(0, -1)
    return np.asarray((sheet * 255).round().to(torch.uint8))


def main(folder: Path, output: Path, step: int = 1) -> None:
    from PIL import Image

    torch.set_num_threads(1)
    data = DfdPairs(folder)
    trusted = [i for i, shift in enumerate(data.shifts.values()) if shift.inliers >= LEAST_INLIERS][::step]
    rows = []
    for i in trusted:
        row = measure(data[i], data.focus_distance)
        row["shift_px"] = list(data.shifts.values())[i].length_px
        rows.append(row)
        own = row["scales_db"][SCALES.index(1.0)]
        print(f"{row['scene']}: {row['no_blur_db']:.2f} dB without blur, {own:.2f} dB with", flush=True)
    record = {
        "benchmark": "blur of real pairs", **describe(torch.device("cpu"), 0),
        "focus_distance": data.focus_distance, "scales": SCALES, "focus_distances": FOCUS_DISTANCES,
        "all": summary(rows), "shifted_less_than_half_a_px": summary([r for r in rows if r["shift_px"] < 0.5]),
        "rows": rows,
    }  # fmt: skip
    print({key: record[key] for key in ("all", "shifted_less_than_half_a_px")})
    gain = [row["scales_db"][SCALES.index(1.0)] - row["no_blur_db"] for row in rows]
    chosen = [trusted[i] for i in np.argsort(gain)[:: -max(1, len(gain) // PICTURED)][:PICTURED]]
    picture = Image.fromarray(contact_sheet([data[i] for i in chosen], data.focus_distance))
    picture = picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.BOX)
    output.mkdir(parents=True, exist_ok=True)
    write_files(
        {
            output / "blur-of-real-pairs.json": lambda file: file.write(json_bytes(record)),
            output / "blur_of_real_pairs.png": lambda file: picture.save(file, "png"),
        }
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int((sys.argv[3:] or ["1"])[0]))
