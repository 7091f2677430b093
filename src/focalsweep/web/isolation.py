"""A process that reaches for no other computer, whatever the packages in it would like to."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any

import psutil

_EVENTS = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0}
_EVENTS |= {"socket.gethostbyname": 0}
_installed = False


def refuse_other_hosts() -> None:
    """From now on, and for as long as this process lives, connections and look-ups beyond this computer fail.

    Answering those who connect to this process is not affected.
    """
    global _installed
    if not _installed:
        sys.addaudithook(_refuse)
        _installed = True


def bound_memory(size: int) -> None:
    """From now on this process gets no more than so many bytes on top of what it has: a MemoryError instead."""
    if sys.platform == "win32":
        return
    import resource

    most = psutil.Process().memory_info().data + size if sys.platform == "linux" else size
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def is_loopback(host: str) -> bool:
    """Whether an address or name means this computer alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    position = _EVENTS.get(event)
    if position is None:
        return
    address = arguments[position]
    if position == 1:  # of a socket: other kinds than (host, port) stay on this computer
        if not isinstance(address, tuple):
            return
        address = address[0]
    host = address.decode("latin-1") if isinstance(address, bytes) else address
    if host and not is_loopback(str(host)):
        print(f"focalsweep: refused to reach for {host}", file=sys.stderr, flush=True)  # a caller may hide the error
        raise PermissionError(f"{host} is another computer, and this page reaches for none")
