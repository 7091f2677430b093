"""Texts in the visitor's unit to metres and back."""

import math

import pytest

from focalsweep.photos.settings import StackSettings
from focalsweep.photos.values import Value, between, exact
from focalsweep.web.table import MISSING, Typed, changes, rows, show, sorted_by_focus
from tests.errors import assert_one_sentence, message_of


def settings(*distances: Value | None) -> StackSettings:
    files = tuple(f"{i}.jpg" for i in range(len(distances)))
    return StackSettings(files, exact(0.05, "EXIF"), None, exact(4.3e-6, "given"), distances, "lens", "default")


KNOWN = settings(exact(0.5, "EXIF"), exact(0.25, "given"), exact(math.inf, "EXIF"))


@pytest.mark.parametrize(
    ("unit", "texts"),
    [
        ("m", ["0.25", "0.5", "inf"]),
        ("cm", ["25", "50", "inf"]),
        ("mm", ["250", "500", "inf"]),
        ("dioptres", ["4", "2", "0"]),
    ],
)
def test_every_unit_shows_and_reads_the_same_metres(unit: str, texts: list[str]) -> None:
    table = rows(sorted_by_focus(KNOWN), unit)
    assert [row[0] for row in table] == ["1.jpg", "0.jpg", "2.jpg"]
    assert [row[1] for row in table] == texts
    assert [row[2] for row in table] == ["typed in", "EXIF", "EXIF"]
    nothing = show(settings(None, None, None), unit)
    given = changes(nothing, Typed({}, pairs(table), unit), {})
    assert given["focus_distances"] == {"1.jpg": 0.25, "0.jpg": 0.5, "2.jpg": math.inf}


def pairs(table: list[list[str]]) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in table]


def test_missing_is_marked_and_nothing_moves() -> None:
    partly = settings(exact(0.5, "EXIF"), None, exact(0.2, "EXIF"))
    assert sorted_by_focus(partly).files == partly.files
    assert rows(partly, "m")[1] == ["1.jpg", "", MISSING]
    assert show(partly, "m").camera == {"focal_length": "50", "f_number": "", "pixel_pitch": "4.3"}


def test_a_range_is_shown() -> None:
    assert rows(settings(between(0.2, 0.25, "EXIF")), "cm")[0][2] == "EXIF, 20 to 25"


def test_only_what_was_changed_is_given() -> None:
    """A value that is shown rounded stays what the metadata says."""
    exactly = settings(exact(1 / 3, "EXIF"), exact(2 / 3, "EXIF"))
    shown = show(exactly, "m")
    table = rows(exactly, "m")
    assert changes(shown, Typed(shown.camera, pairs(table)), {}) == {"focus_distances": {}}
    table[1][1] = "0,7"
    camera = shown.camera | {"f_number": "f/2.8", "pixel_pitch": ""}
    given = changes(shown, Typed(camera, pairs(table)), {"pixel_pitch": 4e-6})
    assert given == {"f_number": 2.8, "focus_distances": {"1.jpg": 0.7}}
    table[1][1] = ""
    assert changes(shown, Typed({}, pairs(table)), given) == {"f_number": 2.8, "focus_distances": {}}


@pytest.mark.parametrize("text", ["far", "-1", "0", "nan", "1e999"])
def test_nonsense_is_refused(text: str) -> None:
    shown = show(KNOWN, "m")
    frame, camera = Typed({}, [("0.jpg", text)]), Typed({"f_number": text}, [])
    assert_one_sentence(message_of(lambda: changes(shown, frame, {}), ValueError), "0.jpg", text)
    assert_one_sentence(message_of(lambda: changes(shown, camera, {}), ValueError), "f_number", text)


def test_rows_of_other_files_are_left_alone() -> None:
    assert changes(show(KNOWN, "m"), Typed({}, [("../other.jpg", "1")]), {}) == {"focus_distances": {}}
