"""What a million stacks take, from what one core takes: python benchmarks/scale.py OUT.json CLUSTER.json

Measures the parts of the work on one core by size, frames and planes, and how much equal stacks differ in time; fits
the model of cost; then plays a cluster of 16 machines of 64 cores through a million stacks, with slow stacks as they
were measured and losses that are assumed. CLUSTER.json is the result of benchmarks/cluster.py: how many stacks a second
Ray hands out.
"""

from __future__ import annotations

import heapq
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from loopback import write_stacks

from focalsweep.batch.on_ray import STACKS_A_WORKER
from focalsweep.photos.reading import open_photos
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.to_files import Job, estimate_to_files
from focalsweep.types import DepthGrid
from focalsweep_research.environment import describe

CASES = ((1, 3, 64), (1, 7, 64), (2, 3, 64), (2, 7, 64), (2, 7, 32), (3, 5, 64), (6, 5, 64))  # tiles, frames, planes
REPEATS = 60
STACKS = 1_000_000
MACHINES, CORES = 16, 64
SIMULATED = 5  # the case that is played
Record = dict[str, Any]


def make_stack(folder: Path, tiles: int, frames: int) -> Path:
    """The demo stack, mirrored to so many times its height and width: more pixels, the same blur; to be aligned too."""
    chosen = tuple(np.linspace(0, 6, frames).round().astype(int).tolist())
    write_stacks(folder, 1, 288, 384, chosen)
    stack = folder / "stack_00000"
    settings = (stack / "stack.toml").read_text()
    (stack / "stack.toml").write_text(settings.replace("aligned = true", "aligned = false"))
    for path in stack.glob("*.png"):
        picture = cv2.imread(str(path))
        assert picture is not None
        rows = np.concatenate([picture[:: (-1) ** k] for k in range(tiles)])
        cv2.imwrite(str(path), np.concatenate([rows[:, :: (-1) ** k] for k in range(tiles)], axis=1))
    return stack


def measure(stack: Path, output: Path, planes: int) -> Record:
    """CPU seconds of each part (the clock's tell of other jobs too), pixels and bytes."""
    seconds: dict[str, float] = {}
    began, since, part = time.perf_counter(), time.process_time(), "opening"

    def stage(name: str, share: float) -> None:
        nonlocal since, part
        now = time.process_time()
        seconds[part] = seconds.get(part, 0.0) + now - since
        since, part = now, "sweeping" if name == "network" else name

    grid = None if planes == 64 else DepthGrid.uniform_in_inverse_depth(0.35, 1.2, planes)
    summary = estimate_to_files(open_photos(stack), output, Job(planes=grid), stage).summary
    stage("", 1.0)
    clock = time.perf_counter() - began
    worked = json.loads((output / "run.json").read_text())["worked_at"]
    return {
        "megapixels": summary["width"] * summary["height"] / 1e6, "frames": summary["frames"], "planes": planes,
        "worked_megapixels": worked["width"] * worked["height"] / 1e6, "seconds": seconds, "clock_s": clock,
        "bytes_in": sum(path.stat().st_size for path in stack.iterdir()),
        "bytes_out": sum(path.stat().st_size for path in output.iterdir()),
    }  # fmt: skip


def fit(rows: list[Record]) -> Record:
    """Sweep and network by planes x pixels worked on, more with each frame; the rest by frames x pixels."""
    swept = [row["seconds"]["sweeping"] for row in rows]
    rest = [sum(row["seconds"].values()) - row["seconds"]["sweeping"] for row in rows]
    planes = np.array([row["planes"] * row["worked_megapixels"] for row in rows])
    frames, pixels = (np.array([row[key] for row in rows]) for key in ("frames", "megapixels"))
    one = np.ones(len(rows))
    found: Record = {}
    for name, seconds, terms in (
        ("sweep", swept, {"planes_mp_s": planes, "frames_planes_mp_s": frames * planes}),
        ("rest", rest, {"fixed_s": one, "mp_s": pixels, "frames_mp_s": frames * pixels}),
    ):
        matrix = np.stack(list(terms.values()), axis=1) / np.array(seconds)[:, None]  # errors as shares
        factors = np.linalg.lstsq(matrix, one, rcond=None)[0]
        worst = float(np.abs(matrix @ factors - 1).max())
        found[name] = dict(zip(terms, factors.tolist(), strict=True)) | {"worst_error": worst}
    return found


