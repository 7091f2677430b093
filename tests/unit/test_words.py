"""One mistake, three entrances: Python says arguments, the command line flags, the page labels; never another's."""

import pickle
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import focalsweep as fs
from focalsweep.cli import words as flags
from focalsweep.errors import USER_ERRORS, InputError, Sentence, explain, say, sentence_of
from focalsweep.photos.metadata import settings_of
from focalsweep.photos.settings import stack_settings, stack_toml, write_stack_toml
from focalsweep.progress import silent
from focalsweep.web import tasks
from focalsweep.web import words as labels
from focalsweep.web.jobs import Failed, TaskProcess
from focalsweep.web.limits import Limits
from tests.e2e.running import KEPT, Run, runner, write_photos, write_small_stack
from tests.errors import assert_one_sentence, message_of

F_NUMBER, DISTANCE, FOCAL_LENGTH, EQUIVALENT = 0x829D, 0x9206, 0x920A, 0xA405
LENS = {F_NUMBER: 2.8, FOCAL_LENGTH: 50.0, EQUIVALENT: 100}
ARGUMENT = re.compile("|".join(rf"\b{name}\b" for name in flags.FLAGS if "_" in name))
LABEL = re.compile("|".join(re.escape(label) for label in labels.LABELS.values() if label != "f-number"))
FLAG = re.compile(r"--[a-z]")
NAMES = [f"frame_{i}.png" for i in KEPT]


def unrelated(shots: Path) -> None:
    for seed, name in enumerate(NAMES):
        noise = cv2.GaussianBlur(np.random.default_rng(seed).random((80, 112, 3)), (0, 0), 2)
        cv2.imwrite(str(shots / name), np.clip((noise - 0.5) * 1200 + 128, 0, 255).astype(np.uint8))
    path = shots / "stack.toml"
    path.write_text(path.read_text().replace("aligned = true", "aligned = false"))


def exif(*frames: dict[int, float]) -> Callable[[Path], None]:
    """Photos with these tags, and no stack.toml."""

    def spoil(shots: Path) -> None:
        for path in list(shots.iterdir()):
            path.unlink()
        write_photos(shots, *frames)

    return spoil


def one_photo(shots: Path) -> None:
    for name in ("stack.toml", *NAMES[1:]):
        (shots / name).unlink()


def listed_as(old: str, new: str) -> Callable[[Path], None]:
    def spoil(shots: Path) -> None:
        path = shots / "stack.toml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return spoil


@dataclass(frozen=True)
class Mistake:
    """What is wrong, how each entrance is called, and what each says of it."""

    python: str
    line: str
    page: str | None  # None: the page has no such box
    spoil: Callable[[Path], None] = lambda shots: None
    settings: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()


