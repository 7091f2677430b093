"""How much memory this process takes, and how a bound on it is shared out on the way from photos to depth.

What is there already (Python, torch, the code of all packages) is measured. What comes on top is counted: pictures at
full size, the frames at the working size, and a workspace for the sweep and the network.
"""

from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import dataclass

import psutil

FLOAT32_BYTES = 4  # bytes of a float32
FULL_SIZE_PICTURES = 3.4  # at full size: the one that is read, the same registered, the sharp one, a depth map
UPSAMPLING_MAPS = 20  # at the working size, while depth is brought to full size
# Bytes at the working size while depth is smoothed, beside the frames and the network's answer.
SMOOTHING_BYTES_A_PIXEL = 90
LOADED_LATER_BYTES = 100 * 2**20  # bytes: the network, matplotlib
# Bytes: buffers of the convolutions and blocks of the allocator. Measured with two threads; more than eight do not
# count, because the tiles of a bounded run do not keep so many busy.
BYTES_A_THREAD = 80 * 2**20
LEAST_PIXELS = 3e5  # of the frames at the working size
LEAST_WORKSPACE = 2**28
ALLOCATOR_LOSS = 0.04  # of the bound: what the allocator loses between its blocks
M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


def resident_bytes() -> int:
    """What the process holds now."""
    return int(psutil.Process().memory_info().rss)


def total_memory() -> int:
    """All of it, in bytes."""
    return int(psutil.virtual_memory().total)


def release_freed_memory() -> None:
    """To the system at once, from now on: glibc keeps freed blocks of up to 32 MB otherwise. Elsewhere nothing."""
    libc = _glibc()
    if libc is not None:
        libc.mallopt(M_MMAP_THRESHOLD, 2**20)
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None


@dataclass(frozen=True)
class MemoryBound:
    """Bytes that the whole process may take, and the photos that are to be worked on within it.

    Args:
        total: the bound.
        base: what the process holds before any picture.
        size: H, W of the photos; `channels` and `frames` likewise.
        threads: that torch uses.
    """

    total: int
    base: int
    size: tuple[int, int]
    channels: int
    frames: int
    threads: int = 1

    @property
    def least(self) -> int:
        """The smallest bound that can be kept: with the frames at their smallest."""
        pixels = min(LEAST_PIXELS, math.prod(self.size))
        needed = max(
            self._full_size + pixels * self._kept_a_pixel,
            LEAST_WORKSPACE + self._threads + pixels * self._swept_a_pixel,
            LOADED_LATER_BYTES + self._threads + pixels * self._smoothed_a_pixel,
        )
        return math.ceil((self.base + needed) / (1 - ALLOCATOR_LOSS))

    @property
    def working_pixels(self) -> float:
        """How many pixels a frame may have at the working size."""
        free = self.total * (1 - ALLOCATOR_LOSS) - self.base
        at_full_size = (free - self._full_size) / self._kept_a_pixel
        swept = (free - LEAST_WORKSPACE - self._threads) / self._swept_a_pixel
        smoothed = (free - LOADED_LATER_BYTES - self._threads) / self._smoothed_a_pixel
        return max(LEAST_PIXELS, min(at_full_size, swept, smoothed))

    def workspace(self, pixels: int) -> int:
        """What sweep and network may use, once the frames are in memory with this many pixels each."""
        coming = pixels * FLOAT32_BYTES * self._coming_a_pixel
        return max(LEAST_WORKSPACE, int(self.total * (1 - ALLOCATOR_LOSS) - resident_bytes() - coming - self._threads))

    @property
    def _threads(self) -> int:
        return BYTES_A_THREAD * (min(self.threads, 8) - 1)

    @property
    def _full_size(self) -> float:
        return FULL_SIZE_PICTURES * math.prod(self.size) * self.channels * FLOAT32_BYTES + LOADED_LATER_BYTES

    @property
    def _kept_a_pixel(self) -> int:
        """Bytes of a pixel at the working size while full-size pictures are in memory: frames, and maps of results."""
        return FLOAT32_BYTES * (self.frames * self.channels + self.channels + UPSAMPLING_MAPS)

    @property
    def _swept_a_pixel(self) -> int:
        """The same while the sweep runs: the frames also in one colour, positions, scales and the first results."""
        return FLOAT32_BYTES * (self.frames * self.channels + self._coming_a_pixel)

    @property
    def _smoothed_a_pixel(self) -> int:
        """And when that is done: frames, positions and scales, and what smoothing takes."""
        return FLOAT32_BYTES * (self.frames * self.channels + 2) + SMOOTHING_BYTES_A_PIXEL

    @property
    def _coming_a_pixel(self) -> int:
        return self.frames + self.channels + 8
