"""Protocols on generated scenes that no training saw: other seeds, other textures.

`generator`: 200 stacks of 2, 3, 5 and 8 frames at two noise levels, errors also by blur and by texture.
`stack-size`: the same scenes with every number of frames from 2 to 8 (the paper's Figure 10).
`cameras`: the same scenes through ten lenses from a phone's to a portrait lens's.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.sweep.frames import focused_picture
from focalsweep.sweep.volume import plane_position
from focalsweep.types import FocalStack
from focalsweep_research.protocols.distributed import Found, Say, Tally, over_processes, own_share
from focalsweep_research.protocols.methods import Reader
from focalsweep_research.rivals.answer import FrameCountError
from focalsweep_research.synthesis.generator import draw_scenes, generate, held_atlas
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.objectives import DEPTH_END

FRAMES = (2, 3, 5, 8)
NOISE = (0.002, 0.01)
STACKS = 25  # for each number of frames and each noise level
BATCH = 5
SEED = 2  # and on, by tens: training uses 0, validation 1
BLUR_PX = (0.0, 8.0, 16.0, float("inf"))
TEXTURE = (0.0, 0.01, 0.04, float("inf"))  # standard deviation of linear light in a window of 9 x 9 px
BLUR, TEXTURED = "blur {:g} to {:g} px", "texture {:g} to {:g}"
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
    kinds = list(itertools.product(frame_counts, NOISE))
    stacks = max(1, round(STACKS * share))
    batch = min(BATCH, stacks)
    stacks -= stacks % batch
    tally = Tally()
    for number, step in own_share(list(itertools.product(range(len(kinds)), range(stacks // batch))), say):
        frames, noise = kinds[number]
        scenes = NOISE.index(noise) if protocol == "stack-size" else number  # there only the frames may differ
        config = replace(
            DATA, seed=SEED + 10 * scenes, frames=(frames, frames), noise_std=(noise, noise), texture_folder=textures
        )
        sample = batch_of(config, step, batch, device)
        whole = ("all", f"F={frames}", f"noise {noise:g}", f"F={frames}, noise {noise:g}")
        groups = {**_by_blur(sample), **_by_texture(sample, noise)}
        for name, reader in readers.items():
            found = estimate(reader, sample)
            tally.add(found, *((name, group) for group in whole))
            for group, pixels in groups.items():
                tally.add(found, (name, group), pixels=pixels)
    tally = over_processes(tally)
    rows = [
        {"method": name, "group": group, **_frames_and_noise(group), **tally.figures(name, group)}
        for name in readers
        for group in _groups(frame_counts)
    ]
    count = stacks * len(kinds)
    if protocol == "generator":
        return {"protocol": protocol, "stacks": count, "rows": rows}
    table = {"columns": ["abs_rel"], "across": "frames", "sections": [], "where": {"noise": "both"}}
    return {"protocol": protocol, "stacks": count, "rows": rows, "table": table}


def _groups(frame_counts: tuple[int, ...]) -> list[str]:
    frames, noises = [f"F={count}" for count in frame_counts], [f"noise {noise:g}" for noise in NOISE]
    crossed = [f"{count}, {noise}" for count in frames for noise in noises]
    blurs = [BLUR.format(*ends) for ends in itertools.pairwise(BLUR_PX)]
    textures = [TEXTURED.format(*ends) for ends in itertools.pairwise(TEXTURE)]
    return ["all", *frames, *noises, *crossed, *blurs, *textures]


def _frames_and_noise(group: str) -> dict[str, str]:
    """Of a group of stacks with one number of frames: that, and the noise, for a table with frames across."""
    frames, _, noise = group.removeprefix("F=").partition(", noise ")
    return {"frames": frames, "noise": noise or "both"} if group.startswith("F=") else {}


def evaluate_cameras(
    readers: dict[str, Reader], textures: str, device: torch.device, say: Say, share: float = 1.0
) -> dict[str, Any]:
    """AbsRel of every method for each camera: the scenes are the same but for their scale."""
    scenes = max(BATCH, round(CAMERA_SCENES * share / BATCH) * BATCH)
    tally = Tally()
    blurs: list[tuple[str, float]] = []
    for (camera, focal_length_mm, f_number, nearest), step in own_share(
        list(itertools.product(CAMERAS, range(scenes // BATCH))), say
    ):
        focal_length = focal_length_mm * 1e-3
        config = replace(
            DATA, seed=SEED + 1, frames=(5, 5), noise_std=(0.005, 0.005), nearest=(nearest, nearest),
            focal_length=(focal_length, focal_length), f_number=f_number, field_of_view_deg=(40.0, 40.0),
            texture_folder=textures,
        )  # fmt: skip
        sample = batch_of(config, step, BATCH, device)
        blurs += [(camera, blur) for blur in range_blur_px(sample.stack.as_batch(), sample.depth).tolist()]
        for name, reader in readers.items():
            tally.add(estimate(reader, sample), (name, camera))
    tally, blurs = over_processes(tally), over_processes(blurs)
    rows = []
    for camera, focal_length_mm, f_number, nearest in CAMERAS:
        settings = {"focal_length_mm": focal_length_mm, "f_number": f_number, "nearest": nearest}
        blur_px = statistics.fmean(blur for name, blur in blurs if name == camera)
        for name in readers:
            rows.append(
                {"method": name, "camera": camera, **settings, "blur_px": blur_px, **tally.figures(name, camera)}
            )
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


def batch_of(
    config: GeneratorConfig, step: int, stacks: int, device: torch.device, aperture: list[Tensor] | None = None
) -> Sample:
    """Stacks of the generator, the same for the same step; `aperture` as `generate` takes it."""
    atlas = held_atlas(config.textures, config.texture_folder, config.held_out)
    drawing = draw_scenes(config, atlas.count, step, stacks)
    return generate(config, atlas.to(device), drawing, step, device, aperture)


def estimate(reader: Reader, sample: Sample) -> Found:
    """Estimated and true depth, both cut at DEPTH_END; or why the method reads no such stack."""
    try:
        depth = reader(sample)
    except FrameCountError as error:  # a mean over what is left would not be that of the others
        return error.note
    limit = DEPTH_END / sample.planes.as_batch(len(depth)).to(depth)[:, :1, None]
    return torch.minimum(depth, limit), torch.minimum(sample.depth, limit)


def range_blur_px(stack: FocalStack, depth: Tensor) -> Tensor:  # of B H W: B
    """The blur between the ends of what is in sight of a batch, focused at one of them."""
    slope = blur_slope_px(stack.focus_distances, stack.camera, stack.magnification).mean(1)
    far, near = (1 / depth).flatten(1).aminmax(dim=1)
    return slope.to(near) * (near - far)


def _by_blur(sample: Sample) -> dict[str, Tensor]:
    return between(
        BLUR, BLUR_PX, range_blur_px(sample.stack.as_batch(), sample.depth)[:, None, None].expand_as(sample.depth)
    )


def _by_texture(sample: Sample, noise_std: float) -> dict[str, Tensor]:
    """Pixels by the contrast around them in the frame that is sharpest there, the noise taken off."""
    stack = sample.stack.as_batch()
    planes = sample.planes.as_batch(len(sample.depth)).to(sample.depth)
    plane = plane_position(1 / sample.depth, planes).round().long()
    grey = focused_picture(stack, sample.planes, plane).mean(1, keepdim=True)

    def window(maps: Tensor) -> Tensor:
        return functional.avg_pool2d(functional.pad(maps, (4, 4, 4, 4), mode="reflect"), 9, stride=1)

    variance = window(grey.square()) - window(grey).square() - noise_std**2 / 3
    return between(TEXTURED, TEXTURE, variance.clamp_min(0).sqrt()[:, 0])


def between(name: str, borders: tuple[float, ...], values: Tensor) -> dict[str, Tensor]:
    """By group, the pixels whose value lies between its borders."""
    return {name.format(low, high): (values >= low) & (values < high) for low, high in itertools.pairwise(borders)}
