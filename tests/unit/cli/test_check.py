"""`focalsweep check`: results that are whole, changed, cut off, or none."""

from pathlib import Path

import pytest

from focalsweep.batch.stores import Store
from focalsweep.results import folder as folders
from tests.e2e.running import assert_refused, runner, write_small_stack
from tests.fault_scenarios import save


def test_whole_changed_and_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, out = runner(capfd), tmp_path / "out"
    save(out / "a", metric=True)
    save(out / "b", metric=False)
    done = run("check", out)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{out / 'a'}: 6 files as they were written", f"{out / 'b'}: 3 files as they were written"
    ]  # fmt: skip
    (out / "b" / "depth.png").write_bytes(b"x")
    done = run("check", out)
    assert done.status == 1 and "b/depth.png is not as it was written" in done.err.replace("\n", "")
    (tmp_path / "empty").mkdir()
    assert_refused(run("check", tmp_path / "empty"), "no results of focalsweep")
    assert_refused(run("check", tmp_path / "none"), "is no folder")


def test_what_was_cut_off_is_finished(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(folders, "finish", lambda folder: False)
        save(tmp_path, metric=False)
    assert not (tmp_path / "run.json").exists()
    done = runner(capfd)("check", tmp_path)
    assert done.status == 0 and (tmp_path / "run.json").exists() and not (tmp_path / ".focalsweep").exists()


def test_a_second_batch_into_the_same_folder_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_small_stack(tmp_path / "scans" / "a")
    out = tmp_path / "out"
    with Store(str(out)).held():
        assert_refused(runner(capfd)("batch", tmp_path / "scans", "-o", out), str(out), "another run of focalsweep")


def test_a_folder_with_a_file_of_somebody_else_is_refused_before_the_work(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stack = write_small_stack(tmp_path / "shots")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "depth.npz").write_bytes(b"theirs")
    assert_refused(runner(capfd)("depth", stack, "-o", tmp_path / "out"), "depth.npz", "not written by focalsweep")
