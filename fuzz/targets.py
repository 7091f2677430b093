"""What strangers may send, a function of bytes each: it either works or raises what is told in a sentence.

`fuzz/run.py` feeds them with atheris, `tests/unit/test_fuzz.py` with seeds, crashes that were found, and damage.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from focalsweep.errors import USER_ERRORS, sentence_of
from focalsweep.photos.decoding import lower_pixel_limit
from focalsweep.photos.exif import tags_of
from focalsweep.photos.metadata import settings_of
from focalsweep.photos.microscopy import read_hyperstack
from focalsweep.photos.pictures import read_picture
from focalsweep.photos.stack_file import read_stack_file
from focalsweep.web.guard import HEADERS, OUR_NAMES, Guard
from focalsweep.web.limits import Limits
from focalsweep.web.passwords import Attempts
from focalsweep.web.uploads import Ledger, Uploads

MOST_PIXELS = 2**20  # a harness shall look for faults, not decode large pictures
LONGEST_SENTENCE = 1000
MAKERS = (b"Canon", b"NIKON CORPORATION", b"Apple", b"OLYMPUS", b"SONY", b"Panasonic", b"FUJIFILM", b"samsung")
Target = Callable[[bytes], None]


def stack_toml(data: bytes) -> None:
    folder = _scratch()
    (folder / "stack.toml").write_bytes(data)
    with _told():
        read_stack_file(folder)


def exif(data: bytes) -> None:
    """Any file's metadata: that never raises, it gives what can be read."""
    settings_of(tags_of(data), "a.jpg")


def maker_notes(data: bytes) -> None:
    """A maker note in a photo that is whole; its first byte chooses the maker."""
    if data:
        settings_of(tags_of(photo_with_note(MAKERS[data[0] % len(MAKERS)], data[1:])), "a.jpg")


def picture(suffix: str) -> Target:
    def target(data: bytes) -> None:
        lower_pixel_limit(MOST_PIXELS)
        path = _scratch() / f"a{suffix}"
        path.write_bytes(data)
        with _told(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_picture(path)

    return target


def microscope_file(data: bytes) -> None:
    path = _scratch() / "a.tif"
    path.write_bytes(data)
    with _told():
        read_hyperstack(path)


def ome(data: bytes) -> None:
    """A TIFF of two pages with this description."""
    microscope_file(tiff_with_description(data))


def page(data: bytes) -> None:
    """A request to the page: method, path, headers and the parts of its body, a line each; Gradio is not in it."""
    head, *parts = data.split(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, path = first.partition(b" ")
    path, _, query = path.partition(b"?")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    scope = {
        "type": "http", "method": method.decode("latin-1"), "path": path.decode("latin-1"), "raw_path": path,
        "query_string": query, "headers": headers, "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[Any] = []
    left = [*parts, b""]

    async def receive() -> Any:
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    root = _scratch() / "page"
    ledger, limits = Ledger(), Limits(file_bytes=1000, stack_bytes=10_000, message_bytes=5000, disk_bytes=2**20)
    guard = Guard(
        _nothing_behind, Uploads(root / "received", limits, ledger), limits, OUR_NAMES,
        used=lambda: ledger.total, make_room=lambda: None, passwords=None if b"cookie" not in head else Attempts(),
    )  # fmt: skip
    asyncio.run(guard(scope, receive, send))
    kept = [place for place in root.rglob("*") if place.is_file()]
    shutil.rmtree(root, ignore_errors=True)
    assert bool(kept) <= bool(ledger.total), "a file that nobody counts"
    if sent:
        names = [name for name, _ in sent[0]["headers"]]
        assert all(names.count(name.encode()) == 1 for name in HEADERS), "a header is missing"
        assert sent[0]["status"] != 500, "a fault of the page"


async def _nothing_behind(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


TARGETS: dict[str, Target] = {
    "stack_toml": stack_toml, "exif": exif, "maker_notes": maker_notes, "jpeg": picture(".jpg"), "png": picture(".png"),
    "tiff": picture(".tif"), "microscope_file": microscope_file, "ome": ome, "page": page,
}  # fmt: skip


def photo_with_note(make: bytes, note: bytes) -> bytes:
    """A TIFF block of a maker, with an EXIF directory that has nothing but the note."""
    make = make + b"\0"
    exif_at = 8 + 2 + 2 * 12 + 4
    make_at = exif_at + 2 + 12 + 4
    main = struct.pack("<HHHIIHHIII", 2, 0x010F, 2, len(make), make_at, 0x8769, 4, 1, exif_at, 0)
    inner = struct.pack("<HHHIII", 1, 0x927C, 7, len(note), make_at + len(make), 0)
    return b"II*\0" + struct.pack("<I", 8) + main + inner + make + note


def tiff_with_description(text: bytes) -> bytes:
    """Two grey pages of 2 x 2 pixels."""
    text += b"\0"
    pages, at = b"", 8 + len(text) + 4
    for number in range(2):
        fields = [(256, 2), (257, 2), (258, 8), (259, 1), (262, 1), (273, 8 + len(text)), (277, 1), (278, 2), (279, 4)]
        entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields]
        if number == 0:
            count = struct.pack("<HHI", 270, 2, len(text))
            entries.insert(5, count + (text.ljust(4, b"\0") if len(text) <= 4 else struct.pack("<I", 8)))
        size = 2 + 12 * len(entries) + 4
        following = at + len(pages) + size if number == 0 else 0
        pages += struct.pack("<H", len(entries)) + b"".join(entries) + struct.pack("<I", following)
    return b"II*\0" + struct.pack("<I", at) + text + bytes(4) + pages


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What is raised is an error of the input, in one sentence of bounded length."""
    try:
        yield
    except USER_ERRORS as error:
        sentence = str(sentence_of(error))
        assert len(sentence) < LONGEST_SENTENCE and "\n" not in sentence.strip(), sentence[:200]


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    logging.disable(logging.CRITICAL)
    return tempfile.TemporaryDirectory(prefix="focalsweep-fuzz-", dir="/dev/shm" if sys.platform == "linux" else None)


def _scratch() -> Path:
    """One folder for all inputs: a new one each time would take longer than most of them."""
    return Path(_folder().name)
