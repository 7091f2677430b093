"""In front of the page: who may ask for what, and how much they may send."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from focalsweep.web.limits import Limits, bytes_in

OUR_NAMES = {"localhost", "127.0.0.1", "[::1]"}
# What the page's own scripts ask for. Gradio answers to more, some of it by asking other hosts.
ROUTES = re.compile(
    r"/|/(config|login|logout|theme\.css|favicon\.ico|manifest\.json|robots\.txt)/?|/(assets|static)/.+"
    r"|/gradio_api/(upload|upload_progress|queue/join|queue/data|startup-events|heartbeat/\w+|file=(?!\w{2,}:).+)"
)
UPLOAD = "/gradio_api/upload"
HEADERS = {
    # The browser itself refuses every other host; Gradio writes scripts and styles into the page.
    "content-security-policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob:; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' blob:; "
        "connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
Rejection = tuple[int, str]


class Guard:
    """An ASGI application around the page's: turns away what the page itself would not ask for, and adds headers.

    Args:
        app: the page.
        root: the folder of all that visitors have sent.
        limits: of what they may send.
        names: of this computer; others are turned away (a foreign page whose name was pointed here). None: any.
        make_room: removes what nobody needs any more; called where the disk space of the page is used up.
    """

    def __init__(
        self, app: Any, root: Path, limits: Limits, names: set[str] | None, make_room: Callable[[], None]
    ) -> None:
        self._app, self._root, self._limits, self._names = app, root, limits, names
        self._make_room = make_room
        self._arriving = 0  # bytes that uploads under way have announced

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import ClientDisconnect  # comes with Gradio

        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # the page uses no web sockets
            await send({"type": "websocket.close"})
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        rejection = self._foreign_page(headers) or self._unknown_route(scope) or self._over_limits(scope, headers)
        if rejection:
            await _answer(send, *rejection)
            return
        announced = int(headers.get(b"content-length", "0"))
        left = announced

        async def receive_counted() -> Any:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            return {"type": "http.disconnect"} if left < 0 else message

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name.decode().lower() not in HEADERS]
                message["headers"] = kept + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        self._arriving += announced
        try:
            with suppress(ClientDisconnect):  # a visitor who left in the middle of an upload: nobody to answer
                await self._app(scope, receive_counted, send_with_headers)
        finally:
            self._arriving -= announced

    def _foreign_page(self, headers: dict[bytes, str]) -> Rejection | None:
        """Another page in the visitor's browser, which may send but not read: browsers say where a request is from."""
        host = headers.get(b"host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self._names is not None and name not in self._names:
            return 421, "this page answers to localhost only"
        origin = headers.get(b"origin")
        elsewhere = headers.get(b"sec-fetch-site") in ("cross-site", "same-site")
        followed_a_link = origin is None and headers.get(b"sec-fetch-mode") == "navigate"
        if (origin is not None and origin.partition("://")[2] != host) or (elsewhere and not followed_a_link):
            return 403, "this page answers to itself only, not to other pages"
        return None

    def _unknown_route(self, scope: Any) -> Rejection | None:
        return None if ROUTES.fullmatch(scope["path"]) else (404, "there is nothing here")

    def _over_limits(self, scope: Any, headers: dict[bytes, str]) -> Rejection | None:
        length = headers.get(b"content-length", "0")
        if b"transfer-encoding" in headers or not length.isdecimal():
            return 411, "say first how many bytes come"
        uploads = scope["path"] == UPLOAD
        most = self._limits.stack_bytes if uploads else self._limits.message_bytes
        if int(length) > most:
            return 413, f"at most {most // 2**20} MB are taken at a time: give fewer or smaller photos"
        if uploads and self._is_full(int(length)):
            self._make_room()
            if self._is_full(int(length)):
                return 507, "the disk space of this page is full: come back in an hour"
        return None

    def _is_full(self, length: int) -> bool:
        return bytes_in(self._root) + self._arriving + length > self._limits.disk_bytes


async def _answer(send: Any, status: int, words: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": words.encode()})
