"""The command line as a shell user meets it: exit status, files, one sentence for bad input."""

import csv
import json
import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile

import focalsweep as fs
from focalsweep.cli.photos import DEMO_STACK
from tests.e2e.running import FRAME_NAMES, Run, assert_refused, contents, focalsweep

ROOT = Path(__file__).parents[2]
FILES = {"depth.npz", "depth_mm.png", "depth.png", "all_in_focus.png", "sheet.png", "run.json"}


def test_demo_is_close_to_the_truth(tmp_path: Path) -> None:
    done = focalsweep("demo", "-o", tmp_path)
    assert done.status == 0, done.err
    assert {path.name for path in tmp_path.iterdir()} == FILES
    with np.load(tmp_path / "depth.npz") as saved:
        depth = saved["depth"]
    truth = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED) * 1e-4
    assert np.median(np.abs(depth - truth) / truth) < 0.008
    assert "median error" in done.out.splitlines()[-1]


def test_depth_writes_what_it_says(small_stack: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    done = focalsweep("depth", small_stack, "-o", out)
    assert done.status == 0, done.err
    assert {Path(line).name for line in done.out.splitlines()} == FILES
    run = json.loads((out / "run.json").read_text())
    assert run["method"] == "sweep"
    assert len(run["focus_distances"]) == 3


def test_an_alignment_is_saved_and_given_again(small_stack: Path, tmp_path: Path, run: Run) -> None:
    """The photos of another channel have other names; a stack that is registered already needs none."""
    shots, other, saved = tmp_path / "shots", tmp_path / "other", tmp_path / "sweep.json"
    shutil.copytree(small_stack, shots)
    settings = (shots / "stack.toml").read_text().replace("aligned = true", "aligned = false")
    (shots / "stack.toml").write_text(settings)
    shutil.copytree(shots, other)
    for name in FRAME_NAMES:
        (other / name).rename(other / f"blue_{name}")
    (other / "stack.toml").write_text(settings.replace('file = "', 'file = "blue_'))
    assert run("depth", shots, "-o", tmp_path / "a", "--save-alignment", saved).status == 0
    assert run("depth", other, "-o", tmp_path / "b", "--use-alignment", saved).status == 0
    with np.load(tmp_path / "a" / "depth.npz") as first, np.load(tmp_path / "b" / "depth.npz") as second:
        np.testing.assert_array_equal(first["depth"], second["depth"])
    assert_refused(run("depth", small_stack, "-o", tmp_path / "c", "--use-alignment", saved), "--use-alignment")


def test_json_is_all_of_standard_output(small_stack: Path, tmp_path: Path, run: Run) -> None:
    done = run("depth", small_stack, "-o", tmp_path / "out", "--json")
    summary = json.loads(done.out)
    assert {Path(path).name for path in summary["files"]} == FILES
    assert summary["frames"] == 3 and 0.38 < summary["median_m"] < 1.12
    settings = json.loads(run("inspect", small_stack, "--json").out)
    assert [frame["file"] for frame in settings["frames"]] == list(FRAME_NAMES)


def test_quiet_is_silent(small_stack: Path, tmp_path: Path) -> None:
    """Relative depth has a note to suppress; in a process of its own, where libraries could speak too."""
    loud = focalsweep("depth", small_stack, "-o", tmp_path / "loud", "--relative")
    assert "relative" in loud.err
    done = focalsweep("depth", small_stack, "-o", tmp_path / "out", "--relative", "--quiet")
    assert (done.status, done.err) == (0, "")


def test_exports(small_stack: Path, tmp_path: Path, run: Run) -> None:
    more = {"depth.exr": b"\x76\x2f\x31\x01", "cloud.ply": b"ply\n", "mesh.glb": b"glTF"}
    shots = tmp_path / "shots"
    shutil.copytree(small_stack, shots)
    done = run("depth", shots, "-o", shots, "--export", "exr, ply,glb")
    assert {Path(line).name for line in done.out.splitlines()} == FILES | set(more)
    for name, magic in more.items():
        assert (shots / name).read_bytes().startswith(magic)
    done = run("depth", small_stack, "-o", tmp_path / "out", "--no-sheet")
    assert {Path(line).name for line in done.out.splitlines()} == FILES - {"sheet.png"}
    (shots / "stack.toml").unlink()  # the results beside the photos are no photos
    assert len(json.loads(run("inspect", shots, "--json").out)["frames"]) == 3


def test_registered_frames_are_a_stack(small_stack: Path, tmp_path: Path, run: Run) -> None:
    done = run("depth", small_stack, "-o", tmp_path / "registered", "--align", "only")
    names = [Path(line).name for line in done.out.splitlines()]
    assert names == ["00_frame_0.tif", "01_frame_3.tif", "02_frame_6.tif", "stack.toml", "registered.json"]
    picture = cv2.imread(str(tmp_path / "registered" / names[0]), cv2.IMREAD_UNCHANGED)
    before = cv2.imread(str(small_stack / FRAME_NAMES[0]))
    assert picture.dtype == np.uint16
    np.testing.assert_allclose(picture / 257, before, atol=0.51)  # they were aligned already
    again = run("depth", tmp_path / "registered", "-o", tmp_path / "out", "--json")
    first = run("depth", small_stack, "-o", tmp_path / "first", "--json")
    assert json.loads(again.out)["median_m"] == pytest.approx(json.loads(first.out)["median_m"], rel=1e-3)


def test_inspect_writes_what_depth_uses(small_stack: Path, tmp_path: Path, run: Run) -> None:
    shots = tmp_path / "shots"
    shutil.copytree(small_stack, shots)
    (shots / "stack.toml").unlink()
    given = ["--focal-length-mm", "50", "--f-number", "4", "--pixel-pitch-um", "93.75"]
    given += ["--focus-distances", "0.38,0.5675,1.12"]
    done = run("inspect", shots, "--write", "--json", *given)
    assert json.loads(done.out)["written"] == str(shots / "stack.toml")
    assert run("depth", shots, "-o", tmp_path / "out").status == 0
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["settings"]["focal_length"] == {"value": 0.05, "source": "stack.toml", "range": [0.05, 0.05]}
    edited = (shots / "stack.toml").read_text().replace("0.5675", "0.6")
    (shots / "stack.toml").write_text(edited)
    assert_refused(run("inspect", shots, "--write"), "stack.toml", "--force")
    assert (shots / "stack.toml").read_text() == edited
    done = run("inspect", shots, "--write", "--force", "--f-number", "8")
    assert done.out.endswith(f"\n{shots / 'stack.toml'}\n") and done.err == ""
    text = (shots / "stack.toml").read_text()
    assert "f_number = 8.0" in text and "focus_distance = 0.6 " in text


def test_inspect_answers_on_standard_output(small_stack: Path, tmp_path: Path, run: Run) -> None:
    shots = tmp_path / "shots"
    shutil.copytree(small_stack, shots)
    done = run("inspect", shots)
    assert done.err == ""
    line = next(line for line in done.out.splitlines() if "distances from the" in line)
    assert "lens" in line and "stack.toml" in line
    assert "given" in next(
        line
        for line in run("inspect", shots, "--focus-reference", "sensor").out.splitlines()
        if "distances from" in line
    )
    text = (shots / "stack.toml").read_text().replace("f_number = 4.0\n", "")
    (shots / "stack.toml").write_text(text)
    done = run("inspect", shots)
    assert "f-number (--f-number)" in done.err and "unknown" in done.out


def test_pages_of_a_tiff_with_a_written_stack_toml(small_stack: Path, tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    frames = [cv2.imread(str(small_stack / name))[..., ::-1] for name in FRAME_NAMES]
    tifffile.imwrite(folder / "sweep.tif", np.stack(frames), photometric="rgb")
    given = ["--focal-length-mm", "50", "--f-number", "4", "--pixel-pitch-um", "93.75"]
    given += ["--focus-distances", "0.38,0.5675,1.12"]
    assert run("inspect", folder, "--write", *given).status == 0
    for photos in (folder, folder / "sweep.tif"):
        done = run("depth", photos, "-o", tmp_path / "out", "--json", "--align", "none")
        assert json.loads(done.out)["frames"] == 3


def test_batch_goes_on_after_a_bad_stack(small_stack: Path, tmp_path: Path, run: Run) -> None:
    scans, out = tmp_path / "scans", tmp_path / "scans" / "results"
    for name in ("a", "b", "c"):
        shutil.copytree(small_stack, scans / name)
    whole = (scans / "b" / FRAME_NAMES[1]).read_bytes()
    (scans / "b" / FRAME_NAMES[1]).write_bytes(whole[:50])
    done = run("batch", scans, "-o", out, "--quiet")
    assert (done.status, done.out, done.err) == (1, f"{out / 'results.csv'}\n", "")
    first = lines(out)
    assert [(row["stack"], row["status"]) for row in first] == [("a", "done"), ("b", "failed"), ("c", "done")]
    assert FRAME_NAMES[1] in first[1]["message"] and first[0]["message"] == ""
    assert not (out / "b").exists()
    (scans / "b" / FRAME_NAMES[1]).write_bytes(whole)
    before = contents(out / "a")
    done = run("batch", scans, "-o", out, "--resume")
    assert done.status == 0 and "b done" in done.err
    again = lines(out)
    assert [row["status"] for row in again] == ["kept", "done", "kept"]
    assert again[0]["median_m"] == first[0]["median_m"] == again[1]["median_m"]
    assert contents(out / "a") == before


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


COMMANDS = ["depth", "inspect", "batch", "demo", "web", "render", "train", "evaluate", "bench speed"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, run: Run) -> None:
    done = run(*command.split(), "--help")
    assert done.status == 0
    assert f"focalsweep {command}" in done.out.split("Example")[1]


def test_version(run: Run) -> None:
    """It stands in one file, which packaging, command line and results read."""
    done = run("--version")
    assert done.status == 0 and re.fullmatch(
        rf"focalsweep {re.escape(fs.__version__)}( \([0-9a-f]{{7,12}}\))?\n", done.out
    )
    tracked = [ROOT / "pyproject.toml", *(ROOT / "src").rglob("*.py")]
    named = [path.name for path in tracked if f'"{fs.__version__}"' in path.read_text()]
    assert named == ["version.py"]


def test_no_command_shows_all(run: Run) -> None:
    done = run()
    assert all(f" {command.split()[0]} " in done.out + done.err for command in COMMANDS)


def test_shell_completion(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "_FOCALSWEEP_COMPLETE=complete_bash" in run("--show-completion", "bash").out
    monkeypatch.setenv("_FOCALSWEEP_COMPLETE", "complete_bash")
    cases = (
        ("focalsweep d", {"depth", "demo"}),
        ("focalsweep depth --ne", {"--near"}),
        ("focalsweep depth --align o", {"only"}),
    )
    for words, completed in cases:
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        assert set(run().out.split()) == completed
