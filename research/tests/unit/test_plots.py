"""The paper's figures: what they are drawn from, and that the command draws them."""

import io
import sys
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep.cli import main as command_line
from focalsweep.model.papernet import PaperNet
from focalsweep.results.writing import json_bytes
from focalsweep_research.drawing import plots
from focalsweep_research.drawing.plots import (
    gathered_from,
    plot_costs,
    plot_depth,
    plot_factor,
    plot_neighbours,
    plot_offsets,
    plot_training,
)
from focalsweep_research.metrics.bands import BandErrors
from tests.demo import demo_stack
from tests.errors import assert_one_sentence, message_of


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that were saved."""
    drawn: list[Any] = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))[1]
    )
    return drawn


def part() -> tuple[Any, Any]:
    top, left = 100, 150
    demo = demo_stack()
    return demo.stack.cropped(top, left, 64, 64), demo.depth[top : top + 64, left : left + 64].float().numpy()


def is_picture(png: bytes) -> bool:
    return float(np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).std()) > 10


def test_errors_by_depth_by_hand() -> None:
    """Two bands, the second with all that lies beyond it; a pixel without truth counts nowhere."""
    truth = torch.tensor([[0.5, 1.0, 5.0, 0.0]])
    bands = BandErrors((0.0, 1.0, 2.0)) + BandErrors((0.0, 1.0, 2.0))
    bands.add("a", torch.tensor([[0.4, 1.5, 4.0, 9.0]]), truth)
    near, far = (bands + bands).rows()
    assert (near["near"], near["far"], near["pixels"]) == (0, 1, 2) and near["mae"] == pytest.approx(0.1)
    assert far["pixels"] == 4 and far["mae"] == pytest.approx(0.75)
    assert far["rmse"] == pytest.approx((1.25 / 2) ** 0.5) and far["abs_rel"] == pytest.approx(0.35)


def test_lines_have_the_figures_of_the_result(figures: list[Any]) -> None:
    rows = [
        {"method": "a", "near": 0.0, "far": 1.0, "abs_rel": 0.1, "std": {"abs_rel": 0.01}},
        {"method": "a", "near": 1.0, "far": 2.0, "abs_rel": 0.3, "std": {"abs_rel": 0.02}},
        {"method": "b", "near": 0.0, "far": 1.0, "abs_rel": None, "note": "reads 5 frames"},
    ]
    assert is_picture(plot_depth({"by_depth": rows}))
    (axes,) = figures[0].axes
    assert axes.lines[0].get_xdata().tolist() == [0.5, 1.5] and axes.lines[0].get_ydata().tolist() == [0.1, 0.3]
    assert axes.get_ylim()[0] == 0
    assert_one_sentence(message_of(lambda: plot_depth({"rows": []}), ValueError), "another protocol")


def test_what_a_protocol_asks_of_planes_changes_no_colour(figures: list[Any]) -> None:
    names = ("paper", "paper:range=0.1-3,spacing=depth,size=full", "argmin", "argmin:cost=paper,range=0.1-3", "argmin")
    rows = [{"method": name, "factor": "jpeg", "level": level, "abs_rel": 0.1} for name in names for level in (9, 5)]
    assert is_picture(plot_factor({"rows": rows}, "jpeg"))
    colours = {bars.get_label(): bars.lines[0].get_color() for bars in figures[0].axes[0].containers}
    assert set(colours) == {
        "paper", "paper:range=0.1-3,\nspacing=depth,\nsize=full", "argmin", "argmin:cost=paper,\nrange=0.1-3",
    }  # fmt: skip
    paper, longer = (colour for label, colour in colours.items() if label.startswith("paper"))
    assert paper == longer and len(set(colours.values())) == 3  # another cost is another method


def test_a_method_has_its_colour_in_every_figure(figures: list[Any]) -> None:
    def rows(*methods: str) -> list[dict[str, Any]]:
        return [
            {"method": name, "factor": "jpeg", "level": level, "abs_rel": 0.1} for name in methods for level in (9, 5)
        ]

    for methods in (("mine", "DefocusNet", "sweep"), ("sweep", "DefocusNet (n=3)", "argmin")):
        assert is_picture(plot_factor({"rows": rows(*methods)}, "jpeg"))
    first, second = (
        {bars.get_label(): bars.lines[0].get_color() for bars in drawn.axes[0].containers} for drawn in figures
    )
    assert list(first) == ["sweep", "DefocusNet", "mine"] and list(second) == ["sweep", "argmin", "DefocusNet (n=3)"]
    assert first["sweep"] == second["sweep"] and first["DefocusNet"] == second["DefocusNet (n=3)"]
    assert len(set(second.values())) == 3
    assert figures[0].axes[0].get_xlim()[0] > figures[0].axes[0].get_xlim()[1]  # the worse JPEG to the right


def test_curves_of_trainings_by_hand(figures: list[Any]) -> None:
    lines = [
        {"step": 50, "loss": 1.0, "figures": {"abs_rel": 0.4}},
        {"step": 100, "loss": 1.0, "figures": {"abs_rel": None}},
        {"step": 100, "seconds": 1.0, "validation": {"loss": 1.0, "abs_rel": 0.3}},
    ]
    assert is_picture(plot_training({"mine": lines}))
    seen, kept = figures[0].axes[0].lines
    assert (list(seen.get_xdata()), list(seen.get_ydata())) == ([50], [0.4])
    assert (list(kept.get_xdata()), list(kept.get_ydata()), kept.get_label()) == ([100], [0.3], "mine")


def test_curves_are_drawn_from_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: list[Any]) -> None:
    logs = [tmp_path / "mine" / "log.jsonl", tmp_path / "other.jsonl"]
    logs[0].parent.mkdir()
    for path in logs:
        path.write_text('{"step": 50, "figures": {"abs_rel": 0.4}}\n{"step": 50, "validation": {"abs_rel": 0.3}}\n')
    source = f"{logs[0].parent},{logs[1]},third={logs[0]}"
    words = ["focalsweep", "figure", "training", source, "-o", str(tmp_path / "curves.png")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match=r"^0$"):
        command_line.main()
    assert is_picture((tmp_path / "curves.png").read_bytes())
    labels = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert labels == ["mine", "other", "third"]


def test_logs_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"step": 50, "figures": {"abs_rel": 0.4}}\n')
    words = ["focalsweep", "figure", "training", f"{path},{path}", "-o", str(tmp_path / "a.png")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match=r"^2$"):
        command_line.main()
    assert_one_sentence(" ".join(capsys.readouterr().err.split()), "two of the logs are called mine")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"step": 5, "figures": {"loss": 1}}'])
def test_what_is_no_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", ["focalsweep", "figure", "training", str(path), "-o", str(tmp_path / "a.png")])
    with pytest.raises(SystemExit, match=r"^2$"):
        command_line.main()
    assert_one_sentence(" ".join(capsys.readouterr().err.split()), "log.jsonl of a run")


def test_costs_of_pixels_have_the_truth_beside(figures: list[Any]) -> None:
    stack, truth = part()
    assert is_picture(plot_costs(stack, [(20, 30)], truth))
    _, *curves = figures[0].axes
    assert len(curves) == 3
    for axes in curves:
        assert axes.lines[1].get_xdata()[0] == pytest.approx(1 / truth[20, 30])
    ours = curves[2].lines[0]
    lowest = ours.get_xdata()[int(np.argmin(ours.get_ydata()))]
    assert lowest == pytest.approx(1 / truth[20, 30], rel=0.05)
    for place in [(64, 0), (0, -1)]:
        words = message_of(lambda place=place: plot_costs(stack, [place]), ValueError)  # type: ignore[misc]
        assert_one_sentence(words, "64 x 64 px")


def test_neighbours() -> None:
    assert is_picture(plot_neighbours(*part()))


def test_offsets_are_those_that_the_network_gives(figures: list[Any]) -> None:
    torch.manual_seed(0)
    network = PaperNet(encoder_channels=(8, 8, 8, 8, 8), refine_channels=(8, 8, 8)).eval()
    with torch.no_grad():
        network.refine_1.offsets.bias.copy_(torch.arange(18.0))
    stack, _ = part()
    assert is_picture(plot_offsets(network, stack, [(20, 30)]))
    _, quarter, half, full = figures[0].axes
    rest, moved = (circles.get_offsets() for circles in full.collections)
    assert sorted(set(rest[:, 0].tolist())) == [28, 30, 32] and sorted(set(rest[:, 1].tolist())) == [18, 20, 22]
    np.testing.assert_allclose(moved[0], [28 + 1, 18 + 0])  # column, row: the second channel moves the column
    np.testing.assert_allclose(moved[4], [30, 20])  # the centre stays
    np.testing.assert_allclose(moved[8], [32 + 17, 22 + 16])
    for axes, scale in ((quarter, 4), (half, 2)):  # in pixels of the full size, around the block that the pixel is in
        rest, moved = (circles.get_offsets() for circles in axes.collections)
        np.testing.assert_allclose(rest, moved)
        np.testing.assert_allclose(rest[4], [30 // scale * scale + (scale - 1) / 2, 20 + (scale - 1) / 2])
        np.testing.assert_allclose(rest[8] - rest[4], 2 * scale)
    assert not network.refine_1.offsets._forward_hooks


def test_neighbours_go_row_by_row() -> None:
    assert gathered_from((5, 9), torch.zeros(9, 2))[:4].tolist() == [[3, 7], [3, 9], [3, 11], [5, 7]]


def figure(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["focalsweep", "figure", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        command_line.main()
    return int(stopped.value.code or 0)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"method": "a", "group": f"F={n}", "frames": str(n), "noise": "both", "abs_rel": 0.1 / n} for n in (2, 3)]
    (tmp_path / "size.json").write_bytes(json_bytes({"rows": rows}))
    assert figure(monkeypatch, "stack-size", tmp_path / "size.json", "-o", tmp_path / "new" / "size.png") == 0
    assert is_picture((tmp_path / "new" / "size.png").read_bytes())
    (tmp_path / "list.json").write_text("[1]")
    monkeypatch.setattr(plots, "plot_costs", lambda stack, pixels, truth: repr((pixels, truth.shape)).encode())
    assert figure(monkeypatch, "costs", "demo", "-o", tmp_path / "costs.png", "--pixel", "3,4") == 0
    assert (tmp_path / "costs.png").read_bytes() == b"([(3, 4)], (288, 384))"
    capsys.readouterr()
    for arguments, words in (
        (["magic", "demo"], ("'magic'", "offsets")),
        (["depth", "none.json"], ("none.json", "evaluate")),
        (["depth", str(tmp_path / "new" / "size.png")], ("size.png", "evaluate")),
        (["confidence", str(tmp_path / "list.json")], ("list.json", "evaluate")),
        (["robustness", str(tmp_path / "size.json")], ("size.json", "flaws", "another protocol")),
        (["depth", str(tmp_path / "size.json")], ("size.json", "by depth", "another protocol")),
        (["costs", "demo", "--pixel", "3"], ("--pixel", "ROW,COLUMN")),
    ):
        assert figure(monkeypatch, *arguments, "-o", tmp_path / "x.png") == 2
        assert not (tmp_path / "x.png").exists()
        assert_one_sentence(capsys.readouterr().err.strip().removeprefix("focalsweep: "), *words)
