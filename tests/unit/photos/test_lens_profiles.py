"""Profiles as files: what is written is read, the right lens finds its own, any other is refused in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from focalsweep import Camera, FocalStack, InputError
from focalsweep.optics.profile import Curvature, LensProfile, Measured
from focalsweep.photos.lens_profiles import FOLDER, choose_profile, profile_folder, profile_toml, read_profile
from focalsweep.types import RelativeLens, StackRecord
from tests.errors import assert_one_sentence, message_of

PROFILE = LensProfile(
    0.00681, 1.85, "Google", "Pixel 6 Pro", "",
    Curvature((0.002, 0.0055), (-0.01, 0.61), (0.01, 0.03)),
    Measured(1.19, 0.01), Measured(1.1, 0.02), Measured(-0.05, 0.01), {"date": "2026-11-19", "of": ["wall: 5 frames"]},
)  # fmt: skip


def taken_with(
    make: str = "Google", model: str = "Pixel 6 Pro", focal: float = 0.00681, stop: float = 1.85
) -> FocalStack:
    named = {"make": make, "model": model} if make else {}
    return FocalStack(
        torch.zeros(2, 1, 2, 2), [0.5, 1.0], Camera(focal, stop, 5e-6), record=StackRecord(made_with=named)
    )


def written(folder: Path, profile: LensProfile = PROFILE, name: str = "lens.toml") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(profile_toml(profile), encoding="utf-8")
    return folder / name


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert read_profile(path) == LensProfile(**{**vars(PROFILE), "name": str(path)})
    bare = LensProfile(0.05, 2.8)
    assert read_profile(written(tmp_path, bare)) == LensProfile(0.05, 2.8, name=str(path))
    odd = LensProfile(0.05, 2.8, 'a "b"\n[lens]', "ä\\")
    found = read_profile(written(tmp_path, odd))
    assert (found.make, found.model) == (odd.make, odd.model)


def test_the_folder_is_in_the_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert profile_folder() == tmp_path
    monkeypatch.delenv(FOLDER)
    assert profile_folder().parts[-2:] == ("focalsweep", "lenses")


def test_a_lens_finds_its_own_profile_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "none"))
    assert choose_profile("auto", taken_with()) == (None, [])
    monkeypatch.setenv(FOLDER, str(tmp_path))
    path = written(tmp_path)
    for stack in (taken_with(), taken_with("google ", "PIXEL 6  Pro")):
        found, notes = choose_profile("auto", stack)
        assert found and found.name == str(path) and not notes
    for other in (taken_with("Canon"), taken_with(model="Pixel 7"), taken_with(focal=0.019), taken_with("")):
        assert choose_profile("auto", other) == (None, [])
        found, (note,) = choose_profile(tmp_path, other)
        assert found is None and "no lens profile" in note
    assert choose_profile("off", taken_with()) == (None, [])


def test_of_several_the_nearest_aperture_then_the_newest(tmp_path: Path) -> None:
    for name, stop, date in (("a", 1.85, "2024-01-01"), ("b", 1.85, "2025-01-01"), ("c", 4.0, "2026-01-01")):
        written(tmp_path, LensProfile(0.00681, stop, "Google", "Pixel 6 Pro", made={"date": date}), f"{name}.toml")
    assert choose_profile(tmp_path, taken_with())[0].name.endswith("b.toml")  # type: ignore[union-attr]
    assert choose_profile(tmp_path, taken_with(stop=5.6))[0].name.endswith("c.toml")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "stack", [taken_with("Canon", "EOS 60D", 0.038), taken_with(focal=0.019), taken_with("", focal=0.1)]
)
def test_a_profile_of_another_lens_is_refused(tmp_path: Path, stack: FocalStack) -> None:
    path = written(tmp_path)
    message = message_of(lambda: choose_profile(path, stack), ValueError)
    assert_one_sentence(message, str(path), "is of another lens (Google Pixel 6 Pro, 6.81 mm) than the photos")


def test_a_profile_needs_a_camera(tmp_path: Path) -> None:
    stack = FocalStack(torch.zeros(2, 1, 2, 2), [1.0, 2.0], RelativeLens(12.0))
    with pytest.raises(InputError, match="needs a camera"):
        choose_profile(written(tmp_path), stack)
    assert choose_profile(tmp_path, stack) == (None, [])


def test_a_named_profile_serves_photos_that_do_not_name_their_lens(tmp_path: Path) -> None:
    found, _ = choose_profile(str(written(tmp_path)), taken_with(""))
    assert found and found.title == "Google Pixel 6 Pro, 6.81 mm"


def test_a_broken_one_in_a_folder_costs_a_note(tmp_path: Path) -> None:
    path = written(tmp_path, name="z.toml")
    (tmp_path / "a.toml").write_text("[lens\n")
    os.mkfifo(tmp_path / "b.toml")
    (tmp_path / "c.txt").write_text("no profile")
    found, notes = choose_profile(tmp_path, taken_with())
    assert found and found.name == str(path) and len(notes) == 2
    for note, name in zip(notes, ("a.toml", "b.toml"), strict=True):
        assert name in note and "left out" in note
        assert_one_sentence(note)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[lens]", "[lense]", "unknown key 'lense'"),
        ("f_number = 1.85", "", "'f_number' is missing"),
        ("f_number = 1.85", "f_number = -1", "above 0"),
        ("f_number = 1.85", "f_number = nan", "must be numbers"),
        ('make = "Google"', "make = 3", "must be text"),
        ("radius = [0.002, 0.0055]", "radius = [0.002]", "as many numbers"),
        ("radius = [0.002, 0.0055]", "radius = [0.0055, 0.002]", "ascend"),
        ("radius = [0.002, 0.0055]", 'radius = ["a", 1]', "numbers"),
        ("value = 1.19", "value = 0", "above 0"),
        ("[blur]", "blur = 3\n[bluish]", "unknown key"),
        ("[lens]", "[lens", "no valid TOML"),
    ],
)
def test_a_broken_profile_is_one_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert_one_sentence(message_of(lambda: read_profile(path), ValueError), said, str(path))


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist: give a lens profile"):
        choose_profile(tmp_path / "none.toml", taken_with())
    with pytest.raises(TypeError, match="lens must be"):
        choose_profile(3, taken_with())  # type: ignore[arg-type]
