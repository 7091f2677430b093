"""What is no ordinary file, though its name says so: pipes, devices, links that lead nowhere. Nothing is opened."""

from __future__ import annotations

import errno
import stat
from dataclasses import dataclass
from pathlib import Path

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def odd_kind(path: Path) -> str:
    """What to call it; nothing where it is an ordinary file, or not there at all."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link that leads nowhere" if path.is_symlink() else ""
    except OSError as error:
        return "a link that leads to itself" if error.errno == errno.ELOOP else "out of reach"
    return "" if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "no file")


@dataclass(frozen=True)
class FileState:
    """What the system says of a file's content: another after it was written to, or replaced."""

    size: int
    modified_ns: int
    changed_ns: int
    number: int

    @classmethod
    def of(cls, path: Path) -> FileState | None:
        """None where there is no such file."""
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
