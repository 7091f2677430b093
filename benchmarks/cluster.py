"""A Ray cluster on this machine that loses parts, and what the engine costs: python benchmarks/cluster.py OUT.json

One head and two nodes of one core, all on the loopback.

- 200 small stacks while a worker process is killed after a quarter and a node after half of them; against the local
  command: are all there, once, bit for bit?
- The same stacks while the driver is killed half-way, and again with --resume: what is done twice?
- Stacks of a second or more: the local command and the cluster on the same core, in turn, because the machine is
  shared. Starting Python, Ray and the workers is left out: the time is that between the second and the last result.
- Empty folders, which fail at once: how many stacks a second the engine hands out and takes back.
"""

from __future__ import annotations

import csv
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from loopback import (
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

from focalsweep.evaluation.environment import describe
from focalsweep.results.writing import json_bytes, write_files

COUNT = 200
EMPTY = 2000
LONG, ROUNDS = 8, 3
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


def seconds_a_stack(output: Path) -> float:
    """Between the second result and the last: the first has what is loaded once."""
    times = sorted(path.stat().st_mtime for path in output.glob("*/run.json"))
    return (times[-1] - times[1]) / (len(times) - 2)


def overhead(folder: Path) -> Record:
    """The same core for both: one worker on a cluster of one node, one thread here."""
    scans = folder / "long"
    write_stacks(scans, LONG, 288, 384, tuple(range(7)))
    rounds = []
    with loopback_cluster(nodes=1) as cluster:
        for number in range(ROUNDS):
            row: Record = {"load_average": os.getloadavg()[0]}
            for name, options in (("local", ()), ("cluster", ("--ray", cluster.address))):
                output = folder / f"{name}-{number}"
                assert finish(start_batch(scans, output, *options)) == 0
                row[f"{name}_seconds_a_stack"] = seconds_a_stack(output)
                shutil.rmtree(output)
            row["ratio"] = row["cluster_seconds_a_stack"] / row["local_seconds_a_stack"]
            rounds.append(row)
            print(row, flush=True)
    ratios = [row["ratio"] for row in rounds]
    return {"stacks": LONG, "rounds": rounds, "median_ratio": statistics.median(ratios)}


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


def main() -> None:
    record = {"benchmark": "cluster", **describe(torch.device("cpu"), 0)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record |= {"loss": lose_parts(folder), "engine": engine(folder), "overhead": overhead(folder)}
    write_files({Path(sys.argv[1]): lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
