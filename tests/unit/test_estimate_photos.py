"""Photos in, metres out: the same as the stack's own depth, whatever the order, the size or the turn of the files."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import Camera, DepthGrid, DepthResult, FocalStack, RelativeLens, estimate_depth
from focalsweep.estimate import Source, estimate
from focalsweep.photos.photo_stack import Photos, _focus_ranges
from focalsweep.photos.reading import open_photos
from focalsweep.photos.values import Value, between, exact
from focalsweep.sweep import working_size
from tests.demo import FOLDER, demo_stack
from tests.errors import assert_one_sentence, message_of

WINDOW = (100, 60, 260, 204)  # left, top, right, bottom, of the demo's pictures
NAMES = [f"frame_{i}.png" for i in range(7)]


def share_within(first: DepthResult, depth: np.ndarray, std: np.ndarray) -> float:
    """Of the pixels: where two depths differ by no more than their error bars together."""
    return float((np.abs(first.depth - depth) <= np.hypot(first.std, std)).mean())


def depth_of(photos: Source, *arguments: Any, **options: Any) -> tuple[DepthResult, FocalStack]:
    """The result, and the stack that it was worked out on."""
    found = estimate(photos, *arguments, **options)
    return found.result, found.stack


@cache
def window() -> FocalStack:
    left, top, right, bottom = WINDOW
    return demo_stack().stack.cropped(top, left, bottom - top, right - left)


@cache
def depth_of_window() -> DepthResult:
    return estimate_depth(window())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The window of the demo stack, as files."""
    folder = tmp_path_factory.mktemp("photos")
    for name in NAMES:
        Image.open(FOLDER / name).crop(WINDOW).save(folder / name)
    shutil.copy(FOLDER / "stack.toml", folder)
    return folder


def with_settings(folder: Path, new: Path, changes: dict[str, str]) -> Path:
    """The same photos with another stack.toml."""
    shutil.copytree(folder, new, dirs_exist_ok=True)
    text = (new / "stack.toml").read_text()
    for old, other in changes.items():
        assert old in text
        text = text.replace(old, other)
    (new / "stack.toml").write_text(text)
    return new


def test_demo_stack_is_estimated_as_from_memory() -> None:
    stages: list[str] = []
    result, stack = depth_of(open_photos(FOLDER), progress=lambda name, share: stages.append(name))
    expected, true = estimate_depth(demo_stack().stack), demo_stack().depth.numpy()
    assert share_within(expected, result.depth, result.std) > 0.99
    error, other = (np.abs(r.depth - true) / true for r in (result, expected))
    print(f"median error {100 * np.median(error):.2f} %, from memory {100 * np.median(other):.2f} %")
    assert np.median(error) < 0.01
    assert np.mean(np.abs(result.depth - true) <= 2 * result.std) > 0.9
    torch.testing.assert_close(stack.images, demo_stack().stack.images, rtol=0, atol=0)
    assert list(dict.fromkeys(stages)) == ["aligning", "looking", "reading", "sweeping", "network"]
    record = result.record
    assert [frame["file"] for frame in record["frames"]] == NAMES
    assert record["frames"][6]["focus_distance"]["source"] == "stack.toml"
    assert record["settings"]["focal_length"]["value"] == 0.05
    assert record["planes"]["source"] == "the depths in sight"
    assert result.unit == "m" and set(record["measured"]) == {"calibration"} and record["warnings"] == []
    assert record["area"] == {"rows": [0, 288], "columns": [0, 384]}


def test_order_of_the_files_changes_nothing(folder: Path) -> None:
    results = [
        depth_of(open_photos([folder / NAMES[i] for i in order]))[0] for order in (range(7), (3, 6, 0, 5, 1, 4, 2))
    ]
    for name in ("depth", "std", "confidence", "all_in_focus"):
        np.testing.assert_array_equal(getattr(results[0], name), getattr(results[1], name))
    assert [frame["file"] for frame in results[1].record["frames"]] == NAMES


