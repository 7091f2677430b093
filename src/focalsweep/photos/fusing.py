"""The sharp picture: at every pixel and scale the frames that are sharpest among those that depth allows.

Each frame is split into bands of detail (a Laplacian pyramid), from the finest, 2 px, to some times the widest blur.
A band of the sharp picture is the mean over the frames, weighted with

    prior * energy^SELECTIVITY

`energy` is the band's own, in a small window: what is sharpest wins, and where there is nothing but noise, which is
alike in all frames, all that may be sharp count, so noise is averaged away. `prior` is what depth says of the blur
there. It allows a frame whose blur is small against the band, against the depth's error bar or against the step from
frame to frame. Beside something nearer it allows the frames up to that as well, and doubts those in which that is
blurred over the pixel: light there is not of that place.

Square roots of light are summed up: noise is about the same in bright and dark places, and an edge does not ring.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float32]

ROWS_AT_ONCE = 512  # even
SELECTIVITY = 8  # a power of two
SHARP_PX = 0.15  # of blur that the finest band does not feel; twice as much in each coarser one
FRAME_STEPS = 0.25  # of the blur from frame to frame, that depth may be off by
SURROUNDINGS = 2  # pixels of the depth map around a pixel: its surfaces may lie there, too
MATTERS = 3.7  # standard deviations of blur: beyond them a frame's prior is under a thousandth
LEAST_PRIOR = 1e-8  # where depth is plainly wrong, sharpness still decides
HIDDEN = 0.1  # how far a frame counts in which something nearer is blurred over the pixel
HIDING_PX = 3.0  # of blur between two surfaces, before one is in front of the other
REACHES = (2, 4, 8, 16, 32, 64)  # pixels of the depth map, how far away something nearer is looked for
LARGEST_DISK = 8  # a wider reach goes in steps of as much: disks after disks make a disk, in a tenth of the time
WINDOW_SIGMA_PX = 2.0  # of a band's pixels
LEAST_ENERGY = 1e-6  # below the noise of 8-bit files
ENERGY_UNIT = 1e4  # so that powers of it stay within single precision
COARSEST_PX = 16  # the side of the last picture of the pyramid, at least


def fuse_frames(
    frames: Iterable[Tensor],  # F of H W C, linear light, in the order of the distances
    focus_distances: Tensor,  # F, metres, in any order
    depth: Tensor,  # h w, of any size
    std: Tensor | None = None,  # h w, metres
    slope_px: Tensor | None = None,  # F, pixels of blur for each dioptre
    weights: FrameWeights | None = None,  # of these, where the caller has them already
) -> Tensor:  # H W C
    """The picture sharp all over.

    Takes a frame at a time: memory holds that frame, the sum and its weights, about three pictures at full size.

    Args:
        depth: that decides where sharpness alone does not; infinity is allowed.
        std: its error bar; None is 0.
        slope_px: of the frames as they are here (`optics.thin_lens.blur_slope_px`); None: a stack whose blur grows
            by 4 px from frame to frame.
    """
    total: _Sum | None = None
    roots: Array | None = None
    given = iter(frames)
    for number in range(len(focus_distances)):
        frame = next(given, None)
        if frame is None:
            count = len(focus_distances)
            raise ValueError(f"there are fewer frames than the {count} focus distances: give one for each")
        light = frame.detach().float().cpu().numpy()
        roots = np.maximum(light, 0, out=roots)  # into the same memory again: new pages take as long as the root
        np.sqrt(roots, out=roots)
        del frame, light  # before the next one is read
        if weights is None:
            weights = FrameWeights(focus_distances, depth, std, slope_px, roots.shape[1])
        if total is None:
            total = _Sum(roots.shape, weights.widest_px)
        total.add(roots, weights.of_frame(number))
    if total is None:
        raise ValueError("there are no frames: give one for each focus distance")
    return torch.from_numpy(total.picture())


@dataclass(frozen=True, eq=False)
class _Allowed:
    """What depth says of one frame, h w each."""

    squared_blur: Array  # px^2, of what is nearest to focus around each pixel
    tolerance: Array  # px^2, how far that may be off
    share: Array  # by which the frame counts less where something nearer is blurred over the pixel

    def prior(self, level: int, size: tuple[int, int]) -> Array:
        """How far the frame counts at a level of the pyramid of H W pixels."""
        import cv2

        prior = self.tolerance + np.float32((SHARP_PX * 2**level) ** 2)
        np.divide(self.squared_blur, prior, out=prior)
        prior *= np.float32(-0.5)
        np.exp(prior, out=prior)
        prior += np.float32(LEAST_PRIOR)
        prior *= self.share
        shrinks = size[0] < prior.shape[0]
        method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        return np.asarray(cv2.resize(prior, size[::-1], interpolation=method), np.float32)


class FrameWeights:
    """What depth says of every frame; the arguments are those of `fuse_frames`, and how wide the frames are."""

    def __init__(
        self, focus_distances: Tensor, depth: Tensor, std: Tensor | None, slope_px: Tensor | None, width: int
    ) -> None:
        self._focus = (1 / focus_distances.detach().double().cpu()).numpy()
        self._known: tuple[int, _Allowed] | None = None
        ordered = np.sort(self._focus)
        inverse = np.clip((1 / depth.detach().double().cpu()).numpy(), ordered[0], ordered[-1])
        self._inverse = inverse.astype(np.float32)
        gaps = np.diff(ordered)
        typical = float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
        slope = np.full(len(ordered), 4 / typical) if slope_px is None else slope_px.detach().double().cpu().numpy()
        self._slope = np.broadcast_to(slope, ordered.shape)
        after = np.clip(np.searchsorted(ordered, inverse), 1, max(1, len(gaps)))
        step = gaps[after - 1] if len(gaps) else np.full_like(inverse, typical)
        spread = np.zeros_like(inverse)
        if std is not None:
            error = std.detach().double().cpu().numpy()
            spread = np.where(np.isfinite(error), error, 0) * inverse**2
        self._tolerance = np.hypot(spread, FRAME_STEPS * step).astype(np.float32)
        self._shrunk = depth.shape[1] / width  # a pixel of the frames, in pixels of the depth map
        self._least, self._most = (_extreme(self._inverse, SURROUNDINGS, way) for way in (-1, 1))
        farthest = max(self._radius(float(inverse.max()), end) for end in (inverse.min(), ordered[0], ordered[-1]))
        self._nearer: list[Array] = []
        for reach, before in zip(REACHES, (0, *REACHES), strict=False):
            if before < farthest:
                last = self._nearer[-1] if self._nearer else self._inverse
                self._nearer.append(_extreme(last, reach - before, 1))
        for covers, nearer in self._covers(self._inverse, float(self._slope.mean())):
            self._most = np.where(covers > 0, np.maximum(self._most, nearer), self._most)

    def _radius(self, nearer: Any, at: Any, slope: float | None = None) -> Any:
        """Of the blur of something nearer with focus at an inverse distance, in pixels of the depth map."""
        return 0.5 * (float(self._slope.max()) if slope is None else slope) * self._shrunk * np.abs(nearer - at)

    def _covers(self, at: Any, slope: float) -> Iterator[tuple[Array, Array]]:
        """How far what is nearer is blurred over each pixel with focus at an inverse distance, and where that lies."""
        before = 0
        for reach, nearer in zip(REACHES, self._nearer, strict=False):  # no blur reaches farther
            radius = self._radius(nearer, at, slope)
            in_front = np.clip(slope * (nearer - self._inverse) / HIDING_PX - 1, 0, 1)
            yield np.clip((radius - before) / (reach - before), 0, 1) * in_front, nearer
            before = reach

    @property
    def widest_px(self) -> float:
        """The widest blur of the stack."""
        ends = (self._inverse.min(), self._inverse.max())
        return float(max(np.abs(self._slope * (self._focus - end)).max() for end in ends))

    def matters(self, number: int) -> NDArray[np.bool_]:  # h w
        """Where details of this frame may come into the picture, unless depth is plainly wrong."""
        allowed = self.of_frame(number)
        return np.asarray(allowed.squared_blur < MATTERS**2 * (allowed.tolerance + SHARP_PX**2))

    def of_frame(self, number: int) -> _Allowed:
        if self._known is None or self._known[0] != number:
            self._known = (number, self._of_frame(number))
        return self._known[1]

    def _of_frame(self, number: int) -> _Allowed:
        at, slope = float(self._focus[number]), float(self._slope[number])
        away = np.maximum(np.maximum(self._least - at, at - self._most), 0)
        hidden = np.zeros_like(away)
        for covers, _ in self._covers(at, slope):
            np.maximum(hidden, covers, out=hidden)
        return _Allowed((slope * away) ** 2, (slope * self._tolerance) ** 2, np.float32(HIDDEN) ** hidden)


def _extreme(values: Array, reach: int, way: int) -> Array:
    """The largest (way 1) or least (-1) value within a disk."""
    import cv2

    found = values
    while reach > 0:
        step = min(reach, LARGEST_DISK)
        disk = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * step + 1, 2 * step + 1))
        found = np.asarray((cv2.dilate if way > 0 else cv2.erode)(found, disk), np.float32)
        reach -= step
    return found


class _Sum:
    """The weighted bands of all frames so far."""

    def __init__(self, shape: tuple[int, ...], widest_px: float) -> None:
        height, width, self._channels = shape
        wanted = math.ceil(math.log2(max(2.0, widest_px)))
        most = int(math.log2(max(1, min(height, width) / COARSEST_PX)))
        sizes = [(height, width)]
        for _ in range(max(0, min(wanted, most))):
            sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
        self._bands = [np.zeros((self._channels, *size), np.float32) for size in sizes]
        self._weights = [np.zeros(size, np.float32) for size in sizes]
        self._brightest = 0.0

    def add(self, roots: Array, allowed: _Allowed) -> None:
        """A frame H W C."""
        import cv2

        self._brightest = max(self._brightest, float(roots.max()))
        planes: list[Array] = [np.asarray(plane, np.float32) for plane in cv2.split(roots)]
        for level, (band, weights) in enumerate(zip(self._bands, self._weights, strict=True)):
            prior = allowed.prior(level, weights.shape)
            if level + 1 == len(self._bands):
                for total, plane in zip(band, planes, strict=True):
                    total += prior * plane
                weights += prior
                return
            coarse: list[Array] = [np.asarray(cv2.pyrDown(plane), np.float32) for plane in planes]
            for rows, detail, weight in _details(planes, coarse):
                weight += np.float32(LEAST_ENERGY)
                weight *= np.float32(ENERGY_UNIT)
                for _ in range(SELECTIVITY.bit_length() - 1):
                    np.square(weight, out=weight)
                weight *= prior[rows]
                for total, plane in zip(band, detail, strict=True):
                    total[rows] += np.multiply(plane, weight, out=plane)
                weights[rows] += weight
            planes = coarse

    def picture(self) -> Array:
        """H W C."""
        import cv2

        height, width = self._weights[0].shape
        picture = np.empty((height, width, self._channels), np.float32)
        for channel in range(self._channels):
            plane = self._bands[-1][channel] / self._weights[-1]
            for band, weights in zip(self._bands[-2::-1], self._weights[-2::-1], strict=True):
                plane = cv2.pyrUp(plane, dstsize=weights.shape[::-1])
                plane += band[channel] / weights
            np.clip(plane, 0, self._brightest, out=plane)
            np.square(plane, out=picture[..., channel])
        return picture


def _details(planes: list[Array], coarse: list[Array]) -> Iterator[tuple[slice, list[Array], Array]]:
    """A level less what the next one holds, and its energy, in rows: the rows, each channel, the mean of the energy."""
    import cv2

    height, width = planes[0].shape
    for top in range(0, height, ROWS_AT_ONCE):
        rows = slice(top, min(height, top + ROWS_AT_ONCE))
        # Rows around them: those of the energy's window, and an even number that the next level's filter wants.
        first, last = max(0, top - 8), min(height, rows.stop + 8)
        inside = slice(top - first, rows.stop - first)
        detail, energy = [], np.zeros((last - first, width), np.float32)
        for plane, small in zip(planes, coarse, strict=True):
            stop = min(height, last + 8)
            start = max(0, first - 8)
            part = small[start // 2 : (stop + 1) // 2]
            smooth = cv2.pyrUp(part, dstsize=(width, stop - start))[first - start : last - start]
            difference = plane[first:last] - smooth
            energy += difference * difference
            detail.append(difference[inside])
        energy = cv2.GaussianBlur(energy, (0, 0), WINDOW_SIGMA_PX, borderType=cv2.BORDER_REFLECT)
        yield rows, detail, energy[inside] / np.float32(len(planes))
