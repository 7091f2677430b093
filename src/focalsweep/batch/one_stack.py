"""The photos of one stack -> its result files, as `batch` does it for every stack, on any machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from focalsweep.batch.stores import Store
from focalsweep.errors import USER_ERRORS, explain, say
from focalsweep.progress import Progress, silent
from focalsweep.to_files import Job, estimate_to_files

Row = dict[str, Any]
"""A stack's line of the summary: see `summary.COLUMNS`."""
Answer = TypeVar("Answer")

PAUSES = (0.5, 2.0)  # seconds before another try: there are three


def work_on(
    name: str,
    scans: Store,
    results: Store,
    job: Job,
    progress: Progress = silent,
    computing: AbstractContextManager[Any] | None = None,
    words: Mapping[str, str] | None = None,
) -> Row:
    """A stack from store to store: its line of the summary, whether that went well or not.

    What a store refuses, or memory that is short, is tried again twice; bad input is not: it stays bad.

    Args:
        name: of the stack's folder in `scans`, and of the result's in `results`.
        scans, results: where from and where to.
        job: how.
        progress: told how far it is.
        computing: held while computing, but not while fetching and putting: threads that share it overlap.
        words: for the settings that messages and warnings name; by default the arguments' names.
    """
    start = time.perf_counter()
    copy = ""

    def compute(folder: Path, draft: Path) -> Row:
        with computing or nullcontext():
            summary = estimate_to_files(folder, draft, job, progress).summary
            return summary | {"warnings": [say(note, words or {}) for note in summary["warnings"]]}

    try:
        with tempfile.TemporaryDirectory(prefix="focalsweep-") as copy, results.draft() as draft:
            folder = retry(lambda: scans.fetch(name, Path(copy)))
            row = {"status": "done", **retry(lambda: compute(folder, draft), final=USER_ERRORS)}
            retry(lambda: results.put(draft, name))
    except Exception as error:  # one stack among thousands: whatever it is, the others go on
        message = explain(error, words) if isinstance(error, USER_ERRORS) else f"{type(error).__name__}: {error}"
        message = " ".join(message.split())
        row = {"status": "failed", "message": message.replace(copy, scans.place(name)) if copy else message}
    return {"stack": name, **row, "seconds": round(time.perf_counter() - start, 2)}


def retry(action: Callable[[], Answer], final: tuple[type[BaseException], ...] = ()) -> Answer:
    """The answer of the first try that succeeds, with a pause before each other; `final` errors end it at once."""
    for pause in PAUSES:
        try:
            return action()
        except final:
            raise
        except Exception:
            time.sleep(pause)
    return action()
