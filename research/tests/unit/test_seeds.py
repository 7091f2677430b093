"""Runs of several seeds as one row, by hand."""

import pytest

from focalsweep_research.metrics.seeds import over_seeds
from focalsweep_research.tables.tables import table_of


def row(method: str, rmse: float | None, scale: str = "1", **more: str) -> dict[str, object]:
    return {"method": method, "group": "all", "scale": scale, "rmse": rmse, "pixels": 7.0, **more}


ROWS = [
    row("a, seed 0", 0.1),
    row("b", 0.5),
    row("a, seed 1", 0.2),
    row("a, seed 0", 0.3, "3"),
    row("a, seed 1", 0.3, "3"),
]
GROUPS = {"a (n=2)": ["a, seed 0", "a, seed 1"]}


def test_mean_and_spread() -> None:
    first, other, third = over_seeds(ROWS, GROUPS)
    assert first["method"] == "a (n=2)" and first["scale"] == "1" and first["pixels"] == 7
    assert first["rmse"] == pytest.approx(0.15) and first["std"] == {"rmse": pytest.approx(0.05 * 2**0.5)}
    assert other == ROWS[1]
    assert third["rmse"] == pytest.approx(0.3) and third["std"]["rmse"] == pytest.approx(0, abs=1e-9)


def test_a_missing_run_leaves_no_mean() -> None:
    joined = over_seeds([row("a, seed 0", 0.1), row("a, seed 1", None, note="reads 5 frames")], GROUPS)
    assert joined == [{**row("a (n=2)", None), "note": "reads 5 frames", "std": {}}]


def test_the_table_shows_the_spread() -> None:
    record = {"rows": over_seeds(ROWS, GROUPS), "table": {"columns": ["rmse"], "sections": ["scale"]}}
    lines = table_of(record).markdown().splitlines()
    assert lines[2] == "| 1 | a (n=2) | **0.150 ± 0.071** |"
    across = {"rows": record["rows"], "table": {"columns": ["rmse"], "sections": [], "across": "scale"}}
    assert table_of(across).markdown().splitlines()[2] == "| a (n=2) | **0.150 ± 0.071** | 0.300 ± 0.000 |"
