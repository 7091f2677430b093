"""No other computer is reached, in a process of its own since it cannot be undone."""

import subprocess
import sys

import pytest

from focalsweep.web.isolation import is_loopback

ATTEMPT = """
import socket
from focalsweep.web.isolation import refuse_other_hosts
refuse_other_hosts()
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname()).close()
socket.socketpair()[0].close()
try:
    {call}
except PermissionError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "call",
    [
        "socket.create_connection(('192.0.2.1', 80), timeout=1)",
        "socket.getaddrinfo('example.invalid', 80)",
        "socket.gethostbyname('example.invalid')",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
    ],
)
def test_other_hosts_are_refused(call: str) -> None:
    done = subprocess.run([sys.executable, "-c", ATTEMPT.format(call=call)], capture_output=True, text=True, timeout=60)
    assert "is another computer" in done.stdout, done.stderr
    assert "refused to reach for" in done.stderr


OWN = ("localhost", "127.0.0.1", "127.9.9.9", "::1")
OTHERS = ("0.0.0.0", "::", "192.0.2.1", "localhost.example", "")


def test_loopback() -> None:
    assert [host for host in (*OWN, *OTHERS) if is_loopback(host)] == list(OWN)
