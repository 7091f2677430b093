"""A real Ray cluster on the loopback of this machine: a head without cores, and nodes with one core each."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import focalsweep

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "500",  # a machine that is gone is missed after seconds, not half a minute
    "RAY_health_check_failure_threshold": "3",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(focalsweep.__file__).parents[1]),
    "PYTHONWARNINGS": "ignore",
}


@dataclass
class Cluster:
    """Each part is a process of its own, which leads a group of its own: killing the group is losing the machine."""

    address: str
    parts: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Another part, once it is up. Each has an address of its own on the loopback, as machines have."""
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        place = f"--node-ip-address=127.0.0.{len(self.parts) + 1}"
        command = [*ray, place, "--object-store-memory=100000000", *options]
        quiet = subprocess.DEVNULL
        part = subprocess.Popen(
            command, env=os.environ | ENVIRONMENT, start_new_session=True, stdout=quiet, stderr=quiet
        )
        self.parts.append(part)
        end = time.monotonic() + 60
        while not any(process.name() == "ray::RuntimeEnvAgent" for process in below(part)):
            assert part.poll() is None and time.monotonic() < end, "a part of the cluster did not start"
            time.sleep(0.1)
        return part

    def start_node(self, cores: int = 1) -> subprocess.Popen[bytes]:
        return self.start(f"--address={self.address}", f"--num-cpus={cores}")


def below(part: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes that a part started, and those that they started."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(part.pid).children(recursive=True)
    return []


def workers_of(part: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes of a node that work on stacks."""
    found = []
    for process in below(part):
        with suppress(psutil.Error):
            if process.name().startswith("ray::") and "MapWorker" in " ".join(process.cmdline()):
                found.append(process)
    return found


def kill(part: subprocess.Popen[bytes]) -> None:
    """At once, with all that it started."""
    started = below(part)
    part.kill()
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    part.wait()


@contextmanager
def cluster(nodes: int = 2) -> Iterator[Cluster]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Ray's sockets have long names: the folder's must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        made = Cluster(f"127.0.0.1:{port}")
        try:
            made.start("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}")
            for _ in range(nodes):
                made.start_node()
            yield made
        finally:
            for part in reversed(made.parts):
                kill(part)
