"""The layered renderer against closed forms and against loops over slices with SciPy's convolution and dilation."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage, signal

from focalsweep import Camera, Disk, Gaussian, coc_px
from focalsweep.synthesis.layered import render_layered
from tests.rendering import random_texture

CAMERA = Camera(15e-3, 2.8, 5.6e-6)
FOCUS = (2.0, 4.0, 8.0)


def slow_twin(image: np.ndarray, depth: np.ndarray, focus: float, psf: Disk | Gaussian, dilation_px: int) -> np.ndarray:
    """One frame, C H W, slice by slice in space; the picture goes on mirrored."""
    margin = 40
    image = np.pad(image, [(0, 0), (margin, margin), (margin, margin)], mode="symmetric")
    depth = np.pad(depth, margin, mode="symmetric")
    y, x = np.mgrid[-dilation_px : dilation_px + 1, -dilation_px : dilation_px + 1]
    disk = x * x + y * y <= dilation_px**2
    thickness = 10 / 255
    total, unseen = np.zeros_like(image), np.ones_like(depth)
    for step in range(math.ceil((depth.max() - depth.min()) / thickness) + 1):
        centre = depth.min() + step * thickness
        mask = np.abs(depth - centre) <= thickness / 2
        if not mask.any():
            continue
        mask = ndimage.binary_dilation(mask, disk).astype(float)
        kernel = psf.kernel(coc_px(torch.tensor(centre, dtype=torch.float64), focus, CAMERA)).numpy()
        for channel, values in enumerate(image):
            total[channel] += signal.convolve2d(mask * values, kernel, mode="same") * unseen
        unseen *= 1 - signal.convolve2d(mask, kernel, mode="same")
    inside = slice(margin, -margin)
    return (total / (1 - unseen))[:, inside, inside]


def sloping_scene() -> tuple[torch.Tensor, torch.Tensor]:
    """A floor that runs off, a ball before it and a step at the right border."""
    height, width = 36, 48
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    depth = 2.4 - 0.02 * y
    depth[(y - 14) ** 2 + (x - 20) ** 2 < 81] = 1.13
    depth[:, 44:] = 1.6
    return random_texture(height, width, seed=3), depth.float()


@pytest.mark.parametrize("dilation_px", [0, 4])
@pytest.mark.parametrize("psf", [Disk(), Gaussian(0.3)])
def test_as_slice_by_slice_in_space(psf: Disk | Gaussian, dilation_px: int) -> None:
    image, depth = sloping_scene()
    frames = render_layered(image, depth, CAMERA, FOCUS, psf=psf, dilation_px=dilation_px)
    for frame, focus in zip(frames, FOCUS, strict=True):
        twin = slow_twin(image.double().numpy(), depth.double().numpy(), focus, psf, dilation_px)
        assert np.abs(frame.numpy() - twin).max() < 2e-5
