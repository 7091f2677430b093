"""A result file as a table: Markdown for the documents, LaTeX (booktabs) for papers.

A protocol's result says itself how it is shown, and what stands beside it that was not measured here:

    {"rows": [{"method": "sweep", "group": "all", "rescaling": "raw", "mae": 0.043, "rmse": 0.083}, ...],
     "table": {"columns": ["mae", "rmse"], "sections": ["rescaling"], "where": {"group": "all"}},
     "anchors": [{"method": "PaperNet", "rescaling": "raw", "mae": 0.139, "rmse": 0.186}]}

A row over several training runs has "std": {"mae": 0.002}, shown as 0.043 ± 0.002. A row without figures has null in
their place and a "note" that says why: a dash, and the note below the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
LENGTH = "length"


@dataclass(frozen=True)
class Column:
    """How a metric is shown. `better` is "lower", "higher" or nothing; a unit of % multiplies by 100."""

    title: str
    unit: str = ""
    better: str = ""
    digits: int = 3


COLUMNS = {
    "mae": Column("MAE", LENGTH, "lower"),
    "rmse": Column("RMSE", LENGTH, "lower"),
    "rmse_focused": Column("RMSE up to the farthest focus", LENGTH, "lower"),
    "abs_rel": Column("AbsRel", "", "lower"),
    "delta_1.05": Column("δ < 1.05", "%", "higher", 1),
    "delta_1.25": Column("δ < 1.25", "%", "higher", 1),
    "delta_1.25^2": Column("δ < 1.25²", "%", "higher", 1),
    "delta_1.25^3": Column("δ < 1.25³", "%", "higher", 1),
    "sc_inv": Column("sc-inv", "", "lower"),
    "ssitrim": Column("ssitrim", "", "lower"),
    "ause": Column("AUSE", "", "lower", 4),
    "ause_share": Column("AUSE / error", "", "lower"),
    "aurg_share": Column("AURG / error", "", "higher"),
    "within_1_std": Column("within 1 std", "%", "", 1),
    "within_2_std": Column("within 2 std", "%", "", 1),
    "miscalibration": Column("miscalibration", "%", "lower", 1),
    "ece": Column("ECE", "%", "lower", 1),
    "seconds": Column("time", "s", "lower"),
    "total_ms": Column("total", "ms", "lower", 1),
    "sweep_ms": Column("sweep", "ms", "lower", 1),
    "network_ms": Column("network or minimum", "ms", "lower", 1),
    "million_parameters": Column("parameters", "M", "", 2),
    "peak_mb": Column("peak memory", "MB", "lower", 0),
    "median_spacings": Column("error", "frame spacings", "lower", 2),
    "median_dioptres": Column("error", "dioptres", "lower"),
    "within_half_a_spacing": Column("within half a spacing", "%", "higher", 1),
    "rms_share": Column("off its plane, rms / focus range", "%", "lower", 2),
    "robust_share": Column("off its plane, median / focus range", "%", "lower", 2),
    "bar_share": Column("error bar / focus range", "%", "", 2),
    "off_2_std": Column("off by 2 std", "%", "lower", 1),
    "size_change": Column("median depth changes with size", "%", "lower", 1),
    "size_alike": Column("regions alike at all sizes", "%", "higher", 1),
    "size_agreement": Column("pixels within 2 std at all sizes", "%", "higher", 1),
    "seam_ratio": Column("step at tiles' borders / elsewhere", "", "lower", 2),
    "pixels": Column("pixels", digits=0),
    "pictures": Column("pictures", digits=0),
}


@dataclass(frozen=True)
class Layout:
    """What of the rows is shown, and where.

    Args:
        columns: the metrics, in order; those not in COLUMNS are shown by their name. With `across`, one.
        sections: keys of rows; rows that agree in them stand together, and the best is the best of them.
        across: a key of rows whose values become the columns, for one metric.
        where: values that rows (anchors need not) must have to be shown.
        length_unit: of depths and their errors; the errors of a scaled protocol are not in metres.
        digits: after the point, by metric.
        source: whose figures the anchors are.
        caption: above the table.
    """

    columns: Sequence[str]
    sections: Sequence[str] = ("group",)
    across: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    length_unit: str = "m"
    digits: Mapping[str, int] = field(default_factory=dict)
    source: str = "the paper's figure"
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.columns or (self.across and len(self.columns) != 1):
            rule = "one metric" if self.across else "at least one metric"
            raise ValueError(f"columns of this table must be {rule}, but are {list(self.columns)}")


@dataclass(frozen=True)
class Cell:
    text: str
    mark: str = ""  # "best", "second" or "anchor"


@dataclass(frozen=True)
class Table:
    """Rows in sections, ready to be written; the first `labels` columns are words."""

    header: list[str]
    sections: list[list[list[Cell]]]
    labels: int
    caption: str = ""
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """A table of GitHub's Markdown: the best bold, the second underlined, what is not ours in italics."""
        marks = {"": "{}", "best": "**{}**", "second": "<ins>{}</ins>", "anchor": "*{}*"}
        rows = [
            [marks[cell.mark if cell.text else ""].format(markdown_text(cell.text)) for cell in row]
            for section in self.sections
            for row in section
        ]
        table = markdown_table([markdown_text(title) for title in self.header], rows)
        parts = [markdown_text(self.caption), table, "  \n".join(markdown_text(note) for note in self.notes)]
        return "\n\n".join(part for part in parts if part)

    def latex(self) -> str:
        """A tabular for the package booktabs, within a table where there is a caption."""
        marks = {"": "{}", "best": r"\textbf{{{}}}", "second": r"\underline{{{}}}", "anchor": r"\textit{{{}}}"}
        lines = [rf"\begin{{tabular}}{{{'l' * self.labels}{'r' * (len(self.header) - self.labels)}}}", r"\toprule"]
        lines.append(" & ".join(latex_text(title) for title in self.header) + r" \\")
        for section in self.sections:
            lines.append(r"\midrule")
            for row in section:
                cells = (marks[cell.mark if cell.text else ""].format(latex_text(cell.text)) for cell in row)
                lines.append(" & ".join(cells) + r" \\")
        lines.append(r"\bottomrule")
        lines += [rf"\multicolumn{{{len(self.header)}}}{{l}}{{{latex_text(note)}}} \\" for note in self.notes]
        lines.append(r"\end{tabular}")
        if self.caption:
            caption = rf"\caption{{{latex_text(self.caption)}}}"
            lines = [r"\begin{table}[tb]", r"\centering", caption, *lines, r"\end{table}"]
        return "\n".join(lines) + "\n"


