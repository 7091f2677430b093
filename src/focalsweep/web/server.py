"""The server of the page: nothing leaves this computer, nothing outside the page's own folder is reached."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from focalsweep.errors import InputError
from focalsweep.memory import release_freed_memory
from focalsweep.web.guard import OUR_NAMES, Guard
from focalsweep.web.isolation import is_loopback, refuse_other_hosts
from focalsweep.web.jobs import warm_up
from focalsweep.web.limits import Limits, remove_old
from focalsweep.web.log import bounded_errors
from focalsweep.web.passwords import Attempts
from focalsweep.web.uploads import Ledger, Uploads

FOLDER_PREFIX, LOCK = "focalsweep-", "lock"
TIDY_SECONDS = 3.0
SWITCH_SECONDS = 0.001  # between threads: the one that answers everybody waits for others that work
COPIES_SHARE = 0.25  # of the disk space: Gradio's copies of what it shows
MOST_FILES = 8192
JUST_BEGUN = 60.0  # seconds in which a server may not have locked its folder yet


def read_auth(text: str | None) -> tuple[str, str] | None:
    """NAME:PASSWORD."""
    if text is None:
        return None
    name, colon, password = text.partition(":")
    if not (name and colon and password):
        raise InputError(
            "{auth} must be {rule}, such as anna:secret",
            field="auth",
            rule="a name and a password with a colon between",
        )
    return name, password


def serve(
    host: str,
    port: int,
    auth: tuple[str, str] | None,
    *,
    example: Path,
    device: str,
    limits: Limits | None = None,
    started: Callable[[str], None] = print,
) -> None:
    """Show the page until the process is told to end; every file of every visitor goes with it.

    Args:
        host: an address of this computer; others than loopback need `auth`.
        port: 0 for any that is free.
        auth: name and password that the page asks for.
        example: a folder with a stack to try.
        device: where to work.
        limits: of what visitors may send.
        started: called with the page's address when it can be opened.
    """
    if not is_loopback(host) and auth is None:
        raise InputError(
            "{host} {value} lets others reach this page",
            field="host", value=host, remedy="give {auth=NAME:PASSWORD} too, or leave it out",
        )  # fmt: skip
    with contextlib.closing(_listen(host, port)) as listening, own_folder() as root, bounded_errors():
        refuse_other_hosts()
        warm_up()
        os.environ["GRADIO_TEMP_DIR"] = str(root / "uploads")  # before its import, which makes a folder there
        import_gradio()
        import torch
        import uvicorn

        from focalsweep.web.connections import Connection, close_overdue

        sys.setswitchinterval(SWITCH_SECONDS)
        torch.set_num_threads(1)  # only small pictures are made in this process: threads would wait for each other
        app = make_app(
            root, auth, example=example, device=device, limits=limits or Limits(), loopback=is_loopback(host)
        )
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        raise_file_limit()
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, http=Connection, ws="none")
        server = uvicorn.Server(config)
        startup = server.startup
        tasks = []  # kept, or they would be collected

        async def startup_and_tell(*arguments: Any, **keywords: Any) -> None:
            await startup(*arguments, **keywords)
            tasks.append(asyncio.create_task(close_overdue(server.server_state.connections)))
            started(address)

        server.startup = startup_and_tell  # type: ignore[method-assign]
        # uvicorn raises the signal that ended it once more: as an exception, so that the folder still goes.
        for ending in (signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, _interrupt)
        with contextlib.suppress(KeyboardInterrupt), every(TIDY_SECONDS, app.make_room):
            server.run(sockets=[listening])


@contextlib.contextmanager
def every(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Again and again in a thread of its own, beside whatever goes on here."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            try:
                action()
            except Exception:  # the next time may go well, and nobody else does it
                traceback.print_exc()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def raise_file_limit() -> None:
    """As many open files as the system lets us have: each visitor takes a few."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A temporary folder that goes with this process; those of servers that were killed outright go now."""
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as name, (Path(name) / LOCK).open("w") as lock:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)  # until the process ends, however it does
            for other in Path(name).parent.glob(f"{FOLDER_PREFIX}*"):
                if _is_left_behind(other):
                    shutil.rmtree(other, ignore_errors=True)
        yield Path(name)


def _is_left_behind(folder: Path) -> bool:
    """Whether it is a folder of ours whose server lives no more."""
    import fcntl

    try:
        if folder.stat().st_uid != os.getuid() or time.time() - (folder / LOCK).stat().st_mtime < JUST_BEGUN:
            return False
        with (folder / LOCK).open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def import_gradio() -> Any:
    """Gradio, told not to speak to anyone, or a sentence where it is not installed."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("GRADIO_SSR_MODE", "False")
    try:
        import gradio
    except ModuleNotFoundError as missing:
        if missing.name != "gradio":
            raise
        raise ModuleNotFoundError("the page needs the package gradio: pip install 'focalsweep[web]'") from None
    return gradio


def make_app(
    root: Path, auth: tuple[str, str] | None, *, example: Path, device: str, limits: Limits, loopback: bool = True
) -> Any:
    """The page as an ASGI application. All files of visitors are below `root`."""
    gradio = import_gradio()
    from fastapi import FastAPI

    from focalsweep.web.page import make_page
    from focalsweep.web.style import CSS, JAVASCRIPT, NARROW, theme
    from focalsweep.web.visitors import Visitors

    cache, kept = root / "uploads", root / "visitors"
    received = cache / "received"
    for folder in (received, kept):
        folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger()
    uploads = Uploads(received, limits, ledger)
    visitors = Visitors(kept, limits, device, ledger)
    blocks = make_page(visitors, uploads, example)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app = gradio.mount_gradio_app(
        app,
        blocks,
        path="/",
        auth=auth,
        max_file_size=limits.file_bytes,
        footer_links=[],
        show_error=False,
        ssr_mode=False,
        theme=theme(),
        css=CSS,
        head=NARROW + JAVASCRIPT,
    )

    def tidy() -> None:
        """What nobody needs any more goes; Gradio's copies of what it showed are counted."""
        visitors.leave_idle()
        uploads.remove_unclaimed()
        shown_for = limits.idle_seconds if len(visitors) else limits.absent_seconds
        most = limits.disk_bytes * COPIES_SHARE
        ledger.set(cache, remove_old(cache, shown_for, most_bytes=most, but=(received,)))
        if not len(visitors):
            release_freed_memory()

    return Guard(
        app, uploads, limits, OUR_NAMES if loopback else None,
        used=lambda: ledger.total, make_room=tidy, passwords=Attempts() if auth else None, present=visitors.present,
    )  # fmt: skip


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        return listening
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            "{host} {address} {port} {value} cannot be used ({reason})",
            field="port", value=port, address=host, reason=reason, remedy="give another port or address",
        ) from None  # fmt: skip
