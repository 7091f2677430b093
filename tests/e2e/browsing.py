"""The page in a process of its own, and Chromium to look at it; whatever reaches for another host fails the test."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import focalsweep as package

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCREENSHOTS = Path("out") / "screenshots"
# Tells of every connection of the server that would leave this computer past its own refusal. And between the last news
# of a job and its end it lets half a second pass, as a busy machine does.
WATCHED = """
import asyncio, ipaddress, sys
from focalsweep.web.isolation import refuse_other_hosts
refuse_other_hosts()
def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0] or "localhost"
    else:
        return
    host = host.decode() if isinstance(host, bytes) else str(host)
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = host == "localhost"
    if not inside:
        print("reached for", host, file=sys.stderr, flush=True)
sys.addaudithook(watch)
from focalsweep.cli.main import main
from focalsweep.web.visitors import Visitor
run_in_time = Visitor.run
async def run_and_linger(visitor, *settings):
    async for news in run_in_time(visitor, *settings):
        yield news
    await asyncio.sleep(0.5)
Visitor.run = run_and_linger
if __name__ == "__main__":
    main()
"""
needs_gradio = pytest.mark.skipif(find_spec("gradio") is None, reason="gradio is not installed: focalsweep[web]")
needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or find_spec("playwright") is None or find_spec("gradio") is None,
        reason="Chromium, playwright or gradio is not installed",
    ),
]


@dataclass(frozen=True)
class Server:
    address: str
    process: subprocess.Popen[str]
    log: Path
    temporary: Path  # what it leaves behind there is a leak


@contextmanager
def page_server(folder: Path, *arguments: str, attacked: bool = False) -> Iterator[Server]:
    """`focalsweep web` on a free port; at the end it must go, take its files along and have reached for nobody."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    program, log = folder / "watched.py", folder / "log"
    program.write_text(WATCHED)
    command = [sys.executable, str(program), "web", "--port", "0", "--no-browser", "--device", "cpu", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1]), "TMPDIR": str(temporary)}
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), log.read_text()
        yield Server(address, process, log, temporary)
        assert process.poll() is None, f"the server ended: {log.read_text()}"
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        output = log.read_text()
        assert "reached for" not in output, output
        assert attacked or "refused to reach for" not in output, output  # here or in a process that works on photos
        assert attacked or "Traceback" not in output, output  # Gradio shows its own where a request makes no sense
        left = [path for path in temporary.iterdir() if path.name.startswith("focalsweep")]
        assert left == [], left
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def browser_page(address: str, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """A fresh browser on the page."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        scheme: Any = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        foreign, wrong = watch(page, address)
        page.goto(address)
        page.wait_for_selector("#fs-example")
        try:
            yield page
        except BaseException:
            screenshot(page, "failed_" + re.sub(r"\W+", "_", os.environ["PYTEST_CURRENT_TEST"]))
            raise
        browser.close()
    assert foreign == [] and wrong == [], (foreign, wrong)


def watch(page: Any, address: str) -> tuple[list[str], list[str]]:
    """Two lists that fill with requests to other hosts, and with errors of the page."""
    foreign: list[str] = []
    wrong: list[str] = []
    own = (address, "data:", "blob:", address.replace("http", "ws", 1))
    page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(own) else None)
    page.on("response", lambda answer: wrong.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    return foreign, wrong


def run_example(page: Any) -> None:
    page.click("#fs-example")
    page.wait_for_selector("#fs-run:visible")
    run(page)


def run(page: Any) -> None:
    """Until the depth is there."""
    page.click("#fs-run")
    for _ in range(300):
        if page.locator("#fs-depth img").is_visible():
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"no depth: {page.inner_text('#fs-status')!r}")


def click_depth(page: Any, across: float, down: float) -> None:
    """At a share of the picture's width and height."""
    box = page.locator("#fs-depth img").bounding_box()
    page.locator("#fs-depth img").click(position={"x": across * box["width"], "y": down * box["height"]})


def screenshot(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def text_of(page: Any, selector: str, pattern: str, seconds: float = 60) -> str:
    """The text of a part of the page, once it matches."""
    locator = page.locator(selector)
    for _ in range(int(seconds * 5)):
        found = locator.inner_text()
        if re.search(pattern, found):
            return str(found)
        page.wait_for_timeout(200)
    raise AssertionError(f"{selector} has no {pattern!r}: {locator.inner_text()!r}")


def open_tab(page: Any, name: str) -> None:
    """One of the result's tabs; on a narrow screen some are in a menu."""
    tab = page.get_by_role("tab", name=name)
    if tab.is_visible():
        tab.click()
    else:
        page.locator("#fs-results .overflow-menu > button").click()
        page.locator("#fs-results .overflow-dropdown button", has_text=name).click()
