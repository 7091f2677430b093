"""Documents show what the result files say: nobody types a figure."""

from pathlib import Path

import pytest

from focalsweep.evaluation.report import DOCUMENTS, RESULTS, fill, markdown_table, read_records

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


def test_markdown() -> None:
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
