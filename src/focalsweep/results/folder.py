"""The files of a run as one set in a folder: all of this run or all of the run before, whenever it is cut off.

New files are written beside, in `.focalsweep/draft-*`. One rename to `.focalsweep/next` decides: before it the old set
counts, after it the new one. Then the old set goes, and the new files move up, the manifest last: a file that names
every other one with its size and its hash. A run that is cut off in between is finished by the next one, or by
`focalsweep check`. Files that a manifest does not name, or that changed since, are somebody else's and stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from focalsweep.errors import InputError, InputFileExistsError
from focalsweep.progress import Progress

Writer = Callable[[IO[bytes]], Any]

MANIFEST, REGISTERED = "run.json", "registered.json"  # of a result, and of registered frames
HIDDEN, LOCK, DRAFT, NEXT, PLAN = ".focalsweep", "lock", "draft-", "next", ".plan.json"
WAIT_SECONDS = 60.0  # for another writer: it only holds the folder while it writes
LARGEST_RECORD = 64 * 2**20  # bytes of a manifest that is read
OF_OLDER_VERSIONS = (
    "depth.npz", "depth_mm.png", "depth.png", "all_in_focus.png", "sheet.png", "depth.exr", "cloud.ply", "mesh.glb",
)  # fmt: skip
"""What runs wrote whose run.json has no list yet."""


def write_set(
    folder: Path,
    writers: Mapping[str, Writer],
    record: Callable[[dict[str, Any]], bytes],
    manifest: str = MANIFEST,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the files of a run and their manifest in place of those of an older run: all of them, or none.

    Args:
        folder: made if it is not there, and gone again where the writing fails.
        writers: by file name, called in order.
        record: the manifest's bytes, given what belongs under its key "files".
        manifest: its name: sets of different manifests leave each other alone.
        progress: told how far it is.
    """
    with locked(folder) as hidden:
        refuse_strangers(folder, [*writers, manifest], manifest)
        draft = hidden / f"{DRAFT}{uuid.uuid4().hex}"
        draft.mkdir()
        try:
            for number, (name, write) in enumerate(writers.items()):
                _write(draft / name, write)
                if progress:
                    progress("writing", (number + 1) / (len(writers) + 1))
            content = record({name: _identity(draft / name) for name in writers})
            _write(draft / manifest, lambda file: file.write(content))
            _decide(draft, folder, manifest)
        except BaseException:
            _remove_tree(draft)
            raise
        _finish_somehow(folder)
        if progress:
            progress("writing", 1.0)
    return [folder / name for name in (*writers, manifest)]


def finish_earlier(folder: Path) -> None:
    """Put in place what a run that was cut off had decided on: until then its files look like somebody else's."""
    if (folder / HIDDEN).is_dir():
        with locked(folder):
            pass


def swap_in(draft: Path, folder: Path, manifest: str = MANIFEST) -> None:
    """A folder of files that are whole, on the same disk, in place of the set of an older run."""
    with locked(folder):
        refuse_strangers(folder, [path.name for path in draft.iterdir()], manifest)
        _decide(draft, folder, manifest)
        _finish_somehow(folder)


