"""Where and with what a figure was measured: goes into every result file."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from focalsweep.model.weights import shipped_weights
from focalsweep.version import __version__

PACKAGES = ("torch", "numpy", "scipy", "scikit-image", "triton")


def describe(device: torch.device, seed: int) -> dict[str, Any]:
    """Machine, versions, the weights that were shipped then, seed and commit."""
    machine: dict[str, Any] = {"cpu": _cpu_name(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    if device.type == "cuda":
        machine["gpu"] = torch.cuda.get_device_name(device)
    versions = {
        "python": platform.python_version(),
        "focalsweep": __version__,
        **{name: _version(name) for name in PACKAGES},
    }
    about = {"machine": machine, "versions": versions, "weights": shipped_weights()}
    return {**about, "seed": seed, "commit": _commit()}


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    if package == "torch":
        return torch.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the source tree that this code runs from, with a + where it has changes.

    Outside of one, as on a machine that was sent the files alone, what FOCALSWEEP_COMMIT says, or None.
    """
    here = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("FOCALSWEEP_COMMIT")
