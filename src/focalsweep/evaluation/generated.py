"""Protocols on generated scenes that no training saw: other seeds, other textures.

`generator`: 200 stacks of 2, 3, 5 and 8 frames at two noise levels, errors also by blur and by texture.
`stack-size`: the same for every number of frames from 2 to 8 (the paper's Figure 10).
`cameras`: the same scenes through ten lenses from a phone's to a portrait lens's.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.baselines.protocol import FrameCountError
from focalsweep.evaluation.methods import Reader
from focalsweep.evaluation.metrics import ErrorSums, error_sums, figures_of
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.sweep.argmin import focused_picture
from focalsweep.sweep.volume import plane_position
from focalsweep.synthesis.generator import GeneratorConfig, make_source
from focalsweep.synthesis.sample import Sample

Say = Callable[[str], None]

FRAMES = (2, 3, 5, 8)
NOISE = (0.002, 0.01)
STACKS = 25  # for each number of frames and each noise level
BATCH = 5
SEED = 2  # and on, by tens: training uses 0, validation 1
BLUR_PX = (0.0, 8.0, 16.0, float("inf"))
TEXTURE = (0.0, 0.01, 0.04, float("inf"))  # standard deviation of linear light in a window of 9 x 9 px
FARTHEST = 20.0  # times the nearest plane: true and estimated depths beyond count as that, so infinity is no error
DATA = GeneratorConfig(held_out=True, seed=SEED, wide_range=0.0, partial_focus=0.0, rooms=0.0, lights=0.0, soft=0.0)

# Name, focal length mm, f-number, nearest distance m: pictures of 256 px with one field of view.
CAMERAS = (
    ("phone, wide", 5.0, 1.8, 0.04),
    ("phone, main", 6.8, 1.9, 0.045),
    ("compact, 1 inch", 8.8, 1.8, 0.05),
    ("machine vision, 12 mm", 12.0, 1.4, 0.10),
    ("machine vision, 16 mm", 16.0, 2.8, 0.08),
    ("micro four thirds, 25 mm", 25.0, 1.7, 0.15),
    ("APS-C, 35 mm", 35.0, 2.0, 0.15),
    ("full frame, 50 mm", 50.0, 2.8, 0.20),
    ("portrait, 85 mm", 85.0, 2.0, 0.35),
    ("macro, 100 mm", 100.0, 4.0, 0.35),
)
CAMERA_SCENES = 40


def evaluate_generator(
    readers: dict[str, Reader],
    textures: str,
    device: torch.device,
    say: Say,
    share: float = 1.0,
    frame_counts: tuple[int, ...] | None = None,
    protocol: str = "generator",
) -> dict[str, Any]:
    """Every method on the same stacks; `share` below 1 takes fewer of them."""
    frame_counts = frame_counts or FRAMES
    sums: dict[tuple[str, str], ErrorSums] = defaultdict(ErrorSums)
    notes: dict[tuple[str, str], str] = {}
    stacks = max(BATCH, round(STACKS * share / BATCH) * BATCH)
    for frames in frame_counts:
        for noise in NOISE:
            number = frame_counts.index(frames) * len(NOISE) + NOISE.index(noise)
            config = replace(
                DATA,
                seed=SEED + 10 * number,
                frames=(frames, frames),
                noise_std=(noise, noise),
                texture_folder=textures,
            )
            for sample in _samples(config, stacks, device):
                groups = {**_by_blur(sample), **_by_texture(sample, noise)}
                whole_groups = ("all", f"F={frames}", f"noise {noise:g}", f"F={frames}, noise {noise:g}")
                for name, reader in readers.items():
                    try:
                        depth, truth = limited(reader(sample), sample)
                    except FrameCountError as error:  # a mean over what is left would not be that of the others
                        for group in (*whole_groups, *groups):
                            sums[name, group] += ErrorSums()
                            notes[name, group] = error.note
                        continue
                    whole = error_sums(depth, truth)
                    for group in whole_groups:
                        sums[name, group] += whole
                    for group, pixels in groups.items():
                        sums[name, group] += error_sums(depth, truth, pixels)
            say(f"{frames} frames, noise {noise:g}: done")
    rows = [
        {"method": name, "group": group, **_frames_and_noise(group), **figures_of(total, notes.get((name, group)))}
        for (name, group), total in sums.items()
    ]
    count = stacks * len(frame_counts) * len(NOISE)
    if protocol == "generator":
        return {"protocol": protocol, "stacks": count, "rows": rows}
    table = {"columns": ["abs_rel"], "across": "frames", "sections": [], "where": {"noise": "both"}}
    return {"protocol": protocol, "stacks": count, "rows": rows, "table": table}


def _frames_and_noise(group: str) -> dict[str, str]:
    """Of a group of stacks with one number of frames: that, and the noise, for a table with frames across."""
    frames, _, noise = group.removeprefix("F=").partition(", noise ")
    return {"frames": frames, "noise": noise or "both"} if group.startswith("F=") else {}


def evaluate_cameras(
    readers: dict[str, Reader], textures: str, device: torch.device, say: Say, share: float = 1.0
) -> dict[str, Any]:
    """AbsRel of every method for each camera: the scenes are the same but for their scale."""
    rows = []
    scenes = max(BATCH, round(CAMERA_SCENES * share / BATCH) * BATCH)
    for camera, focal_length_mm, f_number, nearest in CAMERAS:
        focal_length = focal_length_mm * 1e-3
        config = replace(
            DATA, seed=SEED + 1, frames=(5, 5), noise_std=(0.005, 0.005), nearest=(nearest, nearest),
            focal_length=(focal_length, focal_length), f_number=f_number, field_of_view_deg=(40.0, 40.0),
            texture_folder=textures,
        )  # fmt: skip
        sums: dict[str, ErrorSums] = defaultdict(ErrorSums)
        notes: dict[str, str] = {}
        blur: list[float] = []
        for sample in _samples(config, scenes, device):
            blur += _blur_px(sample).tolist()
            for name, reader in readers.items():
                try:
                    sums[name] += error_sums(*limited(reader(sample), sample))
                except FrameCountError as error:
                    sums[name] += ErrorSums()
                    notes[name] = error.note
        settings = {"focal_length_mm": focal_length_mm, "f_number": f_number, "nearest": nearest}
        for name, total in sums.items():
            mean_blur_px = sum(blur) / len(blur)
            figures = figures_of(total, notes.get(name))
            rows.append({"method": name, "camera": camera, **settings, "blur_px": mean_blur_px, **figures})
        errors = {name: total.means().get("abs_rel", math.nan) for name, total in sums.items()}
        say(f"{camera}: " + ", ".join(f"{name} {error:.4f}" for name, error in errors.items()))
    return {"protocol": "cameras", "scenes": scenes, "rows": rows, "spread": spread_over_cameras(rows)}


def spread_over_cameras(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By method: the mean AbsRel over cameras and the largest deviation from it, relative."""
    spread = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        errors = [row["abs_rel"] for row in rows if row["method"] == name]
        if None in errors:
            continue
        mean = sum(errors) / len(errors)
        spread[name] = {"mean_abs_rel": mean, "largest_deviation": max(abs(e - mean) for e in errors) / mean}
    return spread


