"""Whichever way in: Python, command line, batch and page write the same files of the same photos, bit for bit.

On the demo, on three photos that are in the repository, and on four real stacks where `../shared` is at hand: reduced
to a few frames of 480 px, or as they are where FOCALSWEEP_FULL is set (ten minutes).
"""

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import focalsweep as fs
from focalsweep.photos.demo import DEMO_STACK
from focalsweep.web.limits import Limits
from focalsweep.web.tasks import estimate
from tests.e2e.running import Run

TOYS = Path(__file__).parents[1] / "data" / "toys"
REAL = Path(__file__).parents[3] / "shared" / "data" / "real_stacks"
REDUCED_PX, FEWER = 480, 4
EXPORTS = ("ply", "glb", "exr")
STACKS: dict[str, dict[str, Any]] = {  # with what a user gives beside the photos
    "demo": {},
    "toys": {"focal_length": 0.038, "f_number": 2.8, "pixel_pitch": 5.8e-5, "focus_distances": [0.375, 0.48, 0.635]},
    "pixel6pro_room": {},
    "canon60d_toys": {},  # of its distances only ranges are known: they are refined
    "mobiledepth_keyboard": {},  # an order alone: relative
    "macro_pcb": {"relative": True},
}


def reduced(name: str, folder: Path) -> Path:
    """A real stack with fewer and smaller photos, and the settings that then hold."""
    source = REAL / name
    if os.environ.get("FOCALSWEEP_FULL"):
        shutil.copytree(source, folder)
        return folder
    folder.mkdir()
    photos = sorted(path for path in source.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    chosen = [photos[i] for i in np.linspace(0, len(photos) - 1, FEWER).round().astype(int)]
    scale = 1.0
    for path in chosen:
        picture = np.asarray(cv2.imread(str(path)))
        scale = REDUCED_PX / max(picture.shape)
        small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        cv2.imwrite(str(folder / f"{path.stem}.png"), small)
    text = (source / "stack.toml").read_text() if (source / "stack.toml").is_file() else ""
    head, *frames = text.split("[[frame]]")
    head = re.sub(r"pixel_pitch = (\S+)", lambda found: f"pixel_pitch = {float(found[1]) / scale!r}", head)
    kept = [frame for frame in frames if any(f'"{path.name}"' in frame for path in chosen)]
    kept = [re.sub(r'file = "(.*)\.\w+"', r'file = "\1.png"', frame) for frame in kept]
    if text:
        (folder / "stack.toml").write_text("[[frame]]".join([head, *kept]))
    return folder


@pytest.fixture(params=STACKS)
def photos(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A folder that holds the photos and, if any, their stack.toml; and the settings that the user gives."""
    name = str(request.param)
    folder = tmp_path / "scans" / "shots"
    folder.parent.mkdir()
    if name in ("demo", "toys"):
        folder.mkdir()
        source = DEMO_STACK if name == "demo" else TOYS
        for path in source.iterdir():
            if path.name.startswith("frame_") or path.suffix == ".jpg" or path.name == "stack.toml":
                shutil.copy(path, folder)
    elif not REAL.is_dir():
        pytest.skip("the real stacks are not at hand")
    else:
        reduced(name, folder)
    settings = dict(STACKS[name])
    if name == "toys":  # as a stack.toml, which batch needs
        lines = ["[camera]", *(f"{key} = {settings[key]}" for key in ("focal_length", "f_number", "pixel_pitch"))]
        files = sorted(path.name for path in folder.glob("*.jpg"))
        for file, distance in zip(files, settings.pop("focus_distances"), strict=True):
            lines += ["[[frame]]", f'file = "{file}"', f"focus_distance = {distance}"]
        (folder / "stack.toml").write_text("\n".join(lines))
        settings = {}
    return folder, settings


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
    (out.parent / f"page_{out.name}").mkdir()
    inside = out.parent / f"page_{out.name}" / "out"
    given = {key: value for key, value in settings.items() if key != "relative"}
    estimate(lambda stage, share: None, folder, inside, given, bool(settings.get("relative")), Limits(), "cpu")
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
    return found | {"run.json": record}


def test_every_entrance_writes_the_same(photos: tuple[Path, dict[str, Any]], tmp_path: Path, run: Run) -> None:
    folder, settings = photos
    toml = folder / "stack.toml"
    relative = bool(settings.get("relative")) or (toml.is_file() and "order" in toml.read_text())
    exports = () if relative else EXPORTS
    written = {}
    for name, enter in ENTRANCES.items():
        out = tmp_path / name.replace(" ", "_")
        out.mkdir()
        enter(folder, out, settings, exports, run)
        written[name] = contents(out)
    first = written.pop("folder")
    assert {"depth.npz", "all_in_focus.png", "depth.png", "run.json"} <= set(first)
    assert first["run.json"]["unit"] == (None if relative else "m")
    for name, files in written.items():
        assert set(files) == set(first), name
        for file, content in first.items():
            assert files[file] == content, f"{file} of {name}"


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
    with pytest.warns(UserWarning, match="it needs metres"):
        files = result.save(tmp_path / "out", exports=EXPORTS)
    assert {path.name for path in files} == {"depth.npz", "depth.png", "all_in_focus.png", "run.json"}
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
