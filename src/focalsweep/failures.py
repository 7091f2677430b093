"""What bad input raises, and the sentence that tells of it: the same on the command line and on the page."""

from __future__ import annotations

FAILURES = (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError)


def sentence(error: BaseException) -> str:
    """What went wrong; errors of the operating system come as an errno and a path."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}: check the path, its rights and the disk"
    return str(error)
