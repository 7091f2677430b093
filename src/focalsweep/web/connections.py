"""Connections that take too long, or are too many, are closed: nobody can hold the page by doing nothing."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from focalsweep.web.guard import HEADERS

HEAD_SECONDS = 10.0  # until the head of a request has come
BODY_GRACE_SECONDS, LEAST_RATE = 20.0, 4096  # of a body: so long, and then so many bytes a second
WRITE_SECONDS = 30.0  # in which a visitor reads nothing of what it asked for
MOST_CONNECTIONS = 800
LOOK_SECONDS = 1.0

_waiting: OrderedDict[Connection, None] = OrderedDict()  # for a request, the longest first


class Connection(H11Protocol):
    """One connection, and since when it is at what it is at."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since, self._received, self._stuck = time.monotonic(), 0, 0.0
        _waiting[self] = None
        if len(self.connections) > MOST_CONNECTIONS:
            oldest, _ = _waiting.popitem(last=False)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        _waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        self._received += len(data)
        super().data_received(data)
        if self.cycle is not before:  # the head of a request is there
            _waiting.pop(self, None)
            self._since, self._received = time.monotonic(), 0

    def on_response_complete(self) -> None:
        self._since = time.monotonic()
        if not self.transport.is_closing():
            _waiting[self] = None
            _waiting.move_to_end(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._stuck = time.monotonic()
        super().pause_writing()  # type: ignore[no-untyped-call]

    def resume_writing(self) -> None:
        self._stuck = 0.0
        super().resume_writing()  # type: ignore[no-untyped-call]

    def is_overdue(self, now: float) -> bool:
        if self._stuck:
            return now - self._stuck > WRITE_SECONDS
        if self.cycle is None or self.cycle.response_complete:
            return now - self._since > HEAD_SECONDS
        if self.cycle.more_body and not self.flow.read_paused:
            late = now - self._since - BODY_GRACE_SECONDS
            return late > 0 and self._received < late * LEAST_RATE
        return False

    def send_400_response(self, msg: str) -> None:
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


async def close_overdue(connections: set[Any]) -> None:
    """Until it is cancelled."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = time.monotonic()
        for connection in list(connections):
            if isinstance(connection, Connection) and connection.is_overdue(now):
                connection.transport.abort()
