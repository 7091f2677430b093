"""Training data that never run dry: fresh scenes, cameras and flaws for every step, the same for the same seed."""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.sweep.deconvolution import mirror_ends
from focalsweep.types import Camera, DepthGrid, FocalStack
from focalsweep_research.synthesis.apertures import aperture_samples
from focalsweep_research.synthesis.jpeg import jpeg
from focalsweep_research.synthesis.lens_flaws import draw_lens_flaws, flawed
from focalsweep_research.synthesis.more_textures import procedural_more
from focalsweep_research.synthesis.photograph import draw_flaws, metered_gain, photograph
from focalsweep_research.synthesis.sample import Sample, Source
from focalsweep_research.synthesis.scenes import Scenes, View, light_up, random_scene, stack_scenes
from focalsweep_research.synthesis.textures import Atlas, make_atlas, read_pictures
from focalsweep_research.synthesis.tracer import Lenses, depth, disk_samples, render
from focalsweep_research.synthesis.worlds import random_world

Rng = np.random.Generator
Range = tuple[float, float]

WIDEST_BLUR_PX = 36.0


@dataclass(frozen=True)
class GeneratorConfig:
    """What the generator draws from. Ranges are drawn from evenly, those marked * evenly in the logarithm."""

    size: int = 256
    planes: int = 64
    frames: tuple[int, int] = (2, 8)
    solids: int = 16
    world_solids: int = 56
    rooms: float = 0.35  # share of scenes with larger, plainer surfaces, as indoors
    lights: float = 0.15  # share of scenes in which something burns out
    soft: float = 0.5  # share of stacks whose frames are all a little soft: the lens at its best, the mosaic, a resize
    softness_px: Range = (0.3, 1.2)  # standard deviation of that blur
    rays: int = 96
    blur_px: Range = (4.0, 30.0)  # * diameter between the ends of the depth range
    nearest: Range = (0.1, 2.0)  # * metres
    far_share: Range = (0.0, 0.7)  # inverse depth of the far end over that of the near one
    field_of_view_deg: Range = (15.0, 65.0)
    focal_length: Range = (0.004, 0.1)  # * metres
    f_number: float = 0.0  # 0: as the blur asks
    margin: Range = (0.03, 0.3)  # of the range, added to the planes at either end
    wide_range: float = 0.15  # share of stacks whose planes reach much farther than the scene
    partial_focus: float = 0.3  # share of stacks focused within a part of the scene's range only
    noise_std: Range = (5e-4, 2e-2)  # * of linear light
    quantised: float = 0.7  # share of stacks rounded to 8-bit sRGB
    jpeg: float = 0.5  # share of those that were JPEG files
    jpeg_quality: Range = (75.0, 98.0)
    distance_error: float = 0.005  # standard deviation of the metadata, relative
    f_number_error: float = 0.01
    odd_aperture: float = 0.3  # share of lenses whose aperture is a polygon or soft
    textures: int = 160  # procedural ones
    more_textures: int = 0  # procedural ones of other kinds: bricks, tiles, cloth, plaster (see `more_textures`)
    texture_folder: str = ""  # more of them (see `textures.read_pictures`)
    held_out: bool = False  # every fifth texture is for validation, the others for training
    worlds: float = 0.0  # share of scenes with gravity, furniture, shadows (see `worlds`)
    photographs: float = 0.0  # share of batches with the flaws of photographs (see `photograph`), odd lenses among them
    parts: float = 0.0  # share of batches that are parts of larger pictures, which they come with
    whole: int = 192  # size of those, made small
    reduction: Range = (1.4, 8.0)  # * how much smaller they are
    part_blur_px: Range = (1.5, 60.0)  # * in parts, in place of blur_px
    seed: int = 0


