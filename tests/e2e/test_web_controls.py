"""Every control of the page in real Chromium: drop zone, folder, units, sliders, model, downloads, keyboard."""

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from focalsweep.cli.photos import DEMO_STACK
from tests.e2e.browsing import (
    Server,
    browser_page,
    needs_browser,
    open_tab,
    page_server,
    run_example,
    screenshot,
    text_of,
)
from tests.e2e.running import write_small_stack

pytestmark = needs_browser
DROP = """(files) => {
  const transfer = new DataTransfer();
  for (const [name, data] of Object.entries(files)) {
    transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name));
  }
  const zone = document.querySelector("#fs-drop button");
  for (const kind of ["dragenter", "dragover", "drop"]) {
    zone.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }
}"""
FOCUSED = """() => {
  const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 0;
  return [at.closest("[id^=fs-]")?.id || at.textContent.trim() || at.tagName, seen];
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with page_server(tmp_path_factory.mktemp("web")) as running:
        yield running


def picture_of(page: Any, selector: str) -> Any:
    return np.asarray(Image.open(io.BytesIO(page.locator(selector).screenshot())).convert("RGB"), np.float32)


def sources_of(page: Any, selector: str) -> list[str]:
    return [image.get_attribute("src") for image in page.locator(f"{selector} img").all()]


def changed(page: Any, selector: str, before: list[str]) -> list[str]:
    """The addresses of pictures, once they are others."""
    for _ in range(100):
        now = sources_of(page, selector)
        if now != before and all(now):
            return now
        page.wait_for_timeout(100)
    raise AssertionError(f"{selector} still shows {before}")


def test_photos_are_dropped(server: Server, tmp_path: Path) -> None:
    files = sorted(write_small_stack(tmp_path / "shots").iterdir())
    with browser_page(server.address) as page:
        page.evaluate(DROP, {path.name: base64.b64encode(path.read_bytes()).decode() for path in files})
        page.wait_for_selector("#fs-run:visible")
        shown = page.inner_text("#fs-table")
        assert shown.count("stack.toml") == 3 and "frame_6.png" in shown


def test_a_folder_is_chosen(server: Server, tmp_path: Path) -> None:
    folder = write_small_stack(tmp_path / "shots")
    for name in ("notes.txt", ".hidden.png", "Thumbs.db"):  # what else lies there is no mistake
        (folder / name).write_bytes(b"x")
    with browser_page(server.address) as page:
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Choose a folder").click()
        assert chooser.value.element.get_attribute("webkitdirectory") is not None
        chooser.value.set_files(folder)
        page.wait_for_selector("#fs-run:visible")
        assert page.inner_text("#fs-table").count("stack.toml") == 3
        (empty := tmp_path / "empty").mkdir()
        (empty / "notes.txt").write_text("x")
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Choose a folder").click()
        chooser.value.set_files(empty)
        assert "no photos given" in text_of(page, "#fs-message", "no photos")


def test_units(server: Server) -> None:
    with browser_page(server.address) as page:
        page.click("#fs-example")
        page.wait_for_selector("#fs-run:visible")
        first, last = page.locator("#fs-table input").first, page.locator("#fs-table input").last
        shown = {"m": ("0.38", "1.12"), "cm": ("38", "112"), "mm": ("380", "1120"), "dioptres": ("2.6316", "0.89286")}
        for unit in ("cm", "mm", "dioptres", "m", "dioptres"):
            page.locator("#fs-unit").get_by_text(unit, exact=True).click()
            text_of(page, "#fs-table", rf"\({unit}\)")
            assert (first.input_value(), last.input_value()) == shown[unit]
        last.fill("0")  # dioptres: infinity
        last.press("Enter")
        text_of(page, "#fs-table", "typed in")
        page.locator("#fs-unit").get_by_text("m", exact=True).click()
        text_of(page, "#fs-table", r"\(m\)")
        assert page.locator("#fs-table input").last.input_value() == "inf"
        page.locator("#fs-table input").first.fill("far")
        page.locator("#fs-table input").first.press("Enter")
        text_of(page, "#fs-message", "frame_0.png: the focus distance must be a number above 0, or inf, but is 'far'")


def test_pictures_model_and_downloads(server: Server) -> None:
    with browser_page(server.address) as page:
        run_example(page)
        open_tab(page, "Sharp picture")
        page.wait_for_selector("#fs-slider img")
        before = sources_of(page, "#fs-slider")
        handle = page.locator("#fs-slider [role=slider], #fs-slider .handle, #fs-slider .inner").first
        was, box = picture_of(page, "#fs-slider"), handle.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] - 200, box["y"] + box["height"] / 2, steps=5)
        page.mouse.up()
        assert np.abs(picture_of(page, "#fs-slider") - was).mean() > 1  # sharp where the photo was
        page.locator("#fs-frame input").click()
        page.get_by_role("option").last.click()
        after = changed(page, "#fs-slider", before)
        assert len(set(before) & set(after)) == 1  # the sharp one stays
        screenshot(page, "sharp_light_1280")
        open_tab(page, "Refocus")
        text_of(page, "#fs-focused", r"0\.3\d* m")
        before = sources_of(page, "#fs-refocused")
        page.locator("#fs-focus input[type=range]").focus()
        page.keyboard.press("End")
        text_of(page, "#fs-focused", r"1\.1\d* m")
        changed(page, "#fs-refocused", before)
        assert page.locator("#fs-refocused img").bounding_box()["width"] > 600
        open_tab(page, "Confidence")
        assert page.locator("#fs-confidence img").bounding_box()["width"] > 600
        screenshot(page, "confidence_light_1280")
        open_tab(page, "3D model")
        page.wait_for_selector("#fs-model canvas")
        page.wait_for_timeout(2000)  # it is drawn
        assert picture_of(page, "#fs-model canvas").std((0, 1)).min() > 10  # not blank
        screenshot(page, "model_light_1280")
        open_tab(page, "Downloads")
        page.wait_for_selector("#fs-files a")
        files = {}
        for link in page.locator("#fs-files a").all():
            with page.expect_download() as download:
                link.click()
            files[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
        starts = {
            "depth.npz": b"PK",
            "depth_mm.png": b"\x89PNG",
            "depth.png": b"\x89PNG",
            "all_in_focus.png": b"\x89PNG",
            "cloud.ply": b"ply",
            "mesh.glb": b"glTF",
            "run.json": b"{",
        }
        assert {name for name in files if name != "depth.exr"} == set(starts)
        assert all(files[name].startswith(start) for name, start in starts.items())
        assert json.loads(files["run.json"])["settings"]["f_number"]["source"] == "stack.toml"
        with np.load(io.BytesIO(files["depth.npz"])) as saved:
            assert 0.3 < np.median(saved["depth"]) < 1.2


def test_everything_by_the_keyboard(server: Server) -> None:
    """From the top of the page with Tab alone: every stop is seen, comes in reading order, and works."""
    with browser_page(server.address) as page:

        def tab_to(where: str, most: int = 40) -> list[str]:
            stops: list[str] = []
            while not stops or stops[-1] != where:
                page.keyboard.press("Tab")
                page.wait_for_timeout(50)
                name, seen = page.evaluate(FOCUSED)
                assert seen, f"{name} does not show that it has the focus"
                stops.append(name)
                assert len(stops) < most, stops
            return stops

        assert tab_to("fs-example") == ["fs-drop", "Choose a folder", "fs-example"]
        page.keyboard.press("Enter")
        page.wait_for_selector("#fs-run:visible")
        stops = tab_to("fs-run")
        order = ["fs-focal_length", "fs-f_number", "fs-pixel_pitch", "fs-unit", "fs-table", "fs-toml", "fs-run"]
        assert [name for name in dict.fromkeys(stops) if name in order] == order and stops.count("fs-table") == 7
        page.keyboard.press("Enter")
        page.wait_for_selector("#fs-depth img", timeout=60_000)
        tab_to("fs-depth")
        for key in ("ArrowLeft", "ArrowUp", "Enter"):
            page.keyboard.press(key)
        text_of(page, "#fs-reading", r"m ±")
        screenshot(page, "keyboard_light_1280")
        assert tab_to("fs-mode") == ["fs-mode"]
        for key in ("Tab", "Space"):  # measure a distance
            page.keyboard.press(key)
        text_of(page, "#fs-reading", "two points")
        for key in ("Shift+Tab", "Shift+Tab", "Enter"):
            page.keyboard.press(key)
        text_of(page, "#fs-reading", "second point")
        for key in ("Shift+ArrowDown", "Shift+ArrowDown", "Enter"):
            page.keyboard.press(key)
        text_of(page, "#fs-reading", r"m ± .* between")


def test_a_stack_file_comes_back(server: Server, tmp_path: Path) -> None:
    """The stack.toml that the page gives is one that it takes."""
    with browser_page(server.address) as page:
        page.click("#fs-example")
        page.wait_for_selector("#fs-run:visible")
        with page.expect_download() as download:
            page.click("#fs-toml")
        (tmp_path / "stack.toml").write_bytes(Path(download.value.path()).read_bytes())
        given = [tmp_path / "stack.toml", *sorted(DEMO_STACK.glob("frame_*"))]
        page.locator("#fs-drop input[type=file]").set_input_files(given)
        text_of(page, "#fs-table", "frame_6.png")
        assert page.inner_text("#fs-table").count("stack.toml") == 7 and page.locator(".fs-missing").count() == 0
