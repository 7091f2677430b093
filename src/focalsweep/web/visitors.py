"""What belongs to one visitor: a folder, the photos in it, their settings, the work on them, its result."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from focalsweep.errors import InputError, Sentence, sentence_of
from focalsweep.photos.settings import StackSettings, stack_toml
from focalsweep.photos.stack_file import ORDERS
from focalsweep.types import FocalStack
from focalsweep.web.jobs import Done, Failed, Line, News, Running, TaskProcess, as_sentence
from focalsweep.web.limits import Limits, bytes_in, receive
from focalsweep.web.table import Shown, Typed, changes, show, sorted_by_focus
from focalsweep.web.tasks import Outcome, estimate, load_outcome, load_stack_of, look
from focalsweep.web.uploads import BLOCK, Ledger

POLL_SECONDS = 0.15
MOST_NAMES = 1000  # of visitors: those without files cost little, but a name costs nothing
BUSY_SECONDS = 60.0  # in which a visitor who did something keeps its files against newcomers
LOOKING = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))  # at settings: the others' turn comes
load_outcome_once = lru_cache(maxsize=4)(load_outcome)
load_stack_once = lru_cache(maxsize=2)(load_stack_of)


class Visitor:
    """One open page. Errors are sentences that do not name folders of this computer."""

    def __init__(
        self,
        root: Path,
        limits: Limits,
        line: Line,
        device: str,
        ledger: Ledger | None = None,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._root, self._limits, self._line, self._device = root, limits, line, device
        self._ledger, self._make_room = ledger or Ledger(), make_room
        self._folder: Path | None = None
        self._job: TaskProcess | None = None
        self._running, self._cancelled = False, False
        self.has_news = False  # a result that the page does not show yet
        self.changing = threading.RLock()  # settings change one after the other, each on what the one before left
        self._magnifications: dict[str, float] = {}
        self.given: dict[str, Any] = {}
        self.settings: StackSettings | None = None
        self.unit = "m"
        self.marks: list[tuple[int, int]] = []
        self.last_seen = time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether its stack is worked on, or waits for it."""
        return self._running

    @property
    def has_files(self) -> bool:
        return self._folder is not None

    @property
    def outcome(self) -> Outcome | None:
        done = self._folder is not None and (self._folder / "page.pickle").is_file()
        return load_outcome_once(self._folder) if done and self._folder else None

    @property
    def stack(self) -> FocalStack | None:
        return load_stack_once(self._folder) if self.outcome and self._folder else None

    @property
    def shown(self) -> Shown:
        return Shown({}, {}) if self.settings is None else show(self.settings, self.unit)

    def take(self, uploads: Sequence[Path]) -> None:
        """New photos in place of those before; they are moved from where they are."""
        self.forget()
        self._make_room()
        folder = Path(tempfile.mkdtemp(dir=self._root))
        try:
            receive(uploads, folder / "photos", self._limits)
            self._folder = folder
            self._count(folder)
            self._look({})
        except BaseException:
            self._folder, self.settings = None, None
            self._remove(folder)
            raise

    def take_example(self, example: Path) -> None:
        """The stack that ships in the package."""
        with tempfile.TemporaryDirectory(dir=self._root) as name:
            for path in [*sorted(example.glob("frame_*")), example / "stack.toml"]:
                shutil.copy(path, name)
            self.take(sorted(Path(name).iterdir()))

    def change(self, typed: Typed, reference: str | None) -> None:
        """Take over what was typed in; nothing changes where any of it makes no sense."""
        with self.changing:
            if self.settings is None:
                return
            given = changes(show(self.settings, typed.unit), typed, self.given)
            if reference in ("lens", "sensor") and reference != self.settings.focus_reference:
                given["focus_reference"] = reference
            if given != self.given:
                self._look(given)

    def toml(self) -> Path | None:
        """A stack.toml of what is known now, to download."""
        if self.settings is None or self._folder is None:
            return None
        magnifications = [self._magnifications.get(file, 1.0) for file in self.settings.files]
        path = self._folder / "stack.toml"
        path.write_text(stack_toml(self.settings, magnifications if self._magnifications else ()), encoding="utf-8")
        return path

    async def run(self, relative: bool, order: str = "") -> AsyncIterator[News | int]:
        """Depth of the photos: how many are ahead (a number), then how far it is, then Done or Failed."""
        if self._folder is None:
            yield Failed("no photos given: drop some, or try the example")
            return
        if self.busy:
            yield Failed("this stack is worked on already: wait, or cancel it")
            return
        self._running, self._cancelled, self.marks = True, False, []
        for old in ("page.pickle", "stack.pickle"):
            (self._folder / old).unlink(missing_ok=True)
        _forget_loaded()
        ticket = None
        try:
            ticket = self._line.join()
            while True:
                ahead = self._line.ahead(ticket)
                yield ahead  # even if nobody is: from now on it can be cancelled
                if self._cancelled:
                    raise ValueError("cancelled")
                if not ahead:
                    break
                await asyncio.sleep(POLL_SECONDS)
            async for news in self._work(relative, order):
                yield news
        except ValueError as error:
            yield Failed(sentence_of(error))
        finally:
            if ticket is not None:
                self._line.leave(ticket)
            if self._job is not None:
                self._job.cancel()
                self._job = None
            self._running = False
            if self._folder is not None:
                await asyncio.to_thread(self._count, self._folder)

    async def _work(self, relative: bool, order: str) -> AsyncIterator[News]:
        folder, limits = self._folder, self._limits
        assert folder is not None
        given = {**self.given, "order": order} if relative and order in ORDERS else self.given
        arguments = (folder / "photos", folder / "out", given, relative, limits, self._device)
        memory = limits.most_memory if self._device == "cpu" else None  # a GPU's driver maps more than there is
        self._job = await asyncio.to_thread(TaskProcess, estimate, *arguments, seconds=limits.seconds, memory=memory)
        if self._cancelled:
            self._job.cancel()
        while True:
            news = self._job.news()
            self.last_seen = time.monotonic()
            if isinstance(news, Failed):
                yield Failed(self.without_folders(as_sentence(news.sentence)))
                return
            if isinstance(news, Done | Running):
                yield news
            if isinstance(news, Done):
                return
            await asyncio.sleep(POLL_SECONDS)

    def cancel(self) -> None:
        self._cancelled = True
        if self._job is not None:
            self._job.cancel()

    def forget(self) -> None:
        """End the work and remove the folder."""
        self.cancel()
        folder, self._folder = self._folder, None
        self.given, self.settings, self.marks = {}, None, []
        _forget_loaded()
        if folder is not None:
            self._remove(folder)

    def _count(self, folder: Path) -> None:
        self._ledger.set(folder, bytes_in(folder) + BLOCK * self._limits.files)
        if self._folder is not folder:  # it has left meanwhile
            self._ledger.set(folder, 0)

    def _remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._ledger.set(folder, 0)

    def without_folders(self, sentence: Sentence) -> Sentence:
        """A sentence that names files, and "the photos" for their folder."""
        if self._folder is None:
            return sentence
        photos = str(self._folder / "photos")
        for old, new in ((f"{photos}/", ""), (photos, "the photos"), (str(self._folder), "the result")):
            sentence = sentence.with_text(old, new)
        return sentence

    def _look(self, given: dict[str, Any]) -> None:
        assert self._folder is not None
        limits, folder = self._limits, self._folder / "photos"
        with LOOKING:
            job = TaskProcess(look, folder, given, limits, seconds=limits.look_seconds, memory=limits.most_memory)
            try:
                settings, self._magnifications = job.wait()
            except ValueError as error:
                raise InputError(self.without_folders(sentence_of(error))) from None
        self.settings, self.given = sorted_by_focus(settings), given


