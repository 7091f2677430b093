"""Results as one set: nothing mixed, nothing lost, nothing left, whenever a run is cut off; and nothing of others."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from focalsweep.results import folder as folders
from focalsweep.results.folder import HIDDEN, faults_of, locked, swap_in, write_set
from focalsweep.results.writing import json_bytes, write_files
from tests.errors import assert_one_sentence, message_of
from tests.fault_scenarios import SCENARIOS, nothing, result, save
from tests.faults import KINDS, Scenario, inject_everywhere


def record(files: dict[str, Any]) -> bytes:
    return json_bytes({"files": files})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# Faults, at every point


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_at_any_point_mixes_loses_and_leaves_nothing(name: str) -> None:
    report = inject_everywhere(SCENARIOS[name])
    assert report.points > 5 and report.runs == len(KINDS) * report.points
    assert report.faults == []


def test_the_shim_finds_a_set_that_is_none() -> None:
    """Files moved in place one by one, as results were before, are mixed when a run is cut off in between."""

    def write(folder: Path, content: bytes) -> None:
        write_files({folder / name: lambda file: file.write(content) for name in ("a.bin", "b.bin")})

    def again(folder: Path) -> None:
        write(folder, (folder / "b.bin").read_bytes())

    report = inject_everywhere(Scenario(lambda f: write(f, b"old"), lambda f: write(f, b"new"), again))
    assert any("mixed ['b.bin'] and ['a.bin']" in fault for fault in report.faults)


# What belongs to a set


def test_files_of_an_older_run_go_and_those_of_others_stay(tmp_path: Path) -> None:
    nothing(tmp_path)
    save(tmp_path, metric=True)
    assert {"depth_mm.png", "cloud.ply", "sheet.png"} < names(tmp_path)
    save(tmp_path, metric=False)
    assert names(tmp_path) == {"depth.npz", "depth.png", "all_in_focus.png", "run.json", "notes.txt"}
    assert faults_of(tmp_path) == []


def test_a_file_of_ours_that_somebody_changed_is_theirs(tmp_path: Path) -> None:
    save(tmp_path, metric=True)
    (tmp_path / "cloud.ply").write_bytes(b"mended by hand")
    save(tmp_path, metric=False)
    assert (tmp_path / "cloud.ply").read_bytes() == b"mended by hand" and not (tmp_path / "sheet.png").exists()


def test_results_of_an_older_version_are_replaced(tmp_path: Path) -> None:
    for name in ("depth.npz", "depth_mm.png", "mesh.glb", "notes.txt"):
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "run.json").write_text('{"focalsweep": {"version": "0.1.0"}}')
    save(tmp_path, metric=False)
    assert names(tmp_path) == {"depth.npz", "depth.png", "all_in_focus.png", "run.json", "notes.txt"}


@pytest.mark.parametrize("manifest", [None, '{"name": "another program"}'])
def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "depth.png").write_bytes(b"theirs")
    if manifest:
        (tmp_path / "run.json").write_text(manifest)
    message = message_of(lambda: result(True).save(tmp_path), FileExistsError)
    assert_one_sentence(message, str(tmp_path / "depth.png"), "not written by focalsweep")
    assert names(tmp_path) == {"depth.png", *(["run.json"] if manifest else [])}


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/hostname", "..", ".hidden", "a/b", "x\0y"])
def test_a_manifest_reaches_nothing_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    write_set(out, {"depth.npz": lambda file: file.write(b"1")}, record)
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"1")
    written = json.loads((out / "run.json").read_text())
    written["files"] |= {name: written["files"]["depth.npz"]}
    (out / "run.json").write_text(json.dumps(written))
    hidden = out / HIDDEN / "next"
    hidden.mkdir(parents=True)
    (hidden / ".plan.json").write_text(json.dumps({"old": [name], "new": []}))
    write_set(out, {"depth.npz": lambda file: file.write(b"2")}, record)
    assert outside.read_bytes() == b"1" and faults_of(out) == []


def test_a_plan_that_is_no_plan_is_one_sentence(tmp_path: Path) -> None:
    hidden = tmp_path / HIDDEN / "next"
    hidden.mkdir(parents=True)
    (hidden / ".plan.json").write_text("[]")
    message = message_of(lambda: write_set(tmp_path, {}, record), ValueError)
    assert_one_sentence(message, str(hidden), "damaged")


def test_sets_of_other_manifests_leave_each_other_alone(tmp_path: Path) -> None:
    write_set(tmp_path, {"00_a.tif": lambda file: file.write(b"1")}, record, "registered.json")
    save(tmp_path, metric=False)
    write_set(tmp_path, {"01_b.tif": lambda file: file.write(b"1")}, record, "registered.json")
    assert names(tmp_path) >= {"01_b.tif", "depth.npz", "run.json"} and "00_a.tif" not in names(tmp_path)
    assert faults_of(tmp_path) == faults_of(tmp_path, "registered.json") == []


# Cut off


def test_a_run_that_was_decided_on_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, metric=True)
    with monkeypatch.context() as patched:
        patched.setattr(folders, "finish", lambda folder: False)
        save(tmp_path, metric=False)
    assert (tmp_path / HIDDEN / "next" / "run.json").exists()
    (tmp_path / HIDDEN / "draft-of-another").mkdir()
    with locked(tmp_path):
        pass
    assert names(tmp_path) == {"depth.npz", "depth.png", "all_in_focus.png", "run.json"}
    assert faults_of(tmp_path) == []


def test_temporary_files_of_a_killed_writer_go_but_not_those_of_one_at_work(tmp_path: Path) -> None:
    (tmp_path / ".a.csv.k1.part").write_bytes(b"killed")

    def write(file: Any) -> None:
        write_files({tmp_path / "a.csv": lambda inner: inner.write(b"inner")})  # another, meanwhile
        file.write(b"outer")

    write_files({tmp_path / "a.csv": write})
    assert names(tmp_path) == {"a.csv"} and (tmp_path / "a.csv").read_bytes() == b"outer"


# Two writers


HOLDER = """
import sys, time
from pathlib import Path
from focalsweep.results.folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(folder: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(folder), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_waits(tmp_path: Path) -> None:
    with holder(tmp_path, 1.0) as process:
        began = time.monotonic()
        write_set(tmp_path, {"a": lambda file: file.write(b"1")}, record)
        assert time.monotonic() - began > 0.5
        process.wait()
    assert names(tmp_path) == {"a", "run.json"}


def test_a_second_writer_refuses_where_it_takes_too_long_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path, 60.0) as process:
        with pytest.raises(FileExistsError) as refused, locked(tmp_path, wait_seconds=0.1):
            pass
        assert_one_sentence(str(refused.value), str(tmp_path), "another run of focalsweep")
        process.kill()
        process.wait()
    with locked(tmp_path, wait_seconds=0):
        assert (tmp_path / HIDDEN / "lock").exists()
    assert names(tmp_path) == set()


def test_a_hidden_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / HIDDEN).symlink_to(tmp_path / "elsewhere")
    message = message_of(lambda: write_set(tmp_path / "out", {}, record), ValueError)
    assert_one_sentence(message, HIDDEN, "is a link")


# Checking


def test_what_is_missing_or_changed_is_found(tmp_path: Path) -> None:
    save(tmp_path, metric=True)
    assert faults_of(tmp_path) == []
    (tmp_path / "depth.png").unlink()
    data = bytearray((tmp_path / "depth.npz").read_bytes())
    data[-1] ^= 1
    (tmp_path / "depth.npz").write_bytes(data)
    missing, changed = sorted(faults_of(tmp_path), key=lambda fault: "changed" in fault or "not as" in fault)
    assert_one_sentence(missing, "depth.png", "is missing")
    assert_one_sentence(changed, "depth.npz", "not as it was written")


def test_a_draft_replaces_a_set(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    write_set(draft, {"a": lambda file: file.write(b"2")}, record)
    write_set(tmp_path / "out", dict.fromkeys(("a", "b"), lambda file: file.write(b"1")), record)
    swap_in(draft, tmp_path / "out")
    assert names(tmp_path / "out") == {"a", "run.json"} and not draft.exists()
