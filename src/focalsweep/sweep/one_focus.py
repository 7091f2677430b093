"""The misfit of frames as a function of the focus of one of them: what the others say is worked out once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from focalsweep.optics.psf import find_psf
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.sweep.costs import ReblurCost, gaussian_blur
from focalsweep.sweep.deconvolution import (
    add_squares,
    half_plane_samples,
    squared_magnitude,
)
from focalsweep.sweep.volume import plan_sweep, sweep_coc_px, tile_spectra
from focalsweep.sweep.workers import map_chunks
from focalsweep.types import DepthGrid, FocalStack

PARTS = 2  # that the planes are done in, side by side on two cores: on small pictures smaller ones only add calls


class _Chunk(NamedTuple):
    """Of some planes: the spectra over half of the frequencies, and what the other frames make of them."""

    planes: slice
    frames: Tensor  # 1 F 1 ...
    otf: Tensor  # 1 D F ...: of all frames, that of the one whose focus changes is not used
    numerator: Tensor  # 1 D 1 ...: of the latent image, without that frame
    power: Tensor  # 1 D 1 U: its denominator, likewise
    root: Tensor  # 1 1 ...: of the damping


class OneFocus:
    """Planes around the frames of a small stack (batched, of one, of one channel), and what does not change.

    `frame` is the place of the one whose focus is looked for.
    """

    def __init__(self, stack: FocalStack, frame: int, count: int, cost: ReblurCost) -> None:
        self.stack, self.frame, self.cost = stack, frame, cost
        self._planes = DepthGrid.around(stack, count)
        self._plan = plan_sweep(stack, self._planes, cost, "mirror", None)
        (tile,) = self._plan.tiles  # small pictures are swept whole
        self._statistics = cost.measure(stack.images)
        self._psf = find_psf(cost.psf)
        self._spectra = tile_spectra(stack.images, tile, cost, self._plan.grid)
        step = -(-count // PARTS)
        self._chunks = [self._others(slice(i, min(i + step, count))) for i in range(0, count, step)]

    def _others(self, planes: slice) -> _Chunk:
        """Of some planes: what all frames but one make of the latent image."""
        coc = sweep_coc_px(self.stack, self._planes)[:, planes]
        samples = half_plane_samples(self._psf, coc, self._plan.grid)
        frames = samples.half_plane(self._spectra)
        otf = samples.spread(samples.otf)
        others = [i for i in range(frames.shape[1]) if i != self.frame]
        numerator = torch.stack([otf[:, :, i, None] * frames[:, None, i] for i in others]).sum(0)
        root = self.cost.damping_root(samples.magnitude, self._statistics)
        power = squared_magnitude(samples.otf[:, :, others]).sum(2)[:, :, None] + root.square()[:, None]
        return _Chunk(planes, frames, otf, numerator, power, samples.spread(root))

    def misfit(self, inverse: float) -> float:
        """The mean of the logarithm of each pixel's lowest cost with the frame focused at an inverse distance."""
        focus = self.stack.focus_distances.clone()
        focus[0, self.frame] = 1 / inverse if inverse > 0 else torch.inf
        slope = blur_slope_px(focus, self.stack.camera, self.stack.magnification)[:, self.frame]
        coc = slope[:, None] * (inverse - self._planes.as_batch(1))  # B D

        def lowest(chunk: _Chunk) -> Tensor:
            return self._lowest(chunk, coc[:, chunk.planes, None])

        parts = map_chunks(lowest, self._chunks, self._plan.workers, self._spectra)
        return float(torch.log(torch.stack(list(parts)).amin(0) + self.stack.frame_count).mean())

    def _lowest(self, chunk: _Chunk, coc_px: Tensor) -> Tensor:  # H W
        grid = self._plan.grid
        samples = half_plane_samples(self._psf, coc_px, grid)
        gain = samples.spread((chunk.power + squared_magnitude(samples.otf)).reciprocal())
        otf = samples.spread(samples.otf)[:, :, 0, None]
        latent = (chunk.numerator + otf * chunk.frames[:, None, self.frame]) * gain
        height, width = self.stack.size
        energy = latent.new_zeros((*coc_px.shape[:2], width, height)).mT
        add_squares(energy, chunk.root[:, None] * latent, grid.height)
        for i in range(chunk.frames.shape[1]):
            blurred = otf if i == self.frame else chunk.otf[:, :, i, None]
            add_squares(energy, torch.addcmul(chunk.frames[:, None, i], blurred, latent, value=-1), grid.height)
        energy = gaussian_blur(energy.contiguous(), self.cost.window_sigma_px)
        return energy[0].amin(0) / self._statistics.noise_std[0].square()
