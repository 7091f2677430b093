"""Where stacks come from and results go: a folder here, or a place that fsspec knows (s3://, gs://, memory:// ...).

A result is there when its run.json is: that file comes last, and it goes first when a result is replaced. In a local
folder a result is replaced as one set (`results.folder`), and a new one appears in one move. Files of an older result
that the new one does not have go with it; those of others stay.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from focalsweep.results.folder import MANIFEST, listed_in, locked, swap_in
from focalsweep.results.writing import write_files

MARKER = MANIFEST
UNFINISHED = ".unfinished"


@dataclass(frozen=True)
class Store:
    """A folder of folders, read and written whole folders at a time. It can be sent to another process.

    Args:
        url: a path, or a URL such as s3://bucket/scans. Keys and endpoints of an object store come from its usual
            environment variables, or from fsspec's configuration.
    """

    url: str

    @cached_property
    def path(self) -> Path | None:
        """The folder, where it is one of this machine's file system."""
        if "://" not in self.url and "::" not in self.url:
            return Path(self.url)
        return Path(self._open[1]) if self.url.startswith("file://") else None

    @cached_property
    def _open(self) -> tuple[Any, str]:
        """fsspec's file system, and the path in it."""
        import fsspec

        try:
            files, root = fsspec.core.url_to_fs(self.url)
        except ModuleNotFoundError:
            raise
        except ImportError as error:  # fsspec names the package
            raise ModuleNotFoundError(f"{self.url}: {error}") from None
        return files, root.rstrip("/")

    def place(self, name: str) -> str:
        """What to call a folder or file of it."""
        first, joint, rest = self.url.partition("::")  # fsspec chains file systems so
        return str(self.path / name) if self.path else f"{first.rstrip('/')}/{name}{joint}{rest}"

    def folders(self) -> list[str]:
        """The names of its folders, hidden ones left out."""
        try:
            if self.path:
                names = [path.name for path in self.path.iterdir() if path.is_dir()]
            else:
                files, root = self._open
                found = [entry["name"] for entry in files.ls(root, detail=True) if entry["type"] == "directory"]
                names = [name.rstrip("/").rsplit("/", 1)[-1] for name in found]
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"{self.url} is not a folder: give one whose folders hold the photos of a stack each"
            ) from None
        return sorted(name for name in names if not name.startswith("."))

    def fetch(self, name: str, folder: Path) -> Path:
        """A local folder with the files of `name`: a copy in `folder`, or the folder itself where it is local."""
        if self.path:
            return self.path / name
        files, root = self._open
        for path in files.find(f"{root}/{name}"):
            target = folder / path.removeprefix(f"{root}/{name}/")
            if ".." in target.parts or not target.is_relative_to(folder):  # an object's name may be anything
                raise ValueError(f"{self.place(name)} has an object that leads out of it, {path!r}: rename it")
            target.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(path, str(target))
        return folder

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A folder for the files of a result until `put`, gone afterwards; for a local store beside its results."""
        if self.path is None:
            with tempfile.TemporaryDirectory(prefix="focalsweep-") as name:
                yield Path(name)
            return
        folder = self.path / UNFINISHED / uuid.uuid4().hex
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, draft: Path, name: str) -> None:
        """The files of `draft` as the result `name`."""
        if self.path:
            self._move(draft, self.path / name)
            return
        files, root = self._open
        folder = f"{root}/{name}"
        new = _marker_last(draft)
        there = {Path(path).name for path in files.find(folder)} if files.exists(folder) else set()
        record = self.read(f"{name}/{MARKER}") if MARKER in there else None
        files.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            files.rm_file(f"{folder}/{MARKER}")
        # Without their hashes: reading them back from a store would take longer than making them.
        for old in set(listed_in(record, there) or ()) & there - {path.name for path in new}:
            files.rm_file(f"{folder}/{old}")
        for path in new:
            files.put_file(str(path), f"{folder}/{path.name}")

    def _move(self, draft: Path, target: Path) -> None:
        if not target.exists():
            with contextlib.suppress(OSError):  # somebody else was quicker: as if it had been there
                draft.rename(target)
                return
        swap_in(draft, target)

    def done(self) -> set[str]:
        """The names that have a result."""
        if self.path:
            return {path.parent.name for path in self.path.glob(f"*/{MARKER}")}
        files, root = self._open
        # All keys in one listing: a question for each of many stacks would take longer.
        tails = (path.removeprefix(f"{root}/").split("/") for path in files.find(root))
        return {tail[0] for tail in tails if len(tail) == 2 and tail[1] == MARKER}

    def read(self, name: str) -> bytes | None:
        """A file's bytes; None where there is none."""
        with contextlib.suppress(FileNotFoundError):
            if self.path:
                return (self.path / name).read_bytes()
            files, root = self._open
            return bytes(files.cat_file(f"{root}/{name}"))
        return None

    def write(self, name: str, content: bytes) -> None:
        if self.path:
            write_files({self.path / name: lambda file: file.write(content)})
            return
        files, root = self._open
        files.makedirs(root, exist_ok=True)
        files.pipe_file(f"{root}/{name}", content)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Against other batches that write here, where it is local; a sentence where there is one."""
        if self.path is None:
            yield
            return
        with locked(self.path, wait_seconds=0):
            yield

    def clear(self) -> None:
        """Take away what workers that were killed left unfinished."""
        if self.path:
            shutil.rmtree(self.path / UNFINISHED, ignore_errors=True)


def _marker_last(draft: Path) -> list[Path]:
    return sorted(draft.iterdir(), key=lambda path: (path.name == MARKER, path.name))