MISTAKES = {
    "no metadata": Mistake(
        "give focal_length, f_number, pixel_pitch, focus_distances, or add it to stack.toml, or relative=True for",
        "give --focal-length-mm, --f-number, --pixel-pitch-um, --focus-distances, or add it to stack.toml "
        "(focalsweep inspect --write), or --relative for",
        "give Focal length (mm), f-number, Pixel pitch (µm), Focus distances, or add it to a stack.toml, or tick "
        "“Relative depth” for",
        exif({}, {}, {}),
    ),
    "no focus distances": Mistake(
        "give focus_distances, or", "give --focus-distances, or", "give Focus distances, or", exif(LENS, LENS, LENS)
    ),
    "focal length in millimetres": Mistake(
        "focal_length is 50 m, beyond any camera",
        "--focal-length-mm is 50 m, beyond any camera",
        "Focal length (mm) is 50 m, beyond any camera",
        settings={"focal_length": 50.0},
        options=("--focal-length-mm", "50000"),
    ),
    "focal length in millimetres, by stack.toml": Mistake(
        "(stack.toml): focal_length is 50 m",
        "(stack.toml): --focal-length-mm is 50 m",
        "(stack.toml): Focal length (mm) is 50 m",
        listed_as("focal_length = 0.050", "focal_length = 50"),
    ),
    "pixel pitch of metres": Mistake(
        "pixel_pitch is 93.75 m, beyond any camera (micrometres given as metres?)",
        "--pixel-pitch-um is 93.75 m, beyond",
        "Pixel pitch (µm) is 93.75 m, beyond",
        settings={"pixel_pitch": 93.75},
        options=("--pixel-pitch-um", "93750000"),
    ),
    "pixel pitch of no sensor": Mistake(
        "pixel_pitch is 1e-15 m, below any sensor",
        "--pixel-pitch-um is 1e-15 m, below any sensor",
        "Pixel pitch (µm) is 1e-15 m, below any sensor",
        settings={"pixel_pitch": 1e-15},
        options=("--pixel-pitch-um", "1e-9"),
    ),
    "f-number of no lens": Mistake(
        "f_number is 0.0001, below any lens",
        "--f-number is 0.0001, below any lens",
        "f-number is 0.0001, below any lens",
        settings={"f_number": 1e-4},
        options=("--f-number", "1e-4"),
    ),
    "wrong reference": Mistake(
        "focus_reference must be",
        "--focus-reference must be",
        "Counted from the must be",
        settings={"focus_reference": "film"},
        options=("--focus-reference", "film"),
    ),
    "two distances of three": Mistake(
        "focus_distances has 2 values",
        "--focus-distances has 2 values",
        "Focus distances has 2 values",
        settings={"focus_distances": [0.4, 0.6]},
        options=("--focus-distances", "0.4,0.6"),
    ),
    "equal distances": Mistake(
        "all focus_distances are equal (1 m)",
        "all --focus-distances are equal (1 m)",
        "all Focus distances are equal (1 m)",
        settings={"focus_distances": [1.0, 1.0, 1.0]},
        options=("--focus-distances", "1,1,1"),
    ),
    "focus inside the lens": Mistake(
        "focus_distances must exceed the focal length: frame 0 has 0.012 m",
        "--focus-distances must exceed the focal length: frame 0 has 0.012 m",
        "Focus distances must exceed the focal length: frame 0 has 0.012 m",
        settings={"focus_distances": [0.012, 0.6, 1.0]},
        options=("--focus-distances", "0.012,0.6,1"),
    ),
    "blur beyond the picture": Mistake(
        "check focal_length, f_number, pixel_pitch and focus_distances",
        "check --focal-length-mm, --f-number, --pixel-pitch-um and --focus-distances",
        "check Focal length (mm), f-number, Pixel pitch (µm) and Focus distances",
        settings={"pixel_pitch": 2e-7},
        options=("--pixel-pitch-um", "0.2"),
    ),
    "frames that cannot be registered": Mistake(
        'use a tripod, or align="none"',
        "use a tripod, or --align none",
        "use a tripod, or “aligned = true” in a stack.toml",
        unrelated,
    ),
    "zoom changed": Mistake(
        "take photos of one setting, or give focal_length",
        "take photos of one setting, or give --focal-length-mm",
        "take photos of one setting, or give Focal length (mm)",
        exif(*[LENS | {DISTANCE: d, FOCAL_LENGTH: f} for d, f in ((0.4, 50.0), (0.6, 50.0), (1.1, 85.0))]),
    ),
    "one frame": Mistake("is one picture only", "is one picture only", "is one picture only", one_photo),
    "unknown method": Mistake(
        "method must be one of sweep",
        "--method must be one of sweep",
        None,
        settings={"method": "guess"},
        options=("--method", "guess"),
    ),
}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(capfd)


@pytest.fixture
def shots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tasks, "lower_pixel_limit", lambda pixels: None)  # it would hold for all tests of this process
    return write_small_stack(tmp_path / "shots")


def on_the_page(call: Callable[[], Any]) -> str:
    """What the page shows of an error in the process that works on a stack."""
    with pytest.raises(USER_ERRORS) as raised:
        call()
    sent = pickle.loads(pickle.dumps(Failed(sentence_of(raised.value))))
    return say(sent.sentence, labels.WORDS)


@pytest.mark.parametrize("name", MISTAKES)
def test_each_entrance_says_its_own_words(name: str, shots: Path, run: Run) -> None:
    mistake = MISTAKES[name]
    mistake.spoil(shots)
    python = message_of(lambda: fs.estimate_depth(shots, **{"method": "argmin", **mistake.settings}), ValueError)
    assert_one_sentence(python, mistake.python)
    assert not FLAG.search(python) and not LABEL.search(python)
    done = run("depth", shots, "-o", shots.parent / "out", *(mistake.options or ("--method", "argmin")))
    assert done.status == 2
    line = done.err.removeprefix("focalsweep: ").rstrip("\n")
    assert_one_sentence(line, mistake.line)
    assert not ARGUMENT.search(line) and not LABEL.search(line)
    if mistake.page is None:
        return
    given, out = mistake.settings, shots.parent / "out"
    page = on_the_page(lambda: tasks.estimate(silent, shots, out, given, False, Limits(), "cpu"))
    assert_one_sentence(page, mistake.page)
    assert not FLAG.search(page) and not ARGUMENT.search(page)


def test_the_fields_of_a_mistake(shots: Path) -> None:
    with pytest.raises(InputError) as raised:
        fs.load_stack(shots, pixel_pitch=93.75)
    error = raised.value
    assert (error.field, error.rule, error.value) == ("pixel_pitch", "at most 0.01 m", 93.75)
    with pytest.raises(InputError) as raised:
        fs.load_stack(shots, focus_reference="film")
    assert (raised.value.field, raised.value.value) == ("focus_reference", "film")
    exif(LENS, LENS, LENS)(shots)
    with pytest.raises(InputError) as raised:
        fs.load_stack(shots)
    assert raised.value.field == "focus_distances" and raised.value.remedy.startswith("give focus_distances, or add it")


