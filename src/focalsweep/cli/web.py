"""The command `web`."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from focalsweep.cli.console import find_device, say
from focalsweep.cli.words import FLAGS_OF_OTHERS
from focalsweep.photos.demo import DEMO_STACK

FLAGS = FLAGS_OF_OTHERS["web"]


def web(
    host: Annotated[
        str, typer.Option(FLAGS["host"], help="Address to listen on; others than loopback need --auth.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(FLAGS["port"], min=0, max=65535, help="0: any that is free.")] = 7860,
    auth: Annotated[
        str | None, typer.Option(FLAGS["auth"], envvar="FOCALSWEEP_AUTH", help="NAME:PASSWORD that the page asks for.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: the GPU where there is one.")] = "auto",
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """A page in the browser: drop photos, see their settings, get the depth. Everything stays on this computer.

    Example: focalsweep web
    """
    from focalsweep.web.server import read_auth, serve

    def started(address: str) -> None:
        print(address, flush=True)
        say("press Ctrl+C to end; all files of the page go then")
        if browser:
            webbrowser.open(address)

    serve(host, port, read_auth(auth), example=DEMO_STACK, device=str(find_device(device)), started=started)
