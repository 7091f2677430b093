"""Training data that never run dry: fresh scenes, cameras and flaws for every step, the same for the same seed."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.types import Camera, DepthGrid, FocalStack
from focalsweep_research.synthesis.apertures import aperture_samples
from focalsweep_research.synthesis.cameras import (
    Draw,
    draw_camera,
    draw_sensor,
    draw_softness,
    draw_view,
    lens_samples,
    log_uniform,
)
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.lens_flaws import draw_lens_flaws, flawed
from focalsweep_research.synthesis.more_textures import procedural_more
from focalsweep_research.synthesis.photograph import Flaws, draw_flaws, metered_gain, photograph
from focalsweep_research.synthesis.sample import Sample, Source
from focalsweep_research.synthesis.scenes import Scenes, View, light_up, random_scene, stack_scenes
from focalsweep_research.synthesis.sensor import degrade, soften
from focalsweep_research.synthesis.textures import Atlas, make_atlas, read_pictures
from focalsweep_research.synthesis.tracer import Lenses, depth, render
from focalsweep_research.synthesis.worlds import random_world

Rng = np.random.Generator


def make_source(config: GeneratorConfig) -> Source:
    """A function from (step, batch size, device) to a fresh batch.

    While a batch is used, the next one is made in another thread; on a GPU in another stream, so that what the
    generator waits for does not hold up the training step.
    """
    atlas = atlas_of(config)
    on_device: dict[torch.device, Atlas] = {}
    streams: dict[torch.device, torch.cuda.Stream] = {}
    maker = ThreadPoolExecutor(1)
    ahead: dict[tuple[int, int, torch.device], Future[Sample]] = {}
    last: int | None = None

    traced: dict[tuple[int, int, torch.device], tuple[Drawing, Traced]] = {}  # the scenes at hand

    def make(step: int, batch_size: int, device: torch.device) -> Sample:
        scenes, replay = divmod(step, config.replays)
        if device.type == "cuda" and device not in streams:
            streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.no_grad(), torch.cuda.stream(streams.get(device)):
            if device not in on_device:
                on_device[device] = atlas.to(device)
            key = scenes, batch_size, device
            if key not in traced:
                traced.clear()
                drawing = draw_scenes(config, atlas.count, scenes, batch_size)
                traced[key] = drawing, trace(config, on_device[device], drawing, scenes, device)
            return develop(config, *replayed(config, *traced[key], replay), step)

    def source(step: int, batch_size: int, device: torch.device) -> Sample:
        nonlocal last
        if device.type == "cuda" and device.index is None:  # the other thread has a current GPU of its own
            device = torch.device("cuda", torch.cuda.current_device())
        waiting = ahead.pop((step, batch_size, device), None) or maker.submit(make, step, batch_size, device)
        sample = waiting.result()
        if device.type == "cuda":
            stream = torch.cuda.current_stream(device)
            stream.wait_stream(streams[device])
            for tensor in (sample.stack.images, sample.depth):
                tensor.record_stream(stream)
        # Under data parallel, steps go by the number of processes.
        following = step + (step - last if last is not None and step > last else 1)
        last = step
        ahead.clear()
        ahead[following, batch_size, device] = maker.submit(make, following, batch_size, device)
        return sample

    return source


def atlas_of(config: GeneratorConfig) -> Atlas:
    return held_atlas(config.textures, config.texture_folder, config.held_out, config.more_textures)


@lru_cache(maxsize=2)
def held_atlas(textures: int, texture_folder: str, held_out: bool, more_textures: int = 0) -> Atlas:
    """Training and held-out textures never meet: procedural ones by seed, pictures by their place in the index."""
    seed = 1_000_003 if held_out else 7
    pictures = read_pictures(Path(texture_folder), lambda i: (i % 5 == 4) == held_out) if texture_folder else []
    more = [procedural_more(np.random.default_rng([seed, 1, i])) for i in range(more_textures)]
    return make_atlas(textures, seed, [*more, *pictures])


@dataclass(frozen=True, eq=False)
class Part:
    """Where in a larger picture of `size` px a square part of it lies, and how much smaller the whole is shown."""

    left: float  # px
    top: float
    size: float  # of the larger picture, px
    reduction: float


@dataclass(frozen=True, eq=False)
class Drawing:
    """The scenes of a batch before they are traced, and the state of their random draws."""

    numbers: range  # of the stacks, through all steps
    rngs: list[Rng]
    views: list[View]  # of the whole pictures
    scenes: Scenes
    softness_px: list[float]  # 0: none
    parts: list[Part] | None  # none: pictures are whole
    flaws: list[Rng] | None  # draws of photographs' flaws, where they have any


def draw_scenes(config: GeneratorConfig, textures: int, step: int, batch_size: int) -> Drawing:
    """Every stack has draws of its own, numbered through all steps."""
    numbers = range(step * batch_size, (step + 1) * batch_size)
    rngs = [np.random.default_rng([config.seed, 1, number]) for number in numbers]
    shared = np.random.default_rng([config.seed, 4, step])  # so that other shares change no draws
    in_parts, photographed = shared.random(2) < (config.parts, config.photographs)
    size = config.whole if in_parts else config.size
    views = [draw_view(rng, config, size) for rng in rngs]
    scenes, softness_px, parts = [], [], []
    for number, rng, view in zip(numbers, rngs, views, strict=True):
        kind, softness, part = (np.random.default_rng([config.seed, i, number]) for i in (2, 3, 5))
        room, lit = kind.random(2) < (config.rooms, config.lights)
        if part.random() < config.worlds:
            scenes.append(random_world(part, view, textures, config.world_solids))
        else:
            scenes.append(random_scene(rng, view, textures, config.solids, room))
        if lit:
            light_up(kind, scenes[-1])
        softness_px.append(draw_softness(softness, config))
        if in_parts:
            parts.append(_draw_part(part, config))
            _sharpen_textures(part, scenes[-1], parts[-1].reduction)
    flaws = [np.random.default_rng([config.seed, 6, number]) for number in numbers] if photographed else None
    return Drawing(numbers, rngs, views, stack_scenes(scenes), softness_px, parts if in_parts else None, flaws)


def _draw_part(rng: Rng, config: GeneratorConfig) -> Part:
    low, high = config.reduction
    reduction = log_uniform(rng, (max(low, config.size / config.whole), high))
    size = reduction * config.whole
    left, top = (size - config.size) * np.clip(rng.uniform(-0.15, 1.15, 2), 0, 1)  # the border itself, too
    return Part(float(left), float(top), size, reduction)


def _sharpen_textures(rng: Rng, scene: dict[str, Any], reduction: float) -> None:
    """Textures that have about a texel a pixel in the whole: some of them as fine as the part shows."""
    scene["mapping"][:, 0] *= reduction ** rng.uniform(0, 1, len(scene["mapping"]))


@dataclass(frozen=True, eq=False)
class Traced:
    """A batch as an ideal sensor would see it: linear light B F 3 H W, true depth B H W, and its cameras."""

    images: Tensor
    depth: Tensor
    draws: list[Draw]
    flaws: list[Flaws] | None = None  # of photographs, where they have any
    whole: Traced | None = None
    window: Tensor | None = None


def generate(
    config: GeneratorConfig,
    atlas: Atlas,
    drawing: Drawing,
    step: int,
    device: torch.device,
    aperture: list[Tensor] | None = None,
) -> Sample:
    """A batch; all stacks of a batch have one number of frames, everything else differs.

    `aperture` are points on it as `lens_samples` gives them, in place of a random one.
    """
    return develop(config, drawing, trace(config, atlas, drawing, step, device, aperture), step)


def develop(config: GeneratorConfig, drawing: Drawing, traced: Traced, step: int) -> Sample:
    """What a camera makes of the light, told what its metadata say; noise is that of the step."""
    flaws = traced.flaws
    gain = metered_gain((traced.whole or traced).images, flaws) if flaws else None  # a part has the whole's exposure

    def finished(traced: Traced, reductions: list[float]) -> Sample:
        softness_px = [sigma / by for sigma, by in zip(drawing.softness_px, reductions, strict=True)]
        images = soften(traced.images, softness_px)
        if flaws:
            images = photograph(images, flaws, config.seed * 1_000_003 + step, reductions, gain)
        else:
            sensors = [draw.sensor for draw in traced.draws]
            quieter = [replace(one, noise_std=one.noise_std / by) for one, by in zip(sensors, reductions, strict=True)]
            images = degrade(images, quieter, config.seed, step)
        return Sample(_stack(traced.draws, images), _planes(traced.draws, config.planes), traced.depth)

    sample = finished(traced, [1.0] * len(traced.draws))
    if traced.whole is None or drawing.parts is None:
        return sample
    whole = finished(traced.whole, [part.reduction for part in drawing.parts])
    return replace(sample, whole=whole, window=traced.window)


def replayed(config: GeneratorConfig, drawing: Drawing, traced: Traced, replay: int) -> tuple[Drawing, Traced]:
    """The same rays as other stacks: frames left out, half the pictures mirrored, softness and sensor drawn anew.

    Tracing is most of the work. What the lens did stays, and replay 0 is the batch as it was traced.
    """
    if not replay:
        return drawing, traced
    count = traced.images.shape[1]
    shared = np.random.default_rng([config.seed, 7, drawing.numbers[0], replay])
    frames = int(shared.integers(min(config.frames[0], count), count + 1))
    rngs = [np.random.default_rng([config.seed, 8, number, replay]) for number in drawing.numbers]
    kept = [np.sort(rng.choice(count, frames, replace=False)).tolist() for rng in rngs]
    mirrored = [bool(rng.random() < 0.5) for rng in rngs]
    softness_px = [draw_softness(rng, config) for rng in rngs]
    sensors = [draw_sensor(rng, config) for rng in rngs]
    flaws = None if traced.flaws is None else [draw_flaws(rng, frames) for rng in rngs]

    def again(traced: Traced) -> Traced:
        device = traced.images.device
        index, flip = torch.tensor(kept).to(device), torch.tensor(mirrored).to(device)
        images = traced.images[torch.arange(len(kept), device=device)[:, None], index]
        images = torch.where(flip[:, None, None, None, None], images.flip(-1), images)
        depth = torch.where(flip[:, None, None], traced.depth.flip(-1), traced.depth)
        draws = [
            replace(
                draw,
                focus_distances=[draw.focus_distances[i] for i in places],
                told_distances=[draw.told_distances[i] for i in places],
                sensor=sensor,
            )
            for draw, places, sensor in zip(traced.draws, kept, sensors, strict=True)
        ]
        window = traced.window
        if window is not None:
            left, top, width, height = window.unbind(1)
            window = torch.stack([torch.where(flip, 1 - left - width, left), top, width, height], 1)
        whole = None if traced.whole is None else again(traced.whole)
        return Traced(images, depth, draws, flaws, whole, window)

    return replace(drawing, softness_px=softness_px), again(traced)


def trace(
    config: GeneratorConfig,
    atlas: Atlas,
    drawing: Drawing,
    step: int,
    device: torch.device,
    aperture: list[Tensor] | None = None,
) -> Traced:
    """The scene comes first; its camera is then chosen for the depths that are really in sight."""
    shared = np.random.default_rng([config.seed, 0, step])
    frames = int(shared.integers(config.frames[0], config.frames[1] + 1))
    rngs, views, scenes = drawing.rngs, drawing.views, drawing.scenes.to(device)
    parts = drawing.parts
    focal_px = torch.tensor([view.focal_px for view in views], dtype=torch.float32, device=device)
    size = (views[0].height, views[0].width)
    truth = depth(scenes, focal_px, size)
    seen = [(far, near) for far, near in torch.stack((1 / truth).flatten(1).aminmax(dim=1), 1).tolist()]
    if parts is None:
        draws = [
            draw_camera(rng, config, view, (far, near), frames)
            for rng, view, (far, near) in zip(rngs, views, seen, strict=True)
        ]
    else:
        blurred = replace(config, blur_px=config.part_blur_px)
        draws = [
            draw_camera(rng, blurred, replace(view, focal_px=view.focal_px * part.reduction), (far, near), frames)
            for rng, view, part, (far, near) in zip(rngs, views, parts, seen, strict=True)
        ]
    if aperture is None:
        aperture = lens_samples(shared, config) if drawing.flaws is None else aperture_samples(shared, config.rays)
    samples = [one.to(device, non_blocking=True) for one in aperture]
    odd = None if drawing.flaws is None else [draw_lens_flaws(rng, frames) for rng in drawing.flaws]
    flaws = None if drawing.flaws is None else [draw_flaws(rng, frames) for rng in drawing.flaws]
    lenses = _lenses(draws)
    if parts is None:
        sides = [float(view.width) for view in views]
        lenses = flawed(lenses, odd, seen, sides, [1.0] * len(draws)) if odd else lenses
        return Traced(render(scenes, lenses.to(device), atlas, samples, size), truth, draws, flaws)
    reductions, sides = [part.reduction for part in parts], [part.size for part in parts]
    small = [replace(draw, focal_px=view.focal_px) for draw, view in zip(draws, views, strict=True)]
    small_lenses = _lenses(small)
    if odd:
        small_lenses = flawed(small_lenses, odd, seen, [float(size[0])] * len(draws), reductions)
        lenses = flawed(lenses, odd, seen, sides, [1.0] * len(draws))
    whole = Traced(render(scenes, small_lenses.to(device), atlas, samples, size), truth, small, flaws)
    centres = [[part.size / 2 - part.left, part.size / 2 - part.top] for part in parts]
    lenses = replace(lenses, centre_px=torch.tensor(centres, dtype=torch.float32)).to(device)
    size = (config.size, config.size)
    share = [[part.left / part.size, part.top / part.size, *[config.size / part.size] * 2] for part in parts]
    return Traced(
        render(scenes, lenses, atlas, samples, size),
        depth(scenes, lenses.focal_px, size, lenses.axis_px(size)),
        draws,
        flaws,
        whole,
        torch.tensor(share).to(device, non_blocking=True),
    )


def _lenses(draws: list[Draw]) -> Lenses:
    return Lenses(
        torch.tensor([draw.focal_px for draw in draws], dtype=torch.float32),
        torch.tensor([draw.aperture for draw in draws], dtype=torch.float32),
        1 / torch.tensor([draw.focus_distances for draw in draws], dtype=torch.float32),
    )


def _stack(draws: list[Draw], images: Tensor) -> FocalStack:
    told = torch.tensor([draw.told_distances for draw in draws], dtype=torch.float64)
    focal_length = torch.tensor([draw.focal_length for draw in draws], dtype=torch.float64)
    told = torch.maximum(told, focal_length[:, None] * 1.01)
    camera = Camera(
        focal_length,
        torch.tensor([draw.told_f_number for draw in draws], dtype=torch.float64),
        focal_length / torch.tensor([draw.focal_px for draw in draws], dtype=torch.float64),
    )
    return FocalStack(images, told, camera, magnification=1 - focal_length[:, None] / told)


def _planes(draws: list[Draw], count: int) -> DepthGrid:
    near = torch.tensor([draw.near for draw in draws], dtype=torch.float64)
    far = torch.tensor([draw.far for draw in draws], dtype=torch.float64)
    return DepthGrid.uniform_in_inverse_depth(1 / near, 1 / far, count)
