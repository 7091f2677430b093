"""The summary: every stack once, in CSV and Parquet alike, and what is said meanwhile."""

import csv
import json
from pathlib import Path

import pytest

from focalsweep.batch import summary
from focalsweep.batch.stores import Store
from focalsweep.batch.summary import COLUMNS, Summary, read_rows

DONE = {
    "frames": 3,
    "width": 8,
    "height": 6,
    "unit": "m",
    "near_m": 0.1,
    "median_m": 0.25,
    "far_m": 1 / 3,
    "seconds": 1.5,
}


def made(store: Store, names: list[str], kept: set[str], said: list[str] | None = None) -> Summary:
    lines = [] if said is None else said
    return Summary(names, store, kept, lines.append, lines.append)


def lines_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_input_is_counted_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    first = made(store, ["a", "b", "c"], set())
    first.add({"stack": "c", "status": "done", **DONE})
    first.add({"stack": "b", "status": "failed", "message": 'b/x.png, "bad"'})
    first.add({"stack": "a", "status": "done", **DONE})
    first.add({"stack": "a", "status": "done", **DONE})
    first.write()
    assert [row["stack"] for row in lines_of(tmp_path)] == ["a", "b", "c"]
    assert first.failed == 1
    again = made(store, ["a", "b", "c"], {"a", "c"})
    again.add({"stack": "b", "status": "done", **DONE})
    again.write()
    assert [row["status"] for row in lines_of(tmp_path)] == ["kept", "done", "kept"]
    assert read_rows(store)["a"] == {"stack": "a", "status": "kept", **DONE}  # floats to the last digit


def test_parquet_has_the_same_lines(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    store = Store(str(tmp_path))
    rows = made(store, ["a", "b"], set())
    rows.add({"stack": "a", "status": "done", "warnings": [], **DONE})
    rows.add({"stack": "b", "status": "failed", "message": "no"})
    rows.write()
    table = parquet.read_table(tmp_path / "results.parquet")
    assert table.column_names == list(COLUMNS)
    assert {row["stack"]: {k: v for k, v in row.items() if v is not None} for row in table.to_pylist()} == read_rows(
        store
    )


def test_a_stack_without_a_unit_has_no_metres(tmp_path: Path) -> None:
    metres = dict.fromkeys(("unit", "near_m", "median_m", "far_m"))
    rows = made(Store(str(tmp_path)), ["a"], set())
    rows.add({"stack": "a", "status": "done", **DONE, **metres})
    rows.write()
    (line,) = lines_of(tmp_path)
    assert [line[name] for name in metres] == [""] * 4 and line["frames"] == "3"
    assert not set(metres) & set(read_rows(Store(str(tmp_path)))["a"])


def test_without_pyarrow_there_is_the_csv_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "find_spec", lambda name: None)
    made(Store(str(tmp_path)), ["a"], set()).write()
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]


def test_figures_of_a_result_without_a_line_come_from_its_record(tmp_path: Path) -> None:
    """As after a driver that was killed before it wrote them."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text(json.dumps({"summary": {"frames": 3, "median_m": 0.25}}))
    (tmp_path / "results.csv").write_text(",".join(COLUMNS) + "\na,failed,,,,,,,,,no\n")
    rows = made(Store(str(tmp_path)), ["a"], {"a"})
    rows.write()
    (line,) = lines_of(tmp_path)
    assert (line["status"], line["median_m"], line["message"]) == ("kept", "0.25", "")


def test_it_tells_rate_time_left_and_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(summary.time, "monotonic", lambda: clock[0])
    said: list[str] = []
    rows = made(Store(str(tmp_path)), [f"s{i}" for i in range(21)], {"s0"}, said)
    clock[0] = 2.0
    rows.add({"stack": "s1", "status": "done"})
    clock[0] = 2.5
    rows.add({"stack": "s2", "status": "done"})  # too soon for another line
    clock[0] = 6.0
    rows.add({"stack": "s3", "status": "failed", "message": "bad"})
    assert said == [
        "2 of 21: s1 done; 0.5 stacks a second, 38 s left",
        "s3: bad",
        "4 of 21: s3 failed; 0.5 stacks a second, 34 s left, 1 failed",
    ]


def test_the_file_grows_as_the_run_goes_on_but_not_with_every_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(summary.time, "monotonic", lambda: clock[0])
    rows = made(Store(str(tmp_path)), [f"s{i:03d}" for i in range(100)], set())
    written = []
    real = Store.write
    monkeypatch.setattr(Store, "write", lambda *a: written.append(a[1]) or real(*a))
    for i in range(100):
        clock[0] += 1.0
        rows.add({"stack": f"s{i:03d}", "status": "done"})
    assert written.count("results.csv") == 10
