"""Settings of a stack: merged, overridden, and written as a stack.toml that is read back the same."""

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from focalsweep import load_stack
from focalsweep.photos.metadata import FrameSettings, settings_of
from focalsweep.photos.settings import (
    StackSettings,
    overrides_from_toml,
    stack_settings,
    stack_toml,
    write_stack_toml,
)
from focalsweep.photos.values import Value, between, exact
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos.test_metadata import ANY, NAMES

CANON = {
    "Make": "Canon",
    "Model": "Canon EOS 60D",
    "FocalLength": 38.0,
    "FNumber": 2.8,
    "ExposureTime": 0.02,
    "ISO": 100,
}
CANON |= {"ImageWidth": 5184, "ImageHeight": 3456}
PHONE = {
    "Make": "Google",
    "Model": "Pixel 6 Pro",
    "FocalLength": 6.81,
    "FNumber": 1.85,
    "ImageWidth": 4080,
    "ImageHeight": 3072,
}


def frames(*distances: float | None, tags: dict[str, Any] = CANON, names: str = "{}.jpg") -> list[FrameSettings]:
    """Photos with these EXIF subject distances."""
    return [
        settings_of(tags | ({} if metres is None else {"SubjectDistance": metres}), names.format(number))
        for number, metres in enumerate(distances)
    ]


def values(settings: StackSettings) -> list[float | None]:
    return [None if value is None else value.value for value in settings.focus_distances]


# Merging


def test_one_camera_for_all() -> None:
    settings = stack_settings(frames(0.5, 1.0, math.inf))
    assert settings.files == ("0.jpg", "1.jpg", "2.jpg")
    assert values(settings) == [0.5, 1.0, math.inf]
    assert settings.focal_length == Value(0.038, "EXIF FocalLength", 0.0375, 0.0385)
    assert settings.pixel_pitch is not None and settings.pixel_pitch.value == pytest.approx(22.3e-3 / 5184)
    assert settings.focus_reference == "sensor"
    assert settings.unknown == ()


@pytest.mark.parametrize(
    ("change", "parts", "setting"),
    [
        (
            {"FocalLength": 45.0},
            ("the zoom", "0.jpg has 38 mm", "1.jpg has 45 mm", "give focal_length"),
            "focal_length",
        ),
        ({"FNumber": 4.0}, ("the aperture", "0.jpg has 2.8", "1.jpg has 4", "give f_number"), "f_number"),
        (
            {"ImageWidth": 1920, "ImageHeight": 1280},
            ("the pixel pitch", "4.302 um", "11.61 um", "give pixel_pitch"),
            "pixel_pitch",
        ),
    ],
)
def test_changed_camera_is_refused(change: dict[str, Any], parts: tuple[str, ...], setting: str) -> None:
    photos = [*frames(0.5), settings_of(CANON | change, "1.jpg")]
    assert_one_sentence(message_of(lambda: stack_settings(photos), ValueError), *parts)
    settled = stack_settings(photos, {setting: 0.04})
    assert getattr(settled, setting) == exact(0.04, "given")


def test_photo_without_a_setting_takes_that_of_the_others() -> None:
    photos = [FrameSettings("a.jpg"), *frames(0.5)]
    assert stack_settings(photos).f_number == Value(2.8, "EXIF FNumber", 2.75, 2.85)
    assert stack_settings(photos).unknown == ("focus_distance",)


def test_nothing_known() -> None:
    settings = stack_settings([FrameSettings("a.jpg"), FrameSettings("b.jpg")])
    assert settings.unknown == ("focal_length", "f_number", "pixel_pitch", "focus_distance")
    assert (settings.focus_reference, settings.notes) == ("lens", ())


def test_exposure_is_noted() -> None:
    photos = [*frames(0.5), settings_of(CANON | {"ISO": 200}, "b.jpg")]
    assert "exposure differs by 1.00 stops from 0.jpg to b.jpg" in stack_settings(photos).notes
    same = [*frames(0.5), settings_of(CANON | {"ISO": 200, "ExposureTime": 0.01}, "b.jpg")]
    assert not any("exposure" in note for note in stack_settings(same).notes)


def test_equal_distances_are_noted() -> None:
    notes = stack_settings(frames(0.5, 0.5, 1.0)).notes
    assert "0.jpg, 1.jpg have one focus distance, 0.5 m" in notes
    assert not any("one focus distance" in note for note in stack_settings(frames(0.5, 0.6, 1.0)).notes)


