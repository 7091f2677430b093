"""Documents show what the result files say: nobody types a figure."""

import re
import shlex
from pathlib import Path

import pytest

from focalsweep.methods.registry import choose_method
from focalsweep_research.cli.evaluate import read_names
from focalsweep_research.protocols.run import ON_GENERATED, ON_STACKS, OTHERS
from focalsweep_research.tables.paper_report import FIGURES, PAPER, PENDING, drawing
from focalsweep_research.tables.records import NEW, read_records, result_file
from focalsweep_research.tables.report import DOCUMENTS, fill

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text()
    assert fill(text, read_records(ROOT), ROOT) == text, "run python -m focalsweep_research.tables.report"


def test_a_stale_table_is_noticed() -> None:
    records = read_records(ROOT)
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


def test_what_is_still_to_be_run_says_how() -> None:
    text = fill("<!-- table nyu-trained -->\n<!-- end -->", {})
    assert "*Not run yet:* `focalsweep evaluate nyu-trained --data NYU " in text
    assert f"-o {NEW}/nyu-trained.json`" in text
    for name in ("in-domain", "ratios", "robustness", "papernet-packed"):
        assert "*Not run yet:*" in fill(f"<!-- table {name} --><!-- end -->", {})


@pytest.mark.parametrize("name", PENDING)
def test_commands_of_what_is_to_be_run_are_understood(name: str) -> None:
    """Protocols, methods and options exist; runs are named so that tables find them."""
    words = shlex.split(PENDING[name])
    assert words[0] == "evaluate" and words[1] in {**ON_GENERATED, **ON_STACKS, **OTHERS}
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert set(options) <= {"--data", "--methods", "--run", "--device"}
    asked = read_names(options.get("--methods", "sweep"))
    assert asked and all(choose_method(name).label == name for name in asked)
    configs = {path.stem for path in (ROOT / "research" / "configs").glob("*.toml")}
    runs = [word for option, word in zip(words[2::2], words[3::2], strict=True) if option == "--run"]
    for folder in (run.split("=")[1] for run in runs):
        assert folder.removeprefix("runs/") in configs, folder


def test_figures_that_are_not_drawn_say_how(tmp_path: Path) -> None:
    anchor = "<!-- figure stack_size: Error by frames -->\nold\n<!-- end -->"
    assert f"focalsweep figure stack-size {NEW}/stack-size.json -o docs/stack_size.png" in fill(anchor, {}, tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "stack_size.png").write_bytes(b"")
    shown = fill(anchor, {}, tmp_path)
    assert "\n![Error by frames](stack_size.png)\n" in shown and fill(shown, {}, tmp_path) == shown
    with pytest.raises(ValueError, match="'nothing'"):
        fill("<!-- figure nothing: a --><!-- end -->", {}, tmp_path)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn_from_files_that_are_there(name: str) -> None:
    files = re.findall(r"[\w./-]+\.jsonl?", drawing(name, ROOT))
    assert files or FIGURES[name].endswith(" demo")
    assert all((ROOT / file).is_file() for file in files), files


def test_the_latest_version_has_a_result(tmp_path: Path) -> None:
    for version, value in (("0.2", 2), ("0.10", 10), ("0.1", 1)):
        (tmp_path / "research/results" / version).mkdir(parents=True)
        (tmp_path / "research/results" / version / "a.json").write_text(f'{{"rows": {value}}}')
    (tmp_path / "benchmarks/results/0.1").mkdir(parents=True)
    (tmp_path / "benchmarks/results/0.1/b.json").write_text('{"rows": 3}')
    assert read_records(tmp_path) == {"a": {"rows": 10}, "b": {"rows": 3}}
    assert result_file("a.json", tmp_path) == "research/results/0.10/a.json"
    assert result_file("b.json", tmp_path) == "benchmarks/results/0.1/b.json"
    assert result_file("none.json", tmp_path) == f"{NEW}/none.json"


def test_every_result_is_shown_or_spoken_of() -> None:
    """What feeds no table, no figure and no sentence is not kept."""
    spoken = "".join((ROOT / name).read_text() for name in (*DOCUMENTS, "docs/web.md"))
    code = "".join(path.read_text() for path in (ROOT / "research/focalsweep_research/tables").glob("*report.py"))
    shown = set(re.findall(r"<!-- table ([\w-]+) -->", spoken)) | set(re.findall(r'records\["([\w-]+)"\]', code))
    shown |= set(re.findall(r'"(speed-\w+)"', code)) | set(re.findall(r"\{([\w-]+)\.json\}", code))
    kept = {path.stem for folder in ("research", "benchmarks") for path in (ROOT / folder / "results").glob("*/*.json")}
    assert not {name for name in kept - shown if f"{name}.json" not in spoken}


