"""Events of the page, called as Gradio does: in a process of its own, since Gradio leaves things open."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.browsing import needs_gradio

# The longest that somebody else waits for an answer while settings are read for a second.
SLOW_SETTINGS = """
import asyncio, sys, time
from pathlib import Path
from types import SimpleNamespace
from focalsweep.web.limits import Limits
from focalsweep.web.page import make_page
from focalsweep.web.uploads import Ledger, Uploads
from focalsweep.web.visitors import Visitor, Visitors

Visitor.change = lambda *_: time.sleep(1)
folder = Path(sys.argv[1])
page = make_page(Visitors(folder, Limits(), "cpu"), Uploads(folder, Limits(), Ledger()), folder)
(run,) = [block.fn for block in page.fns.values() if block.name == "run"]
waits = []

async def others():
    while True:
        start = time.monotonic()
        await asyncio.sleep(0.01)
        waits.append(time.monotonic() - start)

async def both():
    beside = asyncio.create_task(others())
    async for _ in run(SimpleNamespace(session_hash="a"), "[]", "lens", "", "", "", False, "near-to-far"):
        pass
    beside.cancel()

asyncio.run(both())
print(max(waits, default=1.0))
"""


@needs_gradio
def test_others_are_served_while_settings_are_read(tmp_path: Path) -> None:
    """Reading the settings of a hostile stack may take a minute: the loop that answers everybody must not wait."""
    command = [sys.executable, "-c", SLOW_SETTINGS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert float(done.stdout.split()[-1]) < 0.5, done.stderr
