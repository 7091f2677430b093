"""Heights of a stage: files for ImageJ and others, profiles between two points, roughness of a region."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from focalsweep.errors import InputError
from focalsweep.lenses import StageLens
from focalsweep.results.result import Array, DepthResult

MICROMETRES = 1e6
ROUND = (1, 2, 5, 10)


def as_heights(result: DepthResult, lens: StageLens) -> DepthResult:
    """Depth as a sweep of a stage counts it -> metres of height."""

    def height(values: Any) -> Any:
        return lens.heights(torch.as_tensor(values))

    std = lens.height_std(torch.from_numpy(result.depth), torch.from_numpy(result.std))
    planes = result.record["planes"]
    ends = {name: height(planes[name]).tolist() for name in ("near", "far")}
    record = {name: value for name, value in result.record.items() if name != "focus_distances"}
    positions = height(result.record["focus_distances"]).tolist()
    return replace(
        result,
        depth=height(result.depth).numpy(),
        std=std.numpy(),
        record={**record, "planes": {**planes, **ends}, "positions": positions},
    )


def height_tiff_bytes(result: DepthResult) -> bytes:
    """32-bit floats in micrometres, with the pixel size where it is known: ImageJ opens it calibrated."""
    import tifffile

    pixel = specimen_pixel(result)
    pixel_um = None if pixel is None else pixel * MICROMETRES
    buffer = io.BytesIO()
    tifffile.imwrite(
        buffer,
        (result.depth.astype(np.float64) * MICROMETRES).astype(np.float32),
        imagej=True,
        resolution=(1 / pixel_um, 1 / pixel_um) if pixel_um else None,
        metadata={"axes": "YX", "unit": "um" if pixel_um else "pixel"},
    )
    return buffer.getvalue()


def height_png_bytes(result: DepthResult) -> tuple[bytes, dict[str, float]]:
    """16 bits from the lowest place up, and what they mean: metres a step, the height of value 1; 0 is none."""
    from PIL import Image, PngImagePlugin

    known = np.isfinite(result.depth)
    low, high = (float(end) for end in np.quantile(result.depth[known], [0, 1])) if known.any() else (0.0, 0.0)
    step = round_step((high - low) / 60000)
    steps = np.zeros(result.depth.shape, np.uint16)
    steps[known] = np.rint((result.depth[known].astype(np.float64) - low) / step).astype(np.int64) + 1
    text = PngImagePlugin.PngInfo()
    text.add_text("height_scale", f"{step * 1e9:g} nanometres per step from {low:.9g} metres at 1; 0 is no height")
    buffer = io.BytesIO()
    Image.fromarray(steps).save(buffer, "png", pnginfo=text)
    return buffer.getvalue(), {"metres_per_step": step, "metres_at_1": low, "no_height": 0}


def round_step(least: float) -> float:
    """The roundest number of nanometres that is not below `least` metres; a tenth of one at the least."""
    least = max(least, 1e-10)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in ROUND if step * power >= least * (1 - 1e-9))


def specimen_pixel(result: DepthResult) -> float | None:
    """Metres in the specimen that a pixel shows, where they are known."""
    return result.camera.pixel_size if isinstance(result.camera, StageLens) else None


def profile(
    result: DepthResult, first: tuple[float, float], second: tuple[float, float]
) -> npt.NDArray[np.float64]:  # N 3
    """Along the line between two points (column, row): pixels from the first, height and its std in metres."""
    import cv2

    height, width = result.depth.shape
    for x, y in (first, second):
        if not (0 <= x < width and 0 <= y < height):
            raise InputError(
                "the point {value} lies outside the picture of {rule}",
                field="profile", value=f"{x:g},{y:g}", rule=f"{width} x {height} px",
            )  # fmt: skip
    length = math.dist(first, second)
    count = max(2, round(length) + 1)
    places = np.linspace(first, second, count, dtype=np.float32)[None]  # 1 N 2
    across, down = np.ascontiguousarray(places[..., 0]), np.ascontiguousarray(places[..., 1])
    maps = [cv2.remap(values, across, down, cv2.INTER_LINEAR)[0] for values in (result.depth, result.std)]
    return np.stack([np.linspace(0, length, count), *maps], 1).astype(np.float64)


@dataclass(frozen=True)
class Roughness:
    """Metres. Sa, Sq, Sz (ISO 25178) of a region without its mean plane; Ra, Rq (ISO 4287) the mean over its rows."""

    sa: float
    sq: float
    sz: float
    ra: float
    rq: float
    pixels: int


def roughness(height: Array, tilted: bool = True) -> Roughness:
    """Of a region H W without holes; `tilted` takes its mean plane (of a row: its mean line) away, as is usual.

    No filter is applied: what is longer than the region is waviness that stays in. Noise of the heights counts as
    roughness, and heights are smooth over some pixels, so that fine roughness is lost.
    """
    if height.ndim != 2 or min(height.shape) < 2 or not np.isfinite(height).all():
        raise InputError(
            "roughness needs {rule}, but the region has {value}",
            field="region", rule="at least 2 x 2 known heights", value=f"{height.shape} and gaps",
        )  # fmt: skip
    values = height.astype(np.float64)
    rows, columns = np.indices(values.shape)
    area = _without_trend(values.ravel(), np.stack([rows.ravel(), columns.ravel()], 1), tilted)
    lines = np.stack([_without_trend(row, np.arange(len(row))[:, None], tilted) for row in values])
    return Roughness(
        sa=float(np.abs(area).mean()),
        sq=float(np.sqrt((area**2).mean())),
        sz=float(np.ptp(area)),
        ra=float(np.abs(lines).mean()),
        rq=float(np.sqrt((lines**2).mean(1)).mean()),
        pixels=values.size,
    )


def _without_trend(values: npt.NDArray[np.float64], places: npt.NDArray[Any], tilted: bool) -> npt.NDArray[np.float64]:
    if not tilted:
        return np.asarray(values - values.mean())
    design = np.column_stack([np.ones(len(values)), places - places.mean(0)])
    fitted, *_ = np.linalg.lstsq(design, values, rcond=None)
    return np.asarray(values - design @ fitted)
