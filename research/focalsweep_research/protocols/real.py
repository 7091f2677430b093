"""Real stacks without true depth: where a textured pixel is sharpest in a frame, its depth should be that frame's.

An independent check: sharpness is a plain focus measure (energy of the Laplacian), which the sweep does not use. The
method "focus_measure" does use one: it is judged by its like here, and pictures tell more of it than the figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from focalsweep.estimate import auto_depth_grid, estimate, predict
from focalsweep.photos.reading import open_photos
from focalsweep.results.writing import write_files
from focalsweep.sweep.costs import gaussian_blur
from focalsweep.types import DepthGrid, FocalStack
from focalsweep_research.datasets.opening import is_mobile_depth, open_dataset
from focalsweep_research.drawing.comparison import Scene, comparison
from focalsweep_research.rivals.answer import FrameCountError

NAMES = ("sweep", "focus_measure", "suwajanakorn")
LONGER_PX = 640  # all methods work at this size: rivals that read a picture whole take minutes for more
QUICK_PX = 256
WINDOW_SIGMA_PX = 3.0
STRONG = 0.7  # quantile of sharpness above which a pixel counts as textured
CLEAR = 1.5  # the peak stands this many times above the median frame


def sharpness_agreement(
    stack: FocalStack,
    depth: Tensor,  # H W, of the stack's size or larger
) -> dict[str, float]:
    """How far 1/depth lies from 1/distance of the sharpest frame, in dioptres and in spacings between frames.

    Over textured pixels whose sharpness peaks inside the stack, not in its first or last frame; the peak is refined
    by a parabola through the logarithms of it and its neighbours.
    """
    focus = (1 / stack.focus_distances).float()
    grey = stack.images.mean(1)  # F H W
    laplacian = functional.conv2d(
        grey[:, None], torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]]).to(grey), padding=1
    )[:, 0]
    sharpness = gaussian_blur(laplacian.square(), WINDOW_SIGMA_PX) + 1e-12
    peak, frame = sharpness.max(0)
    inside = (frame > 0) & (frame < len(focus) - 1)
    textured = peak > torch.quantile(peak.flatten()[:: max(1, peak.numel() // 10**6)], STRONG)
    clear = peak > CLEAR * sharpness.median(0).values
    counted = inside & textured & clear
    if not bool(counted.any()):
        return {"pixels": 0.0}
    at = frame.clamp(1, len(focus) - 2)
    before, middle, after = (sharpness.gather(0, (at + k)[None])[0].log() for k in (-1, 0, 1))
    # The vertex of a parabola through three points of uneven spacing.
    a, b = focus[at - 1] - focus[at], focus[at + 1] - focus[at]
    rise_a, rise_b = middle - before, middle - after
    vertex = focus[at] + (rise_a * b * b - rise_b * a * a) / (2 * (rise_a * b - rise_b * a))
    small = functional.interpolate((1 / depth)[None, None], size=grey.shape[1:], mode="area")[0, 0]
    error = (small - vertex).abs()[counted]
    spacing = ((focus[at - 1] - focus[at + 1]) / 2)[counted]
    return {
        "pixels": float(counted.sum()),
        "median_dioptres": float(error.median()),
        "median_spacings": float((error / spacing).median()),
        "within_half_a_spacing": float((error < spacing / 2).float().mean()),
    }


def evaluate_real(
    names: list[str],
    folder: Path,
    pictures: Path | None,
    device: torch.device,
    say: Callable[[str], None],
    share: float = 1.0,
) -> dict[str, Any]:
    """Methods of `estimate_depth` on every stack of a folder of stacks: agreement with sharpness, and pictures.

    Photos are aligned and their range found once, so that all methods see the same pixels and planes. Stacks without
    focus distances give relative depth: its error is told in frame spacings alone.

    Args:
        names: of methods.
        folder: holds a folder for each stack; or is Mobile Depth as published, with Aligned and calibration.
        pictures: a folder that receives a sheet of each stack, its photos and every method's depth; None for none.
        device: where to work.
        say: told of progress.
        share: below 1 the pictures are smaller.
    """
    rows = []
    for title, stack, planes, relative in _stacks(folder, device, LONGER_PX if share >= 1 else QUICK_PX):
        depths: dict[str, Any] = {}
        for name in names:
            row = {"stack": title, "method": name, "frames": stack.frame_count, "relative": relative}
            row |= {"width": stack.size[1], "height": stack.size[0]}
            try:
                depth, seconds = _timed(stack, name, planes)
            except FrameCountError as error:
                rows.append({**row, **dict.fromkeys(AGREEMENT), "note": error.note})
                continue
            depths[name] = depth
            agreement = sharpness_agreement(stack.to("cpu"), torch.from_numpy(depth))
            if relative:
                agreement.pop("median_dioptres", None)
            rows.append({**row, "seconds": seconds, **agreement})
        if pictures:
            png = _sheet(title, stack, depths, relative)
            write_files({pictures / f"{title}.png": partial(_write, png)})
        say(f"{title}: {', '.join(depths)}")
    columns = ["median_spacings", "median_dioptres", "within_half_a_spacing", "seconds"]
    return {"protocol": "real", "rows": rows, "table": {"columns": columns, "sections": ["stack"]}}


def _timed(stack: FocalStack, name: str, planes: DepthGrid) -> tuple[NDArray[np.float32], float]:
    """A method's depth at the size of the stack, H W, and the seconds that it took."""
    start = time.perf_counter()
    depth = predict(stack.as_batch(), name, planes).depth[0].float().cpu().numpy()
    return depth, time.perf_counter() - start


AGREEMENT = ("median_spacings", "median_dioptres", "within_half_a_spacing")


def _stacks(folder: Path, device: torch.device, longer_px: int) -> Iterator[tuple[str, FocalStack, DepthGrid, bool]]:
    """Name, registered stack at a size for all methods, planes over what it shows, whether it has no metres."""
    if is_mobile_depth(folder):
        for item in open_dataset(folder):
            stack = _at_most(item.stack, longer_px).to(device)
            yield item.name, stack, auto_depth_grid(stack)[0], False
        return
    paths = sorted(path for path in folder.iterdir() if path.is_dir())
    if not paths:
        raise FileNotFoundError(f"{folder} has no folders: give a folder with a folder of photos for each stack")
    for path in paths:
        yield path.name, *_aligned(path, device, longer_px)


def _at_most(stack: FocalStack, longer_px: int) -> FocalStack:
    scale = longer_px / max(stack.size)
    return stack.resized(scale) if scale < 1 else stack


def _aligned(folder: Path, device: torch.device, longer_px: int) -> tuple[FocalStack, DepthGrid, bool]:
    """The registered stack at a size for all methods, the planes over what it shows, and whether it has no metres."""
    try:
        photos = open_photos(folder)
    except ValueError:
        photos = open_photos(folder, relative=True)
    found = estimate(photos, device=device)
    return _at_most(found.stack, longer_px).to(device), found.result.planes, found.result.unit is None


def _write(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def _sheet(title: str, stack: FocalStack, depths: dict[str, Any], relative: bool) -> bytes:
    """The first and the last photo, then the depth of every method, on one scale."""
    frames = {}
    for words, frame in (
        ("Focused nearest", stack.focus_distances.argmin()),
        ("farthest", stack.focus_distances.argmax()),
    ):
        frames[words] = np.moveaxis(stack.images[int(frame)].float().cpu().numpy(), 0, -1)
    unit = " (relative depth: no metres)" if relative else ""
    return comparison([Scene(frames, depths)], title=f"{title}{unit}", relative=relative)
