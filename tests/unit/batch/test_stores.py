"""Stores: the same answers from a local folder and from an object store, and results that are there whole or not."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from focalsweep.batch.stores import MARKER, Store
from tests.errors import assert_one_sentence, message_of


@pytest.fixture(params=["path", "file", "memory", "object"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A path, its URL, memory, and a file system that fsspec knows and this machine does not take for local."""
    urls = {
        "path": str(tmp_path / "store"),
        "file": (tmp_path / "store").as_uri(),
        "memory": "memory://store/results",
        "object": f"dir://store::{tmp_path.as_uri()}",
    }
    if request.param == "object":
        (tmp_path / "store").mkdir()
    yield Store(urls[request.param])
    fsspec.filesystem("memory").store.clear()


def fill(store: Store, name: str, **files: bytes) -> None:
    with store.draft() as draft:
        draft.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (draft / file.replace("_", ".")).write_bytes(content)
        store.put(draft, name)


def test_what_is_put_can_be_fetched(store: Store, tmp_path: Path) -> None:
    fill(store, "b", depth_npz=b"1", run_json=b"2")
    fill(store, "a", depth_npz=b"3")
    store.write("results.csv", b"stack\n")
    assert store.folders() == ["a", "b"]
    assert store.done() == {"b"}
    copy = tmp_path / "copy"
    folder = store.fetch("b", copy)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"depth.npz": b"1", "run.json": b"2"}
    assert (folder == copy) == (store.path is None)
    assert store.read("results.csv") == b"stack\n"
    assert store.read("nothing.csv") is None


def test_a_result_is_replaced(store: Store) -> None:
    """Older files of ours that the new result does not have go with it, others' stay."""
    fill(store, "a", depth_npz=b"old", run_json=b"old", sheet_png=b"old", notes_txt=b"kept")
    fill(store, "a", depth_npz=b"new", run_json=b"new")
    kept = [store.read(f"a/{name}") for name in ("depth.npz", MARKER, "sheet.png", "notes.txt")]
    assert kept == [b"new", b"new", None, b"kept"]


def test_while_a_result_is_replaced_it_is_not_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marker goes first and comes last: killed at any moment, nobody takes a mixture for a result."""
    fill(store, "a", depth_npz=b"old", run_json=b"old")
    assert store.done() == {"a"}
    seen: list[tuple[str, bool]] = []
    owner: Any = Path if store.path else type(store._open[0])
    real = owner.replace if store.path else owner.put_file

    def watched(one: Any, *rest: Any, **named: Any) -> Any:
        seen.append((Path(str(rest[-1])).name, store.read(f"a/{MARKER}") is not None))
        return real(one, *rest, **named)

    monkeypatch.setattr(owner, "replace" if store.path else "put_file", watched)
    fill(store, "a", sheet_png=b"new", run_json=b"new", depth_npz=b"new")
    assert seen == [("depth.npz", False), ("sheet.png", False), (MARKER, False)]
    assert store.done() == {"a"}


def test_a_new_local_result_appears_in_one_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    monkeypatch.setattr(Path, "replace", lambda *_: pytest.fail("file by file"))
    fill(store, "a", depth_npz=b"1", run_json=b"2")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"depth.npz", "run.json"}
    assert (tmp_path / "a").stat().st_mode & 0o077, "others may read it"


def test_what_a_killed_worker_leaves_is_no_stack(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    (tmp_path / ".unfinished" / "x").mkdir(parents=True)
    (tmp_path / ".unfinished" / "x" / MARKER).touch()
    assert store.folders() == [] and store.done() == set()
    store.clear()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../../b.png", "/tmp/b.png"])
def test_an_object_cannot_be_written_outside_of_the_copy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("memory://scans")
    files, root = store._open
    monkeypatch.setattr(type(files), "find", lambda self, path: [f"{root}/a/{name}"])
    message = message_of(lambda: store.fetch("a", tmp_path / "copy"), ValueError)
    assert_one_sentence(message, "memory://scans/a", name)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    for url in (str(tmp_path / "none"), "memory://none", f"dir://none::{tmp_path.as_uri()}"):
        assert_one_sentence(message_of(Store(url).folders, FileNotFoundError), url, "not a folder")


def test_it_goes_to_another_process(store: Store) -> None:
    store.write("a.csv", b"1")
    assert pickle.loads(pickle.dumps(store)) == store


def test_a_store_that_is_not_installed_names_the_package() -> None:
    message = message_of(lambda: Store("gs://bucket/scans").folders(), ModuleNotFoundError)
    assert_one_sentence(message, "gs://bucket/scans", "gcsfs")
