"""What is done with a visitor's files, in a process of its own (see `jobs.py`): all reading of them is here."""

from __future__ import annotations

import importlib.util
import math
import os
import pickle
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from focalsweep.from_photos import depth_from_photos
from focalsweep.photos.decoding import lower_pixel_limit
from focalsweep.photos.reading import find_settings, open_photos
from focalsweep.photos.settings import StackSettings
from focalsweep.photos.stack_file import read_stack_file
from focalsweep.results.contact_sheet import Pixels, display_pixels
from focalsweep.results.result import DepthResult
from focalsweep.types import FocalStack
from focalsweep.web.jobs import Say
from focalsweep.web.limits import Limits

LONGEST_PX = 960  # of the pictures on the page
PAGE_FILE, STACK_FILE = "page.pickle", "stack.pickle"


@dataclass(frozen=True, eq=False)
class Outcome:
    """A result as the page shows it.

    Args:
        result: reduced to at most LONGEST_PX.
        frames: in order of focus, each H W 3 in sRGB, of the size of the result.
        focus_distances: of the frames, metres from the lens; no unit where relative.
        names: of the frames' files.
        files: what can be downloaded, in `out`.
        notes: what the user should know, a sentence each.
    """

    result: DepthResult
    frames: list[Pixels]
    focus_distances: list[float]
    names: list[str]
    files: list[Path]
    notes: list[str]

    @property
    def relative(self) -> bool:
        return bool(self.result.record.get("relative"))

    def file(self, name: str) -> Path | None:
        return next((path for path in self.files if path.name == name), None)


def look(say: Say, folder: Path, given: dict[str, Any], limits: Limits) -> tuple[StackSettings, dict[str, float]]:
    """The settings of the photos, and the magnifications that a stack.toml of theirs gives."""
    lower_pixel_limit(limits.pixels)
    settings, _ = find_settings(folder, **given)
    if len(settings.files) > limits.files:  # pages of one file
        raise ValueError(f"{len(settings.files)} frames are too many: at most {limits.files} are taken, leave some out")
    return settings, read_stack_file(folder).magnifications


def estimate(
    say: Say, folder: Path, out: Path, given: dict[str, Any], relative: bool, limits: Limits, device: str
) -> None:
    """Depth of the photos: files into `out`, and beside it what the page shows."""
    lower_pixel_limit(limits.pixels)
    say("reading", 0.0)
    photos = open_photos(folder, relative=relative, **given)
    memory = limits.memory_bytes or _half_of_memory() if device == "cpu" else None
    result, stack = depth_from_photos(photos, memory=memory, device=device, stage=say)
    say("writing", 0.0)
    exports = ["ply", "glb"] + (["exr"] if importlib.util.find_spec("OpenEXR") else [])
    exports = [] if photos.relative else exports  # they need metres
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        files = result.save(out, exports)
    say("writing", 0.7)
    notes = [*result.record["warnings"], *(str(warning.message) for warning in raised)]
    small = reduced(result, LONGEST_PX)
    names = [frame["file"] for frame in result.record["frames"]]
    distances = stack.focus_distances.tolist()
    frames = [_like(display_pixels(image.movedim(0, -1).numpy()), small.depth.shape) for image in stack.images]
    outcome = Outcome(small, frames, distances, names, files, notes)
    (out.parent / PAGE_FILE).write_bytes(pickle.dumps(outcome))
    (out.parent / STACK_FILE).write_bytes(pickle.dumps(stack))


def load_outcome(folder: Path) -> Outcome:
    """What `estimate` left beside its `out`: written by us, in a folder that no visitor reaches."""
    outcome = pickle.loads((folder / PAGE_FILE).read_bytes())
    assert isinstance(outcome, Outcome)
    return outcome


def load_stack_of(folder: Path) -> FocalStack:
    """The frames at the size they were worked on."""
    stack = pickle.loads((folder / STACK_FILE).read_bytes())
    assert isinstance(stack, FocalStack)
    return stack


def reduced(result: DepthResult, longest_px: int) -> DepthResult:
    """The same at no more than so many pixels a side: maps keep values that occur, the picture is averaged."""
    height, width = result.depth.shape
    step = math.ceil(max(height, width) / longest_px)
    if step == 1:
        return result
    rows, columns = (np.arange(step // 2, size, step) for size in (height, width))
    shape = (len(rows), len(columns))
    picture = torch.from_numpy(result.all_in_focus).movedim(-1, 0)[None]
    sharp = torch.nn.functional.interpolate(picture, size=shape, mode="bilinear", antialias=True)[0].movedim(0, -1)
    grid = np.ix_(rows, columns)
    return replace(
        result,
        depth=result.depth[grid],
        std=result.std[grid],
        confidence=result.confidence[grid],
        all_in_focus=np.ascontiguousarray(sharp.numpy()),
        camera=result.camera.resized(1 / step),
    )


def _half_of_memory() -> int | None:
    """Of this computer's; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _like(pixels: Pixels, shape: tuple[int, ...]) -> Pixels:
    import cv2

    if pixels.shape[:2] == shape:
        return pixels
    resized = cv2.resize(pixels, (shape[1], shape[0]), interpolation=cv2.INTER_AREA)
    return np.asarray(resized, dtype=np.uint8)
