"""A visitor from photos to result without a browser."""

import asyncio
import tomllib
from pathlib import Path

import numpy as np
import pytest

from focalsweep.web import views
from focalsweep.web.jobs import Done, Failed, Line, News, Running
from focalsweep.web.limits import Limits
from focalsweep.web.table import Typed
from focalsweep.web.uploads import Ledger
from focalsweep.web.visitors import BUSY_SECONDS, MOST_NAMES, Visitor, Visitors
from tests.e2e.running import write_photos, write_small_stack
from tests.errors import assert_one_sentence, message_of


def visitor(root: Path, line: Line | None = None, limits: Limits | None = None) -> Visitor:
    root.mkdir(exist_ok=True)
    return Visitor(root, limits or Limits(), line or Line(1, 1), "cpu")


def run(who: Visitor, relative: bool = False) -> list[News | int]:
    async def all_news() -> list[News | int]:
        return [news async for news in who.run(relative)]

    return asyncio.run(all_news())


def test_photos_to_result(tmp_path: Path) -> None:
    who = visitor(tmp_path / "root")
    who.take(sorted(write_small_stack(tmp_path / "shots").iterdir()))
    assert who.settings is not None and who.settings.unknown == ()
    toml = who.toml()
    assert toml is not None
    written = tomllib.loads(toml.read_text())
    assert [frame["magnification"] for frame in written["frame"]] == [0.868421, 0.911894, 0.955357]
    news = run(who)
    assert isinstance(news[-1], Done)
    assert {item.stage for item in news if isinstance(item, Running)} & {"sweeping", "network"}  # only the latest
    outcome, stack = who.outcome, who.stack
    assert outcome is not None and stack is not None
    assert {path.name for path in outcome.files} >= {"depth.npz", "mesh.glb", "run.json"}
    assert views.depth_view(outcome).shape == (560, 784, 3)  # 7 times: wider than the page shows it
    assert views.mark_at(outcome, 783.9, 0) == (0, 111) and views.mark_at(outcome, -5, 7000) == (79, 0)
    middle = views.mark_at(outcome, 50 * 7 + 3, 40 * 7 + 3)
    changed = (views.depth_view(outcome, [middle]) != views.depth_view(outcome)).any(-1).nonzero()
    assert middle == (40, 50)
    np.testing.assert_allclose([changed[0].mean() / 7, changed[1].mean() / 7], [40.5, 50.5], atol=0.2)
    picture, words = views.refocused(outcome, 0.5)
    assert picture.shape == (80, 112, 3) and " m</b>" in words
    assert "svg" in views.cost_curve_view(outcome, stack, (79, 111))
    assert " m</b> ±" in views.reading(outcome, (40, 50))
    assert "second point" in views.ruler(outcome, [(1, 1)])
    assert "between" in views.ruler(outcome, [(1, 1), (70, 100)])
    who.forget()
    assert list((tmp_path / "root").iterdir()) == [] and who.outcome is None


def test_missing_settings_are_typed_in(tmp_path: Path) -> None:
    who = visitor(tmp_path / "root")
    who.take(sorted(write_photos(tmp_path / "shots", {}, {}, {}).iterdir()))
    assert who.settings is not None
    assert set(who.settings.unknown) == {"focal_length", "f_number", "pixel_pitch", "focus_distance"}
    (failed,) = [news for news in run(who) if isinstance(news, Failed)]
    assert_one_sentence(failed.sentence, "the photos", "focus distance unknown")
    assert str(tmp_path) not in failed.sentence
    camera = {"focal_length": "50", "f_number": "4", "pixel_pitch": "93.75"}
    who.change(Typed(camera, [("0.jpg", "38"), ("3.jpg", "56.75"), ("6.jpg", "112")], "cm"), "lens")
    assert who.settings.unknown == () and who.given["focus_distances"]["3.jpg"] == 0.5675
    assert isinstance(run(who)[-1], Done)
    assert who.outcome is not None and 0.35 < np.median(who.outcome.result.depth) < 1.2


def test_a_bad_upload_leaves_nothing(tmp_path: Path) -> None:
    who = visitor(tmp_path / "root")
    one = write_photos(tmp_path / "shots", {}, {}, {}) / "0.jpg"
    message = message_of(lambda: who.take([one]), ValueError)
    assert_one_sentence(message, "0.jpg is one picture only")
    assert "/" not in message and list((tmp_path / "root").iterdir()) == []