def spread(stack: Path, folder: Path) -> list[float]:
    """Seconds of the same stack again and again as shares of their median, by the clock: what a shared machine does."""
    seconds = [measure(stack, folder / "again", 64)["clock_s"] for _ in range(REPEATS)]
    return sorted((np.array(seconds) / np.median(seconds)).tolist())


def play(
    seconds: float,
    shares: list[float],
    *,
    slow_machines: int = 0,
    lost_stacks: float = 0.0,
    hours_between_losses: float = np.inf,
    away_s: float = 300.0,
    start_s: float = 10.0,
) -> Record:
    """A cluster through all stacks, each worker with a few in hand.

    Args:
        seconds: of a stack on one core.
        shares: of it that stacks really take; each draws one.
        slow_machines: work at half the speed.
        lost_stacks: share of the stacks that end their worker half-way.
        hours_between_losses: of one machine, on average; another takes its place after `away_s`.
        start_s: until a new worker works.
    """
    random = np.random.default_rng(0)
    workers = MACHINES * CORES
    shelf, held = STACKS - STACKS_A_WORKER * workers, [STACKS_A_WORKER] * workers
    losses = [random.exponential(hours_between_losses * 3600) for _ in range(MACHINES)]
    hit = [0.0] * workers  # the last loss of its machine that a worker has felt
    events = [(0.0, worker) for worker in range(workers)]
    draws: list[tuple[float, float]] = []
    done = again = 0
    idle_from = end = 0.0
    while done < STACKS:
        now, worker = heapq.heappop(events)
        machine = worker // CORES
        if not draws:
            draws = list(zip(random.choice(shares, 100_000).tolist(), random.random(100_000).tolist(), strict=True))
        share, luck = draws.pop()
        length = seconds * share * (2 if machine < slow_machines else 1)
        if losses[machine] <= now + length and hit[worker] < losses[machine]:
            hit[worker] = losses[machine]
            again += 1
            heapq.heappush(events, (max(now, losses[machine]) + away_s + start_s, worker))
            if all(hit[machine * CORES + core] == losses[machine] for core in range(CORES)):
                losses[machine] += away_s + random.exponential(hours_between_losses * 3600)
            continue
        if luck < lost_stacks:
            again += 1
            heapq.heappush(events, (now + length / 2 + start_s, worker))
            continue
        done, end = done + 1, max(end, now + length)
        if shelf:
            shelf -= 1
        else:
            held[worker] -= 1
        if held[worker]:
            heapq.heappush(events, (now + length, worker))
        else:
            idle_from = idle_from or now + length
    ideal = STACKS * seconds * float(np.mean(shares)) / workers
    return {"hours": end / 3600, "efficiency": ideal / end, "computed_again": again, "tail_s": end - idle_from}


def main() -> None:
    torch.set_num_threads(1)
    output, cluster = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    record: Record = {"benchmark": "scale", **describe(torch.device("cpu"), 0), "load_average": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stacks = [make_stack(folder / f"case_{i}", tiles, frames) for i, (tiles, frames, _) in enumerate(CASES)]
        measure(stacks[0], folder / "warm", 64)
        rows = []
        for i, (_, _, planes) in enumerate(CASES):
            rows.append(measure(stacks[i], folder / f"out_{i}", planes))
            print(rows[-1], flush=True)
        shares = spread(stacks[0], folder)
    seconds = sum(rows[SIMULATED]["seconds"].values())
    print(fit(rows), f"{shares[0]:.2f} to {shares[-1]:.2f}", flush=True)
    slow: Record = {"slow_machines": 1}
    workers_lost = slow | {"lost_stacks": 1e-4}
    cases: dict[str, tuple[list[float], Record]] = {
        "all stacks alike": ([1.0], {}),
        "stacks differ as measured": (shares, {}),
        "and one machine works at half the speed": (shares, slow),
        "and one stack in 10 000 ends its worker": (shares, workers_lost),
        "and every machine is lost once a day": (shares, workers_lost | {"hours_between_losses": 24.0}),
        "and every machine is lost once an hour": (shares, workers_lost | {"hours_between_losses": 1.0}),
    }
    scenarios = {name: play(seconds, drawn, **options) for name, (drawn, options) in cases.items()}
    record |= {
        "stacks": STACKS, "machines": MACHINES, "cores": CORES, "rows": rows, "model": fit(rows), "shares": shares,
        "engine_stacks_a_second": cluster["engine"]["stacks_a_second"], "simulated": SIMULATED, "scenarios": scenarios,
    }  # fmt: skip
    for scenario, found in scenarios.items():
        print(scenario, found, flush=True)
    write_files({output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
