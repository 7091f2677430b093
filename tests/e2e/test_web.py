"""The page in real Chromium, as a visitor meets it."""

import re
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from focalsweep.cli.photos import DEMO_STACK
from tests.e2e.browsing import (
    Server,
    browser_page,
    click_depth,
    needs_browser,
    page_server,
    run,
    run_example,
    screenshot,
    text_of,
    watch,
)
from tests.e2e.running import write_photos

pytestmark = needs_browser
REAL_PHOTOS = Path(__file__).parents[1] / "data" / "toys"
PROJECTION_PX = 0.05 / 9.375e-5  # the renderer's field of view: 50 mm over its pixel pitch


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with page_server(tmp_path_factory.mktemp("web")) as running:
        yield running


def true_points(*places: tuple[float, float]) -> tuple[list[float], float]:
    """True depths at shares of the demo's picture, and the distance between the first two points."""
    depth = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED) * 1e-4
    height, width = depth.shape
    points = []
    for across, down in places:
        z = float(depth[int(down * height), int(across * width)])
        points.append(np.array([(across - 0.5) * width / PROJECTION_PX, (down - 0.5) * height / PROJECTION_PX, 1]) * z)
    return [float(point[2]) for point in points], float(np.linalg.norm(points[0] - points[1]))


def test_example_from_click_to_depth(server: Server) -> None:
    with browser_page(server.address) as page:
        run_example(page)
        assert "Depth from 0.3" in page.inner_text("#fs-summary")
        first, second = (0.5, 0.72), (0.12, 0.9)  # on the table cloth and on the table
        depths, distance = true_points(first, second)
        click_depth(page, *first)
        shown = text_of(page, "#fs-reading", r"m ±")
        assert float(shown.split(" m")[0]) == pytest.approx(depths[0], rel=0.03)
        page.wait_for_selector("#fs-curve svg")
        screenshot(page, "depth_light_1280")
        page.get_by_text("Measure a distance").click()
        text_of(page, "#fs-reading", "two points")
        click_depth(page, *first)
        text_of(page, "#fs-reading", "second point")
        click_depth(page, *second)
        shown = text_of(page, "#fs-reading", "between")
        assert float(shown.split(" m")[0]) == pytest.approx(distance, rel=0.03)
        page.get_by_role("tab", name="Refocus").click()
        text_of(page, "#fs-focused", r"0\.3\d* m")
        page.locator("#fs-focus input[type=number]").fill("100")
        text_of(page, "#fs-focused", r"1\.1\d* m")
        screenshot(page, "refocus_light_1280")
        page.get_by_role("tab", name="Sharp picture").click()
        page.wait_for_selector("#fs-slider img")
        page.get_by_role("tab", name="3D model").click()
        page.wait_for_selector("#fs-model canvas")
        page.get_by_role("tab", name="Downloads").click()
        names = set(re.sub(r"\s*\n?\s*(?=\.)", "", page.locator("#fs-files").inner_text()).split())
        assert {"depth.npz", "depth_mm.png", "all_in_focus.png", "cloud.ply", "mesh.glb", "run.json"} <= names
        with page.expect_download() as download:
            page.locator("#fs-files a", has_text="KB").first.click()
        assert Path(download.value.path()).stat().st_size > 1000


def test_photos_without_metadata_whose_settings_are_typed_in(server: Server) -> None:
    with browser_page(server.address) as page:
        page.locator("#fs-drop input[type=file]").set_input_files(sorted(REAL_PHOTOS.glob("*.jpg")))
        page.wait_for_selector("#fs-run:visible")
        assert page.locator("#fs-settings").inner_text().count("missing: type it in") == 6
        screenshot(page, "missing_light_1280")
        page.click("#fs-run")
        text_of(page, "#fs-status", "the photos: .* unknown, the metadata does not say: give Focal length")
        for name, value in (("focal_length", "38"), ("f_number", "2.8"), ("pixel_pitch", "46.4")):
            page.locator(f"#fs-{name} :is(input, textarea)").fill(value)
            page.keyboard.press("Tab")
            text_of(page, f"#fs-{name}", "typed in")
        page.get_by_text("cm", exact=True).click()
        text_of(page, "#fs-table", r"\(cm\)")
        page.locator("#fs-table input").first.focus()
        for value in ("37.5", "48.5", "63.5"):  # as quickly as the keyboard goes
            page.keyboard.type(value)
            page.keyboard.press("Tab")
        assert page.locator("#fs-table").inner_text().count("typed in") == 3
        assert page.locator(".fs-missing").count() == 0
        page.wait_for_timeout(1500)
        with page.expect_download() as download:
            page.click("#fs-toml")
        assert "focus_distance = 0.485 " in Path(download.value.path()).read_text()
        run(page)
        assert re.search(r"median 0\.[3-6]", page.inner_text("#fs-summary"))
        screenshot(page, "real_photos_light_1280")


