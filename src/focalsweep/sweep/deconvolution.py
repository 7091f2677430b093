"""The Fourier side of the sweep: grids, periodic padding, transfer functions, and the two ways to sharpen.

Frequencies are in cycles per pixel. The paper's cost has two planes ride in one complex transform, as its real and its
imaginary part: half as many inverse transforms as planes. Re-blur likelihood works on the half plane fy >= 0, which is
all that a real picture has, so that filters cost half as much too. Any PSF (a complex OTF too) works in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

from focalsweep.optics.light import linear_to_srgb
from focalsweep.optics.psf import Disk, Psf


def triton_serves(*tensors: Tensor) -> bool:
    """Whether `kernels/` can take over: single precision on CUDA, Triton installed, no gradient asked for."""
    wants_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    first = tensors[0]
    fits = first.is_cuda and first.dtype in (torch.float32, torch.complex64)
    return fits and not wants_gradient and find_spec("triton") is not None


@dataclass(frozen=True, eq=False)
class FourierGrid:
    """The frequencies of a transform of height x width pixels."""

    height: int
    width: int
    fy: Tensor  # H 1
    fx: Tensor  # 1 W
    magnitude: Tensor  # H W: |f|
    squared_laplacian: Tensor  # H W: |L|^2 for the 3 x 3 Laplacian [[0 -1 0] [-1 4 -1] [0 -1 0]]
    radii: Tensor  # U: the different |f| of the quadrant from 0 to the highest frequencies
    radius_index: Tensor  # (H//2+1) (W//2+1): which of them each frequency of the quadrant has
    half_plane_index: Tensor  # (H//2+1) W: and each one with fy >= 0

    @property
    def half_height(self) -> int:
        return self.height // 2 + 1


@lru_cache(maxsize=8)
@torch.inference_mode(False)  # kept grids serve calls that want gradients too
def fourier_grid(height: int, width: int, device: torch.device, dtype: torch.dtype) -> FourierGrid:
    fy = torch.fft.fftfreq(height, dtype=dtype, device=device)[:, None]
    fx = torch.fft.fftfreq(width, dtype=dtype, device=device)[None, :]
    laplacian = 4 - 2 * torch.cos(2 * math.pi * fy) - 2 * torch.cos(2 * math.pi * fx)
    # (y / H)^2 + (x / W)^2 as whole numbers, so that equal ones are equal: a square grid has a third as many radii.
    y, x = torch.arange(height // 2 + 1)[:, None] * width, torch.arange(width // 2 + 1) * height
    squares, index = torch.unique(y * y + x * x, return_inverse=True)
    radii = torch.sqrt(squares.to(torch.float64)) / (height * width)
    magnitude = torch.sqrt(fy * fy + fx * fx)
    half_plane = torch.cat([index, index[:, 1 : width - width // 2].flip(1)], 1)
    return FourierGrid(
        height,
        width,
        fy,
        fx,
        magnitude,
        laplacian.square(),
        radii.to(fy),
        index.flatten().to(device),
        half_plane.flatten().to(device),
    )


def fast_length(least: int) -> int:
    """The smallest even length of at least `least` whose prime factors are 2, 3 and 5: quick to transform anywhere."""
    length = max(2, least + least % 2)
    while True:
        rest = length
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return length
        length += 2


def mirror_ends(images: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    """What a mirror at the outer pixel borders shows: `before` pixels ahead of the first, `after` behind the last."""
    size = images.shape[dim]
    if max(before, after) <= size:
        return images.narrow(dim, 0, before).flip(dim), images.narrow(dim, size - after, after).flip(dim)
    position = torch.cat([torch.arange(-before, 0), torch.arange(size, size + after)]) % (2 * size)
    index = torch.minimum(position, 2 * size - 1 - position).to(images.device)
    ends = images.index_select(dim, index)
    return ends.narrow(dim, 0, before), ends.narrow(dim, before, after)


def pad_periodic(images: Tensor, height: int, width: int, encode: bool = False) -> Tensor:
    """Extend images (..., H, W) to height x width so that opposite borders meet without a step.

    The extension lies behind the last row and column. It fades from the mirror image of the far border to that of
    the near border, so a circular convolution sees plausible content on both sides instead of a jump. `encode` turns
    linear light into sRGB values on the way.
    """
    extra_rows, extra_columns = height - images.shape[-2], width - images.shape[-1]
    if triton_serves(images) and extra_rows <= images.shape[-2] and extra_columns <= images.shape[-1]:
        from focalsweep.sweep import kernels

        return kernels.pad_periodic(images, height, width, encode)
    images = linear_to_srgb(images) if encode else images
    for dim, length in ((-2, height), (-1, width)):
        extra = length - images.shape[dim]
        if extra == 0:
            continue
        before_start, beyond_end = mirror_ends(images, dim, extra, extra)
        t = (torch.arange(extra, dtype=images.dtype, device=images.device) + 0.5) / extra
        fade = t * t * (3 - 2 * t)
        images = torch.cat([images, torch.lerp(beyond_end, before_start, fade[:, None] if dim == -2 else fade)], dim)
    return images


def transfer_functions(psf: Psf, signed_coc_px: Tensor, grid: FourierGrid) -> Tensor:
    """The OTF of every blur: (...) diameters give (..., H, W), real or complex."""
    if not getattr(psf, "radial", False):
        return psf(signed_coc_px.to(grid.fy, non_blocking=True)[..., None, None], grid.fy, grid.fx)
    quadrant = quadrant_functions(psf, signed_coc_px, grid)
    return unfold_quadrant(quadrant, grid)


def quadrant_functions(psf: Psf, signed_coc_px: Tensor, grid: FourierGrid) -> Tensor:
    """The OTF of a round PSF, even in both frequencies, over 0 to the highest: (..., H//2+1, W//2+1).

    Bessel functions cost a CPU as much as the transforms do, so each radius is evaluated once.
    """
    coc = signed_coc_px.to(grid.fy, non_blocking=True)  # settings never make the GPU's queue wait
    if isinstance(psf, Disk) and triton_serves(coc):
        from focalsweep.sweep import kernels

        return kernels.disk_quadrant_otf(coc, grid.height, grid.width)
    index = grid.radius_index.expand(*coc.shape, -1)
    return _profile(psf, coc, grid).gather(-1, index).reshape(*coc.shape, grid.half_height, grid.width // 2 + 1)


@dataclass(frozen=True, eq=False)
class HalfPlaneSamples:
    """OTFs over fy >= 0, once for each frequency where they differ. The other half of the plane is their conjugate."""

    grid: FourierGrid
    otf: Tensor  # ... U
    magnitude: Tensor  # U: |f|
    index: Tensor | None  # (H//2+1) W: which sample each frequency has; None: each has its own

    def spread(self, samples: Tensor) -> Tensor:
        """The OTF, or what was made of it, over the half plane: (..., h//2+1, w, 2), or without the 2 if it is complex.

        A real OTF does the same to the real and the imaginary part of a spectrum. Given twice, it multiplies the
        spectrum as the real numbers that it consists of: a quarter of the work.
        """
        real = not self.otf.is_complex()
        plane = torch.complex(samples, samples) if real else samples
        if self.index is not None:
            plane = plane.gather(-1, self.index.expand(*plane.shape[:-1], -1))
        plane = plane.reshape(*plane.shape[:-1], self.grid.half_height, self.grid.width)
        return torch.view_as_real(plane) if real else plane

    def half_plane(self, spectra: Tensor) -> Tensor:
        """The part of spectra (..., h, w) that `spread` OTFs multiply."""
        half = spectra[..., : self.grid.half_height, :]
        return half if self.otf.is_complex() else torch.view_as_real(half)


def half_plane_samples(psf: Psf, signed_coc_px: Tensor, grid: FourierGrid) -> HalfPlaneSamples:
    """The OTF of every blur; that of a round PSF once for each radius."""
    coc = signed_coc_px.to(grid.fy, non_blocking=True)  # settings never make the GPU's queue wait
    if getattr(psf, "radial", False):
        return HalfPlaneSamples(grid, _profile(psf, coc, grid), grid.radii, grid.half_plane_index)
    otf = psf(coc[..., None, None], grid.fy[: grid.half_height], grid.fx)
    otf = otf.expand(*coc.shape, grid.half_height, grid.width)  # one that does not depend on all it is given
    return HalfPlaneSamples(grid, otf.flatten(-2), grid.magnitude[: grid.half_height].flatten(), None)


def _profile(psf: Psf, coc_px: Tensor, grid: FourierGrid) -> Tensor:  # ... U
    return psf(coc_px[..., None], grid.radii, torch.zeros_like(grid.radii))


def unfold_quadrant(quadrant: Tensor, grid: FourierGrid) -> Tensor:
    """Something even in both frequencies, from 0 to the highest, to all of them: (..., h, w)."""
    for dim, length in ((-2, grid.height), (-1, grid.width)):
        negative = quadrant.narrow(dim, 1, length - quadrant.shape[dim]).flip(dim)
        quadrant = torch.cat([quadrant, negative], dim)
    return quadrant


def pack_pairs(planes: Tensor) -> Tensor:
    """Spectra or filters of real things, B D ...: planes 0 + 1i, 2 + 3i, ... as B D/2 ... complex."""
    even, odd = planes[:, 0::2], planes[:, 1::2]
    return even + 1j * odd if planes.is_complex() else torch.complex(even, odd)


def inverse_pairs(spectra: Tensor, area: tuple[int, int]) -> Tensor:
    """Back to pixels, cropped to the picture: (..., H, W, 2), the last axis the two planes of each pair."""
    return torch.view_as_real(torch.fft.ifft2(spectra))[..., : area[0], : area[1], :]


def add_squares(maps: Tensor, half_spectra: Tensor, height: int) -> None:
    """Add to maps (B, D, H, W) the squares of the pictures with these spectra over fy >= 0 (B, D, C, ...), cropped.

    A CPU does the columns of one picture at a time: torch copies those of a batch before it transforms them. They come
    out one after the other in memory, so maps that lie there like that are faster.
    """
    rows, columns = maps.shape[-2:]
    spectra = half_spectra if half_spectra.is_complex() else torch.view_as_complex(half_spectra)
    by_row = torch.fft.ifft(spectra)[..., :columns]  # B D C h//2+1 W
    if maps.is_cuda:
        for picture in torch.fft.irfft(by_row, n=height, dim=-2)[..., :rows, :].unbind(2):
            maps.addcmul_(picture, picture)
        return
    for b, planes in enumerate(by_row):
        for d, channels in enumerate(planes):
            for channel in channels:
                picture = torch.fft.irfft(channel, n=height, dim=-2)[:rows]
                maps[b, d].addcmul_(picture, picture)


def unpack_pairs(maps: Tensor) -> Tensor:
    """B D/2 H W 2 to B D H W."""
    return maps.movedim(-1, 2).flatten(1, 2)


def squared_magnitude(z: Tensor) -> Tensor:
    return z.real.square() + z.imag.square() if z.is_complex() else z.square()


def wiener_filter(otf: Tensor, grid: FourierGrid, balance: float) -> Tensor:
    """Wiener-Hunt deconvolution with a Laplacian regulariser: conj(H) / (|H|^2 + balance |L|^2) (paper, Eq. 6).

    The OTF covers all frequencies of the grid or the quadrant of them from 0 up.
    """
    regulariser = grid.squared_laplacian[: otf.shape[-2], : otf.shape[-1]]
    return otf.conj() / (squared_magnitude(otf) + balance * regulariser)


def wiener_pairs(psf: Psf, signed_coc_px: Tensor, grid: FourierGrid, balance: float) -> Tensor:
    """The Wiener filters of all blurs B D F, planes packed in pairs: B D/2 F h w."""
    if not getattr(psf, "radial", False):
        return pack_pairs(wiener_filter(transfer_functions(psf, signed_coc_px, grid), grid, balance))
    quadrant = wiener_filter(quadrant_functions(psf, signed_coc_px, grid), grid, balance)
    return unfold_quadrant(pack_pairs(quadrant), grid)


def latent_gain(
    otf: Tensor,  # B D F ...
    damping: Tensor,  # B C ...: noise variance over prior power
) -> Tensor:  # B D C ...
    """1 / (sum_i |H_i|^2 + damping)."""
    power = squared_magnitude(otf).sum(2)
    return (power[:, :, None] + damping[:, None]).reciprocal()


def latent_spectrum(
    spectra: Tensor,  # B F C ..., complex or as real numbers
    otf: Tensor,  # B D F ...
    gain: Tensor,  # B D C ...
) -> Tensor:  # B D C ...
    """The sharp image that explains all frames at once: sum_i conj(H_i) I_i / (sum_i |H_i|^2 + damping)."""
    weights = otf.conj().resolve_conj() if otf.is_complex() else otf.to(spectra.dtype)
    numerator = weights[:, :, 0, None] * spectra[:, None, 0]
    for i in range(1, spectra.shape[1]):
        numerator.addcmul_(weights[:, :, i, None], spectra[:, None, i])
    return numerator * gain
