"""Protocols on datasets: what is counted, what methods are shown, and the tables that come of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from research.tests.unit.datasets.test_defocusnet import codes, true_depth, write_exr
from research.tests.unit.datasets.test_nyu import picture, write_folder

from focalsweep import DepthGrid, FocalStack, linear_to_srgb
from focalsweep_research.datasets.nyu import AS_CARVALHO, Nyu
from focalsweep_research.drawing import comparison as figures
from focalsweep_research.drawing.comparison import Scene
from focalsweep_research.protocols import stacks
from focalsweep_research.protocols.methods import Compared, compared
from focalsweep_research.protocols.run import ON_STACKS
from focalsweep_research.rivals.answer import FrameCountError
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.tables.tables import table_of

CPU = torch.device("cpu")
PLANES = DepthGrid.uniform_in_inverse_depth(0.1, 3.0, 8)


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    folder = tmp_path / "test"
    folder.mkdir()
    for stack in range(2):
        for frame in range(5):
            tifffile.imwrite(folder / f"{stack:06d}_{frame:02d}All.tif", codes(stack, frame), photometric="rgb")
        write_exr(folder / f"{stack:06d}Dpt.exr", true_depth(stack))
    return tmp_path


@pytest.fixture
def nyu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stacks, "CROPS", ((2, 3), (5, 9)))
    monkeypatch.setattr(stacks, "CROP_PX", 12)
    for number in (3, 8):
        steps = np.random.default_rng(number).integers(20, 250, (24, 32)).astype(np.uint8)
        write_folder(tmp_path / "nyu", number, picture(number), steps)
    return tmp_path / "nyu"


@dataclass(frozen=True, eq=False)
class Told(Compared):
    """A method that is told the truth, on planes of its own."""

    look: Callable[[Sample], torch.Tensor] = lambda sample: sample.depth

    def planes(self, stack: FocalStack) -> DepthGrid:
        return PLANES

    def read(self, sample: Sample) -> torch.Tensor:
        return self.look(sample)


def told(look: Callable[[Sample], torch.Tensor], displayed: bool = False) -> Told:
    return Told(compared("argmin").choice, displayed, look=look)


def times(factor: float) -> Told:
    """A method that knows the truth and errs by a factor."""
    return told(lambda sample: sample.depth * factor)


def quiet(_: str) -> None:
    pass


def test_a_known_error_at_every_scale(benchmark: Path) -> None:
    record = stacks.evaluate_defocusnet({"low": times(0.9), "right": times(1.0)}, benchmark, CPU, quiet)
    assert record["stacks"] == 2
    assert {row["scale"] for row in record["rows"]} == {"1", "3", "5", "7", "9"}
    for row in record["rows"]:
        wrong = row["method"] == "low" and row["rescaling"] == "raw"
        assert row["abs_rel"] == pytest.approx(0.1 if wrong else 0, abs=1e-5)
    depths = [np.minimum(true_depth(i).astype(np.float64), 3) for i in range(2)]
    inside = [np.minimum(3, 3 * d[3 * d <= 3.03]) for d in depths]  # what lies beyond does not count
    assert all(0 < len(one) < d.size for one, d in zip(inside, depths, strict=True))
    expected = np.mean([np.sqrt(np.mean(one**2)) * 0.1 for one in inside])
    (row,) = [r for r in record["rows"] if (r["method"], r["scale"], r["rescaling"]) == ("low", "3", "raw")]
    assert row["rmse"] == pytest.approx(expected, rel=1e-4)


def test_estimates_end_with_the_truth_after_they_were_rescaled(benchmark: Path, nyu: Path) -> None:
    """Cut before, what lies beyond 3 m by a wrong scale alone could not come back."""
    for evaluate, folder in ((stacks.evaluate_defocusnet, benchmark), (stacks.evaluate_nyu, nyu)):
        rows = evaluate({"double": times(2.0)}, folder, CPU, quiet)["rows"]
        assert all(row["abs_rel"] < 1e-5 for row in rows if row["rescaling"] == "median")
        assert all(0.1 < row["abs_rel"] < 1 - 1e-3 for row in rows if row["rescaling"] == "raw")  # some are cut


def test_scaled_stacks_keep_their_blur(benchmark: Path) -> None:
    seen = []

    def read(sample: Sample) -> torch.Tensor:
        seen.append(sample.stack)
        return sample.depth

    stacks.evaluate_defocusnet({"eye": told(read)}, benchmark, CPU, quiet)
    first, third = seen[0], seen[1]
    assert torch.allclose(third.focus_distances, 3 * first.focus_distances)
    assert third.images.equal(first.images)


def test_the_split_shows_the_two_other_frames(benchmark: Path) -> None:
    seen = []

    def read(sample: Sample) -> torch.Tensor:
        seen.append(sample.stack.focus_distances.tolist())
        return sample.depth

    record = stacks.evaluate_focus_split({"eye": told(read)}, benchmark, CPU, quiet)
    assert seen == [[[0.15, 0.7]], [[0.15, 0.7]]]
    assert record["rows"][0]["rmse"] == 0


def test_estimates_end_where_the_dataset_does(benchmark: Path) -> None:
    record = stacks.evaluate_focus_split({"far": times(100.0)}, benchmark, CPU, quiet)
    depths = [np.minimum(true_depth(i).astype(np.float64), 3) for i in range(2)]
    assert record["rows"][0]["mae"] == pytest.approx(np.mean([np.mean(3 - d) for d in depths]), rel=1e-4)


def test_nyu_counts_windows_raw_and_rescaled(nyu: Path) -> None:
    record = stacks.evaluate_nyu({"half": times(0.5)}, nyu, CPU, quiet)
    rows = {row["rescaling"]: row for row in record["rows"]}
    assert rows["raw"]["pictures"] == 4
    assert rows["raw"]["abs_rel"] == pytest.approx(0.5)
    assert rows["median"]["abs_rel"] == pytest.approx(0, abs=1e-6)
    assert rows["raw"]["sc_inv"] == pytest.approx(0, abs=1e-4)


def test_nyu_may_be_blurred_as_carvalho_did(nyu: Path) -> None:
    seen: list[torch.Tensor] = []

    def look(sample: Sample) -> torch.Tensor:
        seen.append(sample.stack.images)
        return sample.depth

    methods = {"look": told(look)}
    for protocol, psf in (("nyu", "disk"), ("nyu-gaussian", "Gaussian(k=0.3)")):
        record = ON_STACKS[protocol](methods, nyu, CPU, quiet)
        assert record["protocol"] == protocol and record["psf"] == psf
    disks, gaussians = seen[:2], seen[2:]
    assert all(not torch.equal(one, other) for one, other in zip(disks, gaussians, strict=True))
    assert Nyu(nyu, setup=AS_CARVALHO)[0].stack.images.allclose(gaussians[0])


def test_methods_for_displayed_values_see_the_codes(nyu: Path) -> None:
    seen: dict[str, torch.Tensor] = {}

    def eye(name: str, displayed: bool) -> Told:
        def read(sample: Sample) -> torch.Tensor:
            seen.setdefault(name, sample.stack.images)
            return sample.depth

        return told(read, displayed)

    stacks.evaluate_nyu({"light": eye("light", False), "codes": eye("codes", True)}, nyu, CPU, quiet)
    assert torch.allclose(linear_to_srgb(seen["codes"]), seen["light"], atol=1e-5)
    assert not torch.allclose(seen["codes"], seen["light"], atol=0.01)


def test_windows_are_read_by_methods_that_can(nyu: Path) -> None:
    def read_windows(sample: Sample, windows: object, size: int) -> torch.Tensor:
        assert windows == ((2, 3), (5, 9)) and size == 12
        return torch.stack([sample.depth[0, top : top + 12, left : left + 12] for top, left in windows])  # type: ignore[attr-defined]

    method = replace(times(0.1), read_windows=read_windows)
    record = stacks.evaluate_nyu({"windows": method}, nyu, CPU, quiet)
    assert record["rows"][0]["mae"] == 0


def test_a_share_is_spread_over_all(nyu: Path) -> None:
    assert stacks.evaluate_nyu({"right": times(1.0)}, nyu, CPU, quiet, share=0.5)["pictures"] == 1


def test_tables_show_the_papers_figures_beside(benchmark: Path, nyu: Path) -> None:
    methods = {"a": times(1.1), "b": times(1.2)}
    for record, shown in (
        (stacks.evaluate_defocusnet(methods, benchmark, CPU, quiet), ("0.239", "0.403")),
        (stacks.evaluate_focus_split(methods, benchmark, CPU, quiet), ("0.242", "0.299")),
        (stacks.evaluate_nyu(methods, nyu, CPU, quiet), ("0.186", "0.029", "1/0.3 m")),
    ):
        text = table_of(record).markdown()
        assert all(figure in text for figure in shown)
        assert "not ours" in text and table_of(record).latex().startswith("\\begin{tabular}")


def test_a_method_of_a_fixed_number_of_frames_has_dashes(benchmark: Path, nyu: Path) -> None:
    def five(sample: Sample) -> torch.Tensor:
        if sample.stack.frame_count != 5:
            raise FrameCountError("give 5", note="reads stacks of 5 frames alone")
        return sample.depth

    methods = {"five": told(five), "b": times(1.2)}
    for record in (
        stacks.evaluate_focus_split(methods, benchmark, CPU, quiet),
        stacks.evaluate_nyu(methods, nyu, CPU, quiet),
    ):
        rows = [row for row in record["rows"] if row["method"] == "five"]
        assert rows and all(row["rmse"] is None and row["note"] for row in rows)
        text = table_of(record).markdown()
        assert "five | –¹ |" in text and text.endswith("¹ reads stacks of 5 frames alone")
        assert r"five & --$^1$" in table_of(record).latex()
    record = stacks.evaluate_defocusnet(methods, benchmark, CPU, quiet)
    assert "–" not in table_of(record).markdown()


def test_depth_maps_of_the_first_stacks_are_drawn(
    benchmark: Path, nyu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[Scene]] = []
    draw = figures.comparison

    def remember(scenes: list[Scene]) -> bytes:
        drawn.append(scenes)
        return draw(scenes)

    monkeypatch.setattr(figures, "comparison", remember)
    monkeypatch.setattr(stacks, "SHOWN", 1)

    def two(sample: Sample) -> torch.Tensor:
        raise FrameCountError("reads 2 frames")

    methods = {"low": times(0.9), "two": told(two)}
    for evaluate, frame in ((stacks.evaluate_defocusnet, 4), (stacks.evaluate_focus_split, 3)):
        evaluate(methods, benchmark, CPU, quiet, pictures=tmp_path / str(frame))
        with Image.open(tmp_path / str(frame) / "depths.png") as png:
            assert png.width > 500
        (scene,) = drawn.pop()
        truth = np.minimum(true_depth(0).astype(np.float32), 3)
        assert list(scene.depths) == ["low"] and np.array_equal(scene.truth, truth)  # type: ignore[arg-type]
        np.testing.assert_allclose(scene.depths["low"], 0.9 * truth, rtol=1e-6)
        light = linear_to_srgb(torch.from_numpy(scene.frames["Focused farthest"]))
        np.testing.assert_allclose(light, codes(0, frame) / 255, atol=1e-5)
    stacks.evaluate_nyu(methods, nyu, CPU, quiet, pictures=tmp_path / "nyu-pictures")
    (scene,) = drawn.pop()
    steps = np.random.default_rng(3).integers(20, 250, (24, 32))
    np.testing.assert_allclose(scene.truth, 0.3 * (steps[5:17, 9:21] + 0.5) / 25.5, rtol=1e-5)  # type: ignore[arg-type]
    np.testing.assert_allclose(scene.depths["low"], 0.9 * np.asarray(scene.truth), rtol=1e-5)
    stacks.evaluate_focus_split({"two": methods["two"]}, benchmark, CPU, quiet, pictures=tmp_path / "none")
    assert not (tmp_path / "none").exists()
