"""The training loop. It knows neither costs nor networks: data come from a `Source`, the rest from a `Loss`.

Step s of process r among R, the a-th of A batches that it adds up, asks the source for batch (s * A + a) * R + r. A
source that numbers its samples (batch k of size n holds samples k n to k n + n - 1) thus gives R processes together
exactly what one process with R * A times the batch would see. Data depend on the step alone, and so does the loop's
randomness, which is seeded anew before every batch: a resumed run needs no state of either and, on the CPU and without
a time limit, repeats the uninterrupted one bit for bit. Resumed by another number of processes it still sees A * R
batches a step: each process adds up more of them, or fewer.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Literal

import torch
from rich.console import Console
from torch import Tensor, nn

from focalsweep_research.synthesis.sample import Sample, Source
from focalsweep_research.training.checkpoint import Checkpoint, read_checkpoint, restore, write_checkpoint
from focalsweep_research.training.config import TrainingConfig
from focalsweep_research.training.processes import Team, stop_signals
from focalsweep_research.training.run_logger import RunLogger

Loss = Callable[[nn.Module, Sample], tuple[Tensor, Mapping[str, Tensor]]]
"""(network, sample) -> the scalar to lower and scalar figures to report: the same names every time, on the same device.

It calls the network as a function (so that data parallel sees the call), and runs under autocast in bfloat16: physics
that needs float32 says so itself."""

Pictures = Callable[[nn.Module], Mapping[str, Tensor]]
"""The averaged network -> pictures by name, C H W in 0..1."""

Resume = bool | Literal["if any"]
Status = Literal["finished", "time limit", "stopped"]

CHECKPOINT = "checkpoint.pt"
UNBOUND = ("validate_every", "validation_samples", "checkpoint_every", "log_every")
"""Settings that a resumed run may change: its trajectory stays."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended, after how many steps and seconds in all, the last validation, and where its checkpoint is."""

    status: Status
    step: int
    seconds: float
    validation: dict[str, float]
    checkpoint: Path


def learning_rate_at(config: TrainingConfig, step: int, time_share: float = 0.0) -> float:
    """Linear warm-up, then half a cosine to 0.

    Args:
        config: for the peak, the warm-up and the steps of the whole run.
        step: updates done before this one.
        time_share: of the time limit that has passed; where it is ahead of the steps it drives the cosine, so that
            the rate has come down when the time is up.
    """
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    start = config.warmup_steps / config.steps
    progress = (max(step / config.steps, time_share) - start) / (1 - start)
    return config.learning_rate * warmup * 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))


def channels_last(network: nn.Module) -> None:
    """Weights of convolutions as a GPU's tensor cores read them; PaperNet trains twice as fast."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    for parameter in network.parameters():
        if parameter.ndim in formats:
            parameter.data = parameter.data.contiguous(memory_format=formats[parameter.ndim])


def slow_norms(network: nn.Module) -> None:
    """Batch norms that keep the mean statistics of many batches, to be frozen later."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.01


def freeze_norms(network: nn.Module) -> None:
    """Batch norms as they predict.

    Where batches are of several kinds (whole pictures, parts), the statistics of none are those of all: what is trained
    with each batch's own must learn to live with their mean before it ships.
    """
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


@torch.no_grad()
def update_average(average: nn.Module, network: nn.Module, decay: float, step: int) -> None:
    """Exponential moving average of the weights after update number `step` (from 1); other state is copied.

    The decay starts low, min(decay, (1 + step) / (10 + step)), or the first weights would linger in short runs. The
    statistics of norms are copied: averaged, a batch of large activations lingers (a small DDFF's loss: 4.6, not 3.8).
    """
    weight = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), weight)
    for kept, current in zip(average.buffers(), network.buffers(), strict=True):
        kept.copy_(current)


def make_optimizer(config: TrainingConfig, network: nn.Module) -> torch.optim.Optimizer:
    """AdamW; weights decay, biases and norms (one axis) do not."""
    weights = [p for p in network.parameters() if p.requires_grad and p.ndim >= 2]
    rest = [p for p in network.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": weights, "weight_decay": config.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    fused = next(network.parameters()).is_cuda
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=config.learning_rate, fused=fused)


