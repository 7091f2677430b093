"""What stands in front of the page, without the page."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from focalsweep.web.limits import Limits
from focalsweep.web.server import OUR_NAMES, Guard, read_auth, serve
from tests.errors import assert_one_sentence, message_of

SMALL = Limits(stack_bytes=100, disk_bytes=150)


def ask(
    root: Path, headers: dict[str, str], chunks: list[bytes], path: str = "/gradio_api/upload"
) -> tuple[int, list[Any]]:
    """The status that a visitor gets, and what the page behind the guard heard."""
    heard: list[Any] = []
    sent: list[Any] = []

    async def page(scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            heard.append(message["type"])
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": [(b"referrer-policy", b"unsafe-url")]})

    bodies = [{"type": "http.request", "body": part, "more_body": i < len(chunks) - 1} for i, part in enumerate(chunks)]

    async def receive() -> Any:
        return bodies.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "headers": encoded}
    asyncio.run(Guard(page, root, SMALL, OUR_NAMES)(scope, receive, send))
    if sent[0]["status"] == 200:
        assert (b"referrer-policy", b"no-referrer") in sent[0]["headers"] and len(sent[0]["headers"]) == 3
    return sent[0]["status"], heard


@pytest.mark.parametrize("host", ["localhost", "localhost:7860", "127.0.0.1:1", "[::1]:80", "[::1]"])
def test_our_names(tmp_path: Path, host: str) -> None:
    assert ask(tmp_path, {"host": host, "content-length": "3"}, [b"abc"]) == (200, ["http.request"])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]"])
def test_other_names(tmp_path: Path, host: str) -> None:
    assert ask(tmp_path, {"host": host}, [b"abc"]) == (421, [])


def test_bodies(tmp_path: Path) -> None:
    ours = {"host": "localhost"}
    assert ask(tmp_path, ours | {"content-length": "101"}, [])[0] == 413
    assert ask(tmp_path, ours | {"content-length": "-1"}, [])[0] == 413
    _, heard = ask(tmp_path, ours, [b"x" * 60, b"x" * 60, b"x"])  # in pieces, without saying how many
    assert heard == ["http.request", "http.disconnect"]


def test_full_disk(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"x" * 100)
    ours = {"host": "localhost", "content-length": "60"}
    assert ask(tmp_path, ours, [])[0] == 507
    assert ask(tmp_path, ours, [b"x" * 60], "/gradio_api/queue/join")[0] == 200


@pytest.mark.parametrize("path", ["/gradio_api/file=http://a.example/", "/proxy=http://a.example", "/x=FTP:/a"])
def test_addresses_in_paths(tmp_path: Path, path: str) -> None:
    assert ask(tmp_path, {"host": "localhost"}, [b""], path) == (404, [])


def test_auth() -> None:
    assert read_auth(None) is None and read_auth("anna:a:b") == ("anna", "a:b")
    for text in ("anna", "anna:", ":secret", ""):
        assert_one_sentence(message_of(lambda text=text: read_auth(text), ValueError), "--auth", "anna:secret")
    call = lambda: serve("0.0.0.0", 0, None, example=Path(), device="cpu")  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "--host 0.0.0.0", "--auth")
