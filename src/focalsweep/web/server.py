"""The server of the page: nothing leaves this computer, nothing outside the page's own folder is reached."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from focalsweep.errors import InputError
from focalsweep.web.guard import OUR_NAMES, Guard
from focalsweep.web.isolation import is_loopback, refuse_other_hosts
from focalsweep.web.jobs import warm_up
from focalsweep.web.limits import Limits, remove_old

FOLDER_PREFIX, LOCK = "focalsweep-", "lock"
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
    with contextlib.closing(_listen(host, port)) as listening, own_folder() as root:
        refuse_other_hosts()
        warm_up()
        os.environ["GRADIO_TEMP_DIR"] = str(root / "uploads")  # before its import, which makes a folder there
        import_gradio()
        import torch
        import uvicorn

        torch.set_num_threads(1)  # only small pictures are made in this process: threads would wait for each other
        app = make_app(
            root, auth, example=example, device=device, limits=limits or Limits(), loopback=is_loopback(host)
        )
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        startup = server.startup

        async def startup_and_tell(*arguments: Any, **keywords: Any) -> None:
            await startup(*arguments, **keywords)
            started(address)

        server.startup = startup_and_tell  # type: ignore[method-assign]
        # uvicorn raises the signal that ended it once more: as an exception, so that the folder still goes.
        for ending in (signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, _interrupt)
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])


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

    uploads, kept = root / "uploads", root / "visitors"
    for folder in (uploads, kept):
        folder.mkdir(parents=True, exist_ok=True)
    visitors = Visitors(kept, limits, device)
    blocks = make_page(visitors, example)
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

    def make_room() -> None:
        visitors.leave_idle()
        remove_old(uploads, limits.idle_seconds)

    return Guard(app, root, limits, OUR_NAMES if loopback else None, make_room)


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
