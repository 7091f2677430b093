"""The version, in one place, and what else tells one installation from another."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

__version__ = "0.2.0"


def versions() -> dict[str, Any]:
    """Of this package, its commit where that is known, Python and torch: for run.json and every table."""
    import torch

    return {
        "version": __version__, "commit": commit(), "python": platform.python_version(), "torch": torch.__version__
    }  # fmt: skip


@cache
def commit() -> str | None:
    """Of the checkout that runs, or that the package was made from; FOCALSWEEP_COMMIT says it where git is not."""
    told = os.environ.get("FOCALSWEEP_COMMIT")
    if told:
        return told
    here = Path(__file__).resolve().parent
    if (here.parents[1] / ".git").exists():
        try:
            command = ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"]
            return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return None
    built_from = here / "commit.txt"  # hatch_build.py writes it into a wheel
    if built_from.is_file():
        return built_from.read_text().strip()
    try:
        origin = json.loads(distribution("focalsweep").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    found = origin.get("vcs_info", {}).get("commit_id")
    return found[:12] if isinstance(found, str) else None
