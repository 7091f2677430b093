"""`batch --ray` on a real cluster of several processes, parts of which are killed meanwhile.

benchmarks/cluster.py does the same with 200 stacks and measures.
"""

import csv
import signal
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.loopback import (
    Cluster,
    contents,
    finish,
    finished,
    kill,
    loopback_cluster,
    start_batch,
    wait_until,
    workers_of,
    write_stacks,
)

from tests.e2e.running import Run, assert_refused

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")]
COUNT = 24


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with loopback_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "scans"
    write_stacks(folder, COUNT)
    broken = folder / "stack_00004" / "frame_3.png"
    broken.write_bytes(broken.read_bytes()[:60])
    return folder


def statuses(output: Path) -> dict[str, str]:
    with (output / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(Counter(row["stack"] for row in rows).values()) == {1}
    return {row["stack"]: row["status"] for row in rows}


def test_nothing_is_lost_with_a_worker_and_a_node_nor_with_the_driver(
    scans: Path, tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """One cluster for all of it: starting one takes longest."""
    here, there, again = tmp_path / "here", tmp_path / "there", tmp_path / "again"
    assert finish(start_batch(scans, here)) == 1  # for the broken one

    driver = start_batch(scans, again, "--ray", cluster.address)
    wait_until(lambda: len(finished(again)) >= 4, "some stacks are done")
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    wait_until(lambda: not cluster.workers(), "its workers are gone")
    before = {name: (again / name / "run.json").stat().st_mtime_ns for name in finished(again)}
    assert 4 <= len(before) < COUNT - 1
    assert finish(start_batch(scans, again, "--ray", cluster.address, "--resume")) == 1
    expected = dict.fromkeys((path.name for path in scans.iterdir()), "done") | dict.fromkeys(before, "kept")
    assert statuses(again) == expected | {"stack_00004": "failed"}
    assert before == {name: (again / name / "run.json").stat().st_mtime_ns for name in before}

    driver = start_batch(scans, there, "--ray", cluster.address)
    wait_until(lambda: len(finished(there)) >= COUNT // 4, "a quarter is done")
    wait_until(lambda: workers_of(cluster.nodes[0]), "the first node has a worker")
    workers_of(cluster.nodes[0])[0].kill()
    wait_until(lambda: len(finished(there)) >= COUNT // 2, "half of them are done")
    kill(cluster.nodes[1])
    assert len(finished(there)) < COUNT - 1
    assert finish(driver) == 1
    assert Counter(statuses(there).values()) == {"done": COUNT - 1, "failed": 1}
    local = contents(here)
    assert len(local) == 6 * (COUNT - 1)
    assert contents(there) == local  # no file is missing, other or left over
    assert contents(again) == local
    said = capsys.readouterr().err
    assert "stack_00004" in said and "deprecated" not in said  # ours to know, not the user's


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "somewhere"])
def test_a_cluster_that_is_not_there_is_one_sentence(scans: Path, tmp_path: Path, run: Run, address: str) -> None:
    assert_refused(run("batch", scans, "-o", tmp_path / "out", "--ray", address), "--ray", address)
    assert not (tmp_path / "out").exists()


def test_the_memory_of_a_process_is_no_place_for_a_cluster(scans: Path, run: Run) -> None:
    assert_refused(run("batch", scans, "-o", "memory://out", "--ray", "auto"), "memory://out")


@pytest.mark.parametrize("output", ["scans/out", "file://{}/scans/out"])
def test_results_among_the_stacks_are_no_stack(tmp_path: Path, run: Run, output: str) -> None:
    write_stacks(tmp_path / "scans", 1)
    out = output.format(tmp_path) if "{}" in output else str(tmp_path / output)
    for _ in range(2):
        assert run("batch", tmp_path / "scans", "-o", out, "--method", "argmin", "--quiet").status == 0
        assert statuses(tmp_path / "scans" / "out") == {"stack_00000": "done"}


def test_batch_reads_and_writes_urls_without_ray(tmp_path: Path, run: Run) -> None:
    write_stacks(tmp_path / "scans", 2)
    out = f"dir://out::{tmp_path.as_uri()}"
    done = run("batch", (tmp_path / "scans").as_uri(), "-o", out, "--method", "argmin")
    assert (done.status, done.out) == (0, f"dir://out/results.csv::{tmp_path.as_uri()}\n"), done.err
    assert "2 of 2: stack_00001 done" in done.err and "stacks a second" in done.err
    assert finished(tmp_path / "out") == {"stack_00000", "stack_00001"}
    before = contents(tmp_path / "out")
    assert run("batch", tmp_path / "scans", "-o", out, "--resume", "--quiet").status == 0
    assert contents(tmp_path / "out") == before