def table_of(record: Mapping[str, Any]) -> Table:
    """The table that a result file describes."""
    described = record.get("table")
    if not isinstance(described, Mapping) or "columns" not in described:
        raise ValueError('the result has no "table" with "columns", so it does not say what to show')
    unknown = set(described) - {key.name for key in fields(Layout)}
    if unknown:
        raise ValueError(f"the table of the result has unknown settings: {', '.join(sorted(unknown))}")
    return results_table(record["rows"], Layout(**described), record.get("anchors", ()))


def results_table(rows: Iterable[Row], layout: Layout, anchors: Iterable[Row] = ()) -> Table:
    """Rows of method and metrics as a table; the best and the second are marked among ours.

    Anchors are figures that others published: in italics, with their `source` (or the layout's), never ranked.
    """
    known = [{**layout.where, **row} for row in anchors]
    measured, beside = (
        [row for row in part if all(row.get(key) == value for key, value in layout.where.items())]
        for part in (rows, known)
    )
    columns = {key: replace(_column(key, layout), title=_title(_column(key, layout), layout)) for key in layout.columns}
    heading = "method"
    if layout.across:
        metric, column = next(iter(columns.items()))
        heading = f"{column.title} by {layout.across}"
        values = dict.fromkeys(str(row[layout.across]) for row in measured)
        columns = {value: replace(column, title=value) for value in values}
        measured, beside = (_pivoted(part, layout, metric) for part in (measured, beside))
    names = dict.fromkeys(_section(row, layout) for row in [*measured, *beside])
    shown = [k for k in range(len(layout.sections)) if len({name[k] for name in names}) > 1]
    sections = []
    marks_of_notes: dict[str, str] = {}
    for name in names:
        ours, theirs = ([row for row in part if _section(row, layout) == name] for part in (measured, beside))
        body = [[Cell(str(row["method"]))] for row in ours]
        for row in theirs:
            body.append([Cell(f"{row['method']} ({row.get('source', layout.source)}, not ours)", "anchor")])
        for key, column in columns.items():
            texts = [_number(row.get(key), column) for row in ours]
            marks = _ranks([row.get(key) for row in ours], texts, column.better)
            spreads = [_spread(row, key, column, marks_of_notes) for row in ours]
            cells = [Cell(text + more, mark) for text, more, mark in zip(texts, spreads, marks, strict=True)]
            cells += [Cell(_number(row.get(key), column), "anchor") for row in theirs]
            for line, cell in zip(body, cells, strict=True):
                line.append(cell)
        for number, line in enumerate(body):
            line[:0] = [Cell(name[k] if number == 0 else "") for k in shown]
        sections.append(body)
    header = [*(layout.sections[k] for k in shown), heading, *(column.title for column in columns.values())]
    notes = [f"{mark} {note}" for note, mark in marks_of_notes.items()]
    return Table(header, sections, len(shown) + 1, layout.caption, notes)


