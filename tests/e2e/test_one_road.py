"""Whichever way in: Python, command line, batch and page write the same files of the same photos, bit for bit.

On the demo, and on three real photos of the repository with all, some or none of their settings known. On four real
stacks too, where they are at hand (`../shared/data/real_stacks` beside the checkout, or the folder that
FOCALSWEEP_REAL_STACKS names): reduced to four frames of 300 px, or as they are where FOCALSWEEP_FULL is set.
"""

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import focalsweep as fs
from focalsweep.photos.demo import DEMO_STACK
from focalsweep.web.jobs import TaskProcess
from focalsweep.web.limits import Limits
from focalsweep.web.tasks import estimate
from tests.e2e.running import Run

ROOT = Path(__file__).parents[2]
TOYS = ROOT / "tests" / "data" / "toys"
REAL = Path(os.environ.get("FOCALSWEEP_REAL_STACKS", ROOT.parent / "shared" / "data" / "real_stacks"))
REDUCED_PX, FEWER = 300, 4
EXPORTS = ("ply", "glb", "exr")
CAMERA = """[camera]
focal_length = 0.038
f_number = 2.8
pixel_pitch = 4.64e-5
focus_reference = "sensor"
"""


@dataclass(frozen=True)
class Case:
    """Photos, and what is known of them.

    Args:
        write: fills an empty folder with the photos and, if any, their stack.toml.
        settings: what a user gives beside them.
        unit: of the answer.
        measured: what the road finds out by itself, as run.json names it.
    """

    write: Callable[[Path], object]
    settings: dict[str, Any] = field(default_factory=dict)
    unit: str | None = "m"
    measured: str | None = None


def demo(folder: Path) -> None:
    for path in (*DEMO_STACK.glob("frame_*"), DEMO_STACK / "stack.toml"):
        shutil.copy(path, folder)


def reduced(photos: list[Path], folder: Path) -> float:
    """Writes them at no more than REDUCED_PX, as PNG; gives by how much they were reduced."""
    scale = 1.0
    for path in photos:
        picture = np.asarray(cv2.imread(str(path)))
        scale = REDUCED_PX / max(picture.shape)
        small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(folder / f"{path.stem}.png"), small)
    return scale


def toys(camera: str, *frames: str, small: bool = True) -> Callable[[Path], None]:
    """The three real photos, reduced or as they are, with a stack.toml of these lines, one for each; or without one."""

    def write(folder: Path) -> None:
        photos = sorted(TOYS.glob("*.jpg"))
        scale = reduced(photos, folder) if small else 1.0
        for path in [] if small else photos:
            shutil.copy(path, folder)
        names = sorted(path.name for path in folder.iterdir())
        known = [f'[[frame]]\nfile = "{name}"\n{line}\n' for name, line in zip(names, frames, strict=False)]
        if camera:
            (folder / "stack.toml").write_text("\n".join([with_pitch(camera, scale), *known]))

    return write


def with_pitch(camera: str, scale: float) -> str:
    """The settings of photos that were reduced."""
    return re.sub(r"pixel_pitch = (\S+)", lambda found: f"pixel_pitch = {float(found[1]) / scale!r}", camera)


