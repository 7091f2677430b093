"""A hundred visitors at once on the page, a third of them hostile: how long an answer takes, what memory and disk do.

    python benchmarks/flood.py OUT.json [SECONDS]

Honest visitors open the page, give a small stack, look at its settings, and begin again. Hostile ones send half a
head, a body byte by byte, uploads that break off or that nobody asks for, hundreds of empty files, nonsense, messages
for functions that are none, wrong passwords, and open streams that they do not read. A watcher in a process of its own
asks for /config four times a second. Afterwards everybody has a minute to be gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch

from focalsweep.photos.demo import DEMO_STACK
from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe
from tests.e2e.browsing import page_server

VISITORS, HOSTILE = 100, 33
AFTER_SECONDS = 60.0
THINK_SECONDS = 1.0
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Flood:
    port: int
    photos: dict[str, bytes]
    drop: int = 0
    take: int = 0
    ends: float = 0.0
    done: Counter[str] = field(default_factory=Counter)

    async def connect(self) -> Connection:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, method: str, path: str, body: bytes = b"", headers: str = "", seconds: float = 60) -> bytes:
        """The whole answer; the connection is closed."""
        reader, writer = await self.connect()
        try:
            writer.write(self.head(method, path, len(body), headers) + body)
            return await asyncio.wait_for(reader.read(), seconds)
        finally:
            writer.close()

    def head(self, method: str, path: str, length: int, headers: str = "") -> bytes:
        lines = f"{method} {path} HTTP/1.1\r\nHost: localhost:{self.port}\r\nConnection: close\r\n"
        return f"{lines}Content-Length: {length}\r\n{headers}\r\n".encode()

    async def ask_config(self) -> bytes:
        answer = await self.ask("GET", "/config")
        assert answer.startswith(b"HTTP/1.1 200"), answer[:100]
        return answer

    async def upload(self, files: dict[str, bytes]) -> list[str]:
        parts = b"".join(
            f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n"
            for name, data in files.items()
        )
        answer = await self.ask("POST", "/gradio_api/upload", parts + b"--x--\r\n", MULTIPART)
        status, _, rest = answer.partition(b"\r\n")
        self.done[f"upload {status[9:12].decode()}"] += 1
        return list(json.loads(rest.partition(b"\r\n\r\n")[2])) if b" 200 " in status else []

    async def give(self, session: str, paths: list[str], names: list[str]) -> bytes:
        """Hand uploads to the page; what it says."""
        meta = {"_type": "gradio.FileData"}
        files = [{"path": path, "orig_name": name, "meta": meta} for path, name in zip(paths, names, strict=True)]
        body = {"data": [files], "fn_index": self.take, "session_hash": session, "trigger_id": self.drop}
        json_type = "Content-Type: application/json\r\n"
        joined = await self.ask("POST", "/gradio_api/queue/join", json.dumps(body).encode(), json_type)
        if b" 200 " not in joined[:20]:
            return joined
        return await self.ask("GET", f"/gradio_api/queue/data?session_hash={session}")


MULTIPART = "Content-Type: multipart/form-data; boundary=x\r\n"


async def honest(flood: Flood, session: str) -> None:
    """One visit: page, heartbeat, photos, settings."""
    await flood.ask("GET", "/")
    await flood.ask_config()
    reader, writer = await flood.connect()
    writer.write(flood.head("GET", f"/gradio_api/heartbeat/{session}", 0))
    try:
        await reader.readline()
        paths = await flood.upload(flood.photos)
        said = await flood.give(session, paths, list(flood.photos)) if paths else b""
        flood.done["settings shown" if b"Download" in said or b"fs-table" in said else "turned away"] += 1
    finally:
        writer.close()


async def slow_head(flood: Flood) -> None:
    _, writer = await flood.connect()
    with suppress(OSError):
        for letter in b"GET /config HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200:
            writer.write(bytes([letter]))
            await writer.drain()
            await asyncio.sleep(0.5)
    writer.close()


async def slow_body(flood: Flood) -> None:
    _, writer = await flood.connect()
    writer.write(flood.head("POST", "/gradio_api/upload", 10**6, MULTIPART))
    with suppress(OSError):
        for _ in range(200):
            writer.write(b"-")
            await writer.drain()
            await asyncio.sleep(0.5)
    writer.close()


async def broken_off(flood: Flood) -> None:
    _, writer = await flood.connect()
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.jpg"\r\n\r\n' + os.urandom(500_000)
    writer.write(flood.head("POST", "/gradio_api/upload", 10**7, MULTIPART) + body)
    await writer.drain()
    await asyncio.sleep(0.2)
    writer.transport.abort()


async def never_taken(flood: Flood) -> None:
    await flood.upload({f"{i}.jpg": os.urandom(1_000_000) for i in range(2)})
    await flood.upload({f"{i}.jpg": b"" for i in range(900)})


async def refused(flood: Flood) -> None:
    files = {"a.html": b"<script>", "b.exe": os.urandom(200_000)}
    paths = await flood.upload(files)
    await flood.give(f"h{random.random()}", paths, list(files)[: len(paths)])


async def nonsense(flood: Flood) -> None:
    for data in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"A" * 70_000, b"GET / HTTP/1.1\r\nContent-Length: 9e9\r\n\r\n"):
        _, writer = await flood.connect()
        writer.write(data)
        with suppress(OSError):
            await writer.drain()
        writer.close()
    for path in ("/etc/passwd", "/gradio_api/file=/etc/passwd", "/gradio_api/info", "/../x", f"/{'a' * 5000}"):
        await flood.ask("GET", path)
    for headers in ("Origin: http://evil.example\r\n", "Transfer-Encoding: chunked\r\n"):
        with suppress(OSError):
            await flood.ask("POST", "/gradio_api/queue/join", b"{}", headers)


async def wrong_messages(flood: Flood) -> None:
    for body in (b"{", b"[]", b"[" * 50_000, b'{"data": [], "fn_index": 10000, "session_hash": "x"}'):
        await flood.ask("POST", "/gradio_api/queue/join", body, "Content-Type: application/json\r\n")
    numbers = random.randrange(40)
    body = json.dumps({"data": [None] * 9, "fn_index": numbers, "session_hash": f"w{random.random()}"}).encode()
    await flood.ask("POST", "/gradio_api/queue/join", body, "Content-Type: application/json\r\n")
    for number in range(20):
        await flood.ask("POST", "/login", f"username=a&password={number}".encode())


async def unread(flood: Flood) -> None:
    held = [await flood.connect() for _ in range(10)]
    for _, writer in held:
        writer.write(flood.head("GET", f"/gradio_api/heartbeat/u{random.randrange(10**9)}", 0))
    reader, writer = await flood.connect()
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(b"".join(flood.head("GET", "/config", 0).replace(b"close", b"keep-alive") for _ in range(20)))
    await asyncio.sleep(5)
    for _, each in [*held, (reader, writer)]:
        each.transport.abort()


ATTACKS: list[Callable[[Flood], Awaitable[None]]] = [
    slow_head, slow_body, broken_off, never_taken, refused, nonsense, wrong_messages, unread,
]  # fmt: skip


async def visitor(flood: Flood, number: int) -> None:
    bad = number < HOSTILE
    while time.monotonic() < flood.ends:
        attack = random.choice(ATTACKS)
        name = attack.__name__ if bad else "visit"
        try:
            left = max(1.0, flood.ends + 5 - time.monotonic())
            work = attack(flood) if bad else honest(flood, f"v{number}n{random.randrange(10**9)}")
            await asyncio.wait_for(work, left)
            flood.done[name] += 1
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            flood.done[f"{name}: {type(error).__name__}"] += 1
        if not bad:
            await asyncio.sleep(random.uniform(0.5, 1.5) * THINK_SECONDS)


WATCHER = """
import socket, sys, time
request = f"GET /config HTTP/1.1\\r\\nHost: localhost:{sys.argv[1]}\\r\\nConnection: close\\r\\n\\r\\n".encode()
while True:
    began = time.perf_counter()
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as asked:
        asked.sendall(request)
        answer = b"".join(iter(lambda: asked.recv(65536), b""))
    print(answer[9:12].decode(), time.perf_counter() - began, flush=True)
    time.sleep(0.25)