def write_tables(record: Mapping[str, Any], result: Path) -> list[Path]:
    """The tables of a result file beside it: the same name with .md and .tex."""
    table = table_of(record)
    paths = [result.with_suffix(".md"), result.with_suffix(".tex")]
    for path, text in zip(paths, (table.markdown() + "\n", table.latex()), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _column(key: str, layout: Layout) -> Column:
    column = COLUMNS.get(key, Column(key))
    return replace(column, digits=layout.digits.get(key, column.digits))


def _title(column: Column, layout: Layout) -> str:
    """The name, its unit and the direction that is better."""
    unit = layout.length_unit if column.unit == LENGTH else column.unit
    arrow = {"lower": " ↓", "higher": " ↑"}.get(column.better, "")
    return f"{column.title} ({unit}){arrow}" if unit else column.title + arrow


def _section(row: Row, layout: Layout) -> tuple[str, ...]:
    return tuple(str(row.get(key, "")) for key in layout.sections)


def _pivoted(rows: Iterable[Row], layout: Layout, metric: str) -> list[Row]:
    """A row for each method of a section, with the metric under every value of `across`."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        kept = {key: row[key] for key in (*layout.sections, "method", "source") if key in row and key != layout.across}
        line, value = found.setdefault(tuple(kept.items()), kept), str(row[layout.across])
        line[value] = row.get(metric)
        line.setdefault("std", {})[value] = row.get("std", {}).get(metric)
        line.setdefault("note", {})[value] = row.get("note")
    return list(found.values())


def _spread(row: Row, key: str, column: Column, marks: dict[str, str]) -> str:
    """What follows a figure: its spread over runs; in place of one that cannot be, a dash and its note's mark."""
    note = row.get("note")
    note = note.get(key) if isinstance(note, Mapping) else note
    if note and row.get(key) is None:
        return "–" + marks.setdefault(note, "".join(RAISED[int(digit)] for digit in str(len(marks) + 1)))
    std = row.get("std", {}).get(key)
    return "" if std is None else f" ± {_number(std, column)}"


def _number(value: float | str | None, column: Column) -> str:
    if value is None:
        return ""
    value = float(value)  # a result file has "inf" and "nan" as words
    if not math.isfinite(value):
        return "∞" if value == math.inf else "–"
    return f"{100 * value if column.unit == '%' else value:.{column.digits}f}"


def _ranks(values: Sequence[float | str | None], texts: Sequence[str], better: str) -> list[str]:
    """ "best" and "second" of at least two; what is printed alike ranks alike."""
    ranked = sorted(
        (float(value) if better == "lower" else -float(value), text)
        for value, text in zip(values, texts, strict=True)
        if value is not None and math.isfinite(float(value))
    )
    if not better or len(ranked) < 2:
        return [""] * len(texts)
    places = dict(zip(dict.fromkeys(text for _, text in ranked), ("best", "second"), strict=False))
    return [places.get(text, "") for text in texts]


def markdown_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells that are Markdown already, as a table."""
    names = list(header)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_text(words: str) -> str:
    """Plain words that Markdown shows as they are, also within a table."""
    escaped = "".join("\\" + letter if letter in "\\|*_`[]" else letter for letter in words)
    return " ".join(escaped.replace("&", "&amp;").replace("<", "&lt;").split())


RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    **{letter: f"{{{letter}}}" for letter in "[]*"},  # which a line break before them would take as its own
    "<": "$<$", ">": "$>$", "|": "$|$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "∞": r"$\infty$", "×": r"$\times$",
    "±": r"$\pm$", "·": r"$\cdot$", "≤": r"$\le$", "≥": r"$\ge$", "°": r"$^\circ$",
    **{letter: f"$^{digit}$" for digit, letter in enumerate(RAISED)},
    "δ": r"$\delta$", "σ": r"$\sigma$", "µ": r"$\mu$", "μ": r"$\mu$", "λ": r"$\lambda$", "–": "--", "—": "---",
}  # fmt: skip


def latex_text(words: str) -> str:
    """Plain words that LaTeX prints as they are; letters beyond these need a font that has them."""
    return "".join(LATEX.get(letter, letter) for letter in " ".join(words.split()))