def real(name: str) -> Callable[[Path], None]:
    """A real stack with fewer and smaller photos, and the settings that then hold."""

    def write(folder: Path) -> None:
        source = REAL / name
        if os.environ.get("FOCALSWEEP_FULL"):
            shutil.copytree(source, folder, dirs_exist_ok=True)
            return
        photos = sorted(path for path in source.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
        chosen = [photos[i] for i in np.linspace(0, len(photos) - 1, FEWER).round().astype(int)]
        scale = reduced(chosen, folder)
        if not (source / "stack.toml").is_file():
            return
        head, *frames = (source / "stack.toml").read_text().split("[[frame]]")
        kept = [frame for frame in frames if any(f'"{path.name}"' in frame for path in chosen)]
        kept = [re.sub(r'file = "(.*)\.\w+"', r'file = "\1.png"', frame) for frame in kept]
        (folder / "stack.toml").write_text("[[frame]]".join([with_pitch(head, scale), *kept]))

    return write


CASES = {
    "demo": Case(demo),
    "distances": Case(toys(CAMERA, *(f"focus_distance = {metres}" for metres in (0.375, 0.485, 0.635)), small=False)),
    "ranges": Case(
        toys(CAMERA, *(f"focus_range = {metres}" for metres in ("[0.37, 0.38]", "[0.47, 0.5]", "[0.62, 0.65]"))),
        measured="refined",
    ),
    "order": Case(toys('[camera]\norder = "near-to-far"\n'), unit=None, measured="blur"),
    "nothing": Case(toys(""), {"relative": True}, unit=None, measured="blur"),
}
REAL_CASES = {
    "pixel6pro_room": Case(real("pixel6pro_room")),
    "canon60d_toys": Case(real("canon60d_toys"), measured="refined"),
    "mobiledepth_keyboard": Case(real("mobiledepth_keyboard"), unit=None, measured="blur"),  # its order is known
    "macro_pcb": Case(real("macro_pcb"), {"relative": True}, unit=None, measured="blur"),
}
CASES |= {name: case for name, case in REAL_CASES.items() if (REAL / name).is_dir()}


def by_folder(folder: Path, out: Path, settings: dict[str, Any], exports: tuple[str, ...], run: Run) -> None:
    fs.estimate_depth(folder, **settings).save(out, exports)


def by_stack(folder: Path, out: Path, settings: dict[str, Any], exports: tuple[str, ...], run: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what load_stack tells goes on into run.json
        stack = fs.load_stack(folder, **settings)
    fs.estimate_depth(stack).save(out, exports)


def by_command_line(folder: Path, out: Path, settings: dict[str, Any], exports: tuple[str, ...], run: Run) -> None:
    flags = ["--relative"] if settings.get("relative") else []
    flags += ["--export", ",".join(exports)] if exports else []
    assert run("depth", folder, "-o", out, "--device", "cpu", *flags).status == 0


def by_batch(folder: Path, out: Path, settings: dict[str, Any], exports: tuple[str, ...], run: Run) -> None:
    flags = ["--relative"] if settings.get("relative") else []
    flags += ["--export", ",".join(exports)] if exports else []
    assert run("batch", folder.parent, "-o", out / "results", "--device", "cpu", *flags).status == 0
    for path in (out / "results" / folder.name).iterdir():
        shutil.move(path, out)
    shutil.rmtree(out / "results")


def by_page(folder: Path, out: Path, settings: dict[str, Any], exports: tuple[str, ...], run: Run) -> None:
    """The page's own work in the page's own kind of process, with its bound on memory."""
    inside = out.parent / f"page_{out.name}" / "out"
    inside.parent.mkdir()
    given = {key: value for key, value in settings.items() if key != "relative"}
    arguments = (folder, inside, given, bool(settings.get("relative")), Limits(), "cpu")
    TaskProcess(estimate, *arguments, seconds=3600).wait()
    shutil.copytree(inside, out, dirs_exist_ok=True)


ENTRANCES: dict[str, Callable[..., None]] = {
    "folder": by_folder, "stack": by_stack, "command line": by_command_line, "batch": by_batch, "page": by_page,
}  # fmt: skip


def contents(folder: Path) -> dict[str, Any]:
    """Files by name, less the sheet, which only the command line makes; of run.json what is not a time."""
    names = {path.name for path in folder.iterdir()} - {"run.json", "sheet.png"}
    found: dict[str, Any] = {name: (folder / name).read_bytes() for name in names}
    record = json.loads((folder / "run.json").read_text())
    record.pop("seconds")
    record.get("files", {}).pop("sheet.png", None)
    return found | {"run.json": record}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_entrance_writes_the_same(name: str, tmp_path: Path, run: Run) -> None:
    case = CASES[name]
    folder = tmp_path / "scans" / "shots"
    folder.mkdir(parents=True)
    case.write(folder)
    exports = EXPORTS if case.unit else ()
    written = {}
    for entrance, enter in ENTRANCES.items():
        out = tmp_path / entrance.replace(" ", "_")
        out.mkdir()
        enter(folder, out, case.settings, exports, run)
        written[entrance] = contents(out)
    first = written.pop("folder")
    assert {"depth.npz", "all_in_focus.png", "depth.png", "run.json"} <= set(first)
    assert first["run.json"]["unit"] == case.unit
    assert set(first["run.json"]["measured"]) == {"calibration", *([case.measured] if case.measured else [])}
    for entrance, files in written.items():
        assert set(files) == set(first), entrance
        for file, content in first.items():
            assert files[file] == content, f"{file} of {entrance}"


def test_a_difference_in_the_last_bit_is_noticed(tmp_path: Path) -> None:
    for name, end in (("a", b"0"), ("b", b"1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "depth.npz").write_bytes(b"depth" + end)
        (tmp_path / name / "run.json").write_text(f'{{"seconds": {end.decode()}, "unit": "m"}}')
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert one["run.json"] == other["run.json"] == {"unit": "m"} and one["depth.npz"] != other["depth.npz"]


METRE_WORDS = re.compile(r"metre|_m\"|focal_length|f_number|pixel_pitch|projection")


def test_what_has_no_unit_is_nowhere_written_in_metres(tmp_path: Path, run: Run) -> None:
    """Through Python, from a stack: as version 0.1 wrote a camera of f/0.0001 and a depth in millimetres."""
    folder = tmp_path / "scans" / "shots"
    folder.mkdir(parents=True)
    for path in TOYS.glob("*.jpg"):
        shutil.copy(path, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stack = fs.load_stack(folder, relative=True)
    assert stack.unit is None and "no unit" in repr(stack) and len(repr(stack)) < 160
    result = fs.estimate_depth(stack)
    with pytest.warns(UserWarning, match="it needs depth in metres"):
        files = result.save(tmp_path / "out", exports=EXPORTS)
    whole = {"depth.npz", "depth.png", "all_in_focus.png", "run.json"}
    assert {path.name for path in files} == whole | {"cloud.ply", "mesh.glb"}  # reliefs of a free scale
    head = (tmp_path / "out" / "cloud.ply").read_bytes()[:400]
    assert b"unit: relative; scale: free" in head and b"metre" not in head
    with np.load(tmp_path / "out" / "depth.npz") as saved:
        assert set(saved.files) == {"depth", "std", "confidence", "principal_point", "crop_offset"}
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["unit"] is None and record["summary"]["unit"] is None
    assert record["summary"]["near_m"] is None and record["summary"]["far_m"] is None
    settings = record.pop("settings")  # what the photos' metadata said of their camera, which is true
    assert settings["focal_length"] is None or settings["focal_length"]["source"]
    record.pop("summary")
    for key, text in {key: json.dumps(value) for key, value in record.items()}.items():
        assert not METRE_WORDS.search(text), f"{key}: {text[:200]}"
    outcome = run("batch", folder.parent, "-o", tmp_path / "results", "--relative", "--device", "cpu")
    assert outcome.status == 0
    head, row = (line.split(",") for line in (tmp_path / "results" / "results.csv").read_text().splitlines())
    told = dict(zip(head, row, strict=True))
    assert (told["unit"], told["near_m"], told["median_m"], told["far_m"]) == ("", "", "", "")
    outcome = run("depth", folder, "--relative", "-o", tmp_path / "json", "--json", "--device", "cpu")
    told = json.loads(outcome.out)
    assert told["unit"] is None and told["near_m"] is None and told["median_m"] is None
