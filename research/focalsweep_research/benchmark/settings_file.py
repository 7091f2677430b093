"""The settings of a folder that fills with stacks: written once, and compared whenever more are rendered into it."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from focalsweep.results.writing import write_files
from focalsweep_research.benchmark.objects import Library


def keep_settings(path: Path, text: str) -> None:
    """Write them as TOML; raises where the folder holds stacks made otherwise."""
    if path.is_file():
        try:
            there = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise ValueError(f"{path} is no valid TOML: remove it, or give another folder") from None
        for name, old, new in _differences(there, tomllib.loads(text)):
            raise ValueError(
                f"{path.parent} holds a benchmark with {name} {old}, not {new}: "
                "give another folder or the same settings"
            )
    write_files({path: lambda file: file.write(text.encode())})


def library_lines(library: Library) -> Iterator[str]:
    """What stacks are made of, so that others can tell whether they have the same."""
    yield from (f"{kind} = {len(getattr(library, kind))}" for kind in ("objects", "textures", "skies"))
    names = "\n".join((*library.objects, *library.textures, *library.skies))
    yield f'names_sha256 = "{hashlib.sha256(names.encode()).hexdigest()}"'


def _differences(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The settings that differ: name, as it was, as it is."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*new, *old]):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield name, old, new
