"""`calibrate_lens` on rendered planes through a curved field: the profile, what it mends, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from focalsweep import FocalStack, estimate_depth
from focalsweep.calibrate import Calibration, calibrate_lens
from focalsweep.photos.lens_profiles import FOLDER, read_profile
from focalsweep.types import RelativeLens, StackRecord
from tests.curved import CAMERA, CORNER, SIZE, curvature, curved_plane, steps
from tests.errors import assert_one_sentence, message_of

IN_CORNERS = curvature().numpy() > 0.7 * CORNER


@cache
def made() -> Calibration:
    return calibrate_lens([curved_plane()[0]])


def errors(stack: FocalStack, true: torch.Tensor, **options: object) -> np.ndarray:
    depth = estimate_depth(stack, **options).depth  # type: ignore[arg-type]
    return depth * true.numpy() - 1


def test_the_profile_is_that_of_the_lens() -> None:
    profile = made().profile
    bent = profile.curvature
    assert bent is not None
    corner = float(CAMERA.pixel_pitch) * np.hypot(*SIZE) / 2
    true = CORNER * (np.array(bent.radii) / corner) ** 2
    assert np.abs(np.array(bent.dioptres) - true).max() < 0.02
    assert bent.radii[-1] > 0.9 * corner
    assert profile.blur.value == pytest.approx(1.0, abs=0.06)
    assert (profile.focal_length, profile.f_number) == (CAMERA.focal_length, CAMERA.f_number)
    assert "do not name their camera" in made().notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("bend", [1.0, -1.0])
def test_another_scene_is_right_in_the_corners_with_it(bend: float) -> None:
    """Where corners seem farther, too: there planes and focus are raised."""
    stack, true = curved_plane((-0.15, 0.05), 0.9, seed=7, bend=bend)
    profile = made().profile
    assert profile.curvature
    if bend < 0:
        turned = tuple(-value for value in profile.curvature.dioptres)
        profile = replace(profile, curvature=replace(profile.curvature, dioptres=turned))
        assert profile.lift > 0.2
    before, after = errors(stack, true, lens="off"), errors(stack, true, lens=profile)
    assert np.sign(np.median(before[IN_CORNERS])) == -bend
    assert np.median(np.abs(before[IN_CORNERS])) > 0.15
    assert np.median(np.abs(after[IN_CORNERS])) < 0.02
    assert np.median(np.abs(after)) < 0.03


def test_the_result_says_what_was_done() -> None:
    stack, _ = curved_plane((-0.15, 0.05), 0.9, seed=7)
    result = estimate_depth(stack, "argmin", calibrate="off", lens=made().profile)
    assert result.record["lens"]["curvature"]["radii"] == made().profile.curvature.radii  # type: ignore[union-attr]
    assert any("field curvature of +0.2" in note for note in result.record["warnings"])
    assert result.record["focus_distances"] == pytest.approx(stack.focus_distances.tolist())
    assert "lens" not in estimate_depth(stack, "argmin").record


def test_photos_find_the_profile_of_their_lens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    named = {"make": "Maker", "model": "One"}
    replace(made(), profile=replace(made().profile, **named)).save(tmp_path / "one.toml")  # type: ignore[arg-type]
    stack, _ = curved_plane()
    for name, found in (("One", True), ("Two", False)):
        taken = replace(stack, record=StackRecord(made_with=named | {"model": name}))
        record = estimate_depth(taken, "argmin").record
        assert ("lens" in record) is found
        assert any("one.toml (Maker One, 50 mm)" in note for note in record["warnings"]) is found
        assert "lens" not in estimate_depth(taken, "argmin", lens="off").record


def test_files(tmp_path: Path) -> None:
    path, picture = made().save(tmp_path / "new" / "lens.toml")
    assert read_profile(path).curvature is not None
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.suffix == ".png"
    assert_one_sentence(message_of(lambda: made().save(path), FileExistsError), "left alone")
    made().save(path, overwrite=True)


@pytest.mark.slow
def test_a_measured_distance_gives_the_offset_and_two_the_scale() -> None:
    """Told focus distances of which 1/d is 1.1 times and 0.05 more than the real ones."""
    stacks = []
    for inverse, seed in ((0.75, 0), (1.05, 3)):
        stack, _ = curved_plane(inverse=inverse, seed=seed)
        told = 1.1 / stack.focus_distances + 0.05
        stacks.append(replace(stack, focus_distances=1 / told))
    one = calibrate_lens(stacks[:1], distances=[1 / 0.75]).profile
    assert one.focus_scale.value == 1 and one.focus_offset.value == pytest.approx(0.75 - (1.1 * 0.75 + 0.05), abs=0.02)
    both = calibrate_lens(stacks, distances=[1 / 0.75, 1 / 1.05]).profile
    assert both.focus_scale.value == pytest.approx(1 / 1.1, abs=4 * both.focus_scale.std + 0.02)
    assert both.focus_offset.value == pytest.approx(-0.05 / 1.1, abs=4 * both.focus_offset.std + 0.02)
    result = estimate_depth(stacks[0], lens=both).depth
    assert result[SIZE[0] // 2, SIZE[1] // 2] == pytest.approx(1 / 0.75, rel=0.03)


def test_a_region_is_taken_at_its_word() -> None:
    stack, _ = curved_plane()
    images = stack.images.clone()
    images[..., :60, :] = images[..., 60:120, :].flip(-1) * torch.linspace(0.2, 1, 4)[:, None, None, None]
    marked = [(0.0, 60.0), (240.0, 60.0), (240.0, 180.0), (0.0, 180.0)]
    found = calibrate_lens([replace(stack, images=images)], region=marked).profile.curvature
    assert found and found.at(torch.tensor([0.9 * found.radii[-1]]))[0].item() == pytest.approx(0.81 * CORNER, abs=0.03)


def test_what_is_refused_in_one_sentence() -> None:
    stack, _ = curved_plane()
    noise = torch.randn(stack.images.shape, generator=torch.Generator().manual_seed(0))
    plain = replace(stack, images=0.5 + 0.003 * noise)
    assert_one_sentence(message_of(lambda: calibrate_lens([plain]), ValueError), "too little texture")
    message = message_of(lambda: calibrate_lens([steps()]), ValueError)
    assert_one_sentence(message, "the scene is not flat", "region")
    outside = [(900.0, 900.0), (950.0, 900.0), (950.0, 950.0)]
    assert_one_sentence(message_of(lambda: calibrate_lens([stack], region=outside), ValueError), "lies outside")
    unknown = FocalStack(stack.images, stack.focus_distances, RelativeLens(12.0))
    assert_one_sentence(message_of(lambda: calibrate_lens([unknown]), ValueError), "not known")
    two = [replace(stack, record=StackRecord(made_with={"lens": name})) for name in "ab"]
    message = message_of(lambda: calibrate_lens(two), ValueError)
    assert_one_sentence(message, "one lens at one aperture: their lens differs")
    message = message_of(lambda: calibrate_lens([stack], distances=[1.0, 2.0]), ValueError)
    assert_one_sentence(message, "one for each of the 1 stacks")
    batch = FocalStack(stack.images[None], stack.focus_distances, CAMERA)
    message = message_of(lambda: estimate_depth(batch, lens=made().profile), ValueError)
    assert_one_sentence(message, "a batch of stacks takes no lens profile")
