"""The processes that train together: one, or those that torchrun started; and the signals that end them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class Team:
    """Data parallel as a context: who I am, and what the processes must agree on.

    Under torchrun the processes talk through nccl on CUDA, gloo on the CPU, and each takes its own GPU. Stop signals
    and clocks go through gloo on either, so that agreeing never waits for a GPU.

    Args:
        device: where to train; "cuda" becomes the GPU of this process.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self._control: dist.ProcessGroup | None = None

    @property
    def is_main_process(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def __enter__(self) -> Team:
        if self.size > 1:
            # Processes that start anew would meet the addresses of those before them there (pytorch issue 135712).
            shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
            if shared and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")):
                raise ValueError(
                    "torchrun --max-restarts cannot restart with the store that it shares by default: start it with "
                    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment"
                )
            on_gpu = self.device.type == "cuda"
            if on_gpu:
                self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
                torch.cuda.set_device(self.device)
            dist.init_process_group("nccl" if on_gpu else "gloo")
            self._control = dist.new_group(backend="gloo")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._control is not None:
            dist.destroy_process_group()

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network with gradients averaged over the team; all start from the leader's weights."""
        if self.size == 1:
            return network
        return DistributedDataParallel(network, device_ids=[self.device] if self.device.type == "cuda" else None)

    def exchange(self, shared: nn.Module, now: bool) -> AbstractContextManager[None]:
        """Whether the gradients of a backward pass are averaged over the team, or only added up in this process."""
        return nullcontext() if now or not isinstance(shared, DistributedDataParallel) else shared.no_sync()

    def share(self, batches: int) -> int:
        """Of a step's batches, those of each process."""
        if batches % self.size:
            raise ValueError(
                f"the run has {batches} batches a step, which {self.size} processes cannot share evenly: resume with "
                f"a number of processes that divides {batches}"
            )
        return batches // self.size

    def check_same(self, step: int, path: Path) -> None:
        """All go on from the same step, or the weights would be a mixture of two."""
        if self.size > 1:
            ends = torch.tensor([step, -step])
            dist.all_reduce(ends, dist.ReduceOp.MAX, group=self._control)
            if int(ends[0]) != -int(ends[1]):
                raise ValueError(
                    f"{path}: the processes found checkpoints from step {-int(ends[1])} to step {int(ends[0])}: give a "
                    "folder that all machines share"
                )

    def agree(self, stop: bool, seconds: float) -> tuple[bool, float]:
        """Whether anyone was told to stop, and the latest clock: one answer for all, so that all take the same step."""
        if self.size == 1:
            return stop, seconds
        both = torch.tensor([float(stop), seconds], dtype=torch.float64)
        dist.all_reduce(both, dist.ReduceOp.MAX, group=self._control)
        return bool(both[0] > 0), float(both[1])

    def mean(self, values: Tensor) -> Tensor:
        """The mean over the team."""
        if self.size > 1:
            values = values.clone()
            dist.all_reduce(values)
            values /= self.size
        return values


@contextmanager
def stop_signals() -> Iterator[list[float]]:
    """A list that is empty until SIGINT or SIGTERM comes.

    Repeats change nothing, because torchrun and timeout send a signal twice; SIGINT again after a second or more, an
    impatient person's, acts at once.
    """
    received: list[float] = []
    before: dict[int, Any] = {}

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def receive(number: int, frame: Any) -> None:
        received.append(monotonic())
        if number == signal.SIGINT and received[-1] - received[0] >= 1:
            give_back()
            signal.raise_signal(number)

    if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
        before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        give_back()