@contextmanager
def locked(folder: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[Path]:
    """Hold a folder against other writers, with what was cut off in it finished or gone; gives its hidden folder.

    Folders that had to be made go again where the body fails.
    """
    hidden = folder / HIDDEN
    if hidden.is_symlink():
        raise InputError("{place} is a link: remove it, results are not written through it", place=hidden)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    lock = _acquire(hidden, time.monotonic() + wait_seconds, folder)
    kept = False
    try:
        _finish_somehow(folder)
        for path in hidden.glob(f"{DRAFT}*"):
            _remove_tree(path)
        yield hidden
        kept = True
    finally:
        _release(lock, hidden)
        for path in () if kept else made:
            with contextlib.suppress(OSError):  # what somebody else put there stays
                path.rmdir()


def refuse_strangers(folder: Path, names: list[str], manifest: str = MANIFEST) -> None:
    """Raise where a file of one of these names is none of ours: it would be lost."""
    if listed_files(folder, manifest) is not None:
        return
    for name in names:
        if os.path.lexists(folder / name):
            raise InputFileExistsError(
                "{place} was not written by focalsweep", value=str(folder / name), place=folder / name,
                remedy="move it, or give another folder for the results",
            )  # fmt: skip


def listed_files(folder: Path, manifest: str = MANIFEST) -> dict[str, dict[str, Any]] | None:
    """What a set's manifest says of its files, by plain names; None where there is no set of ours."""
    path = folder / manifest
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not path.is_file() or path.stat().st_size > LARGEST_RECORD:
        return None
    return listed_in(path.read_bytes(), there)


def listed_in(record: bytes | None, there: Collection[str]) -> dict[str, dict[str, Any]] | None:
    """The same from the manifest's bytes, and the names of the folder's files."""
    if record is None:
        return None
    of_older_version: dict[str, dict[str, Any]] = {name: {} for name in OF_OLDER_VERSIONS if name in there}
    try:
        known = json.loads(record)
    except (ValueError, RecursionError):  # cut off or damaged: that of an older version, as far as anyone can tell
        return of_older_version
    files = known.get("files") if isinstance(known, dict) else None
    if isinstance(files, dict):
        return {name: facts for name, facts in files.items() if is_plain(name) and isinstance(facts, dict)}
    return of_older_version if isinstance(known, dict) and "focalsweep" in known else None


def is_plain(name: Any) -> bool:
    """A name that leads nowhere else, and is not hidden."""
    return isinstance(name, str) and Path(name).name == name and not name.startswith(".") and "\0" not in name


def faults_of(folder: Path, manifest: str = MANIFEST) -> list[str]:
    """What is wrong with a set, a line each: files that are missing or not as they were written."""
    files = listed_files(folder, manifest)
    if files is None:
        return [f"{folder} has no {manifest} of focalsweep"]
    if not files or not all(files.values()):
        return [f"{folder / manifest} does not say what its files must be: it is damaged or of an older version"]
    faults = []
    for name, facts in files.items():
        if not (folder / name).is_file():
            faults.append(f"{folder / name} is missing")
        elif not _is_as_written(folder / name, facts):
            faults.append(f"{folder / name} is not as it was written")
    return faults


def finish(folder: Path) -> bool:
    """Put in place what an earlier run had decided on; whether there was anything. The folder must be locked."""
    coming = folder / HIDDEN / NEXT
    if not coming.is_dir():
        return False
    plan = _read_plan(coming / PLAN)
    waiting = {path.name for path in coming.iterdir()} - {PLAN}
    if waiting == set(plan["new"]):  # nothing moved up yet: perhaps not all of the old set is gone
        for name in plan["old"]:
            (folder / name).unlink(missing_ok=True)
        sync_folder(folder)
    for name in plan["new"]:  # the manifest is the last
        if name in waiting:
            (coming / name).replace(folder / name)
    sync_folder(folder)
    (coming / PLAN).unlink(missing_ok=True)
    coming.rmdir()
    return True


def _decide(draft: Path, folder: Path, manifest: str) -> None:
    """The step that replaces the old set: from here on it is the new one's turn, whatever happens."""
    new = sorted((path.name for path in draft.iterdir()), key=lambda name: (name == manifest, name))
    listed = listed_files(folder, manifest) or {}
    old = [name for name, facts in listed.items() if name in new or _is_as_written(folder / name, facts)]
    gone = [manifest, *(name for name in old if name != manifest)]
    plan = json.dumps({"old": gone, "new": new}).encode()
    _write(draft / PLAN, lambda file: file.write(plan))
    sync_folder(draft)
    draft.rename(folder / HIDDEN / NEXT)


def _finish_somehow(folder: Path) -> None:
    """`finish`, with a second try: what a disk refuses once it may take a moment later."""
    try:
        finish(folder)
    except OSError:
        finish(folder)


def _read_plan(path: Path) -> dict[str, list[str]]:
    """Names only: whoever can write here must not reach other folders through us."""
    try:
        plan = json.loads(path.read_bytes())
        lists = {key: [name for name in plan[key] if is_plain(name)] for key in ("old", "new")}
    except FileNotFoundError:
        return {"old": [], "new": []}
    except (ValueError, KeyError, TypeError):
        raise InputError("{place} is damaged: remove that folder", place=path.parent) from None
    return lists


def _is_as_written(path: Path, facts: Mapping[str, Any]) -> bool:
    """Whether a file is still the one of the list; what older versions wrote is, by its name."""
    if path.is_symlink() or not path.is_file():
        return False
    if not facts:
        return True
    return path.stat().st_size == facts.get("bytes") and _identity(path) == dict(facts)


def _identity(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _write(path: Path, write: Writer) -> None:
    """Onto the disk; what it refuses is told of the folder that the file is for."""
    try:
        with path.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path.parents[2] / path.name)) from None


def sync_folder(folder: Path) -> None:
    """Its names reach the disk before what comes next; Windows has no such call."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _acquire(hidden: Path, until: float, folder: Path) -> IO[bytes]:
    """The lock of a folder; another writer is waited for."""
    while True:
        hidden.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the other writer has just finished, and cleaned up
            lock = (hidden / LOCK).open("ab")
            if try_lock(lock):
                if (hidden / LOCK).exists() and os.path.samestat(os.fstat(lock.fileno()), (hidden / LOCK).stat()):
                    return lock
                lock.close()
                continue
            lock.close()
        if time.monotonic() >= until:
            raise InputFileExistsError(
                "another run of focalsweep writes to {place}", value=str(folder), place=folder,
                remedy="wait until it has finished, or give another folder",
            )  # fmt: skip
        time.sleep(0.05)


def try_lock(lock: IO[bytes]) -> bool:
    """The system lets go of it when the process ends, however it does."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a disk that knows no locks, as some of a network: as if nobody else wrote
        return True
    return True


def _release(lock: IO[bytes], hidden: Path) -> None:
    if sys.platform == "win32":
        lock.close()  # an open file cannot be removed there
    remove_file(hidden / LOCK)
    for _ in range(2):
        with contextlib.suppress(OSError):  # what is not finished stays for the next run
            hidden.rmdir()
    lock.close()


def remove_file(path: Path) -> None:
    """Without complaint, and with a second try."""
    for _ in range(2):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _remove_tree(folder: Path) -> None:
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
