"""The stacks of a batch on a Ray cluster: Ray Data hands names to a pool of workers, rows come back as they finish.

Names and rows are all that goes through Ray: photos and results go straight between the workers and the stores. Each
worker has a few stacks at a time and computes one of them, so that others are fetched and put away meanwhile.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from focalsweep.batch.one_stack import Row, work_on
from focalsweep.batch.stores import Store
from focalsweep.errors import InputError, Sentence, SettingError
from focalsweep.to_files import Job

STACKS_A_WORKER = 3  # at a time: one is fetched, one computed, one put away
RETRIES = 3  # of a stack whose worker was lost, in each of two rounds
CONNECT_TIMEOUT_S = 10.0
REMEDY = "start a cluster with ray start --head, or give {address=local} for one on this machine"


class ClusterError(SettingError, ConnectionError):
    """A cluster that cannot be reached."""


class Worker:
    """What lives in a process of the cluster: the network, loaded once."""

    def __init__(self, scans: Store, results: Store, job: Job, words: Mapping[str, str]) -> None:
        self._scans, self._results, self._job, self._words = scans, results, job, words
        self._computing = threading.Lock()
        if job.method == "sweep":
            from focalsweep.model.weights import load_network

            load_network("sweepnet", job.device)

    def __call__(self, item: dict[str, str]) -> dict[str, str]:
        row = work_on(
            item["stack"], self._scans, self._results, self._job, computing=self._computing, words=self._words
        )
        return {"row": json.dumps(row)}


def rows_from_ray(
    names: list[str],
    scans: Store,
    results: Store,
    job: Job,
    *,
    address: str,
    device: str,
    cores: int,
    words: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """The row of every stack, in the order in which they finish.

    The stacks of a worker or a machine that is lost are done again, a bounded number of times.

    Args:
        names: of the stacks, each once.
        scans, results: stores that all machines of the cluster reach under the same name.
        job: how; its device is chosen here.
        address: of the cluster, as `ray.init` takes it: "auto", HOST:PORT, or "local" for one on this machine.
        device: "auto" is GPUs where the cluster has them; each worker takes one.
        cores: of the CPU, for each worker.
        words: for the settings that messages and warnings name; by default the arguments' names.
    """
    for store in (scans, results):
        if store.url.startswith("memory://"):
            raise ValueError(
                f"{store.url} is the memory of one process: a cluster needs a place that all of it reaches"
            )
    scans, results = (Store(str(store.path.absolute())) if store.path else store for store in (scans, results))
    ray = _connect(address)
    try:
        needs, count = _pool(ray, job, device, cores)
        job = replace(job, device=torch.device("cuda" if needs.get("num_gpus") else "cpu"))
        left = dict.fromkeys(names)
        settings = (scans, results, job, words or {})
        # Those that come to nothing may only have shared a worker with one that kills it: they go again, each alone.
        for at_a_time in (STACKS_A_WORKER, 1):
            for row in _rows_of_pool(ray, list(left), settings, needs, count, at_a_time) if left else ():
                left.pop(row["stack"], None)
                yield row
        for name in left:
            message = Sentence(
                "{place}: its workers were lost, {times} times: too little memory? see {memory}",
                place=scans.place(name), times=2 * (1 + RETRIES),
            )  # fmt: skip
            yield {"stack": name, "status": "failed", "message": message.say(words or {})}
    finally:
        ray.shutdown()


def _rows_of_pool(
    ray: Any, names: list[str], settings: tuple[Any, ...], needs: dict[str, float], count: int, at_a_time: int
) -> Iterator[Row]:
    """The rows of the stacks that could be worked on; there is none for a stack whose workers were lost."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.max_errored_blocks = -1  # a stack that nobody survives must not end the others
    size = min(count, len(names))
    workers = ray.data.ActorPoolStrategy(
        min_size=1,  # fewer where machines were lost: then the others' work is theirs
        max_size=size,
        initial_size=size,
        max_tasks_in_flight_per_actor=at_a_time,
        max_concurrent_calls_per_actor=at_a_time,
        enable_true_multi_threading=True,
    )
    # One stack a block: the unit in which Ray Data schedules, retries and gives up.
    stacks = ray.data.from_items([{"stack": name} for name in names], override_num_blocks=len(names))
    with warnings.catch_warnings():
        # Ray gives this way up in 2.64 and names no other: hence the bound in pyproject.toml.
        warnings.filterwarnings("ignore", "`ray_remote_args_fn` is deprecated")
        rows = stacks.map(
            Worker,
            fn_constructor_args=settings,
            compute=workers,
            ray_remote_args_fn=lambda: {"max_task_retries": RETRIES},  # without end by default
            **needs,
        )
    for block in rows.iter_batches(batch_size=None, prefetch_batches=0):  # none is held back
        yield from map(json.loads, block["row"])


def _connect(address: str) -> Any:
    _check_answers(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what goes wrong on the way is mended on the way
    try:
        import ray
        import ray.data
    except ModuleNotFoundError:
        raise ModuleNotFoundError('a cluster needs Ray: pip install "focalsweep[cluster]"') from None
    here: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"} if address == "local" else {}
    for name in ("ray.data", "ray"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with _no_standard_error():  # Ray writes there that it is quiet
            ray.init(address=address, log_to_driver=False, configure_logging=False, **here)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise ClusterError(
            "{address} {value}: {reason}", field="address", value=address, reason=reason, remedy=REMEDY
        ) from None
    return ray


def _check_answers(address: str) -> None:
    """Somebody is there: Ray itself would wait for minutes, and then end the process."""
    host, colon, port = address.rpartition(":")
    if address in ("auto", "local"):
        return
    if not colon or "/" in address or not port.isdigit():
        raise InputError(
            "{address} must be {rule}, but is {value!r}",
            field="address", rule="HOST:PORT of a cluster's head, auto or local", value=address,
        )  # fmt: skip
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError):
        raise ClusterError(
            "{address} {value}: nobody answers there", field="address", value=address, remedy=REMEDY
        ) from None


@contextmanager
def _no_standard_error() -> Iterator[None]:
    """Also for what is not Python."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _pool(ray: Any, job: Job, device: str, cores: int) -> tuple[dict[str, float], int]:
    """What a worker takes, and how many of them the cluster has room for."""
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(
            "{device} must be {rule}, but is {value!r}", field="device", rule="auto, cpu or cuda", value=device
        )
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    on_gpu = device == "cuda" or (device == "auto" and any(node.get("GPU") for node in nodes))
    needs: dict[str, float] = {"num_cpus": cores}
    if on_gpu:
        needs["num_gpus"] = 1
    if job.memory is not None and not on_gpu:
        needs["memory"] = job.memory
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    count = int(sum(min(node.get(names[key], 0) // value for key, value in needs.items()) for node in nodes))
    if count < 1:
        asked = ", ".join(f"{names[key]} {value:g}" for key, value in needs.items())
        raise InputError(
            "no machine of the cluster has room for a worker ({asked})",
            field="cores", value=cores, asked=asked, remedy="see {cores}, {memory} and {device}",
        )  # fmt: skip
    return needs, count