class Visitors:
    """Who is here, by the name that the browser gave itself."""

    def __init__(self, root: Path, limits: Limits, device: str, ledger: Ledger | None = None) -> None:
        self._root, self._limits, self._device = root, limits, device
        self._ledger = ledger or Ledger()
        self._line = Line(limits.jobs, limits.waiting)
        self._here: dict[str, Visitor] = {}
        self._pages: dict[str, int] = {}  # that are open, by the same names
        self._coming = threading.Lock()

    def __len__(self) -> int:
        return len(self._here)

    def of(self, name: str | None) -> Visitor:
        key = name or ""
        with self._coming:
            visitor = self._here.get(key)
            if visitor is None:
                self._forget_names()
                visitor = Visitor(self._root, self._limits, self._line, self._device, self._ledger, self._make_room)
                self._here[key] = visitor
        visitor.last_seen = time.monotonic()
        return visitor

    def present(self, name: str, here: bool) -> None:
        """A page was opened, or has gone."""
        with self._coming:
            pages = self._pages.pop(name, 0) + (1 if here else -1)
            if pages > 0:
                self._pages[name] = pages
            if (visitor := self._here.get(name)) is not None:
                visitor.last_seen = time.monotonic()

    def leave(self, name: str | None) -> None:
        visitor = self._here.pop(name or "", None)
        if visitor is not None:
            visitor.forget()

    def leave_idle(self) -> None:
        """Those who have no page open any more, and those who did nothing for long."""
        now = time.monotonic()
        for key, visitor in list(self._here.items()):
            most = self._limits.idle_seconds if key in self._pages else self._limits.absent_seconds
            if not visitor.busy and now - visitor.last_seen > most:
                self.leave(key)

    def _make_room(self) -> None:
        """For the files of one more: whoever did nothing for longest goes, but nobody who is at it."""
        with self._coming:
            holding = sum(visitor.has_files for visitor in self._here.values())
            idle = [
                (key in self._pages, v.last_seen, key) for key, v in self._here.items() if v.has_files and not v.busy
            ]
            now = time.monotonic()
            may_go = sorted(who for who in idle if not who[0] or now - who[1] > BUSY_SECONDS)
            too_many = max(0, holding + 1 - self._limits.visitors)
            for _, _, key in may_go[:too_many]:
                self.leave(key)
            if len(may_go) < too_many:
                raise ValueError(f"{holding} others are here already: come back in a few minutes")

    def _forget_names(self) -> None:
        """Those who did nothing for longest and have no files."""
        if len(self._here) >= MOST_NAMES:
            empty = sorted((v.last_seen, key) for key, v in self._here.items() if not v.has_files and not v.busy)
            for _, key in empty[: MOST_NAMES // 10]:
                self._here.pop(key, None)


def _forget_loaded() -> None:
    load_outcome_once.cache_clear()
    load_stack_once.cache_clear()
