"""Work on strangers' files in processes of their own: they end when asked to, and a crash takes nothing along."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from focalsweep.errors import USER_ERRORS, InputError, Sentence, sentence_of
from focalsweep.web.isolation import bound_memory, refuse_other_hosts

JOB_NICENESS = 10  # whoever answers visitors goes first
Task = Callable[..., Any]
"""Called in the other process with a `Progress` and its arguments; everything must pickle."""


@dataclass(frozen=True)
class Running:
    stage: str
    share: float


@dataclass(frozen=True)
class Failed:
    """With the sentence of what is wrong, which knows its settings: the page says their labels."""

    sentence: str


@dataclass(frozen=True)
class Done:
    value: Any


News = Running | Failed | Done


class TaskProcess:
    """A task in a process of its own, from its start to its end; its time and its memory (in bytes) are bounded."""

    def __init__(self, task: Task, *arguments: Any, seconds: float, memory: int | None = None) -> None:
        context = _context()
        self._news, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(theirs, task, arguments, memory), daemon=True)
        self._process.start()
        theirs.close()
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._last: News | None = None
        self.cancelled = False

    def news(self) -> News | None:
        """What has come since the last call, the latest only; None where nothing has. Never waits."""
        if isinstance(self._last, Failed | Done):
            return self._last
        latest: News | None = None
        try:
            while not isinstance(latest, Failed | Done) and self._news.poll():
                latest = self._news.recv()
        except (EOFError, OSError):
            latest = Failed("cancelled" if self.cancelled else "the work broke off: give fewer or smaller photos")
        if latest is None and self.cancelled:
            latest = Failed("cancelled")
        if latest is None and time.monotonic() > self._deadline:
            latest = Failed(f"this took over {self._seconds:.0f} s and was stopped: give fewer or smaller photos")
        if isinstance(latest, Failed | Done):
            self._end()
        self._last = latest or self._last
        return latest

    def wait(self) -> Any:
        """The value of a short task; its failure as an error of the input."""
        while True:
            news = self.news()
            if isinstance(news, Done):
                return news.value
            if isinstance(news, Failed):
                raise InputError(as_sentence(news.sentence))
            self._news.poll(0.05)

    def cancel(self) -> None:
        self.cancelled = True
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(ValueError):  # it was closed
            self._process.kill()
            self._process.join()


def _work(connection: Connection, task: Task, arguments: tuple[Any, ...], memory: int | None) -> None:
    refuse_other_hosts()
    if sys.platform != "win32":
        os.nice(JOB_NICENESS)
    if memory is not None:
        bound_memory(memory)
    said: News
    try:
        said = Done(task(lambda stage, share: connection.send(Running(stage, share)), *arguments))
    except USER_ERRORS as error:
        said = Failed(sentence_of(error))
    except MemoryError:
        said = Failed("the photos need more memory than there is: give fewer or smaller ones")
    except Exception:
        traceback.print_exc()
        said = Failed("this is a fault of focalsweep: the window it was started in tells more")
    with contextlib.suppress(OSError):  # nobody listens any more
        connection.send(said)


def as_sentence(text: str) -> Sentence:
    """A plain text names no settings."""
    return text if isinstance(text, Sentence) else Sentence.of([text])


def _context() -> Any:
    """Where it can be had, a server with everything imported that forks in milliseconds and holds nobody's data."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["focalsweep.web.tasks"])
    return context


def warm_up() -> None:
    """Begin to import what tasks need, beside whatever goes on here: the first visitor need not wait for it."""
    if sys.platform != "win32":
        _context()
        from multiprocessing import forkserver

        forkserver.ensure_running()


class Line:
    """Who works and who waits, first come first served."""

    def __init__(self, places: int, waiting: int) -> None:
        self._places, self._waiting = places, waiting
        self._tickets: list[int] = []
        self._numbers = itertools.count()

    def join(self) -> int:
        """A ticket, or a sentence where too many wait."""
        if len(self._tickets) >= self._places + self._waiting:
            raise ValueError(f"{len(self._tickets)} others work or wait here already: come back in a few minutes")
        self._tickets.append(next(self._numbers))
        return self._tickets[-1]

    def ahead(self, ticket: int) -> int:
        """How many have to finish first; 0: it is your turn."""
        return max(0, self._tickets.index(ticket) + 1 - self._places)

    def leave(self, ticket: int) -> None:
        if ticket in self._tickets:
            self._tickets.remove(ticket)
