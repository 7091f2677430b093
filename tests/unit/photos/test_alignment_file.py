"""An alignment as a file: the same stack again, other photos of the same sweep, and what does not fit it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from focalsweep import load_stack
from focalsweep.errors import InputError, InputFileExistsError
from focalsweep.photos import photo_stack
from focalsweep.photos.reading import open_photos
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos.handheld import Shake, photograph

CAMERA = "[camera]\nfocal_length = 0.05\nf_number = 2.8\npixel_pitch = 6e-5\n"
SIZE = (150, 200)


def write_shots(folder: Path, pictures: list[NDArray[np.float32]], names: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    frames = ""
    for number, (picture, name) in enumerate(zip(pictures, names, strict=True)):
        codes = np.where(picture <= 0.0031308, 12.92 * picture, 1.055 * picture.clip(1e-9) ** (1 / 2.4) - 0.055)
        Image.fromarray(np.rint(255 * codes.clip(0, 1)).astype(np.uint8)).save(folder / name)
        frames += f'[[frame]]\nfile = "{name}"\nfocus_distance = {0.5 + 0.1 * number}\n'
    (folder / "stack.toml").write_text(CAMERA + frames)
    return folder


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A hand-held sweep; its blue channel in another, drifting light; and the alignment of the first."""
    folder = tmp_path_factory.mktemp("sweeps")
    pictures, _, _ = photograph(Shake(frames=4, size=SIZE, shift_px=5.0, drift=0.0), seed=3)
    dim = [
        np.repeat(picture[..., 2:] * light, 3, -1) for picture, light in zip(pictures, (1, 0.9, 0.8, 0.7), strict=True)
    ]
    white = write_shots(folder / "white", pictures, ["a.png", "b.png", "c.png", "d.png"])
    blue = write_shots(folder / "blue", dim, ["1.png", "2.png", "3.png", "4.png"])
    load_stack(white, save_alignment=folder / "sweep.json")
    return white, blue, folder / "sweep.json"


def test_the_same_photos_give_the_same_stack(sweeps: tuple[Path, Path, Path]) -> None:
    white, _, saved = sweeps
    measured, given = load_stack(white), load_stack(white, alignment=saved)
    np.testing.assert_array_equal(given.images, measured.images)
    np.testing.assert_array_equal(given.magnification, measured.magnification)
    assert given.record.area == measured.record.area
    assert [frame["motion_px"] for frame in given.record.frames] == [f["motion_px"] for f in measured.record.frames]


def test_another_light_lies_on_the_first_and_keeps_its_own_exposure(sweeps: tuple[Path, Path, Path]) -> None:
    white, blue, saved = sweeps
    with pytest.warns(UserWarning, match="exposure drifts by"):
        given = load_stack(blue, alignment=saved)
    first = load_stack(white)
    reference = load_stack(white).record.frames[2]
    assert reference["motion_px"] == 0
    assert given.record.area == first.record.area
    np.testing.assert_array_equal(given.magnification, first.magnification)
    gains = [frame["exposure"] for frame in given.record.frames]
    np.testing.assert_allclose(gains, np.array([1, 0.9, 0.8, 0.7]) / 0.8, rtol=0.02)
    # Each frame is the blue of the same frame of the first sweep in the light of the reference, but for 8 bit.
    difference = (given.images[:, 0] - 0.8 * first.images[:, 2]).abs()
    assert float(difference.median()) < 0.004


def test_nothing_is_registered(sweeps: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: Any, **__: Any) -> None:
        raise AssertionError("registered")

    monkeypatch.setattr(photo_stack, "measure_alignment", measured)
    load_stack(sweeps[0], alignment=sweeps[2])
    with pytest.raises(AssertionError, match="registered"):
        load_stack(sweeps[0])


def test_frames_go_by_their_names_where_they_are_the_same(sweeps: tuple[Path, Path, Path], tmp_path: Path) -> None:
    white, _, saved = sweeps
    record = json.loads(saved.read_text())
    record["frames"].reverse()
    (tmp_path / "reversed.json").write_text(json.dumps(record))
    again = load_stack(white, alignment=tmp_path / "reversed.json")
    np.testing.assert_array_equal(again.images, load_stack(white).images)


def test_a_frame_that_was_left_out_stays_out(sweeps: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, blue, saved = sweeps
    record = json.loads(saved.read_text())
    record["frames"][3]["transform"] = None
    (tmp_path / "three.json").write_text(json.dumps(record))
    photos = open_photos(blue, alignment=tmp_path / "three.json").register().photos
    assert photos.names == ["1.png", "2.png", "3.png"]
    assert "4.png is left out, as in three.json" in photos.notes


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda r: r["frames"].pop(), "is of 3 photos, but there are 4"),
        (lambda r: r.update(width=300), "is of photos of 300 x 150 px, but these have 200 x 150"),
        (lambda r: r.pop("rows"), "'rows' is missing"),
        (lambda r: r.update(rows=[0, 151]), "is no part of 150 px"),
        (lambda r: r.update(reference="e.png"), "its reference is none of its photos"),
        (lambda r: r["frames"][1].update(transform=[[1, 0], [0, 1]]), "a transform is not 3 x 3 numbers"),
        (lambda r: r["frames"][1].update(transform=[[9, 0, 0], [0, 9, 0], [0, 0, 1]]), "none of one camera"),
        (lambda r: r["frames"][1].update(transform=[[float("nan")] * 3] * 3), "a transform is not 3 x 3 numbers"),
        (lambda r: r.update(frames="all"), "spoilt.json cannot be used: "),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    sweeps: tuple[Path, Path, Path], tmp_path: Path, spoil: Callable[[dict[str, Any]], Any], said: str
) -> None:
    record = json.loads(sweeps[2].read_text())
    spoil(record)
    (tmp_path / "spoilt.json").write_text(json.dumps(record))
    message = message_of(lambda: load_stack(sweeps[0], alignment=tmp_path / "spoilt.json"), InputError)
    assert_one_sentence(message, "spoilt.json", said)


def test_what_is_no_alignment(sweeps: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.json does not exist"):
        load_stack(sweeps[0], alignment=tmp_path / "none.json")
    with pytest.raises(ValueError, match="is a folder"):
        load_stack(sweeps[0], alignment=tmp_path)
    with pytest.raises(InputError, match=r"cannot be used: .* save it anew with save_alignment"):
        load_stack(sweeps[0], alignment=sweeps[0] / "a.png")
    with pytest.raises(InputError, match="registered already"):
        load_stack(sweeps[0], alignment=sweeps[2], align="none")


def test_nothing_but_an_alignment_is_overwritten(sweeps: tuple[Path, Path, Path], tmp_path: Path) -> None:
    photo = sweeps[0] / "a.png"
    before = photo.read_bytes()
    with pytest.raises(InputFileExistsError, match="is no alignment, and was left alone"):
        open_photos(sweeps[0], save_alignment=photo)
    assert photo.read_bytes() == before
    with pytest.raises(InputError, match="no place for a file"):
        open_photos(sweeps[0], save_alignment=tmp_path / "nowhere" / "a.json")
    for _ in range(2):
        open_photos(sweeps[0], save_alignment=tmp_path / "again.json").register()
    assert [path.name for path in tmp_path.iterdir()] == ["again.json"]
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(sweeps[2].read_text())
