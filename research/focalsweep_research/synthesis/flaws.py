"""What is wrong with the photos of a stack: drawn at random in shares like the world's, and what a reduction leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

KINDS = {"phone": 0.34, "camera": 0.34, "raw": 0.18, "clean": 0.14}  # shares
LEAST_RADIUS_PX = 1 / 3  # what is finer than this leaves no trace
MOSAIC_PX = 0.5  # how far interpolation moves what it takes from the neighbours
JPEG_LOST = 2.0  # reduced by more, a picture shows no rounding of its file any more
Range = tuple[float, float]


@dataclass(frozen=True)
class Flaws:
    """Of the photos of one stack. Lengths are in pixels of the photo; the defaults are no flaw at all."""

    drift: tuple[tuple[float, float, float], ...]  # what is left of each frame's exposure and white balance, about 1
    kind: str = "clean"
    seed: int = 0  # of the noise
    level: float = 0.0  # mean of linear light; 0: as it is
    headroom: float = 1.0  # the sensor clips at so much of the file's white
    noise_std: float = 0.0  # of linear light at 0.4
    read_share: float = 0.3  # of the variance there, not growing with the light
    colour_gains: tuple[float, float, float] = (1.0, 1.0, 1.0)  # of the white balance: they amplify noise
    colour_noise: tuple[float, float, float] = (1.0, 1.0, 1.0)  # its standard deviation times these
    mosaic: bool = False
    mosaic_phase: tuple[int, int] = (0, 0)
    edge_aware: bool = True
    denoise_luma: float = 0.0  # contrast that is wiped, of the square root of light
    denoise_chroma: float = 0.0
    denoise_px: float = 1.0  # of its finest band
    gamma: float = 2.2  # of the file, against sRGB's, which is about 2.2
    contrast: float = 0.0  # of the S-curve
    lift: float = 0.0  # of the shadows
    saturation: float = 1.0
    local_contrast: float = 0.0
    local_px: float = 20.0  # standard deviation of the Gaussian
    sharpening: float = 0.0
    sharpening_px: float = 1.0
    file: bool = False  # developed into 0..1 of a display; otherwise linear light is kept
    rounded: bool = False  # to 8 bit
    jpeg_quality: float = 0.0  # 0: no JPEG


def draw_flaws(rng: np.random.Generator, frames: int) -> Flaws:
    """A third are like phones, a third like cameras' JPEGs, a third like RAW files, of which some are clean."""
    kind = str(rng.choice(list(KINDS), p=list(KINDS.values())))
    seed, level = int(rng.integers(1 << 31)), _log_uniform(rng, (0.1, 0.42))
    if kind == "clean":
        noise_std = _log_uniform(rng, (5e-4, 3e-3))
        return Flaws(_drift(rng, frames, 0.0), kind, seed, level, 1.1, noise_std, rng.uniform(0.05, 0.5))
    draw = {"phone": _phone, "camera": _camera, "raw": _raw}[kind]
    flaws = replace(
        draw(rng, frames),
        kind=kind,
        seed=seed,
        level=level,
        read_share=_log_uniform(rng, (0.02, 0.6)),
        colour_gains=(rng.uniform(1.2, 2.2), 1.0, rng.uniform(1.2, 2.2)),
        mosaic_phase=(int(rng.integers(2)), int(rng.integers(2))),
    )
    if rng.random() < 0.12:  # low light
        noise_std = _log_uniform(rng, (2e-2, 6e-2))
        stronger = min(noise_std / flaws.noise_std, 4.0)
        return replace(
            flaws,
            level=level / 2,
            noise_std=noise_std,
            denoise_luma=flaws.denoise_luma * stronger,
            denoise_chroma=flaws.denoise_chroma * stronger,
            sharpening=flaws.sharpening / 2,
        )
    return flaws


def _phone(rng: np.random.Generator, frames: int) -> Flaws:
    noise_std = _log_uniform(rng, (2e-3, 3e-2))
    denoise = rng.uniform(0.6, 1.8) * noise_std + rng.uniform(0.0, 0.008)
    return Flaws(
        _drift(rng, frames, rng.uniform(0, 0.02)),
        headroom=rng.uniform(1.0, 3.0),
        noise_std=noise_std,
        mosaic=bool(rng.random() < 0.8),
        edge_aware=bool(rng.random() < 0.7),
        denoise_luma=denoise,
        denoise_chroma=denoise * rng.uniform(1.5, 3.0),
        denoise_px=rng.uniform(0.8, 1.4),
        gamma=rng.triangular(1.8, 2.2, 2.6),
        contrast=rng.uniform(0.1, 0.7),
        lift=rng.uniform(0, 0.6),
        saturation=rng.uniform(1.0, 1.25),
        local_contrast=rng.uniform(0.05, 0.5) * float(rng.random() < 0.7),
        local_px=_log_uniform(rng, (8.0, 60.0)),
        sharpening=rng.uniform(0.2, 1.4),
        sharpening_px=rng.uniform(0.6, 1.5),
        file=True,
        rounded=True,
        jpeg_quality=rng.uniform(60, 97),
    )


