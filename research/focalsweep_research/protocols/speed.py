"""`focalsweep bench speed`: the sweep against a straightforward pipeline and against the transforms it cannot avoid.

One run measures everything on the same input, in turn, so that ratios mean something on a noisy machine. The floor is
given twice: as inverse transforms of real images, the textbook way, and as we do them, two planes in one complex
transform.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from focalsweep.estimate import predict
from focalsweep.methods.sweep import read_volume
from focalsweep.model.blocks import fold_batch_norms
from focalsweep.model.papernet import PaperNet
from focalsweep.model.weights import load_network
from focalsweep.optics.light import linear_to_srgb
from focalsweep.sweep.colour import project_to_dominant_colour
from focalsweep.sweep.costs import find_cost
from focalsweep.sweep.frames import sharpest_frames
from focalsweep.sweep.volume import cost_volume, plan_sweep
from focalsweep.sweep.workers import map_chunks
from focalsweep.types import Camera, DepthGrid, FocalStack
from focalsweep_research.environment import describe

FOCUS_DISTANCES = (0.1, 0.15, 0.3, 0.7, 1.5)
SEED = 0
Say = Callable[[str], None]


def benchmark_stack(height: int, width: int, frames: int, device: torch.device) -> FocalStack:
    """Noise in the paper's camera (Table 1): a sweep takes as long for any picture."""
    near, far = 1 / FOCUS_DISTANCES[0], 1 / FOCUS_DISTANCES[-1]
    distances = FOCUS_DISTANCES if frames == 5 else tuple(1 / u for u in torch.linspace(near, far, frames).tolist())
    generator = torch.Generator(device=device).manual_seed(SEED)
    images = torch.rand((frames, 3, height, width), device=device, generator=generator).mul_(0.5).add_(0.25)
    return FocalStack(images, distances, Camera(2.9e-3, 1.0, 3.1e-3 / 256))  # type: ignore[arg-type]


def measure_speed(device: torch.device, rival: Path, repeats: int, say: Say) -> dict[str, Any]:
    """Both costs, their floors and the rival at 5 x 256 x 256 RGB, 64 planes: seconds, median and spread."""
    stack = benchmark_stack(256, 256, 5, device)
    planes = DepthGrid.uniform_in_depth()
    jobs: dict[str, Callable[[], Any]] = {}
    for name, images in (("paper", 5), ("reblur", 6)):
        jobs[name] = lambda name=name: cost_volume(stack, planes, name)  # type: ignore[misc]
        grid = plan_sweep(stack.as_batch(), planes, find_cost(name), "mirror", None).grid
        jobs |= floors(name, images * 3 * planes.count, grid.height, grid.width, device)
    jobs |= networks(stack)
    if module := load_rival(rival):
        jobs["scikit-image"] = lambda: run_rival(module, stack, planes)
    seconds = time_jobs(jobs, device, repeats, say)
    results = {name: summary(times) for name, times in seconds.items()}
    median = {name: result["median_s"] for name, result in results.items()}
    ratios = {
        "paper / floor of real transforms": median["paper"] / median["paper floor, real"],
        "paper / floor of paired transforms": median["paper"] / median["paper floor, paired"],
        "reblur / floor of real transforms": median["reblur"] / median["reblur floor, real"],
        "reblur / floor of paired transforms": median["reblur"] / median["reblur floor, paired"],
        "reblur / paper": median["reblur"] / median["paper"],
        "PaperNet + paper / sweep, end to end": median["PaperNet + paper, end to end"] / median["sweep, end to end"],
    }
    if "scikit-image" in median:
        ratios["scikit-image / paper"] = median["scikit-image"] / median["paper"]
    return {
        "input": {"frames": 5, "channels": 3, "height": 256, "width": 256, "planes": 64, "transform": grid.width},
        "device": device.type,
        "results": results,
        "ratios": ratios,
    }


def networks(stack: FocalStack) -> dict[str, Callable[[], Any]]:
    """Photos in memory to depth: ours, and the paper's cost read by the paper's network; both networks alone too."""
    batch, device = stack.as_batch(), stack.images.device
    planes = DepthGrid.uniform_in_inverse_depth(0.1, 3.0, 64)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    paper_net = fold_batch_norms(PaperNet().eval()).to(device, dtype)
    paper_net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def read_paper(volume: Tensor) -> Any:
        picture = linear_to_srgb(batch.images[:, -1])
        return paper_net.predict(picture.to(dtype), volume.to(dtype), planes.as_batch(1))

    sweep_net = load_network("sweepnet", device)
    frames = sharpest_frames(batch, planes).to(device)
    paper_volume = cost_volume(batch, planes, "paper")
    sweep_volume = cost_volume(project_to_dominant_colour(batch), planes, "reblur")
    return {
        "sweep, end to end": lambda: predict(batch, "sweep", planes),
        "PaperNet + paper, end to end": lambda: read_paper(cost_volume(batch, planes, "paper")),
        "SweepNet alone": lambda: read_volume(sweep_net, batch.images, sweep_volume, frames),
        "PaperNet alone": lambda: read_paper(paper_volume),
    }


