"""One stack from store to store: what is tried again, what is final, and that fetching overlaps computing."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from focalsweep import estimate
from focalsweep.batch import one_stack
from focalsweep.batch.one_stack import retry, work_on
from focalsweep.batch.stores import Store
from focalsweep.to_files import Job
from tests.e2e.running import write_small_stack
from tests.errors import assert_one_sentence

JOB = Job("argmin")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_stack, "PAUSES", (0.0, 0.0))


@pytest.fixture
def scans(tmp_path: Path) -> Store:
    write_small_stack(tmp_path / "scans" / "a")
    return Store(str(tmp_path / "scans"))


def remote(folder: Path) -> Store:
    """A store that is no local one, though its files lie here."""
    folder.mkdir(exist_ok=True)
    return Store(f"dir://{folder.name}::{folder.parent.as_uri()}")


def pixels(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "run.json"}


def test_a_local_and_a_remote_store_give_the_same_bytes(scans: Store, tmp_path: Path) -> None:
    assert scans.path
    here = work_on("a", scans, Store(str(tmp_path / "here")), JOB)
    there = work_on("a", remote(scans.path), remote(tmp_path / "there"), JOB)
    assert here["status"] == there["status"] == "done"
    assert pixels(tmp_path / "here" / "a") == pixels(tmp_path / "there" / "a")
    assert len(pixels(tmp_path / "here" / "a")) == 4
    record = json.loads((tmp_path / "there" / "a" / "run.json").read_text())
    assert record["summary"]["median_m"] == here["median_m"] == there["median_m"]


def test_bad_input_is_final_and_told_by_the_name_of_its_store(
    scans: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scans.path
    for path in (scans.path / "a").glob("*.png"):
        path.write_bytes(path.read_bytes()[:60])
    opened: list[Any] = []
    real = estimate.open_photos
    monkeypatch.setattr(estimate, "open_photos", lambda *a, **k: opened.append(a) or real(*a, **k))
    store = remote(scans.path)
    row = work_on("a", store, remote(tmp_path / "out"), JOB)
    assert row["status"] == "failed" and len(opened) == 1
    assert_one_sentence(row["message"], "dir://scans/a::file:", "/frame_0.png")
    assert store.done() == set() and not (tmp_path / "out" / "a").exists()


@pytest.mark.parametrize(("failures", "status"), [(2, "done"), (3, "failed")])
def test_a_store_that_refuses_is_asked_three_times(
    scans: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, status: str
) -> None:
    calls: list[str] = []
    real = Store.put

    def put(self: Store, draft: Path, name: str) -> None:
        calls.append(name)
        if len(calls) <= failures:
            raise ConnectionResetError("the store is busy")
        real(self, draft, name)

    monkeypatch.setattr(Store, "put", put)
    row = work_on("a", scans, Store(str(tmp_path / "out")), JOB)
    assert (row["status"], len(calls)) == (status, 3)
    assert ("busy" in row.get("message", "")) == (status == "failed")
    assert Store(str(tmp_path / "out")).done() == ({"a"} if status == "done" else set())


def test_what_is_no_bad_input_is_tried_again_and_told_with_its_kind(
    scans: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def run_out(*_: Any) -> Any:
        calls.append(1)
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(one_stack, "estimate_to_files", run_out)
    row = work_on("a", scans, Store(str(tmp_path / "out")), JOB)
    assert (row["message"], len(calls)) == ("RuntimeError: CUDA out of memory", 3)


def test_retries_have_an_end_and_exceptions() -> None:
    def fail() -> None:
        calls.append(1)
        raise ValueError("no")

    calls: list[int] = []
    with pytest.raises(ValueError, match="no"):
        retry(fail)
    assert len(calls) == 3
    with pytest.raises(ValueError, match="no"):
        retry(fail, final=(ValueError,))
    assert len(calls) == 4


def test_fetching_and_putting_overlap_computing_but_computing_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads as a worker of a cluster has them: at no time do two compute, at some time one fetches meanwhile."""
    running = {"fetch": 0, "compute": 0}
    most = {"compute": 0}
    overlapped = threading.Event()
    guard = threading.Lock()

    def step(kind: str) -> None:
        with guard:
            running[kind] += 1
            most["compute"] = max(most["compute"], running["compute"])
            if running["fetch"] and running["compute"]:
                overlapped.set()
        time.sleep(0.05)
        with guard:
            running[kind] -= 1

    def fetch(self: Store, name: str, folder: Path) -> Path:
        step("fetch")
        return folder

    def compute(*_: Any) -> Any:
        step("compute")
        return SimpleNamespace(summary={"warnings": []})

    monkeypatch.setattr(Store, "fetch", fetch)
    monkeypatch.setattr(Store, "put", lambda *_: None)
    monkeypatch.setattr(one_stack, "estimate_to_files", compute)
    lock = threading.Lock()
    places = Store(str(tmp_path / "scans")), Store(str(tmp_path / "out"))
    with ThreadPoolExecutor(3) as pool:
        rows = list(pool.map(lambda name: work_on(name, *places, JOB, computing=lock), "abcdef"))
    assert [row["status"] for row in rows] == ["done"] * 6
    assert most["compute"] == 1 and overlapped.is_set()
