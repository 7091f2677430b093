"""What visitors may send: how much, of what kind, under which names. Nothing here opens a file."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from focalsweep.memory import total_memory
from focalsweep.photos.pictures import PICTURE_EXTENSIONS
from focalsweep.photos.sources import VIDEO_EXTENSIONS
from focalsweep.photos.stack_file import NAME

LONGEST_NAME = 120
JUST_MADE_SECONDS = 10.0  # in which an empty folder may wait for its file
KINDS = sorted(PICTURE_EXTENSIONS | VIDEO_EXTENSIONS | {".toml"})


@dataclass(frozen=True)
class Limits:
    """Bounds of the page; everything beyond is refused with a sentence.

    Args:
        files: in one stack, or pages in its one file.
        file_bytes, stack_bytes: of one file, and of all files of a stack.
        message_bytes: of everything else that a page says.
        disk_bytes: of all that visitors have on this computer's disk; uploads beyond it are turned away.
        pixels: of one picture.
        jobs: stacks that are worked on at a time; other visitors wait.
        waiting: visitors who may wait.
        seconds: that one stack may take.
        memory_bytes: that it may take on a CPU; None: half of this computer's.
        look_seconds: that reading its settings may take.
        visitors: whose files are kept; the one who did nothing for longest goes first.
        idle_seconds: after which the files of a page that is open may go.
        absent_seconds: after which those of a visitor go who has no page open.
    """

    files: int = 60
    file_bytes: int = 200 * 2**20
    stack_bytes: int = 2**30
    message_bytes: int = 2**20
    disk_bytes: int = 8 * 2**30
    pixels: int = 64_000_000
    jobs: int = 1
    waiting: int = 8
    seconds: float = 900.0
    memory_bytes: int | None = None
    look_seconds: float = 60.0
    visitors: int = 128
    idle_seconds: float = 3600.0
    absent_seconds: float = 30.0

    @property
    def most_memory(self) -> int:
        """Bytes that a job may take."""
        return self.memory_bytes or total_memory() // 2


def receive(uploads: Sequence[Path], folder: Path, limits: Limits) -> list[Path]:
    """Move uploaded files into an empty folder; all of them, or none and a sentence.

    A file keeps its name, which never leads out of the folder.
    """
    if not uploads:
        raise ValueError("no photos given: give at least 2 files, a TIFF with several pages, or a video")
    if len(uploads) > limits.files:
        raise ValueError(f"{len(uploads)} files are too many: at most {limits.files} are taken, leave some out")
    total = 0
    places: dict[str, Path] = {}
    for upload in uploads:
        name = plain_name(upload.name)
        if name.lower() in {place.lower() for place in places}:
            raise ValueError(f"{name} is given twice: a stack needs different photos")
        if upload.suffix.lower() == ".zip":
            raise ValueError(f"{name} is an archive: unpack it, and give the photos")
        if upload.suffix.lower() not in KINDS or (upload.suffix.lower() == ".toml" and name != NAME):
            raise ValueError(
                f"{name} is no picture that can be read: give JPEG, PNG, TIFF, RAW, HEIC, WebP or BMP files"
            )
        if not upload.is_file():  # the same file came from two pages at once, and the other was quicker
            raise ValueError(f"{name} has gone meanwhile: give the photos again")
        size = upload.stat().st_size
        total += size
        if size > limits.file_bytes:
            raise ValueError(f"{name} has {_megabytes(size)}: at most {_megabytes(limits.file_bytes)} are taken")
        places[name] = upload
    if total > limits.stack_bytes:
        raise ValueError(f"the files have {_megabytes(total)}: at most {_megabytes(limits.stack_bytes)} are taken")
    folder.mkdir(parents=True)
    for name, upload in places.items():
        shutil.move(upload, folder / name)
    return [folder / name for name in places]


def of_a_folder(uploads: Sequence[Path]) -> list[Path]:
    """Those of a folder's files that are meant: neither hidden nor of another kind, as on the command line."""
    meant = [path for path in uploads if path.suffix.lower() in KINDS and not path.name.startswith(".")]
    return [path for path in meant if path.suffix.lower() != ".toml" or path.name == NAME]


def plain_name(name: str) -> str:
    """A file name that is only a name: no folders, nothing unprintable, not hidden, not too long."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(c for c in last if c.isprintable() and c not in '<>:"|?*').strip(" .")
    stem, dot, suffix = kept.rpartition(".")
    kept = f"{stem[:LONGEST_NAME]}{dot}{suffix[:10]}" if dot else kept[:LONGEST_NAME]
    return kept or "unnamed"


def bytes_in(folder: Path) -> int:
    """Of all files below a folder."""
    return sum(status.st_size for _, status in _files_in(folder))


def remove_old(folder: Path, seconds: float, *, most_bytes: float = math.inf, but: Collection[Path] = ()) -> int:
    """What nothing was written to for so long goes from a folder, and the oldest beyond so many bytes; what is left.

    Args:
        folder: of folders of files.
        seconds: since the last change.
        most_bytes: of those that stay.
        but: these folders in it stay.
    """
    now, held = time.time(), 0
    places = [path for path in folder.iterdir() if path not in but]
    found = [(status.st_mtime, status.st_size, path) for place in places for path, status in _files_in(place)]
    for changed, size, path in sorted(found, reverse=True):
        held += size
        if now - changed > seconds or held > most_bytes:
            held -= size
            path.unlink(missing_ok=True)
    for place in places:
        with contextlib.suppress(OSError):  # not empty, or no folder
            if now - place.stat().st_mtime > JUST_MADE_SECONDS:
                place.rmdir()
    return held


def _files_in(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Of all that is below a folder, or of the file itself; what goes meanwhile is left out."""
    below = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    for path in below if folder.is_dir() else [folder]:
        with contextlib.suppress(FileNotFoundError):
            yield path, path.stat(follow_symlinks=False)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.0f} MB"
