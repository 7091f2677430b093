"""The layered renderer against Mitsuba's thin lens: python research/scripts/layered_against_mitsuba.py OUT

A wall and two panels before it, all textured and facing the camera, focused at each of the three. Mitsuba traces the
scene through a lens, and once through a pinhole: that sharp picture and its depth are what the layered renderer gets.
OUT receives layered-against-mitsuba.json and layered_against_mitsuba.png.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalsweep.optics.psf import Gaussian
from focalsweep.optics.thin_lens import coc_px
from focalsweep.results.figures import srgb_8_bit
from focalsweep.results.layered import render_layered
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.types import Camera
from focalsweep_research.environment import describe

HEIGHT, WIDTH = 144, 192
FOCAL_PX = 220.0
CAMERA = Camera(0.085, 1.4, 0.085 / FOCAL_PX)
DEPTHS = (2.0, 1.2, 0.7)  # wall, middle, front: metres
PANELS = {1.2: (-0.30, 0.10, -0.20, 0.26), 0.7: (0.02, 0.24, -0.30, 0.10)}  # left, right, top, bottom: metres
TINTS = ((0.35, 0.35, 0.3), (0.08, 0.2, 0.4), (0.5, 0.2, 0.06))
SAMPLES = 400
TEXELS = 256


def texture(seed: int) -> np.ndarray[Any, Any]:
    """H W 3 of 0..1: amplitudes of 1 / frequency in random phase, coarse enough for pixels."""
    rng = np.random.default_rng(seed)
    fy, fx = np.fft.fftfreq(TEXELS)[:, None], np.fft.fftfreq(TEXELS)[None]
    radial = np.hypot(fy, fx)
    radial[0, 0] = np.inf
    white = np.fft.fft2(rng.standard_normal((3, TEXELS, TEXELS)))
    pink = np.fft.ifft2(white / radial).real
    pink = pink / pink.std((-2, -1), keepdims=True)
    tint = np.array(TINTS[seed])[:, None, None]
    return np.asarray(np.clip(tint * (1 + 0.35 * pink), 0.01, 1).transpose(1, 2, 0), dtype=np.float32)


def trace(focus_distance: float | None, samples: int) -> Tensor:  # 3 H W
    """Mitsuba's picture, through the lens or (None) a pinhole. Everything glows with its texture."""
    import mitsuba

    mitsuba.set_variant("scalar_rgb")
    transform = mitsuba.ScalarTransform4f

    def sheet(depth: float, seed: int) -> dict[str, Any]:
        left, right, top, bottom = PANELS.get(depth, (-1.3, 1.3, -1.3, 1.3))
        place = (
            transform()
            .translate([(left + right) / 2, (top + bottom) / 2, depth])
            .rotate([1, 0, 0], 180)
            .scale([(right - left) / 2, (bottom - top) / 2, 1])
        )
        bitmap = {"type": "bitmap", "bitmap": mitsuba.Bitmap(texture(seed)), "raw": True, "filter_type": "bilinear"}
        return {"type": "rectangle", "to_world": place, "emitter": {"type": "area", "radiance": bitmap}}

    sensor: dict[str, Any] = {
        "type": "perspective",
        "to_world": transform().look_at(origin=[0, 0, 0], target=[0, 0, 1], up=[0, -1, 0]),
        "fov": 2 * math.degrees(math.atan(WIDTH / 2 / FOCAL_PX)),
        "near_clip": 0.01,
        "film": {"type": "hdrfilm", "width": WIDTH, "height": HEIGHT, "rfilter": {"type": "box"}},
        "sampler": {"type": "multijitter", "sample_count": samples},
    }
    if focus_distance is not None:
        radius = CAMERA.focal_length / CAMERA.f_number / 2
        sensor |= {"type": "thinlens", "aperture_radius": float(radius), "focus_distance": focus_distance}
    sheets = {f"sheet {seed}": sheet(depth, seed) for seed, depth in enumerate(DEPTHS)}
    scene = mitsuba.load_dict(
        {"type": "scene", "integrator": {"type": "path", "max_depth": 1}, "sensor": sensor, **sheets}
    )
    return torch.from_numpy(np.array(mitsuba.render(scene))[..., :3].copy()).movedim(-1, 0)