def test_bad_uploads_are_sentences(server: Server, tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "shots", {}, {}, {})
    (photos / "3.jpg").write_bytes((photos / "3.jpg").read_bytes()[:800])
    with browser_page(server.address) as page:
        page.locator("#fs-drop input[type=file]").set_input_files([photos / "0.jpg"])
        shown = text_of(page, "#fs-message", "one picture only")
        assert shown.startswith("0.jpg is one picture only: a focal stack needs at least 2")
        page.locator("#fs-drop input[type=file]").set_input_files(sorted(photos.iterdir()))
        page.wait_for_selector("#fs-run:visible")
        page.get_by_label("Relative depth").check()
        page.click("#fs-run")
        shown = text_of(page, "#fs-status", "3.jpg")
        assert "truncated" in shown and str(server.temporary) not in shown


def test_cancel(server: Server) -> None:
    with browser_page(server.address) as page:
        page.click("#fs-example")
        page.wait_for_selector("#fs-run:visible")
        page.click("#fs-run")
        page.click("#fs-cancel")
        text_of(page, "#fs-status", "Cancelled")
        run(page)  # and it works again


def test_two_visitors_at_once(server: Server) -> None:
    with browser_page(server.address) as first:
        other = first.context.browser.new_context().new_page()
        foreign, wrong = watch(other, server.address)
        other.goto(server.address)
        for page in (first, other):
            page.click("#fs-example")
            page.wait_for_selector("#fs-run:visible")
        first.click("#fs-run")
        text_of(first, "#fs-status", "frames|range|photos|planes")
        other.click("#fs-run")
        text_of(other, "#fs-status", "Waiting in line: 1 other stack first")
        other.wait_for_selector("#fs-depth img", timeout=120_000)
        first.wait_for_selector("#fs-depth img")
        assert foreign == [] and wrong == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_by_the_keyboard(server: Server, dark: bool) -> None:
    colours = "dark" if dark else "light"
    with browser_page(server.address, 390, 844, dark) as page:
        screenshot(page, f"start_{colours}_390")
        page.locator("#fs-example").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#fs-run:visible")
        page.locator("#fs-run").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#fs-depth img", timeout=120_000)
        page.locator("#fs-depth").focus()
        page.keyboard.press("Shift+ArrowDown")
        page.keyboard.press("Enter")
        shown = text_of(page, "#fs-reading", "m ±")
        depths, _ = true_points((0.5, 0.6), (0.5, 0.6))
        assert float(shown.split(" m")[0]) == pytest.approx(depths[0], rel=0.05)
        page.wait_for_selector("#fs-curve svg")
        screenshot(page, f"depth_{colours}_390")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("#fs-depth img").bounding_box()["width"] > 340
        assert page.evaluate("document.body.classList.contains('dark')") is dark
        page.set_viewport_size({"width": 1280, "height": 900})
        screenshot(page, f"depth_{colours}_1280_from_390")


def test_a_foreign_request_is_noticed(server: Server) -> None:
    """The watch can fail: the page itself reaches for another host, which its policy refuses."""
    with pytest.raises(AssertionError, match="example"), browser_page(server.address) as page:
        page.evaluate("fetch('http://example.invalid/').catch(() => 0)")
        page.wait_for_timeout(500)
