"""What a run tells: a bar for people, log.jsonl for programs, pictures, and TensorBoard where it is installed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from torch import Tensor

from focalsweep.results.writing import write_files


class RunLogger:
    """Writes into the run's folder; in a process that does not lead, nothing.

    log.jsonl has one object a line: {"step", "loss", "learning_rate", "gradient_norm", "samples_per_second", "seconds",
    "figures"} where the run logs, with means since the line before, and {"step", "seconds", "validation"} where it
    validates. A figure that is not finite is null.

    Args:
        folder: of the run; made if it is not there.
        from_step: a resumed run's first step: what was logged beyond it will happen again and is cut off.
        active: whether this process writes.
        console: for people; standard error by default.
    """

    def __init__(self, folder: Path, from_step: int, active: bool = True, console: Console | None = None) -> None:
        self._folder, self._active = folder, active
        self._console = console or Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._console, disable=not (active and self._console.is_terminal))
        self._task = self._bar.add_task("training", total=1.0)
        self._file: IO[str] | None = None
        self._board: Any = None
        if active:
            folder.mkdir(parents=True, exist_ok=True)
            _cut(folder / "log.jsonl", from_step)
            self._board = self._find_board(from_step)

    def _find_board(self, from_step: int) -> Any:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.say('no curves for TensorBoard: it is not installed (pip install "focalsweep-research")')
            return None
        return SummaryWriter(str(self._folder / "tensorboard"), purge_step=from_step + 1)  # type: ignore[no-untyped-call]

    def __enter__(self) -> RunLogger:
        if self._active:
            self._file = (self._folder / "log.jsonl").open("a")
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()
        if self._file is not None:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def say(self, sentence: str) -> None:
        if self._active:
            self._console.print(sentence, highlight=False, soft_wrap=True)

    def progress(self, share: float) -> None:
        """Move the bar; the time left is read off the share of the run that is done."""
        self._bar.update(self._task, completed=share)

    def training(self, record: dict[str, Any], figures: Mapping[str, float], steps: int) -> None:
        """What the steps since the last line came to."""
        self._write({**record, "figures": dict(figures)})
        shown = (
            f"step {record['step']}/{steps}  loss {record['loss']:.4g}  {record['samples_per_second']:.3g} samples/s"
        )
        self._bar.update(self._task, description=shown)
        names = ("loss", "learning_rate", "gradient_norm", "samples_per_second")
        self._curves("train", {name: record[name] for name in names} | dict(figures), record["step"])

    def validation(self, step: int, seconds: float, figures: Mapping[str, float]) -> None:
        self._write({"step": step, "seconds": seconds, "validation": dict(figures)})
        self._curves("validation", figures, step)
        self.say(f"step {step}: validation " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))

    def pictures(self, step: int, pictures: Mapping[str, Tensor]) -> None:
        """Pictures (C H W in 0..1, display-encoded) as pictures/NAME_STEP.png, and on TensorBoard."""
        from PIL import Image

        folder = self._folder / "pictures"
        folder.mkdir(exist_ok=True)
        for name, picture in pictures.items():
            pixels = picture.detach().float().clamp(0, 1).mul(255).round().to("cpu", torch.uint8).movedim(0, -1)
            image = Image.fromarray(pixels.squeeze(-1).numpy())
            write_files({folder / f"{name}_{step:07d}.png": lambda file, image=image: image.save(file, "png")})  # type: ignore[misc]
            if self._board is not None:
                self._board.add_image(name, pixels, step, dataformats="HWC")

    def _write(self, record: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(_finite(record), allow_nan=False) + "\n")
            self._file.flush()

    def _curves(self, group: str, figures: Mapping[str, float], step: int) -> None:
        if self._board is not None:
            for name, value in figures.items():
                self._board.add_scalar(f"{group}/{name}", value, step)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut(path: Path, step: int) -> None:
    """Drop the lines beyond `step`, and a last one that a crash left half-written."""
    kept = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except ValueError:
            break
    if path.exists():
        write_files({path: lambda file: file.write("".join(kept).encode())})
