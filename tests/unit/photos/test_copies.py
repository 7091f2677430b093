"""The same file twice in a stack."""

from pathlib import Path

import pytest

from focalsweep.errors import InputError
from focalsweep.photos import copies
from focalsweep.photos.copies import refuse_copies
from focalsweep.photos.sources import Frame


def frames(folder: Path, contents: list[bytes]) -> list[Frame]:
    made = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.jpg"
        path.write_bytes(content)
        made.append(Frame(path))
    return made


def test_different_photos_pass(tmp_path: Path) -> None:
    refuse_copies(frames(tmp_path, [b"one", b"two", b"three"]))


def test_copies_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0\.jpg and 2\.jpg are the same photo.*leave one of them out"):
        refuse_copies(frames(tmp_path, [b"one", b"two", b"one"]))


def test_large_files_that_differ_at_one_end(tmp_path: Path) -> None:
    """Beyond the part that is compared first, and beyond the first block."""
    first = bytes(copies.BLOCK_BYTES + 4 * copies.SAMPLE_BYTES)
    refuse_copies(frames(tmp_path, [first, first[:-1] + b"x"]))
    with pytest.raises(InputError, match="byte for byte"):
        refuse_copies(frames(tmp_path, [first, first]))


def test_pages_of_one_file_are_no_copies(tmp_path: Path) -> None:
    path = tmp_path / "stack.tif"
    path.write_bytes(b"pages")
    refuse_copies([Frame(path, 0), Frame(path, 1)])
