"""Files made to take time or memory, files that are none, files that change meanwhile: one sentence each, and soon."""

import os
import socket
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from focalsweep import estimate_depth
from focalsweep.photos.decoding import Refusal, _check_jpeg_is_whole
from focalsweep.photos.odd_files import FileState, odd_kind
from focalsweep.photos.pictures import LARGEST_FILE, read_picture
from focalsweep.photos.reading import open_photos
from focalsweep.photos.sources import Frame, find_frames, read_frames
from focalsweep.photos.stack_file import read_stack_file
from tests.e2e.running import write_small_stack
from tests.errors import assert_one_sentence, message_of

DOTS = ".".join(["a"] * 30_000)
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "dotted key": (f"{DOTS} = 1", "line 1 has 60003 characters"),
    "dotted table": (f"[{DOTS[:3000]}]", "line 1 has a key of 1500 dots"),
    "dotted keys of many lines": (
        "\n".join(".".join([f"k{i}"] * 40) + " = 1" for i in range(1000)),
        "line 1 has a key of 39",
    ),
    "dots between other line ends": ('."\u2028".'.join(["a"] * 400) + " = 1", "dots"),
    "dots in an inline table": (f"camera = {{ {DOTS[:4000]} = 1 }}", "dots"),
    "long line": ("x = '" + "a" * 100_000 + "'", "characters"),
    "size": ("# nothing\n" * 200_000, "over 1 MB"),
    "10 MB of text": ("[camera]\nx = '''" + "a\n" * 5_000_000 + "'''", "over 1 MB"),
    "nested lists": ("x = " + "[" * 2000 + "]" * 2000, "nested too deeply"),
    "nested lists over lines": ("x = " + "[\n" * 5000 + "]\n" * 5000, "nested too deeply"),
    "nested tables": ("x = " + "{a=" * 1200 + "1" + "}" * 1200, "characters"),
    "nested shorter tables": ("x = " + "{a=" * 900 + "1" + "}" * 900, "nested too deeply"),
    "date": ("[camera]\nfocal_length = 2024-99-99", "TOML"),
    "no UTF-8": (b"[camera]\n\xff\xfe", "TOML"),
    "long key": (f"[camera]\n{'k' * 3000} = 1", "unknown key"),
    "long table": (f"[{'k' * 3000}]", "unknown table"),
    "long name": (f"[[frame]]\nfile = '{'a' * 3000}/x'", "no file of this folder"),
    "hexadecimal digits": ("[camera]\nfocal_length = 0x" + "f" * 4000, "too large"),
    "digits": ("[camera]\nf_number = 1" + "0" * 3000, "f_number"),
    "too many digits": ("[camera]\nf_number = 1" + "0" * 4050, "f_number"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_stack_file_takes_neither_memory_nor_time_nor_lines(name: str, tmp_path: Path) -> None:
    text, words = HOSTILE[name]
    (tmp_path / "stack.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    tracemalloc.start()
    began = time.process_time()
    message = message_of(lambda: read_stack_file(tmp_path), ValueError)
    seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_one_sentence(message, "stack.toml", words)
    assert len(message) < 700 + len(str(tmp_path)) and peak < 60e6 and seconds < 20


def test_the_byte_order_mark_of_windows_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "stack.toml").write_bytes("\ufeff[camera]\r\nf_number = 2.8\r\n".encode())
    assert read_stack_file(tmp_path).camera == {"f_number": 2.8}


def test_a_thousand_frames_are_a_stack_file(tmp_path: Path) -> None:
    frames = "".join(f'[[frame]]\nfile = "IMG.2024.11.{i}.jpg"\nfocus_range = [0.44, 0.47]\n' for i in range(1000))
    (tmp_path / "stack.toml").write_text(frames)
    assert len(read_stack_file(tmp_path).frames) == 1000


def test_a_jpeg_of_255s_takes_no_time() -> None:
    """The search for the next marker was quadratic in a run of 255: a file of 1 MB took hours."""
    data = b"\xff\xd8\xff\xda\x00\x02" + b"\xff" * 300_000 + b"\x00"
    began = time.process_time()
    with pytest.raises(Refusal, match="truncated"):
        _check_jpeg_is_whole(data)
    with pytest.raises(Refusal, match="damaged"):
        _check_jpeg_is_whole(b"\xff\xd8" + b"\xff" * 300_000 + b"\x00")
    assert time.process_time() - began < 10


def test_a_file_larger_than_any_picture_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    with path.open("wb") as file:
        file.write(b"\xff\xd8\xff")
        file.truncate(LARGEST_FILE + 1)  # a hole: it takes no disk
    assert_one_sentence(message_of(lambda: read_picture(path), ValueError), "a.jpg", "too large with 4 GB")


# Odd files


def odd_files(folder: Path) -> dict[str, str]:
    """What is no photo, under names of photos."""
    os.mkfifo(folder / "pipe.png")
    (folder / "loop.png").symlink_to("loop.png")
    (folder / "nowhere.png").symlink_to("gone.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "folder.png").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "socket.png"))
    return {
        "pipe.png": "a named pipe", "loop.png": "a link that leads to itself", "zero.png": "a device",
        "nowhere.png": "a link that leads nowhere", "folder.png": "a folder", "socket.png": "a socket",
    }  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: the name of a socket must be short."""
    monkeypatch.chdir(tmp_path)
    return Path()


def test_odd_files_of_a_folder_are_named_and_left_out(here: Path) -> None:
    stack = write_small_stack(here / "shots")
    text = (stack / "stack.toml").read_text()
    (stack / "stack.toml").write_text(text.split("[[frame]]")[0])
    odd = odd_files(stack)
    notes = open_photos(stack, focus_distances=[0.4, 0.6, 0.9]).notes
    for name, kind in odd.items():
        assert odd_kind(stack / name) == kind
        assert f"{name} is {kind}, no photo, and is left out" in notes
    assert odd_kind(stack / "frame_0.png") == odd_kind(stack / "none.png") == ""


@pytest.mark.parametrize("name", ["pipe.png", "zero.png"])
def test_odd_files_that_are_asked_for_are_refused(name: str, here: Path) -> None:
    stack = write_small_stack(here / "shots")
    kind = odd_files(stack)[name]
    message = message_of(lambda: find_frames([stack / name, stack / "frame_0.png"]), ValueError)
    assert_one_sentence(message, name, kind, "leave it out")
    text = (stack / "stack.toml").read_text().replace("frame_0.png", name)
    (stack / "stack.toml").write_text(text)
    assert_one_sentence(message_of(lambda: open_photos(stack), ValueError), name, kind, "stack.toml")


def test_a_stack_file_that_is_a_pipe_is_refused(here: Path) -> None:
    os.mkfifo(here / "stack.toml")
    assert_one_sentence(message_of(lambda: read_stack_file(here), ValueError), "stack.toml is a named pipe")


# Changed meanwhile


def replaced(path: Path) -> None:
    content, times = path.read_bytes(), path.stat()
    path.rename(path.with_suffix(".old"))
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def rewritten(path: Path) -> None:
    os.utime(path, ns=(5, 5))


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [replaced, rewritten, piped, Path.unlink])
def test_a_frame_that_changes_during_a_run_is_told(change: Callable[[Path], Any], tmp_path: Path) -> None:
    stack = write_small_stack(tmp_path / "shots")
    path = stack / "frame_3.png"
    state = FileState.of(path)

    def meddle(stage: str, share: float) -> None:
        if stage == "looking" and FileState.of(path) == state:
            change(path)

    message = message_of(lambda: estimate_depth(stack, "argmin", progress=meddle), ValueError)
    assert_one_sentence(message, "frame_3.png changed while it was worked on")


def test_a_frame_that_changes_while_it_is_read_is_told(tmp_path: Path) -> None:
    stack = write_small_stack(tmp_path / "shots")
    frames = [Frame(path) for path in sorted(stack.glob("*.png"))]
    pictures = read_frames(frames)
    next(pictures)
    rewritten(frames[1].path)
    assert "frame_3.png changed" in message_of(lambda: next(pictures), ValueError)


def test_a_list_of_many_positions_is_no_key_of_many_dots(tmp_path: Path) -> None:
    places = ", ".join(f"{number}.5e-6" for number in range(200))
    (tmp_path / "stack.toml").write_text(f"[stage]\npositions = [{places}]\n")
    assert len(read_stack_file(tmp_path).stage["positions"]) == 200
