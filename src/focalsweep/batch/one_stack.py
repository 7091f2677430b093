"""The photos of one stack -> its result files: what `depth` does once and `batch` for every stack, on any machine."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from focalsweep.batch.stores import Store
from focalsweep.failures import FAILURES, sentence

if TYPE_CHECKING:
    import torch

    from focalsweep.from_photos import Stage
    from focalsweep.photos.reading import Photos
    from focalsweep.types import DepthGrid

Row = dict[str, Any]
"""A stack's line of the summary: see `summary.COLUMNS`."""
Answer = TypeVar("Answer")

PAUSES = (0.5, 2.0)  # seconds before another try: there are three


@dataclass(frozen=True)
class Job:
    """How stacks are to be worked on; every part is checked before the work begins."""

    method: str
    device: torch.device
    planes: DepthGrid | None
    refine: bool
    memory: int | None
    exports: list[str]
    sheet: bool
    relative: bool = False  # of `work_on`, which opens the photos itself


def estimate_to_files(photos: Photos, output: Path, job: Job, stage: Stage) -> tuple[list[Path], dict[str, Any]]:
    """Work on a stack, write its results, and say what came out."""
    import numpy as np

    from focalsweep.from_photos import depth_from_photos
    from focalsweep.results.contact_sheet import contact_sheet
    from focalsweep.results.writing import write_files

    start = time.perf_counter()
    result, stack = depth_from_photos(
        photos, job.method, planes=job.planes, refine=job.refine, memory=job.memory, device=job.device, stage=stage
    )
    stage("writing", 0.0)
    png = contact_sheet(stack, result) if job.sheet else b""
    known = result.depth[np.isfinite(result.depth)]
    near, median, far = np.quantile(known, [0.005, 0.5, 0.995]).tolist() if known.size else (None, None, None)
    height, width = result.depth.shape
    summary = {
        "frames": stack.frame_count, "width": width, "height": height,
        "near_m": near, "median_m": median, "far_m": far, "relative": photos.relative,
    }  # fmt: skip
    result = replace(result, record={**result.record, "summary": summary})
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        written = result.save(output, job.exports, lambda share: stage("writing", share))
    if png:
        written += write_files({output / "sheet.png": lambda file: file.write(png)})
    notes = [*result.record["warnings"], *(str(warning.message) for warning in raised)]
    return written, summary | {"warnings": notes, "seconds": round(time.perf_counter() - start, 2)}


def work_on(
    name: str,
    scans: Store,
    results: Store,
    job: Job,
    stage: Stage | None = None,
    computing: AbstractContextManager[Any] | None = None,
) -> Row:
    """A stack from store to store: its line of the summary, whether that went well or not.

    What a store refuses, or memory that is short, is tried again twice; bad input is not: it stays bad.

    Args:
        name: of the stack's folder in `scans`, and of the result's in `results`.
        scans, results: where from and where to.
        job: how.
        stage: called as the work goes on.
        computing: held while computing, but not while fetching and putting: threads that share it overlap.
    """
    from focalsweep.photos.reading import open_photos

    start = time.perf_counter()
    copy = ""

    def compute(folder: Path, draft: Path) -> Row:
        with computing or nullcontext():
            photos = open_photos(folder, relative=job.relative)
            return estimate_to_files(photos, draft, job, stage or (lambda name, share: None))[1]

    try:
        with tempfile.TemporaryDirectory(prefix="focalsweep-") as copy, results.draft() as draft:
            folder = patiently(lambda: scans.fetch(name, Path(copy)))
            row = {"status": "done", **patiently(lambda: compute(folder, draft), final=FAILURES)}
            patiently(lambda: results.put(draft, name))
    except Exception as error:  # one stack among thousands: whatever it is, the others go on
        told = sentence(error) if isinstance(error, FAILURES) else f"{type(error).__name__}: {error}"
        told = " ".join(told.split())
        row = {"status": "failed", "message": told.replace(copy, scans.place(name)) if copy else told}
    return {"stack": name, **row, "seconds": round(time.perf_counter() - start, 2)}


def patiently(action: Callable[[], Answer], final: tuple[type[BaseException], ...] = ()) -> Answer:
    """The answer of the first try that succeeds, with a pause before each other; `final` errors end it at once."""
    for pause in PAUSES:
        try:
            return action()
        except final:
            raise
        except Exception:
            time.sleep(pause)
    return action()