def test_notes_name_the_photo_unless_they_are_about_all() -> None:
    odd = settings_of(CANON | {"FocalPlaneXResolution": 9000.0, "SubjectDistance": 1.0}, "b.jpg")
    assert any(note.startswith("b.jpg: pixel pitch") for note in stack_settings([*frames(0.5), odd]).notes)
    assert any(note.startswith("pixel pitch") for note in stack_settings([odd, odd]).notes)


# Distances


def test_file_names_where_metadata_has_none() -> None:
    settings = stack_settings(frames(None, None, tags=PHONE, names="image_{0}_0.{0}5.jpg"))
    assert values(settings) == [0.05, 0.15]
    assert {value.source for value in settings.focus_distances if value} == {"file name"}
    assert (settings.focus_reference, settings.reference_source) == ("lens", "phones count from the lens")


def test_metadata_comes_before_file_names_and_disagreement_is_said() -> None:
    settings = stack_settings(frames(0.05, 0.3, names="image_0.{}5.jpg"))
    assert values(settings) == [0.05, 0.3]
    assert any("differs from the distance in the file name: image_0.15.jpg" in note for note in settings.notes)


@pytest.mark.parametrize("metadata", [(0.5, None), (0.5, 0.5)])
def test_file_names_where_metadata_is_partial_or_stuck(metadata: tuple[float | None, ...]) -> None:
    assert values(stack_settings(frames(*metadata, names="image_0.{}5.jpg"))) == [0.05, 0.15]


def test_given_distances_win() -> None:
    settings = stack_settings(frames(0.5, 1.0), {"focus_distances": {"1.jpg": (2.0, 4.0)}})
    assert settings.focus_distances[1] == between(2.0, 4.0, "given")
    assert values(settings)[0] == 0.5
    assert settings.focus_reference == "sensor"


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, "near", (1.0, 0.0), (1.0, 2.0, 3.0)])
def test_bad_given_distance(bad: Any) -> None:
    call = lambda: stack_settings(frames(0.5), {"focus_distances": {"0.jpg": bad}})  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "0.jpg", "above 0")


def test_given_distance_of_no_photo() -> None:
    call = lambda: stack_settings(frames(0.5), {"focus_distances": {"x.jpg": 1.0}})  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "x.jpg")


# Overrides


def test_override_that_contradicts_metadata_is_said() -> None:
    settings = stack_settings(frames(0.5), {"focal_length": 0.05})
    assert settings.focal_length == exact(0.05, "given")
    assert "focal_length is 0.05 (given), the metadata says 0.038 (EXIF FocalLength)" in settings.notes
    assert not any("metadata says" in note for note in stack_settings(frames(0.5), {"focal_length": 0.0385}).notes)


def test_reference_can_be_given() -> None:
    assert stack_settings(frames(0.5), {"focus_reference": "lens"}).focus_reference == "lens"
    message = message_of(lambda: stack_settings(frames(0.5), {"focus_reference": "film"}), ValueError)
    assert_one_sentence(message, "focus_reference", "film")
    assert_one_sentence(message_of(lambda: stack_settings(frames(0.5), {"zoom": 1}), TypeError), "zoom")


def test_toml_overrides() -> None:
    camera = {"focal_length": 0.05, "focus_reference": "sensor", "aligned": True, "order": "near-to-far"}
    tables = [{"file": "0.jpg", "focus_range": [0.4, 0.6]}, {"file": "1.jpg", "focus_distance": 2}, {"file": "2.jpg"}]
    settings = stack_settings(frames(1.0, 1.0, 3.0), overrides_from_toml(camera, tables))
    assert settings.focal_length == exact(0.05, "stack.toml")
    assert settings.focus_distances[0] == between(0.4, 0.6, "stack.toml")
    assert values(settings)[1:] == [2.0, 3.0]
    assert (settings.focus_reference, settings.aligned, settings.order) == ("sensor", True, "near-to-far")


def test_given_distances_alone_count_from_the_lens() -> None:
    tables = [{"file": "0.jpg", "focus_distance": 2}]
    assert stack_settings(frames(None), overrides_from_toml({}, tables)).focus_reference == "lens"


# Writing


