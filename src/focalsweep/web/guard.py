"""In front of the page: who may ask for what, and how much they may send."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from focalsweep.web.limits import Limits
from focalsweep.web.passwords import WRONG_SECONDS, Attempts
from focalsweep.web.uploads import Uploads

OUR_NAMES = {"localhost", "127.0.0.1", "[::1]"}
# What the page's own scripts ask for. Gradio answers to more, some of it by asking other hosts.
ROUTES = re.compile(
    r"/|/(config|login|logout|theme\.css|favicon\.ico|manifest\.json|robots\.txt)/?|/(assets|static)/.+"
    r"|/gradio_api/(upload|upload_progress|queue/join|queue/data|startup-events|heartbeat/\w+|file=(?!\w{2,}:).+)"
)
UPLOAD, PROGRESS, LOGIN = "/gradio_api/upload", "/gradio_api/upload_progress", "/login"
STREAMS = re.compile(r"/gradio_api/(?:upload_progress|queue/data|heartbeat/(\w+))")
MOST_STREAMS = 600  # answers that go on for long, all together
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
        uploads: takes what visitors send.
        limits: of what they may send.
        names: of this computer; others are turned away (a foreign page whose name was pointed here). None: any.
        used: bytes of the disk that the page takes, known without looking.
        make_room: removes what nobody needs any more; called where the disk space of the page is used up.
        passwords: where the page asks for one: who tried how often.
        present: told (session, True) when a page is opened and (session, False) when it has gone.
    """

    def __init__(
        self,
        app: Any,
        uploads: Uploads,
        limits: Limits,
        names: set[str] | None,
        *,
        used: Callable[[], int],
        make_room: Callable[[], None],
        passwords: Attempts | None = None,
        present: Callable[[str, bool], None] = lambda session, here: None,
    ) -> None:
        self._app, self._uploads, self._limits, self._names = app, uploads, limits, names
        self._used, self.make_room, self._passwords, self._present = used, make_room, passwords, present
        self._streams = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # the page uses no web sockets
            await send({"type": "websocket.close"})
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        rejection = self._foreign_page(headers) or self._unknown_route(scope) or await self._over_limits(scope, headers)
        if rejection:
            await _answer(send, *rejection)
            return
        left = int(headers.get(b"content-length", "0"))
        begun = False

        async def receive_counted() -> Any:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            return {"type": "http.disconnect"} if left < 0 else message

        async def send_with_headers(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                kept = [(name, value) for name, value in message["headers"] if name.decode().lower() not in HEADERS]
                message["headers"] = kept + _SECURITY
            await send(message)

        try:
            with self._counted_stream(scope["path"]):
                await self._pass_on(scope, receive_counted, send_with_headers)
        except Exception:
            if not begun:
                await _answer(send, 500, "this is a fault of focalsweep: the window it was started in tells more")
            raise

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import ClientDisconnect  # comes with Gradio

        path = scope["path"].rstrip("/")
        if path == LOGIN and scope["method"] == "POST" and self._passwords is not None:
            await self._log_in(self._passwords, scope, receive, send)
            return
        if path in (UPLOAD, PROGRESS) and not await self._may_enter(scope):
            await _answer(send, 401, "log in first")
        elif path == UPLOAD:
            await self._uploads.receive(scope, receive, send)
        elif path == PROGRESS:
            await self._uploads.tell_progress(scope, send)
        else:
            with contextlib.suppress(ClientDisconnect):  # a visitor who left in the middle: nobody to answer
                await self._app(scope, receive, send)

    async def _log_in(self, passwords: Attempts, scope: Any, receive: Any, send: Any) -> None:
        """One try: a wrong one is answered late, and after some of them the address has to wait."""
        address = (scope.get("client") or ("",))[0]
        wait = passwords.begin(address)
        if wait:
            seconds = math.ceil(wait)
            words = f"too many wrong passwords: wait {seconds} s, then try again"
            await _answer(send, 429, words, [(b"retry-after", str(seconds).encode())])
            return
        wrong = True

        async def send_late(message: Any) -> None:
            nonlocal wrong
            if message["type"] == "http.response.start":
                wrong = message["status"] >= 400
                if wrong:
                    await asyncio.sleep(WRONG_SECONDS)
            await send(message)

        try:
            await self._app(scope, receive, send_late)
        finally:
            passwords.end(address, wrong)

    async def _may_enter(self, scope: Any) -> bool:
        """Whether the page's own check of the visitor's cookie lets it in."""
        if self._passwords is None:
            return True
        status = 0

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        headers = [(name, value) for name, value in scope["headers"] if name.lower() in (b"cookie", b"host")]
        path = "/gradio_api/login_check"
        asked = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
        await self._app({**scope, **asked}, receive, send)
        return status == 200

    @contextlib.contextmanager
    def _counted_stream(self, path: str) -> Iterator[None]:
        stream = STREAMS.fullmatch(path)
        session = stream[1] if stream else None
        self._streams += stream is not None
        if session:
            self._present(session, True)
        try:
            yield
        finally:
            self._streams -= stream is not None
            if session:
                self._present(session, False)

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

    async def _over_limits(self, scope: Any, headers: dict[bytes, str]) -> Rejection | None:
        length = headers.get(b"content-length", "0")
        if b"transfer-encoding" in headers or not (length.isascii() and length.isdecimal()):
            return 411, "say first how many bytes come"
        uploads = scope["path"] == UPLOAD
        if self._streams >= MOST_STREAMS and STREAMS.fullmatch(scope["path"]):
            return 503, "too many are here: come back in a few minutes"
        most = self._limits.stack_bytes if uploads else self._limits.message_bytes
        if len(length) > 15 or int(length) > most:
            return 413, f"at most {most // 2**20} MB are taken at a time: give fewer or smaller photos"
        if uploads and self._is_full(int(length)):
            await asyncio.to_thread(self.make_room)
            if self._is_full(int(length)):
                return 507, "the disk space of this page is full: come back in an hour"
        return None

    def _is_full(self, length: int) -> bool:
        return self._used() + length > self._limits.disk_bytes


_SECURITY = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def _answer(send: Any, status: int, words: str, more: list[tuple[bytes, bytes]] | None = None) -> None:
    body = words.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close"), *_SECURITY, *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
