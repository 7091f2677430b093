"""What stands in front of the page, without the page."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from focalsweep.web.guard import HEADERS, OUR_NAMES, Guard
from focalsweep.web.limits import Limits
from focalsweep.web.passwords import FREE_TRIES, Attempts
from focalsweep.web.uploads import Ledger, Uploads

SMALL = Limits(stack_bytes=100, message_bytes=20, disk_bytes=4200)
UPLOAD, JOIN = "/gradio_api/upload", "/gradio_api/queue/join"


class Page:
    """Takes what comes, and says what it heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            self.heard.append(message["type"])
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": [(b"referrer-policy", b"unsafe-url")]})


async def ask(
    guard: Guard, headers: dict[str, str], chunks: list[bytes], path: str = UPLOAD, kind: str = "http"
) -> list[Any]:
    """All that is sent back."""
    bodies = [{"type": "http.request", "body": part, "more_body": i < len(chunks) - 1} for i, part in enumerate(chunks)]
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(0)  # others may come between
        return bodies.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    if path == UPLOAD:
        headers = {"content-type": "multipart/form-data; boundary=x"} | headers
    encoded = [(name.encode(), value.encode()) for name, value in ({"host": "localhost"} | headers).items()]
    await guard({"type": kind, "method": "POST", "path": path, "headers": encoded}, receive, send)
    return sent


def status(
    root: Path, headers: dict[str, str], chunks: list[bytes], path: str = UPLOAD, **changed: Any
) -> tuple[int, list[str]]:
    """The status that a visitor gets, and what the page behind the guard heard."""
    page = Page()
    sent = asyncio.run(ask(guard_of(page, root, **changed), headers, chunks, path))
    if sent[0]["status"] == 200:
        assert len([1 for name, _ in sent[0]["headers"] if name == b"referrer-policy"]) == 1
    assert {name.encode() for name in HEADERS} <= {name for name, _ in sent[0]["headers"]}
    assert (b"referrer-policy", b"no-referrer") in sent[0]["headers"]
    return sent[0]["status"], page.heard


def guard_of(page: Page, root: Path, **changed: Any) -> Guard:
    ledger = Ledger()
    settings = {"names": OUR_NAMES, "used": lambda: ledger.total, "make_room": lambda: None} | changed
    return Guard(page, Uploads(root / "received", SMALL, ledger), SMALL, **settings)


def photo(size: int) -> bytes:
    """An upload of one small file."""
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.jpg"\r\n\r\n'
    return head + b"y" * size + b"\r\n--x--\r\n"


@pytest.mark.parametrize("host", ["localhost", "localhost:7860", "127.0.0.1:1", "[::1]:80", "[::1]"])
def test_our_names(tmp_path: Path, host: str) -> None:
    assert status(tmp_path, {"host": host, "content-length": "3"}, [b"abc"], JOIN) == (200, ["http.request"])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]"])
def test_other_names(tmp_path: Path, host: str) -> None:
    assert status(tmp_path, {"host": host}, [b"abc"]) == (421, [])


FROM_ELSEWHERE = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:8888"},
    {"origin": "http://127.0.0.1:7860"},  # another name is another page
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},  # another port of this computer
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "origin": "http://evil.example"},
]
FROM_OURS = [
    {},
    {"origin": "http://localhost:7860"},
    {"origin": "https://localhost:7860"},  # behind a proxy
    {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "origin": "http://localhost:7860"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},  # a link to the page
]


@pytest.mark.parametrize("headers", FROM_ELSEWHERE)
@pytest.mark.parametrize("names", [OUR_NAMES, None])
def test_other_pages_are_turned_away(tmp_path: Path, headers: dict[str, str], names: set[str] | None) -> None:
    here = {"host": "localhost:7860"}
    assert status(tmp_path, here | headers, [b""], names=names) == (403, [])


@pytest.mark.parametrize("headers", FROM_OURS)
def test_our_own_page_is_served(tmp_path: Path, headers: dict[str, str]) -> None:
    assert status(tmp_path, {"host": "localhost:7860"} | headers, [b""], "/") == (200, ["http.request"])


def test_bodies(tmp_path: Path) -> None:
    assert status(tmp_path, {"content-length": "101"}, [])[0] == 413
    assert status(tmp_path, {"content-length": "9" * 5000}, [])[0] == 413
    assert status(tmp_path, {"content-length": "-1"}, [])[0] == 411
    assert status(tmp_path, {"transfer-encoding": "chunked"}, [])[0] == 411
    assert status(tmp_path, {"content-length": "21"}, [], JOIN)[0] == 413  # would be held in memory
    assert status(tmp_path, {"content-length": "20"}, [b"x" * 20], JOIN)[0] == 200
    _, heard = status(tmp_path, {"content-length": "9"}, [b"x" * 6, b"x" * 6, b"x"], JOIN)  # more than was said
    assert heard == ["http.request", "http.disconnect"]


