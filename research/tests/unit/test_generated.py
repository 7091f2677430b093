"""The protocols on generated scenes, in miniature: known readers get the errors they deserve, on the right pixels."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from focalsweep_research.protocols import distributed as shares
from focalsweep_research.protocols import generated
from focalsweep_research.protocols.generated import CAMERAS, batch_of, evaluate_cameras, evaluate_generator
from focalsweep_research.rivals.answer import FrameCountError
from focalsweep_research.synthesis.generator import make_source
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.tables.tables import table_of
from focalsweep_research.training.objectives import DEPTH_END

CPU = torch.device("cpu")
SIZE, STACKS = 24, 4
TINY = GeneratorConfig(
    size=SIZE, planes=8, rays=4, textures=4, solids=5, far_share=(0.3, 0.7), held_out=True, seed=generated.SEED
)
EXACT: Callable[[Sample], Tensor] = lambda sample: sample.depth  # noqa: E731


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DATA": TINY, "FRAMES": (2, 3), "STACKS": STACKS, "BATCH": 2, "CAMERA_SCENES": 2}.items():
        monkeypatch.setattr(generated, name, value)


def silent(_: str) -> None: ...


def rows_of(result: dict[str, Any], method: str) -> dict[str, dict[str, Any]]:
    return {row["group"]: row for row in result["rows"] if row["method"] == method}


def test_known_readers_and_their_groups() -> None:
    readers = {"exact": EXACT, "too far": lambda sample: 1.1 * sample.depth}
    said: list[str] = []
    result = evaluate_generator(readers, "", CPU, said.append)
    assert result["stacks"] == STACKS * 4 and said == [f"{number} of 8" for number in range(1, 9)]
    for row in rows_of(result, "exact").values():
        if row["pixels"]:
            assert row["mae"] == row["rmse"] == row["abs_rel"] == 0 and row["delta_1.05"] == 1
    rows = rows_of(result, "too far")
    for row in rows.values():
        if row["pixels"]:
            assert row["abs_rel"] == pytest.approx(0.1, rel=1e-5) and row["delta_1.05"] == 0
    # Every way to split the pixels has all of them, once.
    everything = STACKS * 4 * SIZE**2
    assert rows["all"]["pixels"] == everything
    for start, count in {"blur ": 3, "texture ": 3, "noise ": 2, "F=": 2}.items():
        parts = [row["pixels"] for group, row in rows.items() if group.startswith(start) and "," not in group]
        assert len(parts) == count and sum(parts) == everything
    crossed = [row["pixels"] for group, row in rows.items() if group.startswith("F=") and "," in group]
    assert crossed == [everything / 4] * 4
    for start in ("blur ", "texture "):  # and the split is one
        assert sum(row["pixels"] > 0 for group, row in rows.items() if group.startswith(start)) >= 2


def test_no_two_groups_share_a_scene() -> None:
    seen: list[tuple[int, bytes]] = []

    def remember(sample: Sample) -> Tensor:
        seen.extend((sample.stack.frame_count, depth.numpy().tobytes()) for depth in sample.depth)
        return sample.depth

    evaluate_generator({"remember": remember}, "", CPU, silent)
    assert len(seen) == STACKS * 4
    assert len({scene for _, scene in seen}) == len(seen)
    assert {frames for frames, _ in seen} == {2, 3}


def test_all_methods_see_the_same_stacks() -> None:
    seen: dict[str, list[Tensor]] = {"first": [], "second": []}

    def reader(name: str) -> Callable[[Sample], Tensor]:
        def read(sample: Sample) -> Tensor:
            seen[name].append(sample.stack.images.clone())
            return sample.depth

        return read

    evaluate_generator({name: reader(name) for name in seen}, "", CPU, silent)
    assert len(seen["first"]) == STACKS * 4 / 2
    assert all(torch.equal(a, b) for a, b in zip(*seen.values(), strict=True))


def test_beyond_the_farthest_counts_as_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the range, infinity and everything between are one answer; a nearer one is wrong."""
    monkeypatch.setattr(generated, "DATA", replace(TINY, far_share=(0.0, 0.0)))
    beyond = 0

    def limit_of(sample: Sample) -> Tensor:
        return DEPTH_END / sample.planes.inverse_depths[:, :1, None].float()

    def infinite(sample: Sample) -> Tensor:
        nonlocal beyond
        far = sample.depth > limit_of(sample)
        beyond += int(far.sum())
        return torch.where(far, math.inf, sample.depth)

    readers = {
        "infinite": infinite,
        "at the end": lambda sample: torch.minimum(sample.depth, limit_of(sample)),
        "short": lambda sample: torch.minimum(sample.depth, 0.9 * limit_of(sample)),
    }
    result = evaluate_generator(readers, "", CPU, silent)
    assert beyond > 0
    assert rows_of(result, "infinite")["all"]["rmse"] == rows_of(result, "at the end")["all"]["rmse"] == 0
    assert rows_of(result, "short")["all"]["rmse"] > 0


