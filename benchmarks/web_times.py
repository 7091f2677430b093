"""How long the page takes: from its command to the first answer, and from a click on the example to its depth.

    python benchmarks/web_times.py OUT.json [ROUNDS]

Real Chromium (Playwright). Every round starts a server of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import torch

from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe
from tests.e2e.browsing import browser_page, run_example

PORT = 7861


def one_round() -> dict[str, float]:
    """Seconds until the page answers, and until the example's depth is shown."""
    address = f"http://127.0.0.1:{PORT}/"
    began = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "focalsweep.cli.main", "web", "--port", str(PORT)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                urllib.request.urlopen(address, timeout=5).read()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.02)
        started = time.perf_counter() - began
        with browser_page(address) as page:
            clicked = time.perf_counter()
            run_example(page)
            shown = time.perf_counter() - clicked
    finally:
        server.terminate()
        server.wait(20)
    return {"start_s": started, "example_s": shown}


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rounds = []
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3):
        rounds.append({"load": os.getloadavg()[0], **one_round()})
        print(rounds[-1], flush=True)
    record = {"benchmark": "web times", **describe(torch.device("cpu"), 0), "rounds": rounds}
    write_files({Path(sys.argv[1]): lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
