"""Two answers to "do the frames agree at this depth": the paper's cost (Eqs. 5-9) and re-blur likelihood (ours).

A cost turns the spectra of the frames and the blur of some planes (an even number of them) into one map for each plane
(`evaluate`), then finishes a whole set of planes (`finish`). `volume.py` feeds it planes and tiles. On a GPU, where no
gradient is asked for, `kernels/` does the same in fewer passes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from focalsweep.lenses import Lens, StageLens
from focalsweep.optics.diffraction import Diffraction
from focalsweep.optics.psf import Psf, find_psf
from focalsweep.sweep.deconvolution import (
    FourierGrid,
    add_squares,
    half_plane_samples,
    inverse_pairs,
    latent_gain,
    latent_spectrum,
    mirror_ends,
    quadrant_functions,
    squared_magnitude,
    transfer_functions,
    triton_serves,
    unpack_pairs,
    wiener_pairs,
)
from focalsweep.sweep.statistics import StackStatistics, stack_statistics


class Cost(Protocol):
    """Fields a cost has in common; see `PaperCost` and `ReblurCost`."""

    @property
    def psf(self) -> str | Psf: ...
    @property
    def reach_px(self) -> int: ...
    def measure(self, images: Tensor) -> StackStatistics | None: ...
    @property
    def display_encoded(self) -> bool: ...
    def evaluate(
        self, spectra: Tensor, coc_px: Tensor, grid: FourierGrid, area: tuple[int, int], statistics: Any
    ) -> Tensor: ...
    def finish(self, costs: Tensor) -> Tensor: ...


AnyCost = TypeVar("AnyCost", bound=Cost)


@dataclass(frozen=True)
class PaperCost:
    """The standard deviation over frames that were each deconvolved as if the plane were there (paper, Eqs. 5-9).

    Args:
        psf: "disk", "gaussian" or a callable.
        balance: weight of the Laplacian regulariser.
        neighbourhood_sigma_px: Gaussian neighbourhood of mean and deviation; 0 switches it off (paper, Fig. 5).
        outlier_removal: bound the cost by tanh, f(c_max) = f_1.
        normalise: per-pixel min-max over the planes.
        display_encoded: work on sRGB values, as the paper and its code do, instead of linear light.
    """

    psf: str | Psf = "disk"
    balance: float = 0.01
    neighbourhood_sigma_px: float = 1.0
    outlier_removal: bool = True
    c_max: float = 0.3
    f_1: float = 0.999
    normalise: bool = True
    display_encoded: bool = True

    @property
    def reach_px(self) -> int:
        return 2 * gaussian_radius(self.neighbourhood_sigma_px)

    def measure(self, images: Tensor) -> None:
        return None

    def evaluate(
        self,
        spectra: Tensor,  # B F C h w
        coc_px: Tensor,  # B D F, signed; D even
        grid: FourierGrid,
        area: tuple[int, int],  # the part of the transform that is picture
        statistics: None,
    ) -> Tensor:  # B D H W
        psf = find_psf(self.psf)
        if _fused(psf, spectra, coc_px, area, self.reach_px):
            from focalsweep.sweep import kernels

            taps = _constants(gaussian_taps(self.neighbourhood_sigma_px), spectra.device)
            slope = self._slope if self.outlier_removal else None
            return kernels.paper_deviation(
                spectra, quadrant_functions(psf, coc_px, grid), self.balance, area, taps, slope
            )
        filters = wiener_pairs(psf, coc_px, grid, self.balance)  # B D/2 F h w
        # Deviations from the first frame are small where the frames agree: their squares lose no digits there.
        frames = spectra.shape[1]
        first = inverse_pairs(filters[:, :, 0, None] * spectra[:, None, 0], area)  # B D/2 C H W 2
        total, squares = torch.zeros_like(first), torch.zeros_like(first)
        for i in range(1, frames):
            deviation = inverse_pairs(filters[:, :, i, None] * spectra[:, None, i], area) - first
            total.add_(deviation)
            squares.addcmul_(deviation, deviation)
        shift = total / frames
        mean = first + shift
        variance = (squares / frames).addcmul_(shift, shift, value=-1).clamp_min(0)
        smooth_mean = gaussian_blur(mean, self.neighbourhood_sigma_px, dims=(-3, -2))
        # The mean over frames of (I - mu)^2 is var + (mean - mu)^2: no difference of large squares.
        deviation = variance + (mean - smooth_mean).square()
        deviation = gaussian_blur(deviation, self.neighbourhood_sigma_px, dims=(-3, -2))
        cost = unpack_pairs(_safe_sqrt(deviation).sum(2))
        return torch.tanh(self._slope * cost) if self.outlier_removal else cost

    @property
    def _slope(self) -> float:
        return math.log((1 + self.f_1) / (1 - self.f_1)) / (2 * self.c_max)

    def finish(self, costs: Tensor) -> Tensor:
        if not self.normalise:
            return costs
        if triton_serves(costs):
            from focalsweep.sweep import kernels

            return kernels.finish(costs.contiguous(), None)
        low, high = costs.amin(1, keepdim=True), costs.amax(1, keepdim=True)  # aminmax is slower along this axis
        return (costs - low).div_(high - low + 1e-8)


@dataclass(frozen=True)
class ReblurCost:
    """The misfit of one latent sharp image, re-blurred, to all frames: -2 log likelihood of the depth.

    For each plane, with H_i the OTF of frame i, S = texture_power / |f|^2 the prior, sigma the noise:

        X = sum_i conj(H_i) I_i / (sum_i |H_i|^2 + sigma^2 / S)
        E = gauss * [sum_i |h_i * x - i_i|^2 + |sqrt(sigma^2 / S) x|^2] / sigma^2, summed over channels

    Args:
        psf: "disk", "gaussian" or a callable.
        window_sigma_px: the Gaussian window over which depth is taken as constant.
        noise_std: of linear light; None estimates it from the stack.
        prior_looseness: the prior power spectrum is taken this many times stronger than measured. Without the log
            determinant a tight prior favours planes whose latent image is smooth; a loose one hardly takes sides.
        log_determinant: add the term that completes the likelihood (it does not depend on the pixel).
        squash: subtract each pixel's minimum over planes and map the excess to 0..1 by x / (x + squash_scale). The
            scale survives: where there is no texture the result stays near 0. Off gives E itself.
        squash_scale: the excess, in units of the noise variance, that maps to one half.
    """

    psf: str | Psf = "disk"
    window_sigma_px: float = 2.0
    noise_std: float | None = None
    prior_looseness: float = 16.0
    log_determinant: bool = False
    squash: bool = True
    squash_scale: float = 10.0

    @property
    def reach_px(self) -> int:
        return gaussian_radius(self.window_sigma_px)

    @property
    def effective_pixels(self) -> float:
        """How many independent pixels the window averages over: 1 / sum of its squared weights."""
        taps = gaussian_taps(self.window_sigma_px)
        return 1 / sum(tap * tap for tap in taps) ** 2

    def measure(self, images: Tensor) -> StackStatistics:
        return stack_statistics(images, self.noise_std)

    @property
    def display_encoded(self) -> bool:
        return False

    def damping_root(self, magnitude: Tensor, statistics: StackStatistics) -> Tensor:  # B C ...
        """sigma / sqrt(S) at frequencies with this |f|."""
        root = statistics.noise_std[:, None] / (statistics.texture_power * self.prior_looseness).sqrt()
        return root.reshape(*root.shape, *[1] * magnitude.dim()) * magnitude

    def evaluate(
        self,
        spectra: Tensor,  # B F C h w
        coc_px: Tensor,  # B D F, signed; D even
        grid: FourierGrid,
        area: tuple[int, int],  # the part of the transform that is picture
        statistics: StackStatistics,
    ) -> Tensor:  # B D H W
        psf = find_psf(self.psf)
        noise_std, texture_power = statistics.noise_std, statistics.texture_power
        if not self.log_determinant and _fused(psf, spectra, coc_px, area, self.reach_px):
            from focalsweep.sweep import kernels

            taps = _constants(gaussian_taps(self.window_sigma_px), spectra.device)
            otf = quadrant_functions(psf, coc_px, grid)
            return kernels.reblur_energy(spectra, otf, noise_std, texture_power, self.prior_looseness, area, taps)
        samples = half_plane_samples(psf, coc_px, grid)
        root = self.damping_root(samples.magnitude, statistics)
        gain = latent_gain(samples.otf, root.square())
        otf, gain, root = (samples.spread(x) for x in (samples.otf, gain, root))  # B D F ..., B D C ..., B C ...
        frames = samples.half_plane(spectra)  # B F C ..., where ... is half of the frequencies
        latent = latent_spectrum(frames, otf, gain)  # B D C ...
        energy = grid.fy.new_zeros((*coc_px.shape[:2], area[1], area[0])).mT
        add_squares(energy, root[:, None] * latent, grid.height)
        for i in range(frames.shape[1]):
            residual = torch.addcmul(frames[:, None, i], otf[:, :, i, None], latent, value=-1)  # I_i - H_i X
            add_squares(energy, residual, grid.height)
        energy = gaussian_blur(energy.contiguous(), self.window_sigma_px) / noise_std.square()[:, None, None, None]
        if self.log_determinant:
            damping = self.damping_root(grid.magnitude, statistics).square()
            energy = energy + _log_determinant(transfer_functions(psf, coc_px, grid), damping)[..., None, None]
        return energy

    def finish(self, costs: Tensor) -> Tensor:
        if not self.squash:
            return costs
        if triton_serves(costs):
            from focalsweep.sweep import kernels

            return kernels.finish(costs.contiguous(), self.squash_scale)
        excess = costs - costs.amin(1, keepdim=True)
        return excess.div_(excess + self.squash_scale)


COSTS: dict[str, Cost] = {"paper": PaperCost(), "reblur": ReblurCost()}


def find_cost(cost: str | Cost) -> Cost:
    """A cost by name, or the cost itself."""
    if not isinstance(cost, str):
        return cost
    if cost not in COSTS:
        raise ValueError(f"no cost is called {cost!r}: it is one of {', '.join(COSTS)}, or a PaperCost or ReblurCost")
    return COSTS[cost]


def _safe_sqrt(x: Tensor) -> Tensor:
    """Square root whose gradient at 0 is large but finite."""
    return torch.sqrt(x.clamp_min(torch.finfo(x.dtype).tiny ** 0.5))


def _log_determinant(otf: Tensor, damping: Tensor) -> Tensor:  # B D
    """Log determinant of the frames' covariance, a pixel: sum_c mean_f log(1 + sum_i |H_i|^2 S / sigma^2)."""
    power = squared_magnitude(otf).sum(2)[:, :, None]  # B D 1 h w
    floor = damping[:, None].clamp_min(
        damping[..., 0, 1][:, None, :, None, None]
    )  # the prior is infinite at frequency 0
    log = torch.log1p(power / floor)
    return log.mean((-2, -1)).sum(-1)