def _samples(config: GeneratorConfig, stacks: int, device: torch.device) -> Iterator[Sample]:
    source = make_source(config)
    for step in range(stacks // BATCH):
        yield source(step, BATCH, device)


def limited(depth: Tensor, sample: Sample) -> tuple[Tensor, Tensor]:
    """Estimated and true depth, both cut at FARTHEST."""
    limit = FARTHEST / sample.planes.as_batch(len(depth)).to(depth)[:, :1, None]
    return torch.minimum(depth, limit), torch.minimum(sample.depth, limit)


def _blur_px(sample: Sample) -> Tensor:  # B
    """The blur between the ends of what is in sight, focused at one of them."""
    stack = sample.stack.as_batch()
    slope = blur_slope_px(stack.focus_distances, stack.camera, stack.magnification).mean(1)
    far, near = (1 / sample.depth).flatten(1).aminmax(dim=1)
    return slope.to(near) * (near - far)


def _by_blur(sample: Sample) -> dict[str, Tensor]:
    blur_px = _blur_px(sample)[:, None, None].expand_as(sample.depth)
    return {f"blur {low:g} to {high:g} px": (blur_px >= low) & (blur_px < high) for low, high in _pairs(BLUR_PX)}


def _by_texture(sample: Sample, noise_std: float) -> dict[str, Tensor]:
    """Pixels by the contrast around them in the frame that is sharpest there, the noise taken off."""
    stack = sample.stack.as_batch()
    planes = sample.planes.as_batch(len(sample.depth)).to(sample.depth)
    plane = plane_position(1 / sample.depth, planes).round().long()
    grey = focused_picture(stack, sample.planes, plane).mean(1, keepdim=True)

    def window(maps: Tensor) -> Tensor:
        return functional.avg_pool2d(functional.pad(maps, (4, 4, 4, 4), mode="reflect"), 9, stride=1)

    variance = window(grey.square()) - window(grey).square() - noise_std**2 / 3
    strength = variance.clamp_min(0).sqrt()[:, 0]
    return {f"texture {low:g} to {high:g}": (strength >= low) & (strength < high) for low, high in _pairs(TEXTURE)}


def _pairs(borders: tuple[float, ...]) -> list[tuple[float, float]]:
    return list(itertools.pairwise(borders))
