"""Tables of results: what is best is marked, what is not ours says so, and any word survives both languages."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalsweep_research.metrics.errors import METRICS
from focalsweep_research.tables.tables import (
    COLUMNS,
    LATEX,
    Layout,
    Table,
    latex_text,
    markdown_table,
    markdown_text,
    results_table,
    table_of,
    write_tables,
)
from tests.errors import assert_one_sentence, message_of

ROWS = [
    {"method": "argmin", "group": "all", "mae": 0.0431, "delta_1.05": 0.74},
    {"method": "sweep", "group": "all", "mae": 0.0212, "delta_1.05": 0.951},
    {"method": "paper_net & co", "group": "all", "mae": 0.139, "delta_1.05": 0.6},
    {"method": "argmin", "group": "dark", "mae": 0.5, "delta_1.05": 0.3},
    {"method": "sweep", "group": "dark", "mae": 0.6, "delta_1.05": 0.3},
]
ANCHORS = [{"method": "Ours", "group": "all", "mae": 0.01, "source": "Table 4 of the paper"}]
LAYOUT = Layout(("mae", "delta_1.05"))


def marks(table: Table) -> list[list[str]]:
    """By row, the marks of the figures."""
    return [[cell.mark for cell in row[table.labels :]] for section in table.sections for row in section]


def test_markdown() -> None:
    assert results_table(ROWS, LAYOUT, ANCHORS).markdown().splitlines() == [
        "| group | method | MAE (m) ↓ | δ &lt; 1.05 (%) ↑ |",
        "| --- | --- | --- | --- |",
        "| all | argmin | <ins>0.043</ins> | <ins>74.0</ins> |",
        "|  | sweep | **0.021** | **95.1** |",
        r"|  | paper\_net &amp; co | 0.139 | 60.0 |",
        "|  | *Ours (Table 4 of the paper, not ours)* | *0.010* |  |",
        "| dark | argmin | **0.500** | **30.0** |",
        "|  | sweep | <ins>0.600</ins> | **30.0** |",
    ]


def test_latex() -> None:
    assert results_table(ROWS, LAYOUT, ANCHORS).latex().splitlines() == [
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r"group & method & MAE (m) $\downarrow$ & $\delta$ $<$ 1.05 (\%) $\uparrow$ \\",
        r"\midrule",
        r"all & argmin & \underline{0.043} & \underline{74.0} \\",
        r" & sweep & \textbf{0.021} & \textbf{95.1} \\",
        r" & paper\_net \& co & 0.139 & 60.0 \\",
        r" & \textit{Ours (Table 4 of the paper, not ours)} & \textit{0.010} &  \\",
        r"\midrule",
        r"dark & argmin & \textbf{0.500} & \textbf{30.0} \\",
        r" & sweep & \underline{0.600} & \textbf{30.0} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_an_anchor_is_never_ranked() -> None:
    """The paper's 0.01 is below everything here, and still what is best is ours."""
    found = marks(results_table(ROWS, LAYOUT, ANCHORS))
    assert found[1][0] == "best" and found[3] == ["anchor", "anchor"]


def test_alone_nothing_is_best() -> None:
    assert marks(results_table(ROWS[:1], LAYOUT)) == [["", ""]]
    pixels = results_table([{"method": "a", "pixels": 3.0}, {"method": "b", "pixels": 4.0}], Layout(("pixels",)))
    assert marks(pixels) == [[""], [""]]  # more pixels are no better
    assert "| 3 |" in pixels.markdown()


def test_printed_alike_ranks_alike() -> None:
    rows = [{"method": str(k), "mae": value} for k, value in enumerate((0.1231, 0.1229, 0.2, 0.2001, 0.3))]
    assert [row[0] for row in marks(results_table(rows, LAYOUT))] == ["best", "best", "second", "second", ""]


def test_no_number_is_never_best() -> None:
    values = (float("nan"), 0.5, None, float("inf"), 0.4)
    table = results_table([{"method": "m", "mae": value} for value in values], Layout(("mae",)))
    assert [row[0] for row in marks(table)] == ["", "second", "", "", "best"]
    assert [line.split(" | ")[1] for line in table.markdown().splitlines()[2:]] == [
        "– |", "<ins>0.500</ins> |", " |", "∞ |", "**0.400** |"
    ]  # fmt: skip