def seen_through(cost: AnyCost, lens: Lens) -> AnyCost:
    """The cost with the lens's own kind of blur: a microscope's objective has that of wave optics."""
    if not isinstance(lens, StageLens) or getattr(cost, "psf", None) != "disk":
        return cost
    if lens.numerical_aperture is None or lens.pixel_size is None or lens.wavelength is None:
        return cost
    psf = Diffraction(lens.numerical_aperture, lens.pixel_size, lens.wavelength)
    return replace(cost, psf=psf)  # type: ignore[type-var]


def _fused(psf: Psf, spectra: Tensor, coc_px: Tensor, area: tuple[int, int], reach_px: int) -> bool:
    return triton_serves(spectra, coc_px) and getattr(psf, "radial", False) and min(area) > reach_px


@cache
def _constants(values: tuple[float, ...], device: torch.device) -> Tensor:
    """A few numbers on a device, copied there once and kept: recorded sweeps go on reading them."""
    return torch.tensor(values, dtype=torch.float32, device=device)


def gaussian_radius(sigma_px: float) -> int:
    return int(4 * sigma_px + 0.5)


@lru_cache(maxsize=16)
def gaussian_taps(sigma_px: float) -> tuple[float, ...]:
    """Normalised weights of a Gaussian window, cut at 4 sigma."""
    radius = gaussian_radius(sigma_px)
    if radius == 0:
        return (1.0,)
    weights = [math.exp(-0.5 * (k / sigma_px) ** 2) for k in range(-radius, radius + 1)]
    return tuple(weight / sum(weights) for weight in weights)


