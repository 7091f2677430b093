"""Defocus for RGB-D pictures: slices of equal depth, each blurred on its own, laid over one another near to far.

The renderer of Carvalho et al. (2018, for NYU Depth V2), with two of its flaws mended: beyond its border the picture
goes on mirrored instead of black, and what all slices leave uncovered is shared out instead of staying dark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from focalsweep.optics.psf import HasKernel, Psf, find_psf
from focalsweep.optics.thin_lens import coc_px
from focalsweep.sweep.deconvolution import fast_length
from focalsweep.types import Lens, Setting
from focalsweep.validation import as_setting, check_shape, require

SLICE_THICKNESS = 10 / 255  # Carvalho's, metres
DILATION_PX = 4  # Carvalho's, the radius of a disk
GPU_BYTES = 2**31


def render_layered(
    image: Tensor,  # C H W, or B C H W
    depth: Tensor,  # H W, or B H W
    camera: Lens,
    focus_distances: Any,
    *,
    psf: str | Psf | HasKernel = "disk",
    slice_thickness: float = SLICE_THICKNESS,
    dilation_px: int = DILATION_PX,
    largest_kernel_px: int | None = None,
    magnification: Setting = 1.0,
) -> Tensor:  # F C H W, or B F C H W
    """A focal stack of a sharp picture with known depth, as a thin lens would take it; occlusion counts.

    Of a batch the pictures come one after the other, since each has slices of its own; slices and frames together.

    Pixels are put into slices of depth. With m_k the mask of slice k (dilated), h_k its PSF and a_k = m_k * h_k:

        picture = sum_k [(m_k image) * h_k] prod_{j < k} (1 - a_j)  /  (1 - prod_k (1 - a_k)),    k near to far

    Blur adds up in whatever values `image` holds: give linear light for what a camera does, display-encoded values for
    what Carvalho (and with him the paper's NYU experiment) does. What lies behind an edge is not known: light that
    would come from there is taken from what is seen beside it.

    Args:
        image: the sharp picture in 0..1; the answer has its device and precision.
        depth: metres from the lens, positive and finite.
        camera: the lens and the sensor.
        focus_distances: F, metres from the lens; infinity is allowed.
        psf: "disk", "gaussian", or anything with `kernel(coc_px)`: area-sampled kernels of odd size. What was rendered
            so agrees with `optics.psf.Sampled(psf)` in the sweep.
        slice_thickness: metres; slices are centred on the nearest depth and on in such steps. Depth may be a multiple
            of the real one: then this is too.
        dilation_px: radius of the disk that every slice is widened by, so that sloping surfaces have no cracks; 0 for
            scenes of a few flat layers.
        largest_kernel_px: cut kernels to so many pixels a side (Carvalho: 21); None keeps them whole.
        magnification: what each frame was magnified by when it was registered; see `FocalStack`.
    """
    if image.ndim == 4:
        check_shape("image", image, "B C H W")
        check_shape("depth", depth, "B H W", B=len(image))
        settings: dict[str, Any] = {"psf": psf, "slice_thickness": slice_thickness, "dilation_px": dilation_px}
        settings |= {"largest_kernel_px": largest_kernel_px, "magnification": magnification}
        pairs = zip(image, depth, strict=True)
        return torch.stack([render_layered(*pair, camera, focus_distances, **settings) for pair in pairs])
    check_shape("image", image, "C H W")
    check_shape("depth", depth, "H W", H=image.shape[1], W=image.shape[2])
    depth = depth.to(image.device)
    require(
        torch.isfinite(depth) & (depth > 0), depth, "depth", "be positive and finite: fill its holes", " m", "column"
    )
    if slice_thickness <= 0:
        raise ValueError(f"slice_thickness must be positive, but is {slice_thickness:g} m")
    focus = as_setting("focus_distances", focus_distances).reshape(-1)
    slices = _cut(depth, slice_thickness)
    blur_px = coc_px(slices.depths[:, None], focus, camera, magnification)  # K F
    if blur_px.max() > max(depth.shape):
        raise ValueError(
            f"a blur of {blur_px.max():.0f} px is wider than the picture ({depth.shape[1]} x {depth.shape[0]} px): "
            "check the units of camera and depth"
        )
    kernels = _kernels(find_psf(psf) if isinstance(psf, str) else psf, blur_px.to(image), largest_kernel_px)
    return _lay_over(image, slices, kernels, dilation_px)


@dataclass(frozen=True, eq=False)
class _Slices:
    """Which slice every pixel is in, near to far, without empty ones."""

    number: Tensor  # H W
    depths: Tensor  # K, metres, float64 on the CPU: the middle of each slice


def _cut(depth: Tensor, thickness: float) -> _Slices:
    nearest = depth.min().double()
    steps = ((depth.double() - nearest) / thickness).round().long()
    occupied, number = torch.unique(steps, return_inverse=True)
    return _Slices(number, (nearest + occupied * thickness).cpu())


def _kernels(psf: Any, blur_px: Tensor, largest_px: int | None) -> list[Tensor]:  # K of F S S, each S its own
    if not hasattr(psf, "kernel"):
        raise TypeError(f"psf must have kernels to render with, as Disk and Gaussian do, but is {psf!r}")
    kernels = []
    for blur in blur_px:
        kernel: Tensor = psf.kernel(blur)
        spare = 0 if largest_px is None else max(0, (kernel.shape[-1] - largest_px) // 2)
        kernel = kernel[:, spare : kernel.shape[-2] - spare, spare : kernel.shape[-1] - spare]
        kernels.append(kernel / kernel.sum((-2, -1), keepdim=True))
    return kernels


def _lay_over(image: Tensor, slices: _Slices, kernels: list[Tensor], dilation_px: int) -> Tensor:  # F C H W
    """Every slice over those behind it. A few slices at a time, each in the window that holds them."""
    height, width = image.shape[1:]
    margin = max(kernel.shape[-1] // 2 for kernel in kernels) + dilation_px
    number, image = (_mirrored(_mirrored(x, -2, margin), -1, margin) for x in (slices.number, image))
    frames = image.new_zeros((len(kernels[0]), *image.shape))
    unseen = image.new_ones((len(kernels[0]), *image.shape[1:]))  # the share of light that no slice has taken yet
    for first, last, window in _chunks(number, kernels, image, dilation_px):
        radius = max(kernel.shape[-1] // 2 for kernel in kernels[first:last])
        shares = torch.arange(first, last, device=number.device)[:, None, None] == number[window]
        masks = _dilated(shares, dilation_px)[:, None].to(image)  # K 1 h w
        layers = torch.cat([masks * image[(slice(None), *window)], masks], 1)  # K C+1 h w
        blurred = _convolved(layers, kernels[first:last], radius)  # K F C+1 h+2r w+2r
        target, source = _overlap(window, radius, image.shape[1:])
        for layer in blurred:
            layer = layer[(..., *source)]
            cover, seen = layer[:, -1].clamp(0, 1), unseen[(slice(None), *target)]
            frames[(..., *target)] += layer[:, :-1] * seen[:, None]
            seen *= 1 - cover
    inside = (..., slice(margin, margin + height), slice(margin, margin + width))
    result: Tensor = frames[inside] / (1 - unseen[inside]).clamp_min(1e-6)[:, None]
    return result


def _mirrored(maps: Tensor, dim: int, margin: int) -> Tensor:
    size = maps.shape[dim]
    index = torch.arange(-margin, size + margin, device=maps.device) % (2 * size)
    return maps.index_select(dim, torch.minimum(index, 2 * size - 1 - index))


Window = tuple[slice, slice]


def _chunks(
    number: Tensor, kernels: list[Tensor], image: Tensor, dilation_px: int
) -> Iterator[tuple[int, int, Window]]:
    """Runs of slices (first, last) with the window of the padded picture that holds them, dilated."""
    count, (height, width) = len(kernels), number.shape
    rows = torch.zeros((count, height), dtype=torch.bool, device=number.device)
    columns = torch.zeros((count, width), dtype=torch.bool, device=number.device)
    rows[number, torch.arange(height, device=number.device)[:, None].expand_as(number)] = True
    columns[number, torch.arange(width, device=number.device).expand_as(number)] = True
    starts = [*range(0, count, _slices_at_once(image, len(kernels[0]))), count]
    boxes = torch.stack(
        [torch.cat([_ends(rows[a:b].any(0)), _ends(columns[a:b].any(0))]) for a, b in itertools.pairwise(starts)]
    ).tolist()
    for (first, last), (top, bottom, left, right) in zip(itertools.pairwise(starts), boxes, strict=True):
        window = (
            slice(max(0, top - dilation_px), min(height, bottom + 1 + dilation_px)),
            slice(max(0, left - dilation_px), min(width, right + 1 + dilation_px)),
        )
        yield first, last, window


def _slices_at_once(image: Tensor, frames: int) -> int:
    """As many as memory holds; on a CPU one, whose window is small."""
    if image.device.type == "cpu":
        return 1
    bytes_a_slice = 4 * frames * (len(image) + 1) * image[0].numel() * image.element_size()
    return max(1, GPU_BYTES // bytes_a_slice)


def _ends(line: Tensor) -> Tensor:
    """The first and last place where a line of booleans is true."""
    places = line.to(torch.uint8)
    return torch.stack([places.argmax(), len(line) - 1 - places.flip(0).argmax()])


def _dilated(masks: Tensor, radius: int) -> Tensor:
    """Boolean masks (..., h, w) widened by the disk dx^2 + dy^2 <= radius^2."""
    if radius == 0:
        return masks
    result = masks.clone()
    row, reach = masks.clone(), 0
    for dy in range(radius, -1, -1):  # the disk's rows grow towards its middle
        half = math.isqrt(radius * radius - dy * dy)
        for dx in range(reach + 1, half + 1):
            _or_shifted(row, masks, -1, dx)
        reach = half
        _or_shifted(result, row, -2, dy)
    return result


def _or_shifted(target: Tensor, masks: Tensor, dim: int, by: int) -> None:
    """target |= masks moved by `by` along an axis, either way."""
    size = masks.shape[dim]
    if by >= size:
        return
    if by == 0:
        target |= masks
        return
    target.narrow(dim, by, size - by).logical_or_(masks.narrow(dim, 0, size - by))
    target.narrow(dim, 0, size - by).logical_or_(masks.narrow(dim, by, size - by))


def _convolved(layers: Tensor, kernels: list[Tensor], radius: int) -> Tensor:  # K F C h+2r w+2r
    """Every layer (K C h w) with each of its F kernels, in full: nothing wraps around, nothing is cut."""
    height, width = (size + 2 * radius for size in layers.shape[-2:])
    size = (fast_length(height), fast_length(width))
    padded = [torch.nn.functional.pad(k, [radius - k.shape[-1] // 2] * 4) for k in kernels]
    transfer = torch.fft.rfft2(torch.stack(padded), s=size)  # K F
    spectra = torch.fft.rfft2(layers, s=size)  # K C
    full: Tensor = torch.fft.irfft2(spectra[:, None] * transfer[:, :, None], s=size)
    return full[..., :height, :width]


def _overlap(window: Window, radius: int, size: torch.Size) -> tuple[Window, Window]:
    """Where a window widened by `radius` lies in the picture, and which part of it does."""
    target, source = [], []
    for part, length in zip(window, size, strict=True):
        start, stop = part.start - radius, part.stop + radius
        inside = slice(max(0, start), min(length, stop))
        target.append(inside)
        source.append(slice(inside.start - start, inside.stop - start))
    return (target[0], target[1]), (source[0], source[1])
