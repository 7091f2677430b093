"""A real Ray cluster on the loopback of this machine, stacks for it, and ways to lose parts of it.

The tests use it too. Only processes that were started here are ever killed.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

import focalsweep
from focalsweep.photos.demo import DEMO_STACK

Part = subprocess.Popen[bytes]

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "1000",  # a machine that is gone is missed after seconds, not half a minute
    "RAY_health_check_failure_threshold": "5",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(focalsweep.__file__).parents[1]),
    "PYTHONWARNINGS": "ignore",
    "RAY_AUTH_MODE": "token",  # of these clusters alone: who can reach one can run code on it
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
HOST = "127.0.0.1"  # and a digit: Ray takes 127.0.0.1 itself for the machine's address in the network


@dataclass
class Cluster:
    """A head without cores, and nodes: each part a process of its own that has an address of its own."""

    address: str
    folder: Path
    parts: list[Part] = field(default_factory=list)

    @property
    def nodes(self) -> list[Part]:
        return self.parts[1:]

    def start(self, *options: str) -> None:
        """Another part, once it is up."""
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        place = f"--node-ip-address={HOST}{len(self.parts)}"
        command = [*ray, place, "--object-store-memory=100000000", *options]
        said = self.folder / f"part_{len(self.parts)}.log"
        with said.open("wb") as file:
            part = subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=file, stderr=subprocess.STDOUT)
        self.parts.append(part)

        def is_up() -> bool:
            if part.poll() is not None:
                raise RuntimeError(f"a part of the cluster did not start: {said.read_text()}")
            return any(process.name() == "ray::RuntimeEnvAgent" for process in below(part))

        wait_until(is_up, "a part of the cluster is up")

    def workers(self) -> list[psutil.Process]:
        """The processes that work on stacks, on all nodes."""
        return [process for node in self.nodes for process in workers_of(node)]


@contextmanager
def loopback_cluster(nodes: int = 2, cores: int = 1) -> Iterator[Cluster]:
    with socket.socket() as free:
        free.bind((f"{HOST}0", 0))
        port = free.getsockname()[1]
    # Ray's sockets lie there, and their names have to be short.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(f"{HOST}0:{port}", Path(folder))
        try:
            head = ("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}")
            cluster.start(*head)
            for _ in range(nodes):
                cluster.start(f"--address={cluster.address}", f"--num-cpus={cores}")
            yield cluster
        finally:
            for part in reversed(cluster.parts):
                kill(part)


def below(part: Part) -> list[psutil.Process]:
    """The processes that a part started, and those that they started; none that ended meanwhile."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(part.pid).children(recursive=True):
            with suppress(psutil.Error):
                process.name()  # which the object keeps
                found.append(process)
    return found


def workers_of(node: Part) -> list[psutil.Process]:
    return [process for process in below(node) if process.name().startswith("ray::MapWorker")]


def kill(part: Part) -> None:
    """At once and with all that it started, as a machine that loses its power."""
    started = below(part)
    part.kill()
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    part.wait()


def start_batch(scans: Path, output: Path, *options: str) -> Part:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "focalsweep.cli.main", "batch", scans.name, "-o", str(output), *options]
    return subprocess.Popen(
        [*command, "--device", "cpu"],
        cwd=scans.parent,
        env=os.environ | ENVIRONMENT | {"PYTHONWARNINGS": ""},  # it says what a user would see
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(part: Part) -> int:
    """Its exit status; what it said where that is not 0."""
    _, said = part.communicate(timeout=1200)
    if part.returncode:
        print(said.decode(), file=sys.stderr)
    return part.returncode


def wait_until(true: Callable[[], object], what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"after {seconds:g} s it is not so that {what}")
        time.sleep(0.05)


def finished(output: Path) -> set[str]:
    return {path.parent.name for path in output.glob("*/run.json")}


def write_stacks(
    folder: Path, count: int, height: int = 80, width: int = 112, frames: tuple[int, ...] = (0, 3, 6)
) -> None:
    """Pieces of the demo stack, each another one."""
    import cv2

    head, *settings = (DEMO_STACK / "stack.toml").read_text().split("[[frame]]")
    text = head + "".join("[[frame]]" + settings[i] for i in frames)
    pictures = {i: cv2.imread(str(DEMO_STACK / f"frame_{i}.png")) for i in frames}
    rows, columns = (288 - height) // 2 or 1, (384 - width) // 2 or 1
    for number in range(count):
        stack = folder / f"stack_{number:05d}"
        stack.mkdir(parents=True)
        (stack / "stack.toml").write_text(text)
        top, left = 37 * number % rows + rows // 2, 53 * number % columns + columns // 2
        for i, picture in pictures.items():
            assert picture is not None
            cv2.imwrite(str(stack / f"frame_{i}.png"), picture[top : top + height, left : left + width])


def contents(output: Path) -> dict[str, Any]:
    """All files below a folder of results but the summary; of run.json what does not tell the time."""
    found: dict[str, Any] = {}
    for path in sorted(output.rglob("*")):
        name = str(path.relative_to(output))
        if path.name == "run.json":
            found[name] = {key: value for key, value in json.loads(path.read_text()).items() if key != "seconds"}
        elif path.is_dir() or path.parent != output:
            found[name] = path.read_bytes() if path.is_file() else None
    return found