def gaussian_blur(maps: Tensor, sigma_px: float, dims: tuple[int, int] = (-2, -1)) -> Tensor:
    """Separable Gaussian over two axes, mirrored at the borders.

    OpenCV's on a CPU; elsewhere, and where a gradient is asked for, a sum of shifted copies, which is many times faster
    than a convolution with one channel.
    """
    taps = gaussian_taps(sigma_px)
    radius = len(taps) // 2
    wants_gradient = maps.requires_grad and torch.is_grad_enabled()
    if radius and maps.device.type == "cpu" and maps.dtype == torch.float32 and dims == (-2, -1) and not wants_gradient:
        return _gaussian_blur_by_opencv(maps.detach(), taps)
    for dim in dims if radius else ():
        size = maps.shape[dim]
        before, after = mirror_ends(maps, dim, radius, radius)
        padded = torch.cat([before, maps, after], dim)
        maps = padded.narrow(dim, radius, size) * taps[radius]
        for k in (k for k in range(len(taps)) if k != radius):
            maps.add_(padded.narrow(dim, k, size), alpha=taps[k])
    return maps


def _gaussian_blur_by_opencv(maps: Tensor, taps: tuple[float, ...]) -> Tensor:
    import cv2

    blurred = torch.empty(maps.shape)  # rows one after the other, as OpenCV writes them
    weights = np.array(taps, np.float32)
    size = maps.shape[-2:]
    pairs = zip(maps.contiguous().numpy().reshape(-1, *size), blurred.numpy().reshape(-1, *size), strict=True)
    for before, after in pairs:
        cv2.sepFilter2D(before, -1, weights, weights, dst=after, borderType=cv2.BORDER_REFLECT)
    return blurred
