"""Uploads without the page: what is kept, what is counted, and that nothing else stays."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from focalsweep.web import uploads as module
from focalsweep.web.limits import Limits
from focalsweep.web.uploads import BLOCK, MOST_FILES, Ledger, Uploads

Chunks = list[bytes | None]  # None: the visitor leaves


def form(*files: tuple[str, bytes], name: str = "files") -> bytes:
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n\r\n'.encode() + data + b"\r\n"
        for file, data in files
    ]
    return b"".join(parts) + b"--x--\r\n"


def send_to(uploads: Uploads, chunks: Chunks, kind: str = "multipart/form-data; boundary=x") -> tuple[int, Any]:
    """Status and body of the answer; 0 where nobody waits for one."""
    sent: list[Any] = []
    left = list(chunks)

    async def receive() -> Any:
        chunk = left.pop(0)
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    length = sum(len(chunk or b"") for chunk in chunks)
    headers = [(b"content-type", kind.encode()), (b"content-length", str(length).encode())]
    asyncio.run(uploads.receive({"headers": headers, "query_string": b"upload_id=a"}, receive, send))
    return (sent[0]["status"], sent[1]["body"]) if sent else (0, b"")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def uploads(tmp_path: Path, ledger: Ledger) -> Uploads:
    return Uploads(tmp_path / "received", Limits(file_bytes=1000), ledger)


def left(uploads: Uploads) -> list[Path]:
    return [path for path in uploads.root.rglob("*")] if uploads.root.exists() else []


def test_files_are_kept_each_upload_by_itself_and_counted(uploads: Uploads, ledger: Ledger) -> None:
    body = form(("a.jpg", b"1" * 100), ("a.jpg", b"2"), ("../../b.jpg", b""))
    status, answer = send_to(uploads, [body[:50], body[50:90], body[90:]])
    paths = [Path(path) for path in json.loads(answer)]
    assert status == 200 and [path.name for path in paths] == ["a.jpg", "a.jpg", "b.jpg"]
    assert [path.read_bytes() for path in paths] == [b"1" * 100, b"2", b""]
    assert all(uploads.root in path.parents for path in paths)
    assert ledger.total == 101 + BLOCK * 7  # empty files count too
    _, again = send_to(uploads, [body])
    assert not set(json.loads(answer)) & set(json.loads(again))  # two visitors with the same photos
    for taken in (paths, [Path(path) for path in json.loads(again)]):
        with uploads.claimed(taken):
            taken[0].unlink()
    assert left(uploads) == [] and ledger.total == 0


@pytest.mark.parametrize(
    ("chunks", "kind", "status"),
    [
        ([form(("a.jpg", b"1" * 1001))], "multipart/form-data; boundary=x", 413),
        ([form(*[(f"{i}.jpg", b"") for i in range(MOST_FILES + 1)])], "multipart/form-data; boundary=x", 413),
        ([b"--x\r\nContent-Disposition: nonsense\r\nno colon"], "multipart/form-data; boundary=x", 400),
        ([form(("a.jpg", b"1"))], "multipart/form-data", 400),
        ([form(("a.jpg", b"1"))], "text/plain", 400),
        ([form(("a.jpg", b"1" * 500))[:300], None], "multipart/form-data; boundary=x", 0),
    ],
)
def test_what_is_refused_or_broken_off_leaves_nothing(
    uploads: Uploads, ledger: Ledger, chunks: Chunks, kind: str, status: int
) -> None:
    assert send_to(uploads, chunks, kind)[0] == status
    assert left(uploads) == [] and ledger.total == 0


def test_parts_that_are_no_files_are_left_out(uploads: Uploads) -> None:
    assert send_to(uploads, [form(("a.jpg", b"1"), name="else")]) == (200, b"[]")


def test_what_is_never_given_to_the_page_goes(
    uploads: Uploads, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, answer = send_to(uploads, [form(("a.jpg", b"1"))])
    (path,) = (Path(path) for path in json.loads(answer))
    uploads.remove_unclaimed()
    assert path.exists()
    monkeypatch.setattr(module, "UNCLAIMED_SECONDS", -1)
    with uploads.claimed([path]):
        uploads.remove_unclaimed()
        assert path.exists()
    assert left(uploads) == [] and ledger.total == 0


def test_progress(uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRESS_SECONDS", 0.01)
    body = form(("a.jpg", b"1" * 900))
    told: list[bytes] = []

    async def receive() -> Any:
        await asyncio.sleep(0.2)
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Any) -> None:
        told.append(message.get("body", b""))

    async def ignore(message: Any) -> None:
        pass

    async def both() -> None:
        headers = [(b"content-type", b"multipart/form-data; boundary=x")]
        scope = {"headers": headers, "query_string": b"upload_id=a"}
        await asyncio.gather(uploads.tell_progress(scope, send), uploads.receive(scope, receive, ignore))

    parts = [body[:400], body[400:]]
    asyncio.run(both())
    news = [json.loads(line[6:]) for line in told if line.startswith(b"data:")]
    assert news[-1] == {"msg": "done"} and sum(item.get("chunk_size", 0) for item in news) <= 900
    assert {item["orig_name"] for item in news[:-1]} == {"a.jpg"}


def test_the_ledger_takes_no_time_however_many_files_there_are(ledger: Ledger) -> None:
    for number in range(20_000):
        ledger.set(Path(str(number)), number)
    began = time.process_time()
    for _ in range(1000):
        assert ledger.total == 20_000 * 19_999 // 2
    assert time.process_time() - began < 1