def test_rows_of_results_are_named_by_what_asks_for_them() -> None:
    """Of every row that no training run made; what a version measured otherwise says so."""
    for name, record in read_records(ROOT).items():
        rows = record.get("rows", []) if "protocol" in record else []
        runs = {*record.get("trained", {}), *record.get("groups", {})}
        for row in {row["method"] for row in rows} - runs:
            if " of version " not in row:
                assert choose_method(row).label == row, name


def test_ratios_to_defocusnet_by_hand() -> None:
    rows = [
        {"method": PAPER, "group": "all", "rescaling": "raw", "rmse": 0.2},
        {"method": "SweepNet (n=3)", "group": "all", "rescaling": "raw", "rmse": 0.1},
        {"method": "SweepNet, other", "group": "all", "rescaling": "raw", "rmse": 9.0},
        {"method": "DefocusNet", "group": "all", "rescaling": "raw", "rmse": 0.8},
        {"method": PAPER, "group": "all", "rescaling": "median", "rmse": 0.1},
        {"method": "DefocusNet", "group": "all", "rescaling": "median", "rmse": None, "note": "x"},
    ]
    lines = fill("<!-- table ratios -->\n<!-- end -->", {"nyu": {"rows": rows}}).splitlines()
    assert lines[3] == "| nyu, raw | 0.25 | 0.12 |  | *0.30* |"
    assert lines[4] == "| nyu, median |  |  |  | *0.44* |"


def test_robustness_has_a_table_for_each_factor() -> None:
    rows = [
        {"factor": factor, "level": level, "method": method, "abs_rel": 0.1}
        for factor, levels in (("noise", (0.0, 0.01)), ("psf", ("disk", "hexagon")))
        for level in levels
        for method in ("a", "b")
    ]
    text = fill("<!-- table robustness -->\n<!-- end -->", {"robustness": {"rows": rows, "table": {}}})
    assert "| AbsRel ↓ by level | 0.0 | 0.01 |" in text and "| AbsRel ↓ by level | disk | hexagon |" in text
    assert "Noise, std of linear light:" in text


def test_in_domain_has_the_error_up_to_the_farthest_focus() -> None:
    """Two bands up to 1.5 m: sqrt((3 * 0.1^2 + 1 * 0.5^2) / 4)."""
    bands = [(0.0, 1.0, 3, 0.1), (1.0, 1.5, 1, 0.5), (1.5, 2.0, 7, 9.0)]
    record = {
        "rows": [{"method": "a", "scale": "1", "rescaling": "raw", "group": "all", "rmse": 0.2}],
        "by_depth": [{"method": "a", "near": n, "far": f, "pixels": p, "rmse": r} for n, f, p, r in bands],
    }
    lines = fill("<!-- table in-domain -->\n<!-- end -->", {"defocusnet": record}).splitlines()
    assert lines[1].split(" | ")[-1] == "RMSE up to the farthest focus (m) ↓ |"
    assert "0.265" in lines[3].split(" | ")[-1]


def test_in_domain_is_the_first_scale() -> None:
    rows = [
        {"method": "a", "group": "all", "rescaling": how, "scale": scale, "rmse": value}
        for how, scale, value in (("raw", "1", 0.111), ("raw", "3", 0.333), ("median", "1", 0.444))
    ]
    text = fill("<!-- table in-domain -->\n<!-- end -->", {"defocusnet": {"rows": rows}})
    assert "0.111" in text and "0.333" not in text and "0.444" not in text and "*0.156*" in text


def test_what_packing_costs() -> None:
    rmse = {"full precision": {"1": 0.2, "3": 0.3}, "8 bits": {"1": 0.21, "3": 0.31}}
    text = fill("<!-- table papernet-packed --><!-- end -->", {"papernet-packed": {"file_bytes": 2**20, "rmse": rmse}})
    assert "| 8 bits | 0.2100 | 0.3100 |" in text and "1.0 MiB" in text
    record = {"file_bytes": 2**20, "mean_relative_difference": 0.012}
    assert "1.20%" in fill("<!-- table papernet-packed --><!-- end -->", {"papernet-packed": record})
