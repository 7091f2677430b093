"""Puts the commit that a wheel is built from into it, for `focalsweep --version` and run.json."""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        command = ["git", "-C", self.root, "rev-parse", "--short=12", "HEAD"]
        found = subprocess.run(command, capture_output=True, text=True)
        if found.returncode == 0:
            path = Path(self.directory) / "commit.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found.stdout)
            build_data["force_include"][str(path)] = "focalsweep/commit.txt"