"""


def watch(port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WATCHER, str(port)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def seen_by(watcher: subprocess.Popen[str]) -> list[float]:
    """Seconds of each answer, the quickest first; every one must have been given."""
    watcher.terminate()
    lines = [line.split() for line in watcher.communicate()[0].splitlines()]
    assert lines and all(line[0] == "200" for line in lines), lines
    return sorted(float(line[1]) for line in lines)


def taken(process: psutil.Process, folder: Path) -> dict[str, float]:
    """Megabytes of memory of the server (and of all its processes) and of its files, and how many these are."""
    memory = total = 0.0
    with suppress(psutil.Error):
        memory = total = process.memory_info().rss / 2**20
        for child in process.children(recursive=True):
            with suppress(psutil.Error):
                total += child.memory_info().rss / 2**20
    sizes = []
    for place, _, names in os.walk(folder):  # what goes meanwhile is left out
        for file in names:
            with suppress(OSError):
                sizes.append((Path(place) / file).stat().st_size)
    return {"memory_mb": memory, "memory_of_all_mb": total, "disk_mb": sum(sizes) / 2**20, "files": len(sizes)}


async def run(flood: Flood, process: psutil.Process, folder: Path, seconds: float) -> dict[str, Any]:
    config = json.loads((await flood.ask_config()).partition(b"\r\n\r\n")[2])
    flood.drop = next(c["id"] for c in config["components"] if c["props"].get("elem_id") == "fs-drop")
    flood.take = next(d["id"] for d in config["dependencies"] if d["targets"] == [[flood.drop, "upload"]])
    await honest(flood, "first")  # what is loaded once is loaded
    await asyncio.sleep(5)
    before, most = taken(process, folder), Counter[str]()
    watcher, load = watch(flood.port), []
    flood.ends = time.monotonic() + seconds
    visiting = asyncio.gather(*(visitor(flood, number) for number in range(VISITORS)))
    while not visiting.done():
        most |= Counter(await asyncio.to_thread(taken, process, folder))  # type: ignore[arg-type]
        load.append(os.getloadavg()[0])
        await asyncio.wait({visiting}, timeout=1)
    await visiting
    answers = seen_by(watcher)
    await asyncio.sleep(AFTER_SECONDS)
    watcher = watch(flood.port)
    await asyncio.sleep(5)
    later = seen_by(watcher)
    return {
        "seconds": seconds, "load_before": load[0], "load_at_most": max(load),
        "config": {
            "asked": len(answers), "slowest_s": answers[-1], "median_s": answers[len(answers) // 2],
            "of_100_the_slowest_s": answers[len(answers) * 99 // 100], "slowest_afterwards_s": later[-1],
        },
        "before": before, "most": dict(most), "a_minute_after": taken(process, folder), "done": dict(flood.done),
    }  # fmt: skip


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 300.0
    with tempfile.TemporaryDirectory() as name:
        files = [*sorted(DEMO_STACK.glob("frame_*")), DEMO_STACK / "stack.toml"]
        photos = {path.name: path.read_bytes() for path in files}
        with page_server(Path(name) / "page", attacked=True) as server:
            flood = Flood(int(server.address.rstrip("/").rpartition(":")[2]), photos)
            found = asyncio.run(run(flood, psutil.Process(server.process.pid), server.temporary, seconds))
            found["log_bytes"] = server.log.stat().st_size
    print(json.dumps(found, indent=1))
    record = {"benchmark": "flood", **describe(torch.device("cpu"), 0), **found}
    write_files({Path(sys.argv[1]): lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
