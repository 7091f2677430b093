"""Stacks rendered and written, one after the other or by several processes at once: the benchmark's, and rooms."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any, Protocol

Stack = tuple[str, int]  # split (or camera) and number
Finished = tuple[Stack, float]  # and the seconds that it took


class Step(Protocol):
    def __call__(self, stack: Stack, count: int = 1) -> None:
        """So many frames of a stack more are done."""


class StackFiles(Protocol):
    """Where stacks are written."""

    def write_stack(self, stack: Stack, rendered: Any) -> None: ...


class StackMaker(Protocol):
    """What renders a stack, from its name and number alone."""

    @property
    def reopen(self) -> Callable[[], StackMaker]:
        """What makes the same renderer in another process."""

    def frame_count(self, stack: Stack) -> int: ...

    def render(self, split: str, number: int, done: Callable[[], None] = ...) -> Any: ...


def stack_name(stack: Stack) -> str:
    return f"{stack[0]} {stack[1]:06d}"


class StackRenderer:
    """Where stacks are made: a stack depends on its number alone, so it does not matter which process makes it."""

    def __init__(self, files: StackFiles, renderer: StackMaker) -> None:
        self._files, self._renderer = files, renderer

    def in_turn(self, stacks: list[Stack], step: Step) -> Iterator[Finished]:
        for stack in stacks:
            began = time.perf_counter()
            self._files.write_stack(stack, self._renderer.render(*stack, partial(step, stack)))
            yield stack, time.perf_counter() - began

    def side_by_side(self, stacks: list[Stack], workers: int, step: Step) -> Iterator[Finished]:
        """In the order in which they finish; a failure or an interruption ends it after the stacks at hand."""
        threads = max(1, 2 * (os.cpu_count() or 1) // workers)  # two for each core, for the end, when some rest
        settings = (self._files, self._renderer.reopen, threads)
        context = multiprocessing.get_context("spawn")  # neither Mitsuba nor CUDA survives a fork
        with ProcessPoolExecutor(min(workers, len(stacks) or 1), context, _open_renderer, settings) as pool:
            try:
                for future in as_completed([pool.submit(_make, stack) for stack in stacks]):
                    stack, seconds = future.result()
                    step(stack, self._renderer.frame_count(stack))
                    yield stack, seconds
            finally:
                pool.shutdown(cancel_futures=True)


_renderer: StackRenderer | None = None  # of a process of the pool


def _open_renderer(files: StackFiles, reopen: Callable[[], StackMaker], threads: int) -> None:
    global _renderer
    _renderer = StackRenderer(files, reopen())
    import drjit

    drjit.set_thread_count(threads)


def _make(stack: Stack) -> Finished:
    assert _renderer is not None
    return next(_renderer.in_turn([stack], lambda stack, count=1: None))