def test_cameras_see_the_same_scenes_at_their_scale() -> None:
    depths: list[Tensor] = []
    lenses: list[tuple[float, float]] = []

    def remember(sample: Sample) -> Tensor:
        depths.append(sample.depth)
        camera = sample.stack.as_batch().camera
        lenses.append((float(camera.focal_length.mean()), float(camera.f_number.mean())))  # type: ignore[union-attr]
        return 1.1 * sample.depth

    result = evaluate_cameras({"too far": remember}, "", CPU, silent)
    assert len(depths) == len(CAMERAS) == len(result["rows"]) == 10
    reference = depths[0] / CAMERAS[0][3]
    for depth, lens, row, (name, focal_length_mm, f_number, nearest) in zip(
        depths, lenses, result["rows"], CAMERAS, strict=True
    ):
        same = torch.isclose(depth / nearest, reference, rtol=1e-3)  # silhouettes fall either way by rounding
        assert same.float().mean() > 0.995, name
        assert lens[0] == pytest.approx(focal_length_mm * 1e-3)
        assert lens[1] == pytest.approx(f_number, rel=0.05)  # the metadata's error is 1 %
        assert row["camera"] == name and row["nearest"] == nearest and row["blur_px"] > 0
        assert row["abs_rel"] == pytest.approx(0.1, rel=1e-5)
        assert row["mae"] == pytest.approx(0.1 * depth.mean().item(), rel=1e-4)
    assert result["spread"]["too far"]["mean_abs_rel"] == pytest.approx(0.1, rel=1e-5)
    assert result["spread"]["too far"]["largest_deviation"] == pytest.approx(0, abs=1e-4)


def test_spread_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of 10 % and 30 %: a mean of 20 %, and half of it to either side."""
    monkeypatch.setattr(generated, "CAMERAS", CAMERAS[:2])
    factors = iter((1.1, 1.3))
    result = evaluate_cameras({"drifting": lambda sample: next(factors) * sample.depth}, "", CPU, silent)
    assert result["spread"]["drifting"]["mean_abs_rel"] == pytest.approx(0.2, rel=1e-5)
    assert result["spread"]["drifting"]["largest_deviation"] == pytest.approx(0.5, rel=1e-4)


def test_a_share_takes_as_many_stacks_and_one_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "FRAMES", (2,))
    monkeypatch.setattr(generated, "NOISE", (0.005,))
    monkeypatch.setattr(generated, "STACKS", 8)
    stacks = [evaluate_generator({"exact": EXACT}, "", CPU, silent, share)["stacks"] for share in (1.0, 0.5, 0.01)]
    assert stacks == [8, 4, 1]


def two_frames_alone(sample: Sample) -> Tensor:
    if sample.stack.frame_count != 2:
        raise FrameCountError("give 2", note="reads stacks of 2 frames alone")
    return 1.2 * sample.depth


def test_a_method_of_a_fixed_number_of_frames_has_dashes() -> None:
    """Also where it could read some of the stacks: a mean over these would not be that of the others."""
    result = evaluate_generator({"two": two_frames_alone, "exact": EXACT}, "", CPU, silent, protocol="stack-size")
    rows = rows_of(result, "two")
    assert rows["F=2"]["abs_rel"] == pytest.approx(0.2, rel=1e-5) and "note" not in rows["F=2"]
    for group in ("F=3", "all", "noise 0.002"):
        assert rows[group]["abs_rel"] is None and rows[group]["note"] == "reads stacks of 2 frames alone"
    assert all(row.get("abs_rel", 0) is not None for row in rows_of(result, "exact").values())
    assert table_of(result).markdown().splitlines() == [
        "| AbsRel ↓ by frames | 2 | 3 |",
        "| --- | --- | --- |",
        "| two | <ins>0.200</ins> | –¹ |",
        "| exact | **0.000** | 0.000 |",
        "",
        "¹ reads stacks of 2 frames alone",
    ]


def test_only_the_frames_differ_between_sizes_of_stacks() -> None:
    seen: dict[int, list[Tensor]] = {2: [], 3: []}

    def remember(sample: Sample) -> Tensor:
        seen[sample.stack.frame_count].append(sample.depth)
        return sample.depth

    evaluate_generator({"all": remember}, "", CPU, silent, protocol="stack-size")
    assert torch.equal(torch.cat(seen[2]), torch.cat(seen[3]))
    quiet, noisy = torch.cat(seen[2]).chunk(2)
    assert not torch.equal(quiet, noisy)


def test_cameras_without_such_a_method() -> None:
    said: list[str] = []
    readers = {"two": two_frames_alone, "far": lambda sample: 1.1 * sample.depth}
    result = evaluate_cameras(readers, "", CPU, said.append)
    assert set(result["spread"]) == {"far"} and len(result["rows"]) == 20
    assert all(row["abs_rel"] is None for row in result["rows"] if row["method"] == "two")


@pytest.mark.parametrize("evaluate", [evaluate_generator, evaluate_cameras])
def test_processes_have_every_stack_once_between_them(
    evaluate: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "CAMERA_SCENES", 6)
    seen: list[tuple[Any, ...]] = []

    def remember(sample: Sample) -> Tensor:
        focus = sample.stack.as_batch().focus_distances
        seen.extend((focus.numpy().tobytes(), depth.numpy().tobytes()) for depth in sample.depth)
        return 1.1 * sample.depth

    evaluate({"remember": remember}, "", CPU, silent)
    alone, seen = seen, []
    for rank in range(3):
        monkeypatch.setattr(shares, "share_of_process", lambda items, rank=rank: items[rank::3])
        evaluate({"remember": remember}, "", CPU, silent)
    assert len(seen) == len(alone) and set(seen) == set(alone)


def test_a_batch_is_the_one_that_training_would_see() -> None:
    mine, theirs = batch_of(TINY, 3, 2, CPU), make_source(TINY)(3, 2, CPU)
    assert torch.equal(mine.depth, theirs.depth) and torch.equal(mine.stack.images, theirs.stack.images)
