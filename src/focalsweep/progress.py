"""How far a piece of work is: one protocol for every stage, from reading photos to writing files."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""Called with the name of the stage at hand and the share of it that is done, 0 to 1."""


def silent(stage: str, share: float) -> None:
    """Nobody is told."""


def part_of(progress: Progress | None, start: float, share: float) -> Progress:
    """For a step that is `share` of its stage and begins at `start` of it."""
    if progress is None:
        return silent
    return lambda stage, done: progress(stage, start + share * done)


def renamed(progress: Progress, stage: str) -> Progress:
    """For a step that reports under its own name what is part of the stage `stage`."""
    return lambda _, done: progress(stage, done)