def test_units_digits_and_conditions() -> None:
    layout = Layout(("mae", "seconds", "odd"), where={"group": "dark"}, length_unit="0.3 m", digits={"mae": 1})
    table = results_table(ROWS, layout, [{"method": "anywhere", "mae": 1.0}, *ANCHORS])
    assert table.header == ["method", "MAE (0.3 m) ↓", "time (s) ↓", "odd"]
    texts = [[cell.text for cell in row] for section in table.sections for row in section]
    assert texts == [
        ["argmin", "0.5", "", ""],
        ["sweep", "0.6", "", ""],
        ["anywhere (the paper's figure, not ours)", "1.0", "", ""],
    ]


def test_a_key_across() -> None:
    """The paper's Table 2: one error, a column for each scale."""
    rows = [
        {"method": method, "sigma": sigma, "rmse": rmse}
        for method, errors in {"with": (0.239, 0.363), "without": (0.232, 0.415)}.items()
        for sigma, rmse in zip((1.0, 3.0), errors, strict=True)
    ]
    anchors = [{"method": "with", "sigma": 3.0, "rmse": 0.363}]
    table = results_table(rows, Layout(["rmse"], across="sigma"), anchors)
    assert table.markdown().splitlines() == [
        "| RMSE (m) ↓ by sigma | 1.0 | 3.0 |",
        "| --- | --- | --- |",
        "| with | <ins>0.239</ins> | **0.363** |",
        "| without | **0.232** | <ins>0.415</ins> |",
        "| *with (the paper's figure, not ours)* |  | *0.363* |",
    ]
    by_group = results_table(ROWS, Layout(["mae"], across="group"))
    assert by_group.header == ["MAE (m) ↓ by group", "all", "dark"] and len(by_group.sections) == 1


def test_every_metric_has_a_column() -> None:
    assert set(METRICS) <= set(COLUMNS)


def test_a_result_file_and_its_tables(tmp_path: Path) -> None:
    layout = {"columns": ["mae"], "sections": ["group"], "caption": "Errors, 100 % ours"}
    result = tmp_path / "mine.json"
    result.write_text(json.dumps({"rows": ROWS, "table": layout, "anchors": ANCHORS}))
    record = json.loads(result.read_text())
    written = write_tables(record, result)
    assert [path.name for path in written] == ["mine.md", "mine.tex"]
    assert written[0].read_text() == table_of(record).markdown() + "\n"
    assert written[0].read_text().startswith("Errors, 100 % ours\n\n| group |")
    assert r"\caption{Errors, 100 \% ours}" in written[1].read_text()


WORDS = st.text(
    st.characters(codec="latin-1", categories=("L", "N", "P", "S", "Z")) | st.sampled_from("\\|*_`<&%$#{}~^")
)


@given(WORDS)
def test_any_words_stay_in_their_cell(words: str) -> None:
    """Neither language sees a mark of its own in a name."""
    table = results_table([{"method": words, "mae": 1.0}], Layout(("mae",)))
    row = table.markdown().splitlines()[2]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    assert re.search(r"(?<!\\)(?:\\\\)*[*_`<]", row) is None
    line = table.latex().splitlines()[4]
    name = line[: line.rindex(" & 1.000")]
    for harmless in sorted(LATEX.values(), key=len, reverse=True):
        name = name.replace(harmless, "")
    assert not set(name) & set("\\&%$#_{}~^<>|[]*")


def test_escapes_by_hand() -> None:
    assert latex_text("a_b & 50% of $x^2 {y} ~ #1 \\") == (
        r"a\_b \& 50\% of \$x\textasciicircum{}2 \{y\} \textasciitilde{} \#1 \textbackslash{}"
    )
    assert latex_text("[a] *") == "{[}a{]} {*}"
    assert markdown_text("a|b *c* <d>\n_e_") == r"a\|b \*c\* &lt;d> \_e\_"
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"method": "".join(LATEX), "mae": 1.0}, {"method": "[x] ü", "mae": 2.0}]
    text = results_table(rows, Layout(("mae", *METRICS[3:7]), caption="".join(LATEX)), ANCHORS).latex()
    (tmp_path / "a.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + text + "\\end{document}\n"
    )
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]


def test_refusals() -> None:
    assert_one_sentence(message_of(lambda: table_of({"rows": []}), ValueError), '"table"', '"columns"')
    record = {"rows": [], "table": {"columns": ["mae"], "colums": 1}}
    assert_one_sentence(message_of(lambda: table_of(record), ValueError), "colums")
    assert_one_sentence(message_of(lambda: Layout(()), ValueError), "at least one metric")
    assert_one_sentence(message_of(lambda: Layout(("mae", "rmse"), across="x"), ValueError), "one metric", "'rmse'")