def read_generator_config(table: dict[str, Any]) -> GeneratorConfig:
    """From a TOML table; unknown keys are errors."""
    known = {field.name for field in fields(GeneratorConfig)}
    for key in table:
        if key not in known:
            raise ValueError(f"[data] has no key {key!r}: it is one of {', '.join(sorted(known))}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return GeneratorConfig(**values)


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

    def make(step: int, batch_size: int, device: torch.device) -> Sample:
        drawing = draw_scenes(config, atlas.count, step, batch_size)
        if device.type == "cuda" and device not in streams:
            streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.no_grad(), torch.cuda.stream(streams.get(device)):
            if device not in on_device:
                on_device[device] = atlas.to(device)
            return generate(config, on_device[device], drawing, step, device)

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


@dataclass(frozen=True)
class Draw:
    """One random camera: what it is, and what its metadata will say."""

    focal_px: float
    aperture: float
    focal_length: float
    focus_distances: list[float]
    told_distances: list[float]
    told_f_number: float
    near: float  # the planes' ends, 1/m
    far: float
    noise_std: float
    quantised: bool
    jpeg_quality: float  # 0: not a JPEG


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
        softness_px.append(softness.uniform(*config.softness_px) * float(softness.random() < config.soft))
        if in_parts:
            parts.append(_draw_part(part, config))
            _sharpen_textures(part, scenes[-1], parts[-1].reduction)
    flaws = [np.random.default_rng([config.seed, 6, number]) for number in numbers] if photographed else None
    return Drawing(rngs, views, stack_scenes(scenes), softness_px, parts if in_parts else None, flaws)


def _draw_part(rng: Rng, config: GeneratorConfig) -> Part:
    low, high = config.reduction
    reduction = _log_uniform(rng, (max(low, config.size / config.whole), high))
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
    traced = trace(config, atlas, drawing, step, device, aperture)
    frames = traced.images.shape[1]
    flaws = None if drawing.flaws is None else [draw_flaws(rng, frames) for rng in drawing.flaws]
    gain = metered_gain((traced.whole or traced).images, flaws) if flaws else None  # a part has the whole's exposure

    def finished(traced: Traced, reductions: list[float]) -> Sample:
        """What a camera makes of the light, told what its metadata say."""
        softness_px = [sigma / by for sigma, by in zip(drawing.softness_px, reductions, strict=True)]
        images = soften(traced.images, softness_px)
        if flaws:
            images = photograph(images, flaws, config.seed * 1_000_003 + step, reductions, gain)
        else:
            quieter = [
                replace(one, noise_std=one.noise_std / by) for one, by in zip(traced.draws, reductions, strict=True)
            ]
            images = degrade(images, quieter, config.seed, step)
        return Sample(_stack(traced.draws, images), _planes(traced.draws, config.planes), traced.depth)

    sample = finished(traced, [1.0] * len(traced.draws))
    if traced.whole is None or drawing.parts is None:
        return sample
    whole = finished(traced.whole, [part.reduction for part in drawing.parts])
    return replace(sample, whole=whole, window=traced.window)


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
    lenses = _lenses(draws)
    if parts is None:
        sides = [float(view.width) for view in views]
        lenses = flawed(lenses, odd, seen, sides, [1.0] * len(draws)) if odd else lenses
        return Traced(render(scenes, lenses.to(device), atlas, samples, size), truth, draws)
    reductions, sides = [part.reduction for part in parts], [part.size for part in parts]
    small = [replace(draw, focal_px=view.focal_px) for draw, view in zip(draws, views, strict=True)]
    small_lenses = _lenses(small)
    if odd:
        small_lenses = flawed(small_lenses, odd, seen, [float(size[0])] * len(draws), reductions)
        lenses = flawed(lenses, odd, seen, sides, [1.0] * len(draws))
    whole = Traced(render(scenes, small_lenses.to(device), atlas, samples, size), truth, small)
    centres = [[part.size / 2 - part.left, part.size / 2 - part.top] for part in parts]
    lenses = replace(lenses, centre_px=torch.tensor(centres, dtype=torch.float32)).to(device)
    size = (config.size, config.size)
    share = [[part.left / part.size, part.top / part.size, *[config.size / part.size] * 2] for part in parts]
    return Traced(
        render(scenes, lenses, atlas, samples, size),
        depth(scenes, lenses.focal_px, size, lenses.axis_px(size)),
        draws,
        whole,
        torch.tensor(share).to(device, non_blocking=True),
    )


def _lenses(draws: list[Draw]) -> Lenses:
    return Lenses(
        torch.tensor([draw.focal_px for draw in draws], dtype=torch.float32),
        torch.tensor([draw.aperture for draw in draws], dtype=torch.float32),
        1 / torch.tensor([draw.focus_distances for draw in draws], dtype=torch.float32),
    )


def draw_view(rng: Rng, config: GeneratorConfig, size: int) -> View:
    near = 1 / _log_uniform(rng, config.nearest)
    far = near * rng.uniform(*config.far_share)
    angle = math.radians(rng.uniform(*config.field_of_view_deg))
    return View(near, far, size / (2 * math.tan(angle / 2)), size, size)


def draw_camera(rng: Rng, config: GeneratorConfig, view: View, seen: Range, frames: int) -> Draw:
    """A lens and focus distances for a scene seen between two inverse depths, far and near."""
    far, near = seen
    span = max(near - far, 0.1 * near)
    blur_px = _log_uniform(rng, config.blur_px)
    aperture = blur_px / span / view.focal_px
    focal_length = min(_log_uniform(rng, config.focal_length), 0.3 / near)
    if config.f_number:
        aperture = focal_length / config.f_number
    places = (np.arange(frames) + rng.uniform(0, 1, frames)) / frames  # one in every part of the range
    margins = rng.uniform(*config.margin, 2)
    distance_errors = rng.standard_normal(frames)
    f_number_error = rng.standard_normal()
    noise_std = _log_uniform(rng, config.noise_std)
    quantised = bool(rng.random() < config.quantised)
    jpeg_quality = rng.uniform(*config.jpeg_quality) if rng.random() < config.jpeg else 0.0
    if rng.random() < config.partial_focus:
        length = rng.uniform(0.25, 1)
        places = rng.uniform(0, 1 - length) + length * places
    if rng.random() < config.wide_range:  # but no blur beyond WIDEST_BLUR_PX
        margins = rng.uniform(0, min(1.5, max(config.margin[1], (WIDEST_BLUR_PX / blur_px - 1) / 2)), 2)
    ends = near + 0.05 * span, max(far - 0.05 * span, 0.0)
    distances = [1 / max(float(u), 1e-3) for u in ends[0] + (ends[1] - ends[0]) * places]
    return Draw(
        focal_px=view.focal_px,
        aperture=aperture,
        focal_length=focal_length,
        focus_distances=distances,
        told_distances=[d * (1 + config.distance_error * e) for d, e in zip(distances, distance_errors, strict=True)],
        told_f_number=focal_length / aperture * (1 + config.f_number_error * f_number_error),
        near=near + float(margins[0]) * span,
        far=max(far - float(margins[1]) * span, 0.0),
        noise_std=noise_std,
        quantised=quantised,
        jpeg_quality=jpeg_quality,
    )


def lens_samples(rng: Rng, config: GeneratorConfig) -> list[Tensor]:
    """Points on the aperture: a disk, or (for some batches) a polygon of blades, or one that is denser in the middle.

    Sets of a quarter, half and all of the rays: a tile takes as many as its blur needs.
    """
    odd, polygon = rng.random() < config.odd_aperture, rng.random() < 0.5
    turn, blades, softness = rng.uniform(0, 2 * math.pi), int(rng.integers(5, 9)), rng.uniform(1.0, 1.4)
    sets = []
    for rays in (config.rays // 4, config.rays // 2, config.rays):
        samples = disk_samples(max(4, rays))
        if odd:
            samples = _cut_to_polygon(samples, blades) if polygon else _soften(samples, softness)
        x, y = samples[:, 0], samples[:, 1]
        cos, sin = math.cos(turn), math.sin(turn)
        sets.append(torch.cat([torch.stack([x * cos - y * sin, x * sin + y * cos], 1), samples[:, 2:]], 1))
    return sets


def _cut_to_polygon(samples: Tensor, blades: int) -> Tensor:
    angle = torch.atan2(samples[:, 1], samples[:, 0])
    sector = 2 * math.pi / blades
    return _with_variance_of_disk(samples, math.cos(sector / 2) / torch.cos(angle % sector - sector / 2))


def _soften(samples: Tensor, power: float) -> Tensor:
    return _with_variance_of_disk(samples, torch.hypot(samples[:, 0], samples[:, 1]) ** (power - 1))


def _with_variance_of_disk(samples: Tensor, stretch: Tensor) -> Tensor:
    """Points stretched each by its factor, then all alike, so that the blur keeps the size that the formula says."""
    points = samples[:, :2] * stretch[:, None]
    return torch.cat([points * torch.sqrt(0.5 / points.square().sum(1).mean()), samples[:, 2:]], 1)


def soften(images: Tensor, sigmas_px: list[float]) -> Tensor:  # B F C H W
    """A Gaussian over all frames of a stack, each stack its own; beyond the border the picture goes on mirrored."""
    if not any(sigmas_px):
        return images
    radius = math.ceil(3 * max(sigmas_px))
    at = torch.arange(-radius, radius + 1, dtype=torch.float64)
    sigma = torch.tensor(sigmas_px, dtype=torch.float64).clamp_min(1e-3)[:, None]
    taps = torch.exp(-0.5 * (at / sigma) ** 2)
    taps = (taps / taps.sum(1, keepdim=True)).to(images, non_blocking=True)[..., None, None, None, None]  # B K
    for dim in (-2, -1):
        before, after = mirror_ends(images, dim, radius, radius)
        padded, size = torch.cat([before, images, after], dim), images.shape[dim]
        images = torch.zeros_like(images)
        for k in range(2 * radius + 1):
            images.addcmul_(taps[:, k], padded.narrow(dim, k, size))
    return images


def degrade(images: Tensor, draws: list[Draw], seed: int, step: int) -> Tensor:
    """Exposure, sensor noise that grows with the signal, and for some 8-bit sRGB, of which some went through JPEG."""
    device = images.device
    generator = torch.Generator(device=device).manual_seed(seed * 1_000_003 + step)
    level = images.flatten(1).mean(1)[:, None, None, None, None]
    images = (images * (0.4 / level.clamp_min(0.05)).clamp(0.3, 2.5)).clamp(0, 1)
    std = torch.tensor([draw.noise_std for draw in draws]).to(device, non_blocking=True)[:, None, None, None, None]
    noise = torch.randn(images.shape, generator=generator, device=device)
    noisy = images + std * torch.sqrt(0.3 + 1.75 * images) * noise
    encoded = torch.round(linear_to_srgb(noisy.clamp(0, 1)) * 255) / 255
    files = [i for i, draw in enumerate(draws) if draw.quantised and draw.jpeg_quality]
    if files:
        quality = torch.tensor([draws[i].jpeg_quality for i in files]).repeat_interleave(images.shape[1])
        quality, chosen = (x.to(device, non_blocking=True) for x in (quality, torch.tensor(files)))
        encoded[chosen] = jpeg(encoded[chosen].flatten(0, 1), quality).view(encoded[chosen].shape)
    quantised = torch.tensor([draw.quantised for draw in draws]).to(device, non_blocking=True)
    return torch.where(quantised[:, None, None, None, None], srgb_to_linear(encoded), noisy.clamp(-0.1, 1.1))


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


def _log_uniform(rng: Rng, limits: Range) -> float:
    return float(np.exp(rng.uniform(math.log(limits[0]), math.log(limits[1]))))