def train(
    config: TrainingConfig,
    network: nn.Module,
    source: Source,
    loss: Loss,
    output_folder: str | Path,
    *,
    validation_source: Source | None = None,
    pictures: Pictures | None = None,
    device: torch.device | str = "cpu",
    resume: Resume = False,
    time_limit_minutes: float | None = None,
    console: Console | None = None,
) -> Outcome:
    """Train a network in place; the folder receives checkpoint.pt, log.jsonl, pictures/ and tensorboard/.

    SIGINT and SIGTERM end the run after the step at hand, with a checkpoint; SIGINT again, a second later, at once.
    Under torchrun every process calls this; the first one writes, and all must see the folder to resume.

    Args:
        config: the run's settings.
        network: its weights are the start of a new run; batch norms keep statistics for each process.
        source: of the training batches.
        loss: what to lower.
        output_folder: of this run alone.
        validation_source: its first `validation_samples` are seen by the averaged weights every `validate_every` steps
            and at the end, unless a signal ended the run.
        pictures: called with the averaged network at every validation.
        device: where to train; under torchrun "cuda" is the GPU of each process.
        resume: go on from the folder's checkpoint; "if any": or start, where there is none yet, as processes do that
            are started anew when one of them was lost.
        time_limit_minutes: of training, counted over all sittings of the run; a last validation comes on top.
        console: for people; standard error by default.

    Returns:
        How it ended.

    Raises:
        FloatingPointError: the loss or its gradient stopped being finite; the last checkpoint is still good.
    """
    folder = Path(output_folder)
    if time_limit_minutes is not None and not time_limit_minutes > 0:
        raise ValueError(f"the time limit must be above 0 minutes, but is {time_limit_minutes:g}")
    limit = math.inf if time_limit_minutes is None else 60 * time_limit_minutes
    began = perf_counter()
    checkpoint = _find_checkpoint(config, folder, resume)
    step = checkpoint.step if checkpoint else 0
    with Team(device) as team, stop_signals() as stop, RunLogger(folder, step, team.is_main_process, console) as log:
        team.check_same(step, folder / CHECKPOINT)
        accumulate = team.share(checkpoint.batches) if checkpoint and checkpoint.batches else config.accumulate
        network = network.to(team.device).train()
        if config.freeze_norms_at < 1:
            slow_norms(network)
        if team.device.type == "cuda":
            channels_last(network)
            torch.backends.cudnn.benchmark = True  # all batches have one shape: the quickest convolutions are looked up
        optimizer = make_optimizer(config, network)
        shared = team.wrap(network)
        average = copy.deepcopy(network).eval().requires_grad_(False)
        if checkpoint:
            restore(network, checkpoint.network, folder / CHECKPOINT)
            restore(average, checkpoint.ema, folder / CHECKPOINT)
            optimizer.load_state_dict(checkpoint.optimizer)
            began -= checkpoint.seconds
        window = _Window(config, team, config.batch_size * accumulate * team.size)
        validation: dict[str, float] = {}

        def save() -> None:
            if team.is_main_process:
                states = (network.state_dict(), average.state_dict(), optimizer.state_dict())
                written = Checkpoint(*states, step, perf_counter() - began, config, accumulate * team.size)
                write_checkpoint(folder / CHECKPOINT, written)

        def validate() -> None:
            if validation_source is not None:
                validation.update(_validate(config, average, validation_source, loss, team))
                log.validation(step, perf_counter() - began, validation)
                if pictures is not None and team.is_main_process:
                    with torch.no_grad(), _autocast(config, team.device):
                        log.pictures(step, pictures(average))

        while True:
            stopped, seconds = team.agree(bool(stop), perf_counter() - began)
            time_share = seconds / limit
            log.progress(min(1.0, max(step / config.steps, time_share)))
            status = _status(stopped, step >= config.steps, time_share >= 1)
            if status is not None:
                break

            if max(step / config.steps, time_share) >= config.freeze_norms_at:
                freeze_norms(network)
            rate = learning_rate_at(config, step, time_share)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            parts = []
            for part in range(accumulate):
                batch = (step * accumulate + part) * team.size + team.rank
                _seed(config, batch)
                sample = source(batch, config.batch_size, team.device)
                with team.exchange(shared, part == accumulate - 1):
                    with _autocast(config, team.device):
                        value, figures = loss(shared, sample)
                    (value / accumulate).backward()  # type: ignore[no-untyped-call]
                parts.append(_row(value, *figures.values()))
            norm = nn.utils.clip_grad_norm_(network.parameters(), config.gradient_clip)
            optimizer.step()
            step += 1
            update_average(average, network, config.ema_decay, step)
            window.add(torch.stack(parts).mean(0), norm, list(figures))

            due = [step % every == 0 for every in (config.log_every, config.validate_every, config.checkpoint_every)]
            if any(due):  # before a checkpoint always, so that none is written of a run gone astray
                window.close(log, step, rate, perf_counter() - began)
            if due[1]:
                validate()
            if due[2]:
                save()
            if any(due[1:]):
                window.restart()

        if window.rows:
            window.close(log, step, rate, perf_counter() - began)
        save()
        if status != "stopped" and step % config.validate_every:
            validate()
        seconds = perf_counter() - began
        log.say(f"{status} at step {step} after {seconds / 60:.1f} min: {folder / CHECKPOINT}")
    return Outcome(status, step, seconds, validation, folder / CHECKPOINT)