def test_a_turned_picture_has_a_turned_depth() -> None:
    stack = window()
    turned = FocalStack(
        stack.images.rot90(1, (-2, -1)).contiguous(), stack.focus_distances, stack.camera, stack.magnification
    )
    result = estimate_depth(turned)
    share = share_within(depth_of_window(), np.rot90(result.depth, -1), np.rot90(result.std, -1))
    assert share > 0.98
    assert share_within(depth_of_window(), np.rot90(result.depth, 1), np.rot90(result.std, 1)) < 0.8  # it can fail


def halved(maps: np.ndarray) -> np.ndarray:
    height, width = maps.shape
    return np.asarray(maps.reshape(height // 2, 2, width // 2, 2).mean((1, 3)))


def test_a_picture_twice_as_fine_has_the_same_depth() -> None:
    result = estimate_depth(window().resized(2))
    assert result.record["worked_at"] == {"width": 320, "height": 288}
    assert share_within(depth_of_window(), halved(result.depth), halved(result.std)) > 0.92


def test_wide_blur_is_worked_on_smaller_and_comes_back(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """With a limit that the picture passes: worked on at less than half the size, answered at full size."""
    monkeypatch.setattr(working_size, "LARGEST_BLUR_PX", 12.0)
    monkeypatch.setattr(working_size, "LEAST_SIDE_PX", 100.0)
    large = window().resized(2)
    result = estimate_depth(large)
    assert result.record["worked_at"]["width"] < 160
    assert result.depth.shape == (288, 320) and result.all_in_focus.shape == (288, 320, 3)
    assert result.camera is large.camera
    assert share_within(depth_of_window(), halved(result.depth), halved(result.std)) > 0.97
    monkeypatch.setattr(working_size, "LARGEST_BLUR_PX", 9.0)
    photos = open_photos(folder)
    result, small = depth_of(photos)
    assert small.size < (144, 160) and result.depth.shape == (144, 160)
    assert result.camera is photos.camera and small.camera.pixel_pitch > photos.camera.pixel_pitch  # type: ignore[operator]
    assert share_within(depth_of_window(), result.depth, result.std) > 0.95
    assert np.abs(result.all_in_focus - depth_of_window().all_in_focus).mean() < 0.02


def test_double_precision_and_graphs_come_back_as_plain_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_size, "LARGEST_BLUR_PX", 4.0)
    monkeypatch.setattr(working_size, "LEAST_SIDE_PX", 20.0)
    part = window().cropped(0, 0, 64, 80)
    learned = FocalStack(part.images.double().requires_grad_(), part.focus_distances, part.camera, part.magnification)
    result = estimate_depth(learned)
    assert result.record["worked_at"]["width"] < 80
    for values in (result.depth, result.std, result.confidence, result.all_in_focus):
        assert values.dtype == np.float32 and values.shape[:2] == (64, 80)


def test_given_planes_and_unknown_methods(folder: Path) -> None:
    planes = DepthGrid.uniform_in_inverse_depth(0.5, 0.9, 16)
    result, _ = depth_of(open_photos(folder), "argmin", planes=planes)
    assert result.planes is planes and result.record["planes"]["source"] == "the caller"
    assert result.depth.min() >= 0.5 - 1e-6 and result.depth.max() <= 0.9 + 1e-6
    message = message_of(lambda: depth_of(open_photos(folder), "magic"), ValueError)
    assert_one_sentence(message, "'magic'", "argmin")


# Where the frames have to say more than the metadata


def test_ranges_are_refined(folder: Path, tmp_path: Path) -> None:
    ranges = {  # 4 % off the truth in inverse distance, in turn to either side, and 6 % wide to either side
        f"focus_distance = {d}\n": f"focus_range = [{d / (k * 1.06):.5f}, {d / (k * 0.94):.5f}]\n"
        for d, k in ((0.427, 1.04), (0.5675, 0.96), (0.8456, 1.04))
    }
    photos = open_photos(with_settings(folder, tmp_path, ranges))
    result, stack = depth_of(photos, "argmin")
    true = torch.tensor([0.38, 0.427, 0.4873, 0.5675, 0.6791, 0.8456, 1.12], dtype=torch.float64)
    before = (torch.tensor(photos.focus_distances) / true - 1).abs()
    after = (stack.focus_distances / true - 1).abs()
    print(f"middles {100 * before.max():.2f} % off, found {100 * after.max():.2f} %")
    assert before.max() > 0.035
    assert after.max() < 0.012
    moved = {entry["file"] for entry in result.record["measured"]["refined"] if entry["from"] != entry["to"]}
    assert {"frame_1.png", "frame_3.png", "frame_5.png"} == moved
    _, kept = depth_of(photos, "argmin", refine=False)
    assert kept.focus_distances.tolist() == photos.focus_distances


def test_frames_of_overlapping_ranges_keep_their_own_distances(folder: Path, tmp_path: Path) -> None:
    """Two frames whose middles are in the wrong order: each gets its own distance, not the other's."""
    ranges = {
        "focus_distance = 0.5675\n": "focus_range = [0.55, 0.75]\n",
        "focus_distance = 0.6791\n": "focus_range = [0.53, 0.70]\n",
    }
    photos = open_photos(with_settings(folder, tmp_path, ranges))
    assert photos.names[3:5] == ["frame_4.png", "frame_3.png"]
    result, _ = depth_of(photos)
    found = {frame["file"]: frame["focus_distance_from_lens"] for frame in result.record["frames"]}
    assert found["frame_3.png"] == pytest.approx(0.5675, rel=0.04)
    assert found["frame_4.png"] == pytest.approx(0.6791, rel=0.04)
    assert share_within(depth_of_window(), result.depth, result.std) > 0.95
    assert np.abs(result.all_in_focus - depth_of_window().all_in_focus).mean() < 0.02


@pytest.mark.parametrize(
    ("value", "distance", "focal_length", "expected"),
    [
        (between(0.02, 0.5, "a range"), between(0.02, 0.5, "").value, 0.01, (0.02, 0.5)),
        (between(0.02, 0.5, "a range"), 0.06, 0.05, (0.051, 0.52154)),  # not into the lens
        (exact(0.7, "exact"), 0.65, 0.05, (0.65, 0.65)),
        (between(2.0, float("inf"), "to infinity"), 4.0, 0.05, (2.0, float("inf"))),
        (between(0.7, 0.8, "from the sensor"), between(0.7, 0.8, "").value - 0.06, 0.05, (0.64, 0.74)),
    ],
)
def test_ranges_never_reach_into_the_lens(
    folder: Path, value: Value, distance: float, focal_length: float, expected: tuple[float, float]
) -> None:
    opened = open_photos(folder)
    settings = replace(opened.settings, focus_distances=(value,))
    camera = Camera(focal_length, 2.8, 6e-6)
    photos: Photos = replace(opened, settings=settings, focus_distances=[distance], camera=camera)
    assert _focus_ranges(photos)[0] == pytest.approx(expected, rel=1e-3)


def test_relative_depth_follows_the_order(folder: Path, tmp_path: Path) -> None:
    """Without any setting but the order: depth rises with the true one, in units of its own."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stack.toml").write_text('[camera]\naligned = true\norder = "near-to-far"\n')
    result, stack = depth_of(open_photos(tmp_path))
    assert result.unit is None and isinstance(result.camera, RelativeLens)
    assert result.record["measured"]["blur"]["times_assumed"] > 0
    assert (1 / stack.focus_distances).diff().std() < 1e-9
    left, top, right, bottom = WINDOW
    true = 1 / demo_stack().depth[top:bottom, left:right].numpy()
    correlation = np.corrcoef((1 / result.depth).ravel(), true.ravel())[0, 1]
    print(f"correlation of inverse depth with the truth {correlation:.3f}")
    assert correlation > 0.97


def test_alignment_that_is_asked_for_leaves_still_frames_alone(folder: Path) -> None:
    photos = replace(open_photos(folder), align="auto")
    alignment = photos.register().alignment
    assert len(alignment.kept) == 7
    assert alignment.motion_px.max() < 0.5
