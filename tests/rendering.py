"""A textured plane seen through a thin lens: rendered finely with a spatial disk, then averaged as a sensor pixel does.

Nothing of the sweep is used: no Fourier domain, no closed-form OTF, no wrapping around.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d

from focalsweep import Camera, Disk, FocalStack, coc_px

OVERSAMPLING = 3


@dataclass(frozen=True)
class Rig:
    """A camera and the distances it was focused at."""

    camera: Camera
    focus_distances: tuple[float, ...]


RIGS = {
    "phone": Rig(Camera(6.8e-3, 1.8, 9.6e-6), (0.2, 0.3, 0.5, 0.9, 2.0)),
    "dslr": Rig(Camera(50e-3, 2.8, 6e-5), (0.8, 1.0, 1.4, 2.0, 3.0)),
    "paper": Rig(Camera(2.9e-3, 1.0, 1.211e-5), (0.1, 0.15, 0.3, 0.7, 1.5)),
}


def random_texture(
    height: int, width: int, *, channels: int = 3, mean: float = 0.45, std: float = 0.15, seed: int = 0
) -> Tensor:
    """C H W with amplitudes of 1 / frequency in random phase, within [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    fy, fx = torch.fft.fftfreq(height)[:, None], torch.fft.fftfreq(width)
    radial = torch.sqrt(fy * fy + fx * fx)
    radial[0, 0] = torch.inf
    white = torch.randn((channels, height, width), generator=generator)
    pink = torch.fft.ifft2(torch.fft.fft2(white) / radial).real
    pink = pink / pink.std(dim=(-2, -1), keepdim=True)
    texture: Tensor = (mean + std * pink).clamp(0, 1)
    return texture


@dataclass(frozen=True, eq=False)
class RenderedPlane:
    """What the camera saw, and what was there."""

    stack: FocalStack
    sharp: Tensor  # C H W: the texture as a sensor sees it in perfect focus
    depth: float

    @property
    def textured(self) -> Tensor:
        """H W: where the texture stands out against the noise, 5 x 5 standard deviation above 0.02."""
        mean = avg_pool2d(self.sharp, 5, 1, 2, count_include_pad=False)
        square = avg_pool2d(self.sharp.square(), 5, 1, 2, count_include_pad=False)
        return (square - mean.square()).clamp_min(0).sqrt().mean(0) > 0.02


@lru_cache(maxsize=16)
def render_plane(
    rig: str,
    depth: float,
    *,
    size: int = 96,
    noise_std: float = 0.005,
    seed: int = 0,
    oversampling: int = OVERSAMPLING,
) -> RenderedPlane:
    """A fronto-parallel plane at `depth`, photographed at every focus distance of the rig.

    With an oversampling of 1 the kernels are sampled on the pixels themselves, as simple renderers do.
    """
    camera, focus_distances = RIGS[rig].camera, RIGS[rig].focus_distances
    blurs = coc_px(depth, torch.tensor(focus_distances), camera).float()
    kernels = [Disk().kernel(oversampling * blur) for blur in blurs]
    margin = max(kernel.shape[-1] // 2 for kernel in kernels)
    side = oversampling * size
    texture = random_texture(side + 2 * margin, side + 2 * margin, seed=seed)
    frames = []
    for kernel in kernels:
        spare = margin - kernel.shape[-1] // 2
        window = texture[:, None, spare : texture.shape[-2] - spare, spare : texture.shape[-1] - spare]
        frames.append(avg_pool2d(conv2d(window, kernel[None, None]), oversampling)[:, 0])
    generator = torch.Generator().manual_seed(seed + 1)
    images = torch.stack(frames)
    images = images + noise_std * torch.randn(images.shape, generator=generator)
    sharp = avg_pool2d(texture[:, margin : margin + side, margin : margin + side], oversampling)
    return RenderedPlane(FocalStack(images, list(focus_distances), camera), sharp, depth)