def true_depth() -> Tensor:  # H W
    """At pixel centres."""
    depth = torch.full((HEIGHT, WIDTH), DEPTHS[0])
    y, x = torch.meshgrid(torch.arange(HEIGHT) + 0.5, torch.arange(WIDTH) + 0.5, indexing="ij")
    for z in DEPTHS[1:]:
        left, right, top, bottom = PANELS[z]
        u, v = (x - WIDTH / 2) / FOCAL_PX * z, (y - HEIGHT / 2) / FOCAL_PX * z
        depth[(u > left) & (u < right) & (v > top) & (v < bottom)] = z
    return depth


def edge_pixels(depth: Tensor, reach_px: int) -> Tensor:
    """Pixels within reach of a step in depth."""
    window = 2 * reach_px + 1

    def largest(maps: Tensor) -> Tensor:
        return torch.nn.functional.max_pool2d(maps[None, None], window, 1, reach_px)[0, 0]

    return largest(depth) != -largest(-depth)


def psnr(ours: Tensor, theirs: Tensor, pixels: Tensor | None = None) -> float:
    error = (ours - theirs).square().mean(0)
    return float(-10 * torch.log10(error.mean() if pixels is None else error[pixels].mean()))


def main(output: Path) -> None:
    from PIL import Image

    torch.set_num_threads(1)
    sharp, depth = trace(None, SAMPLES), true_depth()
    focus = torch.tensor(sorted(DEPTHS), dtype=torch.float64)
    magnification = 1 - CAMERA.focal_length / focus  # Mitsuba's field of view is constant
    widest_px = coc_px(depth.double()[..., None, None], focus, CAMERA, magnification).max().item()
    reach_px = math.ceil(widest_px / 2)
    edges = edge_pixels(depth, reach_px)
    inner = torch.zeros_like(edges)
    inner[reach_px:-reach_px, reach_px:-reach_px] = True  # beyond the border the renderers know different things
    options: dict[str, dict[str, Any]] = {
        "layered, no dilation": {"dilation_px": 0},
        "layered, dilation 4 px (Carvalho)": {},
        "layered, no dilation, Gaussian of the disk's variance": {"dilation_px": 0, "psf": Gaussian()},
        "layered, blur 20 % too wide": {"dilation_px": 0, "magnification": 1.2 * magnification},
    }
    pictures = {
        name: render_layered(sharp, depth, CAMERA, focus, **{"magnification": magnification, **option})
        for name, option in options.items()
    }
    pictures["the sharp picture"] = sharp.expand(len(focus), -1, -1, -1)
    rows, strips = [], []
    for i, distance in enumerate(focus.tolist()):
        theirs = trace(distance, SAMPLES)
        for name, picture in pictures.items():
            figures = {
                "psnr_db": psnr(picture[i], theirs),
                "psnr_away_from_edges_db": psnr(picture[i], theirs, inner & ~edges),
                "psnr_at_edges_db": psnr(picture[i], theirs, inner & edges),
            }
            rows.append({"focus_distance": distance, "picture": name, **figures})
            print(f"{distance} m, {name}: " + ", ".join(f"{value:.1f}" for value in figures.values()), flush=True)
        ours = pictures["layered, no dilation"][i]
        difference = 0.5 + 4 * (ours - theirs)
        strips.append(torch.cat([sharp, theirs, ours, difference], -1))
    sheet = torch.cat(strips, -2).clamp(0, 1).movedim(0, -1).contiguous().numpy()
    image = Image.fromarray(srgb_8_bit(sheet))
    image = image.resize((2 * image.width, 2 * image.height), Image.Resampling.NEAREST)
    record = {
        "benchmark": "layered against mitsuba", **describe(torch.device("cpu"), 0), "samples": SAMPLES,
        "widest_blur_px": widest_px, "edge_share": edges.double().mean().item(),
        "columns": ["sharp", "Mitsuba", "layered, no dilation", "difference x 4"], "rows": rows,
    }  # fmt: skip
    output.mkdir(parents=True, exist_ok=True)
    write_files(
        {
            output / "layered-against-mitsuba.json": lambda file: file.write(json_bytes(record)),
            output / "layered_against_mitsuba.png": lambda file: image.save(file, "png"),
        }
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
