"""The same file twice in a stack."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from focalsweep.errors import InputError
from focalsweep.photos import copies
from focalsweep.photos.copies import refuse_copies
from focalsweep.photos.sources import Frame


def picture(seed: int, side: int = 8) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def frames(folder: Path, contents: list[bytes]) -> list[Frame]:
    made = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.png"
        path.write_bytes(content)
        made.append(Frame(path))
    return made


def test_different_photos_pass(tmp_path: Path) -> None:
    refuse_copies(frames(tmp_path, [picture(0), picture(1), picture(2)]))


def test_copies_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0\.png and 2\.png are the same photo.*leave one of them out"):
        refuse_copies(frames(tmp_path, [picture(0), picture(1), picture(0)]))


def test_large_files_that_differ_at_one_end(tmp_path: Path) -> None:
    """Beyond the part that is compared first, and beyond the first block."""
    first = picture(0, 1200)
    assert len(first) > copies.BLOCK_BYTES + copies.SAMPLE_BYTES
    refuse_copies(frames(tmp_path, [first, first[:-1] + b"x"]))
    with pytest.raises(InputError, match="byte for byte"):
        refuse_copies(frames(tmp_path, [first, first]))


def test_what_is_no_photo_at_all_is_told_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.png cannot be read"):
        refuse_copies(frames(tmp_path, [b"no picture", b"no picture"]))


def test_pages_of_one_file_are_no_copies(tmp_path: Path) -> None:
    path = tmp_path / "stack.tif"
    path.write_bytes(b"pages")
    refuse_copies([Frame(path, 0), Frame(path, 1)])
