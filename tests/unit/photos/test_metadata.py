"""Tags to settings: every route, its interval, and what is said when routes disagree."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalsweep.photos.metadata import FrameSettings, read_settings, settings_of
from focalsweep.photos.sensors import CAMERAS, PHONES, find_sensor
from focalsweep.photos.values import Value, between, rounded
from tests.unit.photos.exif_bytes import SHORT, directory, jpeg, photo
from tests.unit.photos.test_makernotes import FILE_INFO_60D

SIZE = {"ImageWidth": 6000, "ImageHeight": 4000}
CANON_60D = {
    "Make": "Canon",
    "Model": "Canon EOS 60D",
    "FocalLength": 38.0,
    "FNumber": 2.8,
    "ImageWidth": 1920,
    "ImageHeight": 1280,
    "ExifImageWidth": 1920,
    "ExifImageHeight": 1280,
    "FocalPlaneXResolution": 2121.546961325967,
    "FocalPlaneResolutionUnit": 2,
    "FocusDistanceLower": 0.37,
    "FocusDistanceUpper": 0.38,
}


def settings(**tags: Any) -> FrameSettings:
    return settings_of(tags, "a.jpg")


def distance(**tags: Any) -> Value:
    value = settings(**tags).focus_distance
    assert value is not None
    return value


# Values


@pytest.mark.parametrize(
    ("shown", "low", "high"), [(38.0, 37.5, 38.5), (6.81, 6.805, 6.815), (2.8, 2.75, 2.85), (100.0, 99.5, 100.5)]
)
def test_interval_of_a_rounded_value(shown: float, low: float, high: float) -> None:
    value = rounded(shown, "x", 1e-3)
    assert (value.value, value.low, value.high) == pytest.approx((shown / 1e3, low / 1e3, high / 1e3), rel=1e-12)


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4))
def test_middle_of_a_range_is_even_in_dioptres(a: float, b: float) -> None:
    value = between(a, b, "x")
    assert value.low <= value.value * (1 + 1e-12) and value.value <= value.high * (1 + 1e-12)
    assert 1 / value.value - 1 / value.high == pytest.approx(1 / value.low - 1 / value.value, abs=1e-9)


def test_range_to_infinity() -> None:
    assert between(5.0, math.inf, "x").value == 10.0
    assert between(math.inf, math.inf, "x").value == math.inf


@pytest.mark.parametrize(("other", "disagrees"), [(1.04, False), (1.06, True), (0.94, True), (math.inf, True)])
def test_disagreement_begins_at_5_percent(other: float, disagrees: bool) -> None:
    a, b = Value(1.0, "a", 1.0, 1.0), Value(other, "b", other, other)
    assert a.disagrees(b) is disagrees
    assert b.disagrees(a) is disagrees


def test_range_agrees_with_what_lies_in_it() -> None:
    assert not between(0.38, 0.99, "range").disagrees(Value(0.9, "b", 0.9, 0.9))
    assert between(0.38, 0.6, "range").disagrees(Value(0.9, "b", 0.9, 0.9))


# Focus distance


def test_canon_range() -> None:
    value = distance(**CANON_60D)
    assert (value.low, value.high, value.only_range) == (0.37, 0.38, True)
    assert value.value == pytest.approx(2 / (1 / 0.37 + 1 / 0.38))
    swapped = distance(FocusDistanceLower=5.2, FocusDistanceUpper=4.1)
    assert (swapped.low, swapped.high) == (4.1, 5.2)
    far = distance(FocusDistanceLower=11.17, FocusDistanceUpper=655.35)
    assert (far.value, far.low, far.high) == (22.34, 11.17, math.inf)
    assert distance(FocusDistanceLower=655.35, FocusDistanceUpper=655.35).value == math.inf


def test_nikon_has_40_steps_a_decade() -> None:
    value = distance(Make="NIKON CORPORATION", FocusDistance=0.01 * 10 ** (84 / 40))
    assert value.low == pytest.approx(0.01 * 10 ** (83.5 / 40))
    assert value.high == pytest.approx(0.01 * 10 ** (84.5 / 40))
    fine = distance(Make="NIKON CORPORATION", FocusDistance=0.01 * 10 ** (84.3 / 40))
    assert fine.high / fine.low < 1.001
    assert settings(Make="NIKON", FocusDistance=0.01).focus_distance is None
    assert distance(Make="NIKON", FocusDistance=0.01 * 10 ** (255 / 40)).value == math.inf


def test_encrypted_nikon_names_the_remedy() -> None:
    tags = {"Make": "NIKON", "LensDataVersion": "0204"}
    assert any("exiftool" in note for note in settings_of(tags, "a.jpg").notes)
    assert settings_of(tags, "a.jpg", decrypted=True).notes == ()
    assert settings_of(tags | {"FocusDistance": 2.0}, "a.jpg").notes == ()


def test_olympus_and_leica() -> None:
    assert distance(Make="OLYMPUS CORPORATION", FocusDistance=1.23).source == "Olympus FocusDistance"
    assert distance(Make="OM Digital Solutions", FocusDistance=math.inf).value == math.inf
    leica = settings(Make="LEICA CAMERA AG", FocusDistance=1500)
    assert leica.focus_distance is not None and leica.focus_distance.value == 1.5
    assert any("centimetres" in note for note in leica.notes)


def test_sony_position() -> None:
    value = distance(Make="SONY", FocusPosition2=160, FocalLengthIn35mmFormat=50)
    assert value.value == pytest.approx(33 * 0.05)
    assert value.low < value.value < value.high
    unknown = settings(Make="SONY", FocusPosition2=255, FocalLengthIn35mmFormat=50)
    assert unknown.focus_distance is None
    assert any("255" in note for note in unknown.notes)
    assert settings(Make="SONY", FocusPosition2=160).focus_distance is None


def test_apple_range_is_doubted() -> None:
    phone = settings(Make="Apple", FocusDistanceRange=(0.99, 0.38))
    assert phone.focus_distance is not None
    assert (phone.focus_distance.low, phone.focus_distance.high, phone.focus_reference) == (0.38, 0.99, "lens")
    assert len(phone.notes) == 1


def test_dioptres() -> None:
    value = distance(LensFocusDistance=2.5)
    assert (value.value, value.low, value.high) == pytest.approx((0.4, 1 / 2.505, 1 / 2.495))
    assert distance(LensFocusDistance=0.0).value == math.inf
    assert settings(Make="Canon", LensFocusDistance=2.5).focus_reference == "lens"


@pytest.mark.parametrize("marker", [0, -1, math.nan, "undef", None, True, (1.0, 2.0), -math.inf])
@pytest.mark.parametrize("tag", ["SubjectDistance", "FocusDistance", "ApproximateFocusDistance"])
def test_no_distance(tag: str, marker: Any) -> None:
    assert settings(**{tag: marker}).focus_distance is None


@pytest.mark.parametrize("marker", [65535, 4294967295, 4294967.295, math.inf])
def test_markers_of_infinity(marker: float) -> None:
    value = distance(SubjectDistance=marker)
    assert (value.value, value.high) == (math.inf, math.inf)


def test_maker_note_comes_before_exif_and_disagreement_is_said() -> None:
    both = settings(**CANON_60D, SubjectDistance=0.5)
    assert both.focus_distance is not None and both.focus_distance.high == 0.38
    assert [route.source for route in both.routes["focus_distance"]] == [
        "Canon FocusDistanceLower and Upper",
        "EXIF SubjectDistance",
    ]
    assert both.notes == (
        "focus distance: Canon FocusDistanceLower and Upper says 0.3749 m, EXIF SubjectDistance says 0.5 m",
    )
    assert settings(**CANON_60D, SubjectDistance=0.375).notes == ()


@pytest.mark.parametrize(
    ("make", "reference"),
    [("Canon", "sensor"), ("NIKON CORPORATION", "sensor"), ("SONY", "sensor"), ("Google", "lens"), ("Apple", "lens")],
)
def test_reference_by_maker(make: str, reference: str) -> None:
    assert settings(Make=make, SubjectDistance=1.0).focus_reference == reference


def test_reference_of_an_unknown_maker() -> None:
    assert settings(Make="MAKER NAME", SubjectDistance=1.0).focus_reference is None
    assert settings(SubjectDistance=1.0).focus_reference is None


# Pixel pitch


def test_canon_60d_by_all_routes() -> None:
    frame = settings(**CANON_60D, FocalLengthIn35mmFormat=61)
    assert frame.pixel_pitch is not None
    assert frame.pixel_pitch.value == pytest.approx(11.615e-6, rel=1e-3)  # 22.3 mm over 5184 px, reduced to 1920
    assert [round(route.value * 1e6, 2) for route in frame.routes["pixel_pitch"]] == [11.61, 11.97, 11.68]
    assert frame.notes == ()  # 3.1 % is within 5 %
    for route in frame.routes["pixel_pitch"]:
        assert route.low <= 22.3e-3 / 1920 <= route.high, route.source


def test_pitch_routes_that_disagree() -> None:
    frame = settings(**CANON_60D | {"FocalPlaneXResolution": 2000.0})
    assert frame.pixel_pitch is not None and frame.pixel_pitch.source.startswith("sensor table")
    assert len(frame.notes) == 1
    assert "pixel pitch: sensor table" in frame.notes[0] and "FocalPlaneXResolution says 12.7 um" in frame.notes[0]


@pytest.mark.parametrize(
    ("width", "height", "share"),
    [(5184, 3456, 1.0), (3456, 5184, 1.0), (2592, 1728, 0.5), (5184, 2916, 1.0), (3456, 3456, 1.0), (5202, 3464, 1.0)],
)
def test_pitch_of_turned_reduced_and_cut_pictures(width: int, height: int, share: float) -> None:
    pitch = settings(Model="Canon EOS 60D", ImageWidth=width, ImageHeight=height).pixel_pitch
    assert pitch is not None
    assert pitch.value == pytest.approx(22.3e-3 / 5184 / share)


@pytest.mark.parametrize(("unit", "scale"), [(2, 25.4e-3), (3, 1e-2), (4, 1e-3), (5, 1e-6)])
def test_focal_plane_units(unit: int, scale: float) -> None:
    pitch = settings(**SIZE, FocalPlaneXResolution=scale / 4e-6, FocalPlaneResolutionUnit=unit).pixel_pitch
    assert pitch is not None and pitch.value == pytest.approx(4e-6)


def test_focal_plane_is_corrected_for_the_width_of_the_file() -> None:
    taken = {
        "ExifImageWidth": 6000,
        "ExifImageHeight": 4000,
        "FocalPlaneXResolution": 2500,
        "FocalPlaneResolutionUnit": 3,
    }
    frame = settings(**taken, ImageWidth=1500, ImageHeight=1000)
    assert frame.pixel_pitch is not None and frame.pixel_pitch.value == pytest.approx(16e-6)
    assert frame.notes == ("taken with 6000 x 4000 px, now 1500 x 1000 px: thought to be reduced, not cut",)


def test_pitch_from_the_equivalent_focal_length() -> None:
    frame = settings(**SIZE, FocalLength=50.0, FocalLengthIn35mmFormat=50)
    assert frame.pixel_pitch is not None
    assert frame.pixel_pitch.value == pytest.approx(6e-6)  # 36 mm over 6000 px
    assert frame.pixel_pitch.low == pytest.approx(6e-6 * 49.5 / 50.5)
    assert frame.pixel_pitch.high == pytest.approx(6e-6 * 50.5 / 49.5)


def test_absurd_pitch_is_left_out() -> None:
    frame = settings(**SIZE, FocalPlaneXResolution=72, FocalPlaneResolutionUnit=2)
    assert frame.pixel_pitch is None
    assert len(frame.notes) == 1 and "left out" in frame.notes[0]


def test_digital_zoom_is_said() -> None:
    frame = settings(**SIZE, FocalLength=50.0, FocalLengthIn35mmFormat=50, DigitalZoomRatio=2.0)
    assert any("digital zoom of 2" in note for note in frame.notes)
    assert settings(**SIZE, FocalLength=50.0, FocalLengthIn35mmFormat=50, DigitalZoomRatio=0.0).notes == ()


def test_phone_camera_is_told_by_its_lens() -> None:
    main = find_sensor("Pixel 6 Pro", 6.81)
    assert main is not None and main.width_mm == 9.79
    assert find_sensor("Pixel 6 Pro", 18.0) is None
    assert find_sensor("Pixel 6 Pro", None) is None
    assert find_sensor("Pixel", 6.81) is None
    assert find_sensor(None, 6.81) is None
    assert find_sensor("", None) is None


def test_sensor_table_is_plausible() -> None:
    names = [name for models in CAMERAS.values() for name in models.split(", ")]
    assert len(names) == len(set(names)) > 60
    assert all(name == name.lower().strip() and name for name in names)
    for width_mm, width_px, height_px in CAMERAS:
        assert 1.32 < width_px / height_px < 1.52
        assert 2.3 < width_mm * 1e3 / width_px < 8.6  # micrometres
        assert min(abs(width_mm - usual) for usual in (13.2, 17.3, 22.4, 23.5, 35.8, 43.8)) < 0.45
    for width_mm, width_px, height_px, lens_mm in PHONES:
        assert 1.2 < width_mm * 1e3 / width_px < 2.5
        assert 22 < lens_mm * 43.27 / math.hypot(width_mm, width_mm * height_px / width_px) < 30  # main cameras


# The rest


def test_plain_settings() -> None:
    frame = settings(**CANON_60D, ExposureTime=0.02, ISO=3200, LensModel="EF24-70mm")
    assert frame.focal_length == Value(0.038, "EXIF FocalLength", 0.0375, 0.0385)
    assert frame.f_number == Value(2.8, "EXIF FNumber", 2.75, 2.85)
    assert (frame.make, frame.model, frame.lens) == ("Canon", "Canon EOS 60D", "EF24-70mm")
    assert (frame.exposure_s, frame.iso, frame.width_px, frame.height_px) == (0.02, 3200, 1920, 1280)


def test_f_number_from_apex() -> None:
    value = settings(ApertureValue=3.0).f_number
    assert value is not None and (value.value, value.source) == (2.8, "EXIF ApertureValue")
    assert settings(ApertureValue=1e6).f_number is None


@pytest.mark.parametrize(("shown", "half"), [(4.0, 0.05), (5.6, 0.05), (1.85, 0.005), (11.0, 0.5), (22.0, 0.5)])
def test_apertures_are_marked_with_two_digits(shown: float, half: float) -> None:
    value = settings(FNumber=shown).f_number
    assert value is not None
    assert (value.value, value.low, value.high) == pytest.approx((shown, shown - half, shown + half))


def test_round_distances_are_good_to_a_centimetre() -> None:
    value = distance(SubjectDistance=1.0)
    assert (value.low, value.high) == (0.995, 1.005)


def test_nothing_is_invented() -> None:
    frame = settings()
    assert frame == FrameSettings(file="a.jpg", routes={"focus_distance": (), "pixel_pitch": ()})


def test_files_to_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    block = photo("Canon", "Canon EOS 60D", note=lambda at: directory({0x93: (SHORT, FILE_INFO_60D)}, at, "<"))
    (tmp_path / "a.jpg").write_bytes(jpeg(block, 1920, 1280))
    (frame,) = read_settings([tmp_path / "a.jpg"])
    assert frame.focus_distance is not None and frame.pixel_pitch is not None
    assert (frame.focus_distance.low, frame.focus_distance.high) == (0.61, 0.66)
    assert frame.pixel_pitch.value == pytest.approx(11.615e-6, rel=1e-3)


ANY = st.one_of(
    st.floats(), st.integers(), st.text(max_size=5), st.none(), st.booleans(), st.tuples(st.floats(), st.floats())
)
NAMES = [
    *CANON_60D,
    "SubjectDistance",
    "FocusDistance",
    "FocusPosition2",
    "FocalLengthIn35mmFormat",
    "LensFocusDistance",
]
NAMES += ["FocusDistanceRange", "DigitalZoomRatio", "ApertureValue", "ApproximateFocusDistance", "ExposureTime", "ISO"]


@given(
    tags=st.dictionaries(st.sampled_from(NAMES), ANY, max_size=len(NAMES)),
    make=st.sampled_from(["Canon", "NIKON", "SONY", "Leica", "Apple", "OLYMPUS"]),
)
def test_any_tags_give_consistent_values(tags: dict[str, Any], make: str) -> None:
    frame = settings_of(tags | {"Make": make}, "a.jpg")
    routes = (*frame.routes["focus_distance"], *frame.routes["pixel_pitch"])
    for value in (frame.focal_length, frame.f_number, *routes):
        if value is not None:
            assert 0 <= value.low <= value.high
            assert value.low <= value.value * (1 + 1e-9) and value.value <= value.high * (1 + 1e-9)
            assert value.value > 0
