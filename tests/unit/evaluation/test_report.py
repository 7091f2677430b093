"""Documents show what the result files say: nobody types a figure."""

from pathlib import Path

import pytest

from focalsweep.evaluation.report import DOCUMENTS, RESULTS, fill, read_records

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text()
    assert fill(text, read_records(ROOT / RESULTS)) == text, "run python -m focalsweep.evaluation.report"


def test_a_stale_table_is_noticed() -> None:
    records = read_records(ROOT / RESULTS)
    stale = "a\n<!-- table demo -->\n| old |\n<!-- end -->\nb"
    fresh = fill(stale, records)
    assert "| old |" not in fresh and fresh.startswith("a\n") and fresh.endswith("\nb")
    assert fill(fresh, records) == fresh


def test_unknown_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="'nothing'"):
        fill("<!-- table nothing --><!-- end -->", {})


def test_a_result_that_describes_its_table_is_shown() -> None:
    record = {
        "rows": [{"method": "a", "mae": 0.25}, {"method": "b", "mae": 0.125}],
        "table": {"columns": ["mae"]},
        "anchors": [{"method": "c", "mae": 0.5}],
    }
    text = fill("<!-- table mine -->\n<!-- end -->", {"mine": record, "other": {}})
    assert text.splitlines()[1:-1] == [
        "| method | MAE (m) ↓ |",
        "| --- | --- |",
        "| a | <ins>0.250</ins> |",
        "| b | **0.125** |",
        "| *c (the paper's figure, not ours)* | *0.500* |",
    ]
    assert fill(text, {"mine": record}) == text
    with pytest.raises(ValueError, match=r"'other'.*, mine"):
        fill("<!-- table other --><!-- end -->", {"mine": record, "other": {}})
