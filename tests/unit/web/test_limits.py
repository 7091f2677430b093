"""What visitors may send, and under which names it is kept."""

import os
import time
from pathlib import Path

import pytest

from focalsweep.web.limits import Limits, of_a_folder, plain_name, receive, remove_old
from tests.errors import assert_one_sentence, message_of


def write(folder: Path, *names: str, size: int = 10) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x" * size)
    return [folder / name for name in names]


def test_files_are_moved_under_their_names(tmp_path: Path) -> None:
    uploads = write(tmp_path / "up", "a.jpg", "b.JPG", "stack.toml")
    kept = receive(uploads, tmp_path / "kept", Limits())
    assert [path.name for path in kept] == ["a.jpg", "b.JPG", "stack.toml"]
    assert all(path.is_file() for path in kept) and not any(path.exists() for path in uploads)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a.jpg"] + [f"{i}.png" for i in range(5)], ["6 files", "at most 5"]),
        (["a.jpg", "b.zip"], ["b.zip", "unpack"]),
        (["a.jpg", "b.html"], ["b.html", "no picture"]),
        (["a.jpg", "pyproject.toml"], ["pyproject.toml", "no picture"]),
        (["a.jpg", "A.JPG"], ["A.JPG", "twice"]),
        ([], ["no photos"]),
    ],
)
def test_what_is_refused_stays_where_it_is(tmp_path: Path, names: list[str], words: list[str]) -> None:
    uploads = write(tmp_path / "up", *names)
    limits = Limits(files=5)
    assert_one_sentence(message_of(lambda: receive(uploads, tmp_path / "kept", limits), ValueError), *words)
    assert not (tmp_path / "kept").exists() and all(path.exists() for path in uploads)


@pytest.mark.parametrize("limits", [Limits(file_bytes=9), Limits(stack_bytes=19)])
def test_sizes(tmp_path: Path, limits: Limits) -> None:
    uploads = write(tmp_path / "up", "a.jpg", "b.jpg")
    assert "at most" in message_of(lambda: receive(uploads, tmp_path / "kept", limits), ValueError)
    assert len(receive(uploads, tmp_path / "kept", Limits(file_bytes=10, stack_bytes=20))) == 2


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("IMG 1.jpg", "IMG 1.jpg"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\a.png", "a.png"),
        ("<img src=x onerror=alert(1)>.png", "img src=x onerror=alert(1).png"),
        ("a\x00b\n.png", "ab.png"),
        ("..", "unnamed"),
        (".hidden.jpg", "hidden.jpg"),
        ("x" * 500 + ".jpeg", "x" * 120 + ".jpeg"),
        ("käfer.jpg", "käfer.jpg"),
    ],
)
def test_plain_names(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_a_file_that_another_page_took(tmp_path: Path) -> None:
    uploads = write(tmp_path / "up", "a.jpg", "b.jpg")
    uploads[1].unlink()
    message = message_of(lambda: receive(uploads, tmp_path / "kept", Limits()), ValueError)
    assert_one_sentence(message, "b.jpg has gone meanwhile", "again")
    assert uploads[0].exists() and "/" not in message


def test_a_folder_has_more_than_photos() -> None:
    given = [Path(name) for name in ("a.JPG", ".b.jpg", "notes.txt", "Thumbs.db", "stack.toml", "x.toml", "c.mp4")]
    assert [path.name for path in of_a_folder(given)] == ["a.JPG", "stack.toml", "c.mp4"]


def test_old_files_are_removed_and_the_oldest_beyond_the_space(tmp_path: Path) -> None:
    for number in range(4):
        (path,) = write(tmp_path / str(number), "photo", size=100)
        os.utime(path, (time.time() - 100 * number,) * 2)
    (kept,) = write(tmp_path / "received", "old")
    os.utime(kept, (0, 0))
    but = (tmp_path / "received",)
    assert remove_old(tmp_path, 250, but=but) == 300
    assert remove_old(tmp_path, 250, most_bytes=200, but=but) == 200
    os.utime(tmp_path / "3", (0, 0))
    assert remove_old(tmp_path, 250, but=but) == 200 and not (tmp_path / "3").exists()
    assert (tmp_path / "0" / "photo").exists() and (tmp_path / "1" / "photo").exists() and kept.exists()
    assert not (tmp_path / "2" / "photo").exists()
