"""What is done with a visitor's files, in a process of its own (see `jobs.py`): all reading of them is here."""

from __future__ import annotations

import importlib.util
import math
import pickle
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from focalsweep.photos.decoding import lower_pixel_limit
from focalsweep.photos.reading import find_settings, open_photos
from focalsweep.photos.settings import StackSettings
from focalsweep.photos.stack_file import read_stack_file
from focalsweep.progress import Progress
from focalsweep.results.contact_sheet import display_pixels
from focalsweep.results.figures import Pixels
from focalsweep.results.folder import write_set
from focalsweep.results.result import DepthResult
from focalsweep.results.writing import json_bytes
from focalsweep.to_files import Job, estimate_to_files
from focalsweep.types import Camera, FocalStack
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
        return self.result.unit is None

    def file(self, name: str) -> Path | None:
        return next((path for path in self.files if path.name == name), None)


def look(say: Progress, folder: Path, given: dict[str, Any], limits: Limits) -> tuple[StackSettings, dict[str, float]]:
    """The settings of the photos, and the magnifications that a stack.toml of theirs gives."""
    lower_pixel_limit(limits.pixels)
    settings, _ = find_settings(folder, **given)
    if len(settings.files) > limits.files:  # pages of one file
        raise ValueError(f"{len(settings.files)} frames are too many: at most {limits.files} are taken, leave some out")
    return settings, read_stack_file(folder).magnifications


def estimate(
    say: Progress, folder: Path, out: Path, given: dict[str, Any], relative: bool, limits: Limits, device: str
) -> None:
    """Depth of the photos: files into `out`, and beside it what the page shows."""
    lower_pixel_limit(limits.pixels)
    say("reading", 0.0)
    memory = limits.most_memory if device == "cpu" else None
    photos = open_photos(folder, relative=relative, **given)
    exports = ["ply", "glb"] + (["exr"] if importlib.util.find_spec("OpenEXR") else [])
    metric = isinstance(photos.camera, Camera)  # they need metres
    job = Job(device=device, memory=memory, exports=exports if metric else [])
    done = estimate_to_files(photos, out, job, say)
    say("writing", 0.7)
    small = reduced(done.result, LONGEST_PX)
    names = [frame["file"] for frame in done.result.record["frames"]]
    distances = done.stack.focus_distances.tolist()
    frames = [_like(display_pixels(image.movedim(0, -1).numpy()), small.depth.shape) for image in done.stack.images]
    outcome = Outcome(small, frames, distances, names, done.files, done.summary["warnings"])
    keep(out.parent, outcome, done.stack)


def keep(folder: Path, outcome: Outcome, stack: FocalStack) -> None:
    """What the page shows, both or neither."""
    contents = {STACK_FILE: pickle.dumps(stack), PAGE_FILE: pickle.dumps(outcome)}
    writers = {name: partial(_write, content) for name, content in contents.items()}
    write_set(folder, writers, lambda files: json_bytes({"files": files}), "page.json")


def _write(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


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
        principal_point=result.principal_point and tuple(at / step for at in result.principal_point),
    )


def _like(pixels: Pixels, shape: tuple[int, ...]) -> Pixels:
    import cv2

    if pixels.shape[:2] == shape:
        return pixels
    resized = cv2.resize(pixels, (shape[1], shape[0]), interpolation=cv2.INTER_AREA)
    return np.asarray(resized, dtype=np.uint8)
