"""Uploads, in place of Gradio's: each in a folder that is its visitor's alone, counted, and gone when not wanted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs

from focalsweep.web.limits import Limits, plain_name

BLOCK = 4096  # bytes that a file takes on the disk at least, and a folder
MOST_FILES = 400  # of an upload: a folder may hold more than photos
UNCLAIMED_SECONDS = 30.0  # between an upload and the page's word that it is to be taken
PROGRESS_SECONDS = 0.2
EVENTS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
TEXT = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
JSON = [(b"content-type", b"application/json")]


class Ledger:
    """How much of the disk each folder takes, as those who write there say: nobody walks through folders to know."""

    def __init__(self) -> None:
        self._sizes: dict[Path, int] = {}
        self._total = 0
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        return self._total

    def set(self, folder: Path, size: int) -> None:
        """0: it is gone."""
        with self._lock:
            self._total += size - self._sizes.pop(folder, 0)
            if size:
                self._sizes[folder] = size


class Uploads:
    """Receives photos into folders below `root`.

    Args:
        root: below the folder from which Gradio takes files.
        limits: of what is taken.
        ledger: is told of them.
    """

    def __init__(self, root: Path, limits: Limits, ledger: Ledger) -> None:
        self.root = root
        self._limits, self._ledger = limits, ledger
        self._complete: dict[Path, float] = {}  # folder -> when its last file had come
        self._progress: dict[str, _Parts] = {}

    async def receive(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a POST of multipart/form-data with the list of the files' paths."""
        headers = dict(scope["headers"])
        folder = self.root / uuid.uuid4().hex
        announced = int(headers.get(b"content-length", b"0"))
        parts = _Parts(folder, self._limits)
        name = _upload_id(scope)
        self._ledger.set(folder, announced + BLOCK)
        if name:
            self._progress[name] = parts
        kept = False
        try:
            rejection = await parts.read(headers.get(b"content-type", b""), receive)
            if rejection is None:
                return  # the visitor has left: nobody to answer
            status, words = rejection
            if status == 200:
                self._ledger.set(folder, parts.bytes + BLOCK * (2 * len(parts.paths) + 1))
                self._complete[folder] = time.monotonic()
                kept = True
                await _answer(send, 200, json.dumps([str(path) for path in parts.paths]), JSON)
            else:
                await _answer(send, status, words)
        finally:
            parts.close()
            if name and self._progress.get(name) is parts:
                del self._progress[name]
            if not kept:
                await asyncio.to_thread(self._remove, folder)

    async def tell_progress(self, scope: Any, send: Any) -> None:
        """Events of an upload under way, as the page's scripts wait for them."""
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        name, told = _upload_id(scope), 0
        for _ in range(10):  # the page may ask a little before it sends
            if name in self._progress:
                break
            await asyncio.sleep(PROGRESS_SECONDS)
        while (parts := self._progress.get(name)) is not None:
            if parts.bytes > told:
                news = {"msg": "update", "orig_name": parts.name, "chunk_size": parts.bytes - told}
                told = parts.bytes
                await _send_event(send, news)
            await asyncio.sleep(PROGRESS_SECONDS)
        await _send_event(send, {"msg": "done"})
        await send({"type": "http.response.body", "body": b""})

    @contextlib.contextmanager
    def claimed(self, files: Sequence[Path]) -> Iterator[None]:
        """The page takes these, however long that is; what it has not moved elsewhere then goes."""
        folders = {file.parents[1] for file in files if len(file.parents) > 1} & set(self._complete)
        for folder in folders:
            self._complete[folder] = math.inf
        try:
            yield
        finally:
            for folder in folders:
                self._complete.pop(folder, None)
                self._remove(folder)

    def remove_unclaimed(self) -> None:
        """What was sent, and never given to the page."""
        for folder, since in list(self._complete.items()):
            if time.monotonic() - since > UNCLAIMED_SECONDS:
                self._complete.pop(folder, None)
                self._remove(folder)

    def _remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._ledger.set(folder, 0)


class _Parts:
    """The files of one upload, written as they come."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self.paths: list[Path] = []
        self.bytes, self.name = 0, ""
        self._file: IO[bytes] | None = None
        self._size = 0
        self._field, self._value, self._disposition = b"", b"", b""
        self._rejection: tuple[int, str] | None = None

    async def read(self, content_type: bytes, receive: Any) -> tuple[int, str] | None:
        """Status and words for the visitor; None where there is none any more."""
        from python_multipart.exceptions import FormParserError  # comes with Gradio
        from python_multipart.multipart import MultipartParser, parse_options_header

        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            return 400, "photos come as multipart/form-data"
        names = ("part_begin", "part_data", "part_end", "header_field", "header_value", "header_end")
        callbacks: Any = {f"on_{name}": getattr(self, f"_{name}") for name in names}
        try:
            parser = MultipartParser(options[b"boundary"], callbacks | {"on_headers_finished": self._headers_finished})
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                more = message.get("more_body", False)
                await asyncio.to_thread(parser.write, message.get("body", b""))
                if self._rejection:
                    return self._rejection
        except (FormParserError, ValueError):
            return 400, "this is no upload of photos"
        except OSError:
            return 507, "the disk of this computer is full: come back later"
        return 200, ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _part_begin(self) -> None:
        self._disposition = b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value
        self._field, self._value = b"", b""

    def _headers_finished(self) -> None:
        from python_multipart.multipart import parse_options_header

        _, options = parse_options_header(self._disposition)
        if self._rejection or options.get(b"name") != b"files":
            return
        if len(self.paths) >= MOST_FILES:
            self._rejection = 413, f"at most {MOST_FILES} files are taken at a time: give fewer"
            return
        self.name = plain_name(options.get(b"filename", b"").decode("utf-8", "replace"))
        taken = (self._folder / "0" / self.name) in self.paths  # twice the same name: `limits.receive` will tell
        place = self._folder / (str(len(self.paths)) if taken else "0")
        if taken or not self.paths:
            place.mkdir(parents=True)
        self.paths.append(place / self.name)
        self._file, self._size = self.paths[-1].open("wb"), 0

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is None or self._rejection:
            return
        self._size += end - start
        self.bytes += end - start
        if self._size > self._limits.file_bytes:
            most = self._limits.file_bytes // 2**20
            self._rejection = 413, f"{self.name} is too large: at most {most} MB are taken"
            return
        self._file.write(data[start:end])

    def _part_end(self) -> None:
        self.close()


def _upload_id(scope: Any) -> str:
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("upload_id", [""])[0][:100]


async def _send_event(send: Any, news: dict[str, Any]) -> None:
    body = f"data: {json.dumps(news)}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _answer(send: Any, status: int, words: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    body = words.encode()
    length = (b"content-length", str(len(body)).encode())
    headers = [*(TEXT if headers is None else headers), length]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