def _camera(rng: np.random.Generator, frames: int) -> Flaws:
    noise_std = _log_uniform(rng, (1e-3, 2.5e-2))
    denoise = rng.uniform(0.4, 1.6) * noise_std * float(rng.random() < 0.7)
    return Flaws(
        _drift(rng, frames, rng.uniform(0, 0.012)),
        headroom=rng.uniform(1.0, 1.8),
        noise_std=noise_std,
        mosaic=bool(rng.random() < 0.8),
        edge_aware=bool(rng.random() < 0.8),
        denoise_luma=denoise,
        denoise_chroma=denoise * rng.uniform(1.2, 2.5),
        denoise_px=rng.uniform(0.7, 1.2),
        gamma=rng.triangular(1.9, 2.2, 2.5),
        contrast=rng.uniform(0, 0.6),
        lift=rng.uniform(0, 0.2),
        saturation=rng.uniform(0.95, 1.15),
        local_contrast=rng.uniform(0.05, 0.2) * float(rng.random() < 0.2),
        local_px=_log_uniform(rng, (15.0, 60.0)),
        sharpening=rng.uniform(0.1, 0.8),
        sharpening_px=rng.uniform(0.5, 1.0),
        file=True,
        rounded=True,
        jpeg_quality=rng.uniform(75, 98) * float(rng.random() < 0.9),
    )


def _raw(rng: np.random.Generator, frames: int) -> Flaws:
    """Developed plainly: demosaiced and encoded, at most with a light tone curve."""
    return Flaws(
        _drift(rng, frames, rng.uniform(0, 0.006)),
        noise_std=_log_uniform(rng, (5e-4, 2e-2)),
        mosaic=bool(rng.random() < 0.8),
        contrast=rng.uniform(0, 0.3) * float(rng.random() < 0.3),
        file=True,
        rounded=bool(rng.random() < 0.3),
    )


def _drift(rng: np.random.Generator, frames: int, std: float) -> tuple[tuple[float, float, float], ...]:
    """Mostly of exposure, a third as much of white balance; 3 % at most."""
    gains = 1 + np.clip(std * (rng.standard_normal((frames, 1)) + rng.standard_normal((frames, 3)) / 3), -0.03, 0.03)
    return tuple((float(red), float(green), float(blue)) for red, green, blue in gains)


def reduce_flaws(flaws: Flaws, factor: float) -> Flaws:
    """What is left of them after the picture was reduced (area-averaged) by a factor: lengths in its new pixels."""
    if factor < 1:
        raise ValueError(f"a picture is reduced by 1 or more, not by {factor:g}")
    if factor == 1:
        return flaws
    fine = MOSAIC_PX / factor < LEAST_RADIUS_PX
    # Of a square of photosites a quarter are red, half green: their mean is as much noisier than that of all, less
    # what interpolation smooths across the square's border.
    sparse = (2 - 1.5 / factor, math.sqrt(2) - 0.65 / factor, 2 - 1.5 / factor) if flaws.mosaic and fine else (1.0,) * 3
    sharpening_px, lost = flaws.sharpening_px / factor, factor > JPEG_LOST
    return replace(
        flaws,
        seed=flaws.seed + 1,  # the whole picture and a crop of it do not share their noise
        noise_std=flaws.noise_std / factor,
        colour_noise=sparse,
        mosaic=flaws.mosaic and not fine,
        denoise_px=flaws.denoise_px / factor,
        local_px=flaws.local_px / factor,
        sharpening=flaws.sharpening * (sharpening_px >= LEAST_RADIUS_PX),
        sharpening_px=sharpening_px,
        rounded=flaws.rounded and not lost,
        jpeg_quality=0.0 if lost or not flaws.jpeg_quality else 100 - (100 - flaws.jpeg_quality) / factor,
    )


def _log_uniform(rng: np.random.Generator, limits: Range) -> float:
    return math.exp(rng.uniform(math.log(limits[0]), math.log(limits[1])))
