"""A Ray cluster on this machine that loses parts, and what the engine costs.

    python benchmarks/cluster.py OUT.json [CASE ...]

One head and two nodes of one core, all on the loopback. By default all cases; those left out stay as OUT.json has them.

- loss: 200 small stacks while a worker process is killed after a quarter and a node after half of them. Against the
  local command: are all there, once, bit for bit? Then the same stacks while the driver is killed half-way, and again
  with --resume: what is done twice?
- engine: empty folders, which fail at once: how many stacks a second are handed out and taken back.
- overhead: stacks of a second or more on two cores, the local command and the cluster in turn, because the machine is
  shared. Starting and ending are left out: from the 6th result to the 20th of 24. Seconds of the CPU are
  told beside those of the clock: other jobs on the machine change them less.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import torch
from loopback import (
    Cluster,
    Part,
    below,
    contents,
    finish,
    finished,
    kill,
    loopback_cluster,
    start_batch,
    wait_until,
    workers_of,
    write_stacks,
)

from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe

COUNT = 200
EMPTY = 2000
LONG, ROUNDS = 24, 3
WINDOW = (6, 20)  # of those: both workers have started, and neither has run out of stacks
Record = dict[str, Any]


def rows_of(output: Path) -> list[dict[str, str]]:
    with (output / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def compare(output: Path, local: Path) -> Record:
    """What is wrong with results, were it anything."""
    ours, theirs = contents(output), contents(local)
    lines = Counter(row["stack"] for row in rows_of(output))
    return {
        "results": len(finished(output)),
        "lines": sum(lines.values()),
        "stacks_with_two_lines": sum(count > 1 for count in lines.values()),
        "files": len(ours),
        "files_lost": len(set(theirs) - set(ours)),
        "files_left_over": len(set(ours) - set(theirs)),
        "files_that_differ": sum(ours[name] != theirs[name] for name in set(ours) & set(theirs)),
    }


def lose_parts(folder: Path) -> Record:
    scans, local = folder / "scans", folder / "local"
    write_stacks(scans, COUNT)
    start = time.perf_counter()
    assert finish(start_batch(scans, local)) == 0
    record: Record = {"stacks": COUNT, "local": {"seconds": time.perf_counter() - start}}
    print(record, flush=True)
    with loopback_cluster() as cluster:
        address = ("--ray", cluster.address)
        output = folder / "driver"
        driver = start_batch(scans, output, *address)
        wait_until(lambda: len(finished(output)) >= COUNT // 2, "half of them are done", 600)
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
        wait_until(lambda: not cluster.workers(), "its workers are gone")
        before = {name: (output / name / "run.json").stat().st_mtime_ns for name in finished(output)}
        assert finish(start_batch(scans, output, *address, "--resume")) == 0
        status = Counter(row["status"] for row in rows_of(output))
        again = sum((output / name / "run.json").stat().st_mtime_ns != told for name, told in before.items())
        record["driver_killed"] = {
            "done_before": len(before), "kept": status["kept"], "done_after": status["done"], "done_again": again,
            **compare(output, local),
        }  # fmt: skip
        print(record["driver_killed"], flush=True)

        output = folder / "parts"
        start = time.perf_counter()
        driver = start_batch(scans, output, *address)
        wait_until(lambda: len(finished(output)) >= COUNT // 4, "a quarter is done", 600)
        workers_of(cluster.nodes[0])[0].kill()
        wait_until(lambda: len(finished(output)) >= COUNT // 2, "half of them are done", 600)
        kill(cluster.nodes[1])
        assert finish(driver) == 0
        seconds = time.perf_counter() - start
        record["worker_and_node_killed"] = {"seconds": seconds, **compare(output, local)}
        print(record["worker_and_node_killed"], flush=True)
    return record


def watch(drivers: list[Part], cluster: Cluster | None, output: Path) -> Record:
    """Seconds a stack while all are at work, by the clock, of the workers' CPU and of the engine's."""

    def spent() -> tuple[float, float, float]:
        parts = cluster.parts if cluster else []
        started = {process.pid: process for part in parts for process in below(part)}
        for part in (*parts, *drivers):
            started[part.pid] = psutil.Process(part.pid)
        working = {process.pid for process in cluster.workers()} if cluster else {part.pid for part in drivers}
        seconds = {True: 0.0, False: 0.0}
        for process in started.values():
            with suppress(psutil.Error):
                times = process.cpu_times()
                seconds[process.pid in working] += times.user + times.system
        return time.perf_counter(), seconds[True], seconds[False]

    def done() -> int:
        return len(list(output.rglob("run.json")))

    samples = []
    for count in WINDOW:
        wait_until(lambda count=count: done() >= count, f"{count} are done", 600)  # type: ignore[misc]
        samples.append((done(), *spent()))
    assert [finish(driver) for driver in drivers] == [0] * len(drivers)
    stacks, *spans = (end - start for start, end in zip(*samples, strict=True))
    return {name: span / stacks for name, span in zip(("seconds", "worker_cpu_s", "engine_cpu_s"), spans, strict=True)}


def overhead(folder: Path) -> Record:
    """Two cores for both: two workers, or the local command twice with one thread, each with half of the stacks."""
    halves = [folder / "half_0", folder / "half_1"]
    write_stacks(folder / "all", LONG, 288, 384, tuple(range(7)))
    for number, stack in enumerate(sorted((folder / "all").iterdir())):
        shutil.copytree(stack, halves[number % 2] / stack.name)
    rounds = []
    with loopback_cluster() as cluster:
        for number in range(ROUNDS):
            load, output = os.getloadavg()[0], folder / f"round_{number}"
            here = [start_batch(half, output / "local" / half.name) for half in halves]
            local = watch(here, None, output / "local")
            driver = start_batch(folder / "all", output / "cluster", "--ray", cluster.address)
            there = watch([driver], cluster, output / "cluster")
            cpu = there["worker_cpu_s"] + there["engine_cpu_s"]
            rounds.append(
                {
                    "load_average": load, "local": local, "cluster": there,
                    "ratio": there["seconds"] / local["seconds"], "cpu_ratio": cpu / local["worker_cpu_s"],
                }
            )  # fmt: skip
            print(rounds[-1], flush=True)
    median = {name: statistics.median(row[name] for row in rounds) for name in ("ratio", "cpu_ratio")}
    return {"stacks": LONG, "rounds": rounds, "median": median}


def engine(folder: Path) -> Record:
    """The whole command for many empty folders, less the same for few: starting it takes as long for both."""
    seconds = {}
    with loopback_cluster() as cluster:
        for count in (2, EMPTY):
            scans = folder / f"empty-{count}"
            for number in range(count):
                (scans / f"{number:05d}").mkdir(parents=True)
            start = time.perf_counter()
            output = folder / f"engine-{count}"
            assert start_batch(scans, output, "--ray", cluster.address, "--quiet").wait() == 1
            seconds[count] = time.perf_counter() - start
            assert Counter(row["status"] for row in rows_of(output)) == {"failed": count}
    print(seconds, flush=True)
    return {"stacks": EMPTY, "stacks_a_second": (EMPTY - 2) / (seconds[EMPTY] - seconds[2])}


CASES = {"loss": lose_parts, "engine": engine, "overhead": overhead}


def main() -> None:
    output = Path(sys.argv[1])
    record = json.loads(output.read_text()) if output.is_file() else {}
    record |= {"benchmark": "cluster", **describe(torch.device("cpu"), 0)}
    for case in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as name:
            record[case] = CASES[case](Path(name))
    write_files({output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
