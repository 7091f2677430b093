"""A flat, textured thing through a lens whose field is curved: rendered in layers, where it seems to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from focalsweep import Camera, FocalStack, linear_to_srgb
from focalsweep.results.layered import render_layered
from tests.rendering import random_texture

SIZE = (180, 240)
CAMERA = Camera(50e-3, 2.8, 36e-3 / SIZE[1])
FOCUS = (1.5, 1.1, 0.8, 0.5)  # 1/m
CORNER = 0.25  # 1/m that corners seem nearer by
SLICES = 90


def curvature(size: tuple[int, int] = SIZE) -> Tensor:  # H W, 1/m
    rows, columns = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) + 0.5 for n in size), indexing="ij")
    square = (rows - size[0] / 2) ** 2 + (columns - size[1] / 2) ** 2
    return CORNER * square / (size[0] ** 2 + size[1] ** 2) * 4


def curved_plane(
    tilt: tuple[float, float] = (0.1, 0.2), inverse: float = 0.85, seed: int = 0, bend: float = 1.0
) -> tuple[FocalStack, Tensor]:
    """The stack, and the true inverse depth H W; `tilt` is what is added at the right and at the lower border."""
    down, right = torch.meshgrid(*(torch.linspace(-1, 1, n, dtype=torch.float64) for n in SIZE), indexing="ij")
    true = inverse + tilt[0] * right + tilt[1] * down
    return rendered(true + bend * curvature(), seed), true


def steps(seed: int = 0) -> FocalStack:
    """Boxes at random depths, side by side."""
    generator = torch.Generator().manual_seed(seed)
    inverse = 0.45 + torch.rand((SIZE[0] // 30, SIZE[1] // 30), generator=generator, dtype=torch.float64)
    return rendered(inverse.repeat_interleave(30, 0).repeat_interleave(30, 1), seed)


def rendered(apparent: Tensor, seed: int) -> FocalStack:
    """Photos of what seems to be at these inverse depths H W."""
    distances = 1 / torch.tensor(FOCUS, dtype=torch.float64)
    depth = 1 / apparent
    magnification = 1 - float(CAMERA.focal_length) / distances
    images = render_layered(
        random_texture(*SIZE, seed=seed), depth, CAMERA, distances,
        slice_thickness=float(depth.max() - depth.min()) / SLICES, dilation_px=2, magnification=magnification,
    )  # fmt: skip
    noise = 0.003 * torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    return FocalStack((images + noise).clamp(0, 1), distances, CAMERA, magnification)


def write_photos(folder: Path, stack: FocalStack) -> Path:
    """As PNG files with their settings."""
    folder.mkdir(parents=True)
    camera = stack.metric_camera
    lines = [
        "[camera]", f"focal_length = {camera.focal_length}", f"f_number = {camera.f_number}",
        f"pixel_pitch = {camera.pixel_pitch}", "aligned = true",
    ]  # fmt: skip
    pairs = zip(stack.images, stack.focus_distances.tolist(), torch.as_tensor(stack.magnification), strict=True)
    for number, (image, distance, by) in enumerate(pairs):
        encoded = linear_to_srgb(image).clamp(0, 1).mul(255).round().to(torch.uint8)
        Image.fromarray(np.ascontiguousarray(encoded.movedim(0, -1).numpy())).save(folder / f"{number}.png")
        lines += ["[[frame]]", f'file = "{number}.png"', f"focus_distance = {distance}", f"magnification = {float(by)}"]
    (folder / "stack.toml").write_text("\n".join(lines) + "\n")
    return folder