def floors(name: str, count: int, height: int, width: int, device: torch.device) -> dict[str, Callable[[], Any]]:
    """The inverse transforms of `count` real images and nothing else, as the device does them fastest.

    That is all at once on a GPU, a few at a time by each core of a CPU.
    """
    at_once = count if device.type == "cuda" else 6
    real = torch.randn((at_once, height, width // 2 + 1), dtype=torch.complex64, device=device)
    paired = torch.randn((at_once // 2, height, width), dtype=torch.complex64, device=device)

    def rounds(transform: Callable[[], Any]) -> None:
        deque(map_chunks(lambda _: transform(), range(count // at_once), torch.get_num_threads(), real), maxlen=0)

    return {
        f"{name} floor, real": lambda: rounds(lambda: torch.fft.irfft2(real, s=(height, width))),
        f"{name} floor, paired": lambda: rounds(lambda: torch.fft.ifft2(paired, norm="forward")),
    }


def load_rival(path: Path) -> ModuleType | None:
    """The scikit-image pipeline of `benchmarks/`, which is part of a checkout and not of the package."""
    if not path.is_file():
        return None
    specification = importlib.util.spec_from_file_location("rival", path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def run_rival(module: ModuleType, stack: FocalStack, planes: DepthGrid) -> Any:
    images = linear_to_srgb(stack.images).permute(0, 2, 3, 1).double().cpu().numpy()
    camera = stack.metric_camera
    return module.paper_cost_volume(
        images,
        stack.focus_distances.numpy(),
        planes.depths.numpy(),
        camera.focal_length,
        camera.f_number,
        camera.pixel_pitch,
    )


def time_jobs(
    jobs: dict[str, Callable[[], Any]], device: torch.device, repeats: int, say: Say
) -> dict[str, list[float]]:
    """Every job to warm up (kernels are compiled, then recorded), then `repeats` rounds over all; 3 for slow ones."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    with torch.no_grad():
        slow = set()
        for name, job in jobs.items():
            elapsed = timed(job, device)
            if device.type == "cuda":
                elapsed = min(timed(job, device) for _ in range(3)) if elapsed < 4 else elapsed
            if elapsed > 1:
                slow.add(name)
                say(f"{name}: {elapsed:.2f} s")
        for turn in range(repeats):
            for name, job in jobs.items():
                if turn < 3 or name not in slow:
                    seconds[name].append(timed(job, device))
    return seconds


def timed(job: Callable[[], Any], device: torch.device) -> float:
    """Wall-clock seconds, the device's work finished before and after."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    job()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def summary(times: list[float]) -> dict[str, float]:
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return {
        "median_s": statistics.median(times),
        "quartile_1_s": quartiles[0],
        "quartile_3_s": quartiles[2],
        "fastest_s": min(times),
        "runs": len(times),
    }


def measure_scaling(device: torch.device, quick: bool, say: Say) -> list[dict[str, Any]]:
    """Time and peak memory by picture size and number of frames, each in a fresh process."""
    cases = [(size, frames) for size in (0.25, 1.0, 4.0, 12.0) for frames in (3, 5, 10)]
    rows = []
    for cost in ("reblur", "paper"):
        for megapixels, frames in cases[:2] if quick else cases:
            command = [sys.executable, "-m", __name__, cost, str(megapixels), str(frames), device.type]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(
                    f"{cost} at {megapixels} MP with {frames} frames failed: {done.stderr.strip()[-400:]}"
                )
            row = json.loads(done.stdout)
            say(f"{cost}, {megapixels:g} MP x {frames}: {row['seconds']:.1f} s, peak {row['peak_bytes'] / 1e9:.2f} GB")
            rows.append(row)
    return rows


def one_size(cost: str, megapixels: float, frames: int, device: torch.device) -> dict[str, Any]:
    """One sweep of 64 planes; the peak is the whole process's on a CPU, the allocator's on a GPU."""
    height = round((megapixels * 1e6 * 3 / 4) ** 0.5)
    width = round(height * 4 / 3)
    with torch.no_grad():
        stack = benchmark_stack(height, width, frames, device)
        if device.type == "cuda":
            cost_volume(stack, DepthGrid.uniform_in_depth(), cost)  # compiles the kernels
        seconds = timed(lambda: cost_volume(stack, DepthGrid.uniform_in_depth(), cost), device)
    on_gpu = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(device) if on_gpu else peak_memory()
    return {
        "cost": cost, "megapixels": megapixels, "height": height, "width": width, "frames": frames, "planes": 64,
        "seconds": seconds, "seconds_per_megapixel_and_frame": seconds / megapixels / frames, "peak_bytes": peak,
    }  # fmt: skip


def peak_memory() -> int:
    """The most bytes this process has held. (getrusage's figure starts at that of the process that started it.)"""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_benchmark(
    device: torch.device, rival: Path, repeats: int, scaling: bool, quick: bool, say: Say
) -> dict[str, Any]:
    record = {"benchmark": "speed", **describe(device, SEED), **measure_speed(device, rival, repeats, say)}
    if scaling:
        record["scaling"] = measure_scaling(device, quick, say)
    return record


if __name__ == "__main__":
    cost, megapixels, frames, kind = sys.argv[1:]
    print(json.dumps(one_size(cost, float(megapixels), int(frames), torch.device(kind))))
