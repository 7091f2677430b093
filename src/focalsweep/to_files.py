"""A stack's photos to a folder of results: what command line, `batch` and page do with the road of `estimate.py`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from focalsweep.errors import note_of
from focalsweep.progress import Progress, silent

if TYPE_CHECKING:
    import torch

    from focalsweep.estimate import Source
    from focalsweep.results.result import DepthResult
    from focalsweep.results.surface import Kind
    from focalsweep.sweep.known_distance import KnownDistance
    from focalsweep.types import DepthGrid, FocalStack

ALWAYS = ("depth.npz", "depth.png", "all_in_focus.png")  # files that every result has


@dataclass(frozen=True)
class Job:
    """How stacks are to be worked on; every part is checked before the work begins.

    Args:
        method, planes, refine, calibrate, strict, lens, memory, device: as `estimate_depth` takes them.
        known_distance: likewise.
        exports: files to write beside the usual ones, see `results.exports.EXPORTS`.
        sheet: write sheet.png as well.
        settings: of the photos, as `load_stack` takes them.
        surface: of exported meshes, as `DepthResult.save` takes it.
    """

    method: str = "sweep"
    device: torch.device | str = "cpu"
    planes: DepthGrid | None = None
    refine: bool = True
    calibrate: str = "auto"
    strict: bool = False
    lens: Any = "auto"
    memory: int | None = None
    known_distance: KnownDistance | None = None
    exports: Sequence[str] = ()
    sheet: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    surface: Kind = "closed"


@dataclass(frozen=True, eq=False)
class Written:
    """What came of a stack.

    Args:
        files: that were written.
        summary: frames, width, height, unit, near_m, median_m, far_m, warnings, seconds.
        result: what they hold.
        stack: the frames at the size that it was worked out at.
    """

    files: list[Path]
    summary: dict[str, Any]
    result: DepthResult
    stack: FocalStack


def estimate_to_files(photos: Source, output: Path, job: Job, progress: Progress = silent) -> Written:
    """Work on a stack, write its results, and say what came out."""
    from focalsweep.estimate import estimate
    from focalsweep.photos.photo_stack import Photos
    from focalsweep.results.contact_sheet import contact_sheet
    from focalsweep.results.folder import MANIFEST, finish_earlier, refuse_strangers
    from focalsweep.results.writing import write_result

    start = time.perf_counter()
    finish_earlier(output)
    refuse_strangers(output, [*ALWAYS, MANIFEST])  # before the work; and once more when it is written
    settings = {} if isinstance(photos, Photos) else job.settings
    found = estimate(
        photos, job.method, planes=job.planes, refine=job.refine, calibrate=job.calibrate, strict=job.strict,
        lens=job.lens, known_distance=job.known_distance, memory=job.memory, device=job.device, progress=progress,
        **settings,
    )  # fmt: skip
    result, stack = found.result, found.stack
    progress("writing", 0.0)
    sheet = {"sheet.png": contact_sheet(stack, result)} if job.sheet else {}
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        files = write_result(result, output, job.exports, progress, sheet, job.surface)
    notes = [*result.record["warnings"], *(note_of(warning.message) for warning in raised)]
    summary = {**result.record["summary"], "warnings": notes, "seconds": round(time.perf_counter() - start, 2)}
    return Written(files, summary, result, stack)
