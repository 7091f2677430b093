"""Point spread functions: as an OTF in closed form for the sweep, as an area-sampled kernel for rendering.

A PSF is any callable `(coc_px, fy, fx) -> OTF`: the signed blur diameter in pixels (positive beyond the focus, so that
lopsided apertures can flip) and frequencies in cycles per pixel, all broadcasting; real or complex, 1 at frequency 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

TABLE_END, TABLE_STEPS = 512, 256  # of a table of the disk's transform, and its points for each unit
LEAST_TABLED = 1000  # values at once: fewer are not worth a table

Psf = Callable[[Tensor, Tensor, Tensor], Tensor]


class _Jinc(torch.autograd.Function):
    """2 J1(x) / x with its derivative -2 J2(x) / x; torch has the Bessel functions but not their gradients."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        if x.dtype == torch.float32 and x.device.type == "cpu" and x.numel() > LEAST_TABLED:
            tabled = _jinc_of_table(x.abs())
            if tabled is not None:
                return tabled
        least = 1e-7 if x.dtype == torch.float64 else 1e-3  # below it 1 - x^2/8 rounds to 1
        safe = x.abs().clamp_min_(least)
        _, j1 = _bessel(safe)
        return j1.div_(safe).mul_(2).masked_fill_(safe <= least, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        # J2 = 2 J1 / x - J0 cancels near 0, where the series is short: -2 J2 / x = -x/4 + x^3/48 - x^5/1536 + ...
        small = x.abs() < 0.5
        safe = x.masked_fill(small, 1.0)
        j0, j1 = _bessel(safe, both=True)
        x2 = x * x
        series = -x / 4 * (1 - x2 / 12 * (1 - x2 / 32 * (1 - x2 / 60 * (1 - x2 / 96 * (1 - x2 / 140)))))
        return grad * torch.where(small, series, -2 * (2 * j1 / safe - j0) / safe)


def _jinc_of_table(x: Tensor) -> Tensor | None:
    """2 J1(x) / x by lines between points of a table: as exact as torch's J1 in a fourth of its time.

    The second derivative is 1/4 at most, so lines are off by less than 1 / (32 TABLE_STEPS^2), 5e-7. Positive x; None
    where one lies beyond the table.
    """
    if not x.numel() or float(x.amax()) >= TABLE_END:
        return None
    values, rises = _jinc_table()
    place = x.mul_(TABLE_STEPS)
    index = place.int()
    share = place.sub_(index).flatten()
    index = index.flatten()
    return torch.addcmul(values.index_select(0, index), rises.index_select(0, index), share).reshape(x.shape)


@cache
@torch.inference_mode(False)  # kept for calls that want gradients too
def _jinc_table() -> tuple[Tensor, Tensor]:
    x = torch.arange(TABLE_END * TABLE_STEPS + 1, dtype=torch.float64) / TABLE_STEPS
    values = 2 * torch.special.bessel_j1(x) / x.clamp_min(1e-9)
    values[0] = 1.0
    return values[:-1].float(), values.diff().float()


def _bessel(x: Tensor, both: bool = False) -> tuple[Tensor, Tensor]:
    """J0 (where both are asked for) and J1.

    torch's own are good to 5e-7 in any precision. In float64, which is for checking, they are integrals instead:
    J0 = mean of cos(x sin t), J1 = mean of sin(x sin t) sin t over a quarter turn; the midpoint rule on a periodic
    function is exact to rounding once its points outnumber the waves.
    """
    if x.dtype != torch.float64:
        return torch.special.bessel_j0(x) if both else x, torch.special.bessel_j1(x)
    j0, j1 = torch.zeros_like(x), torch.zeros_like(x)
    points = math.ceil(x.abs().max().item() / 2) + 16
    for k in range(points):
        sine = math.sin((k + 0.5) * math.pi / (2 * points))
        j1 += torch.sin(x * sine) * (sine / points)
        if both:
            j0 += torch.cos(x * sine) / points
    return j0, j1


def jinc(x: Tensor) -> Tensor:
    """2 J1(x) / x, 1 at 0: the Fourier transform of a disk. Differentiable once."""
    result: Tensor = _Jinc.apply(x)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class Disk:
    """A uniform disk, the geometric image of a round aperture (paper, Section 3.3)."""

    radial = True

    def __call__(self, coc_px: Tensor, fy: Tensor, fx: Tensor) -> Tensor:
        return jinc(math.pi * coc_px * torch.sqrt(fy * fy + fx * fx))

    def kernel(self, coc_px: Tensor, radius_px: int | None = None) -> Tensor:
        """Each pixel's share of the disk, exact: coc_px of any shape gives (..., K, K), K = 2 radius_px + 1."""
        coc, edges = _kernel_edges(coc_px, radius_px)
        r = (coc / 2).clamp_min(1e-6)[..., None, None]
        cumulative = _disk_quadrant_area(edges, edges[:, None], r) / (math.pi * r * r)
        return _cell_differences(cumulative).to(coc_px)


@dataclass(frozen=True)
class Gaussian:
    """sigma = k * coc; k = 0.25 has the variance of the disk, Carvalho's NYU renders use 0.3."""

    k: float = 0.25
    radial = True

    def __post_init__(self) -> None:
        if not self.k > 0:
            raise ValueError(f"k must be positive, but is {self.k:g}")

    def __call__(self, coc_px: Tensor, fy: Tensor, fx: Tensor) -> Tensor:
        return torch.exp(-2 * (math.pi * self.k * coc_px) ** 2 * (fy * fy + fx * fx))

    def kernel(self, coc_px: Tensor, radius_px: int | None = None) -> Tensor:
        """Each pixel's share of the Gaussian, cut at radius_px (4 sigma by default) and normalised; (..., K, K)."""
        _, edges = _kernel_edges(coc_px * max(1.0, 8 * self.k), radius_px)
        sigma = (self.k * coc_px.double().abs()).clamp_min(1e-6)[..., None]
        profile = torch.erf(edges / (sigma * math.sqrt(2))).diff(dim=-1)
        profile = profile / profile.sum(-1, keepdim=True)
        return (profile[..., :, None] * profile[..., None, :]).to(coc_px)


@dataclass(frozen=True)
class Sampled:
    """The PSF as pixels see it: the OTF of an area-sampled kernel, for pictures that were rendered with such kernels.

    A renderer that convolves pixels with `shape.kernel(coc_px)` blurs by the kernel's own OTF: under about 2 px that is
    not the OTF of the shape. Photos want the shape itself: their sharp picture went through the pixels too.

    Args:
        shape: anything with `kernel(coc_px)` giving (..., K, K) with K odd: `Disk()`, `Gaussian()`, a measured lens.
    """

    shape: HasKernel

    def __call__(self, coc_px: Tensor, fy: Tensor, fx: Tensor) -> Tensor:
        kernel = self.shape.kernel(coc_px[..., 0, 0])
        at = torch.arange(kernel.shape[-1], dtype=fy.dtype, device=fy.device) - kernel.shape[-1] // 2
        rows = torch.exp(-2j * math.pi * fy * at)  # H K
        columns = torch.exp(-2j * math.pi * fx.mT * at)  # W K
        return rows @ kernel.to(rows) @ columns.mT


class HasKernel(Protocol):
    def kernel(self, coc_px: Tensor) -> Tensor: ...


PSFS: dict[str, Psf] = {"disk": Disk(), "gaussian": Gaussian()}


def find_psf(psf: str | Psf) -> Psf:
    """A PSF by name, or the callable itself."""
    if not isinstance(psf, str):
        return psf
    if psf not in PSFS:
        raise ValueError(
            f"no PSF is called {psf!r}: it is one of {', '.join(PSFS)}, or a callable (coc_px, fy, fx) -> OTF"
        )
    return PSFS[psf]


def _kernel_edges(reach_px: Tensor, radius_px: int | None) -> tuple[Tensor, Tensor]:
    """Diameters in float64, and the borders between the pixels of a kernel that holds them: K + 1 values."""
    coc = reach_px.detach().double().abs()
    radius = math.ceil(coc.max().item() / 2) if radius_px is None else radius_px
    return coc, torch.arange(-radius - 0.5, radius + 1, dtype=torch.float64, device=coc.device)


def _cell_differences(cumulative: Tensor) -> Tensor:
    """From the mass below-left of every pixel corner to the mass in every pixel."""
    return cumulative.diff(dim=-1).diff(dim=-2)


def _disk_quadrant_area(x: Tensor, y: Tensor, r: Tensor) -> Tensor:
    """Area of the disk of radius r around 0 that lies left of x and below y, in closed form.

    Column t of the disk spans -s(t)..s(t), s = sqrt(r^2 - t^2), with the integral G. For |t| < t0 = sqrt(r^2 - y^2)
    the line y cuts the column; outside it the whole column counts if y > 0, none of it otherwise.
    """
    x, y = torch.minimum(torch.maximum(x, -r), r), torch.minimum(torch.maximum(y, -r), r)
    t0 = torch.sqrt((r * r - y * y).clamp_min(0))

    def integral(t: Tensor) -> Tensor:
        return (t * torch.sqrt((r * r - t * t).clamp_min(0)) + r * r * torch.asin((t / r).clamp(-1, 1))) / 2

    cut_end = torch.minimum(torch.maximum(x, -t0), t0)
    cut = y * (cut_end + t0) + integral(cut_end) - integral(-t0)
    left = integral(torch.minimum(x, -t0)) - integral(-r)
    right = integral(torch.maximum(x, t0)) - integral(t0)
    return cut + torch.where(y > 0, 2 * (left + right), 0.0)