def test_written_file_is_read_back_the_same(tmp_path: Path) -> None:
    names = ("b 1.png", "a.png", "ä.png")
    for number, name in enumerate(names):
        Image.fromarray(np.full((8, 12, 3), 40 * number, np.uint8)).save(tmp_path / name)
    settings = StackSettings(
        files=names,
        focal_length=Value(0.038, "EXIF FocalLength", 0.0375, 0.0385),
        f_number=exact(2.8, "given"),
        pixel_pitch=exact(1.161458333e-05, "x"),
        focus_distances=(between(0.61, 0.66, "Canon"), exact(0.5, "file name"), exact(math.inf, "EXIF")),
        focus_reference="lens",
        reference_source="x",
        aligned=True,
    )
    write_stack_toml(tmp_path / "stack.toml", settings)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    tables = tomllib.loads((tmp_path / "stack.toml").read_text(encoding="utf-8"))
    again = stack_settings(
        [FrameSettings(name) for name in names], overrides_from_toml(tables["camera"], tables["frame"])
    )
    assert values(again) == values(settings)
    assert again.focus_distances[0] == between(0.61, 0.66, "stack.toml")
    stack = load_stack(tmp_path)
    assert stack.focus_distances.tolist() == [0.5, pytest.approx(2 / (1 / 0.61 + 1 / 0.66)), math.inf]
    assert stack.camera.pixel_pitch == pytest.approx(1.161458333e-05, rel=1e-6)
    assert stack.camera.focal_length == 0.038


def test_sources_and_unknowns_stand_in_comments() -> None:
    text = stack_toml(stack_settings(frames(0.5, None)))
    assert "focal_length = 0.038   # metres; EXIF FocalLength, 0.0375 to 0.0385" in text
    assert "focus_distance = 0.5   # metres; EXIF SubjectDistance, 0.495 to 0.505" in text
    assert text.count("# focus_distance =   # metres; unknown") == 1
    assert "# Note: " in text
    bare = stack_toml(stack_settings([FrameSettings("a.jpg")]))
    assert tomllib.loads(bare) == {"camera": {"focus_reference": "lens"}, "frame": [{"file": "a.jpg"}]}


def test_existing_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "stack.toml"
    path.write_text("mine")
    settings = stack_settings(frames(0.5))
    assert_one_sentence(
        message_of(lambda: write_stack_toml(path, settings), FileExistsError), "stack.toml", "overwrite=True"
    )
    assert path.read_text() == "mine"
    write_stack_toml(path, settings, overwrite=True)
    assert "[camera]" in path.read_text()


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_stack_toml(tmp_path / "stack.toml", stack_settings(frames(0.5)))
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_name_and_source_make_valid_toml(name: str, source: str) -> None:
    value = Value(0.5, source, 0.4, 0.6)
    settings = StackSettings((name,), value, value, value, (value,), "lens", source, notes=(source,), order=source)
    tables = tomllib.loads(stack_toml(settings))
    expected = name.encode("utf-8", "replace").decode()
    assert tables["frame"] == [{"file": expected, "focus_distance": 0.5}]
    assert tables["camera"]["focal_length"] == 0.5


@given(tags=st.dictionaries(st.sampled_from(NAMES), ANY, max_size=len(NAMES)))
def test_any_tags_make_valid_toml(tags: dict[str, Any]) -> None:
    frame = settings_of(tags, "a.jpg")
    tables = tomllib.loads(stack_toml(stack_settings([frame, frame])))
    assert len(tables["frame"]) == 2


def test_reference_names_who_gave_it() -> None:
    from_file = overrides_from_toml({"focus_reference": "sensor"}, [])
    assert stack_settings(frames(0.5), from_file).reference_source == "stack.toml"
    assert stack_settings(frames(0.5), {"focus_reference": "lens"}).reference_source == "given"


@pytest.mark.parametrize(
    ("name", "bad"), [("aligned", "no"), ("aligned", 1), ("focal_length", "50 mm"), ("f_number", True)]
)
def test_settings_of_the_wrong_type_are_refused(name: str, bad: Any) -> None:
    message = message_of(lambda: stack_settings(frames(0.5), {name: bad}), TypeError)
    assert_one_sentence(message, name, repr(bad))


def test_shared_ranges_are_noted_as_ranges() -> None:
    shared = {"focus_distances": {"0.jpg": (0.5, 0.54), "1.jpg": (0.5, 0.54)}}
    assert "0.jpg, 1.jpg have one focus range, 0.5 to 0.54 m" in stack_settings(frames(0.4, 0.4), shared).notes