def test_near_and_far(shots: Path, run: Run) -> None:
    python = message_of(lambda: fs.DepthGrid.uniform_in_inverse_depth(3.0, 1.0), ValueError)
    assert_one_sentence(python, "far must lie beyond near: it is 1 m")
    done = run("depth", shots, "--near", "0.3", "-o", shots.parent / "out")
    assert done.err == "focalsweep: --near and --far go together: give both, in metres\n"
    grid = fs.DepthGrid.uniform_in_inverse_depth(1e-5, 1.0)
    with pytest.raises(InputError, match=r"focus_distances, and near$"):
        fs.estimate_depth(shots, planes=grid)
    done = run("depth", shots, "--near", "1e-5", "--far", "1", "-o", shots.parent / "out")
    assert done.err.endswith("--focus-distances, and --near\n")


def test_a_memory_bound_that_cannot_be_kept(shots: Path, run: Run) -> None:
    """A note, which run.json holds as Python says it, whoever asked."""
    result = fs.estimate_depth(shots, "argmin", memory=10**6)
    (python,) = result.record["warnings"]
    assert python.startswith("memory of 0.001 GB cannot be kept: photos of 112 x 80 px take at least")
    out = shots.parent / "out"
    options = ("--method", "argmin", "--memory", "1000000", "-o", out)
    line = "--memory of 0.001 GB cannot be kept"
    done = run("depth", shots, *options)
    assert f"focalsweep: {line}" in done.err
    assert '"memory of 0.001 GB cannot be kept' in (out / "run.json").read_text()
    assert f'"{line}' in run("depth", shots, *options, "--json", "--quiet").out
    done = run("batch", shots.parent, *options[:-1], shots.parent / "results")
    assert f"focalsweep: shots: {line}" in done.err


def test_messages_of_a_batch_are_of_the_command_line(shots: Path, run: Run) -> None:
    exif(LENS, LENS, LENS)(shots)
    done = run("batch", shots.parent, "-o", shots.parent / "results")
    assert done.status == 1 and "or --relative for depth without a unit" in done.err
    assert "or --relative for depth without a unit" in (shots.parent / "results" / "results.csv").read_text()


def test_notes_on_settings() -> None:
    canon = {"Make": "Canon", "Model": "Canon EOS 60D", "FocalLength": 38.0, "FNumber": 2.8, "SubjectDistance": 0.5}
    settings = stack_settings([settings_of(canon, "a.jpg")], {"focal_length": 0.05})
    said = {entrance: [say(note, words) for note in settings.notes] for entrance, words in ENTRANCES.items()}
    assert said["python"][0].startswith("focal_length is 0.05 (given), the metadata says")
    assert said["line"][0].startswith("--focal-length-mm is 0.05 (given), the metadata says")
    assert said["page"][0].startswith("Focal length (mm) is 0.05 (given), the metadata says")
    python, line, page = (next(n for n in notes if "count from" in n) for notes in said.values())
    assert python.endswith('as Canon has them: give focus_reference="lens" where they do not')
    assert line.endswith("as Canon has them: give --focus-reference lens where they do not")
    assert page.endswith("as Canon has them: give “Counted from the” lens where they do not")
    assert 'give focus_reference="lens"' in stack_toml(settings)


ENTRANCES: dict[str, Any] = {"python": {}, "line": flags.WORDS, "page": labels.WORDS}


def test_a_file_that_would_be_lost(shots: Path, run: Run) -> None:
    settings = stack_settings([settings_of({}, "a.jpg")])
    message = message_of(lambda: write_stack_toml(shots / "stack.toml", settings), FileExistsError)
    assert_one_sentence(message, "stack.toml exists", "overwrite it with overwrite=True")
    assert run("inspect", shots, "--write").err.endswith("overwrite it with --force\n")


def complain(progress: Any, sentence: str) -> None:
    raise InputError("{focal_length} of {file} is odd", field="focal_length", file=sentence)


def test_labels_survive_the_process_of_a_job() -> None:
    with pytest.raises(InputError) as raised:
        TaskProcess(complain, "{a}.jpg", seconds=60).wait()
    assert str(raised.value) == "focal_length of {a}.jpg is odd"
    assert explain(raised.value, labels.WORDS) == "Focal length (mm) of {a}.jpg is odd"


def test_warnings_of_the_library_have_flags_on_the_command_line(
    shots: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "focalsweep.photos.reading.find_settings",
        lambda *_, **__: warnings.warn(Sentence("{f_number} is odd"), stacklevel=1) or sys.exit(0),
    )
    assert run("inspect", shots).err == "focalsweep: --f-number is odd\n"
