"""The result files of a checkout: in results/VERSION, by the version of focalsweep that measured them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from focalsweep.version import __version__

Record = dict[str, Any]
FOLDERS = ("research/results", "benchmarks/results")
VERSION = __version__.rpartition(".")[0]
NEW = f"research/results/{VERSION}"
"""Where results of today's code belong."""


def read_records(root: Path = Path()) -> dict[str, Record]:
    """Every result by its name; where two versions measured one, the later has it."""
    return {path.stem: json.loads(path.read_text()) for path in _files(root, "*.json")}


def result_file(name: str, root: Path = Path()) -> str:
    """The latest of that name (confidence.json, runs/ddff.jsonl) as seen from the root; where it would go if none."""
    found = _files(root, name)
    return found[-1].relative_to(root).as_posix() if found else f"{NEW}/{name}"


def _files(root: Path, pattern: str) -> list[Path]:
    """Of all versions, the oldest first."""
    found = [path for folder in FOLDERS for path in (root / folder).glob(f"[0-9]*/{pattern}")]
    return sorted(found, key=lambda path: (_version(path, root), path))


def _version(path: Path, root: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.relative_to(root).parts[2].split("."))