class _Window:
    """Losses, gradient norms and figures since the last line of the log, left on the device: no step waits."""

    def __init__(self, config: TrainingConfig, team: Team, samples: int) -> None:
        self._config, self._team, self._samples = config, team, samples
        self.names: list[str] = []
        self.restart()

    def restart(self) -> None:
        self.rows: list[Tensor] = []
        self._began = perf_counter()

    def add(self, row: Tensor, norm: Tensor, names: list[str]) -> None:
        """A step's loss and the figures of these names, in `row`, and its gradient's norm."""
        self.names = names
        self.rows.append(torch.cat([row[:1], _row(norm), row[1:]]))

    def close(self, log: RunLogger, step: int, rate: float, seconds: float) -> None:
        """Check and log the steps, the last of which is number `step`, and begin anew."""
        rows = self._team.mean(torch.stack(self.rows)).tolist()
        for number, row in enumerate(rows, start=step - len(rows) + 1):
            for name, value in zip(("loss", "gradient's norm"), row, strict=False):
                if not math.isfinite(value):
                    raise FloatingPointError(
                        f"step {number}: the {name} is {value}: look at the data of that step, or train anew with a "
                        f"learning_rate below {self._config.learning_rate:g}"
                    )
        loss, norm, *figures = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        samples = len(rows) * self._samples
        record = {"step": step, "loss": loss, "learning_rate": rate, "gradient_norm": norm}
        record |= {"samples_per_second": samples / max(perf_counter() - self._began, 1e-9), "seconds": seconds}
        log.training(record, dict(zip(self.names, figures, strict=True)), self._config.steps)
        self.restart()


@torch.no_grad()
def _validate(config: TrainingConfig, network: nn.Module, source: Source, loss: Loss, team: Team) -> dict[str, float]:
    """Means of the loss and its figures over the validation samples."""
    rows, names = [], ["loss"]
    for i in range(math.ceil(config.validation_samples / (config.batch_size * team.size))):
        batch = i * team.size + team.rank
        _seed(config, batch)
        sample = source(batch, config.batch_size, team.device)
        with _autocast(config, team.device):
            value, figures = loss(network, sample)
        rows.append(_row(value, *figures.values()))
        names = ["loss", *figures]
    means = team.mean(torch.stack(rows).mean(0)).tolist()
    return dict(zip(names, means, strict=True))


def _find_checkpoint(config: TrainingConfig, folder: Path, resume: Resume) -> Checkpoint | None:
    path = folder / CHECKPOINT
    if not resume or (resume == "if any" and not path.exists()):
        if path.exists():
            raise ValueError(f"{path} exists: resume that run, or give another folder")
        return None
    checkpoint = read_checkpoint(path)
    trained = checkpoint.config.to_dict()
    for name, value in config.to_dict().items():
        if name not in UNBOUND and trained[name] != value:
            raise ValueError(
                f"{path} was trained with {name} = {trained[name]!r}, the config has {value!r}: resume with the same, "
                "or give another folder"
            )
    return checkpoint


def _status(stopped: bool, finished: bool, out_of_time: bool) -> Status | None:
    return "finished" if finished else "stopped" if stopped else "time limit" if out_of_time else None


def _row(*values: Tensor) -> Tensor:
    return torch.stack([value.detach().float() for value in values])


def _autocast(config: TrainingConfig, device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.precision == "bfloat16")


def _seed(config: TrainingConfig, batch: int) -> None:
    torch.manual_seed((config.seed * 1_000_003 + batch) % 2**32)  # the CPU's generator reads 32 bits