def test_full_disk(tmp_path: Path) -> None:
    used = [SMALL.disk_bytes]
    headers = {"content-length": str(len(photo(3)))}
    assert status(tmp_path, headers, [], used=lambda: used[-1])[0] == 507
    assert status(tmp_path, {"content-length": "5"}, [b"x" * 5], JOIN, used=lambda: used[-1])[0] == 200
    assert status(tmp_path, headers, [photo(3)], used=lambda: used[-1], make_room=lambda: used.append(0))[0] == 200


def test_uploads_under_way_count_and_what_is_kept_does(tmp_path: Path) -> None:
    guard = guard_of(Page(), tmp_path)
    body = photo(10)

    async def together() -> list[list[Any]]:
        return await asyncio.gather(*(ask(guard, {"content-length": str(len(body))}, [body]) for _ in range(5)))

    assert sorted(sent[0]["status"] for sent in asyncio.run(together())) == [200, 507, 507, 507, 507]
    assert len(list((tmp_path / "received").iterdir())) == 1


@pytest.mark.parametrize("path", [UPLOAD, JOIN, "/nothing", "/"])
def test_every_refusal_and_fault_has_the_headers(tmp_path: Path, path: str) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a fault of the page")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    guard = guard_of(broken, tmp_path)
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"host", b"localhost")]}
    with contextlib.suppress(RuntimeError):
        asyncio.run(guard(scope, nothing_comes, send))
    assert sent[0]["status"] >= 400
    assert {name.encode() for name in HEADERS} <= {name for name, _ in sent[0]["headers"]}


async def nothing_comes() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


ELSEWHERE = [
    "/gradio_api/file=http://a.example/",
    "/gradio_api/file=FTP:/a",
    "/gradio_api/proxy=http://a.example",
    "/gradio_api/run-history/connect",
    "/gradio_api/run/predict",
    "/gradio_api/call/take",
    "/gradio_api/deep_link",
    "/gradio_api/heartbeat/a/b",
    "/monitoring/summary",
    "/docs",
    "//evil.example",
    "",
]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_what_the_page_does_not_ask_for(tmp_path: Path, path: str) -> None:
    assert status(tmp_path, {}, [b""], path) == (404, [])


@pytest.mark.parametrize("path", ["/", "/config", "/gradio_api/file=/tmp/a", "/gradio_api/file=C:\\a", "/assets/a.js"])
def test_what_it_does(tmp_path: Path, path: str) -> None:
    assert status(tmp_path, {}, [b""], path) == (200, ["http.request"])


def test_no_web_sockets(tmp_path: Path) -> None:
    page = Page()
    sent = asyncio.run(ask(guard_of(page, tmp_path), {}, [b""], "/", "websocket"))
    assert sent == [{"type": "websocket.close"}] and page.heard == []


def test_visitors_who_leave_are_no_error_but_others_are(tmp_path: Path) -> None:
    async def left(scope: Any, receive: Any, send: Any) -> None:
        raise ClientDisconnect

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a fault of the page")

    assert asyncio.run(ask(guard_of(left, tmp_path), {"content-length": "9"}, [b"a" * 9], JOIN)) == []
    with pytest.raises(RuntimeError, match="a fault of the page"):
        asyncio.run(ask(guard_of(broken, tmp_path), {"content-length": "9"}, [b"a" * 9], JOIN))


# Passwords


class Login:
    """The page's own check."""

    def __init__(self) -> None:
        self.looked_at = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        right = (b"cookie", b"right") in scope["headers"]
        self.looked_at += 1
        await send({"type": "http.response.start", "status": 200 if right else 400, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def test_many_wrong_passwords_at_once_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 wrong passwords took 0.2 s."""
    monkeypatch.setattr("focalsweep.web.guard.WRONG_SECONDS", 0.01)
    page, now = Login(), [0.0]
    guard = guard_of(page, tmp_path, passwords=Attempts(lambda: now[0]))

    async def try_many(count: int) -> list[int]:
        sent = await asyncio.gather(*(ask(guard, {}, [b""], "/login") for _ in range(count)))
        return [answer[0]["status"] for answer in sent]

    assert sorted(asyncio.run(try_many(200)))[:2] == [400, 429] and page.looked_at == 1
    for _ in range(20):
        asyncio.run(try_many(3))
    assert page.looked_at == FREE_TRIES
    assert asyncio.run(ask(guard, {"cookie": "right"}, [b""], "/login/"))[0]["status"] == 429
    now[0] += 4.1
    assert asyncio.run(ask(guard, {"cookie": "right"}, [b""], "/login/"))[0]["status"] == 200


def test_uploads_ask_for_the_cookie_where_there_is_a_password(tmp_path: Path) -> None:
    guard = guard_of(Login(), tmp_path, passwords=Attempts())
    body = photo(3)
    headers = {"content-length": str(len(body))}
    assert asyncio.run(ask(guard, headers, [body]))[0]["status"] == 401
    assert not (tmp_path / "received").exists()
    assert asyncio.run(ask(guard, headers | {"cookie": "right"}, [body]))[0]["status"] == 200