def test_too_many_pixels(tmp_path: Path) -> None:
    who = visitor(tmp_path / "root", limits=Limits(pixels=5000))
    who.take(sorted(write_small_stack(tmp_path / "shots").iterdir()))
    (failed,) = [news for news in run(who) if isinstance(news, Failed)]
    assert_one_sentence(failed.sentence, "too large", "frame_0.png")


def test_waiting_and_cancelling(tmp_path: Path) -> None:
    line = Line(places=1, waiting=1)
    who = visitor(tmp_path / "root", line)
    who.take(sorted(write_small_stack(tmp_path / "shots").iterdir()))
    other = line.join()

    async def wait_then_cancel() -> list[News | int]:
        heard: list[News | int] = []
        async for news in who.run(False):
            heard.append(news)
            if len(heard) == 2:
                who.cancel()
        return heard

    assert asyncio.run(wait_then_cancel()) == [1, 1, Failed("cancelled")]
    line.leave(other)
    assert line.ahead(line.join()) == 0


def test_cancelled_as_soon_as_it_can_be(tmp_path: Path) -> None:
    who = visitor(tmp_path / "root")
    who.take(sorted(write_small_stack(tmp_path / "shots").iterdir()))

    async def cancel_at_once() -> list[News | int]:
        heard: list[News | int] = []
        async for news in who.run(False):
            heard.append(news)
            who.cancel()
        return heard

    assert asyncio.run(cancel_at_once()) == [0, Failed("cancelled")]
    assert isinstance(run(who)[-1], Done)  # and it works again


def with_files(here: Visitors, root: Path, name: str) -> Visitor:
    """A visitor who gave a small stack."""
    who = here.of(name)
    who.take(sorted(write_small_stack(root / name).iterdir()))
    return who


@pytest.mark.slow
def test_the_longest_idle_goes_first_and_who_is_at_it_stays(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    ledger = Ledger()
    here = Visitors(root, Limits(visitors=2), "cpu", ledger)
    for name in "abc":
        here.present(name, True)
    first, second = with_files(here, tmp_path, "a"), with_files(here, tmp_path, "b")
    message = message_of(lambda: with_files(here, tmp_path, "c"), ValueError)
    assert_one_sentence(message, "2 others are here already")
    first.last_seen -= 2 * BUSY_SECONDS
    third = here.of("c")
    third.take(sorted((tmp_path / "c").iterdir()))
    assert not first.has_files and second.has_files and third.has_files
    assert ledger.total > 0 and len(list(root.iterdir())) == 2
    for name in "bc":
        here.leave(name)
    assert ledger.total == 0


def test_those_without_an_open_page_leave_soon_and_others_when_idle(tmp_path: Path) -> None:
    here = Visitors(tmp_path, Limits(idle_seconds=50, absent_seconds=5), "cpu")
    absent, idle, second = here.of("a"), here.of("b"), here.of("c")
    here.present("b", True)
    here.present("c", True)
    absent.last_seen -= 10
    idle.last_seen -= 60
    second.last_seen -= 10
    here.leave_idle()
    assert here.of("c") is second and here.of("a") is not absent and here.of("b") is not idle
    here.present("c", False)
    second.last_seen -= 10
    here.leave_idle()
    assert here.of("c") is not second


def test_names_without_files_are_bounded(tmp_path: Path) -> None:
    here = Visitors(tmp_path, Limits(), "cpu")
    for number in range(2 * MOST_NAMES):
        here.of(str(number))
    assert len(here) <= MOST_NAMES


def test_a_stack_waits_in_line_once(tmp_path: Path) -> None:
    line = Line(places=1, waiting=5)
    who = visitor(tmp_path / "root", line)
    who.take(sorted(write_small_stack(tmp_path / "shots").iterdir()))
    line.join()

    async def wait_twice() -> list[News | int]:
        waiting = who.run(False)
        assert await anext(waiting) == 1 and who.busy
        again = [news async for news in who.run(False)]
        await waiting.aclose()
        return again

    (failed,) = asyncio.run(wait_twice())
    assert isinstance(failed, Failed) and "already" in failed.sentence
    assert not who.busy and line.ahead(line.join()) == 1


@pytest.mark.parametrize("name", ["../../etc", "", None])
def test_names_of_visitors_are_no_paths(tmp_path: Path, name: str | None) -> None:
    who = Visitors(tmp_path / "root", Limits(), "cpu").of(name)
    (tmp_path / "root").mkdir()
    who.take(sorted(write_small_stack(tmp_path / "shots").iterdir()))
    assert {path.name for path in tmp_path.iterdir()} == {"root", "shots"}
