"""Flaws of photos, each against what it should be, and the protocol in miniature."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from focalsweep import Camera, DepthGrid, FocalStack, coc_px
from focalsweep.optics.light import linear_to_srgb
from focalsweep_research.drawing.plots import plot_factor, write_factors
from focalsweep_research.protocols import distributed as shares
from focalsweep_research.protocols import robustness
from focalsweep_research.protocols.robustness import (
    CLEAN,
    FACTORS,
    Flaws,
    aperture_samples,
    evaluate_robustness,
    shifted,
    spoiled,
    with_noise_and_jpeg,
    with_wrong_metadata,
)
from focalsweep_research.rivals.answer import FrameCountError
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.tables.tables import table_of

CPU = torch.device("cpu")
CAMERA = Camera(0.05, 2.0, 6e-5)


def smooth_images(size: int = 32) -> Tensor:
    """B F C H W, waves that a shift moves without loss."""
    x, y = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="xy")
    wave = 0.5 + 0.2 * torch.sin(2 * math.pi * x / 16) + 0.2 * torch.cos(2 * math.pi * y / 16)
    return wave.expand(2, 3, 3, size, size).clone()


def a_sample() -> Sample:
    stack = FocalStack(smooth_images(), (0.8, 1.2, 2.0), CAMERA, 1 - 0.05 / torch.tensor([0.8, 1.2, 2.0])).as_batch()
    planes = DepthGrid.around(stack, 8)
    return Sample(stack, planes, torch.full((2, 32, 32), 1.1))


def test_frames_move_by_so_many_pixels() -> None:
    images = smooth_images()
    moved = shifted(images, 1.5, seed=0)
    assert torch.equal(moved[:, 0], images[:, 0])
    angles = 2 * math.pi * np.random.default_rng([0, 2]).random((2, 3))
    x, y = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="xy")
    for b in range(2):
        for f in (1, 2):
            dx, dy = 1.5 * math.cos(angles[b, f]), 1.5 * math.sin(angles[b, f])
            wave = 0.2 * torch.sin(2 * math.pi * (x + dx) / 16) + 0.2 * torch.cos(2 * math.pi * (y + dy) / 16)
            torch.testing.assert_close(moved[b, f, 0, 4:-4, 4:-4], (0.5 + wave)[4:-4, 4:-4], rtol=0, atol=3e-3)
    assert shifted(images, 0.0, seed=0) is images


def test_noise_is_as_strong_as_said_and_grows_with_light() -> None:
    """Above the rounding, in linear light, where it is std * sqrt(0.3 + 1.75 light)."""
    for light in (0.2, 0.5):
        images = torch.full((1, 2, 3, 64, 64), light)
        noisy = with_noise_and_jpeg(images, 0.02, 0.0, seed=1)
        assert noisy.std().item() == pytest.approx(0.02 * math.sqrt(0.3 + 1.75 * light), rel=0.03)
        assert torch.equal(with_noise_and_jpeg(images, 0.02, 0.0, seed=1), noisy)
        assert not torch.equal(with_noise_and_jpeg(images, 0.02, 0.0, seed=2), noisy)


def test_photos_are_8_bit_and_jpeg_loses_more_at_lower_quality() -> None:
    torch.manual_seed(0)
    images = torch.rand(1, 2, 3, 32, 32)
    codes = linear_to_srgb(with_noise_and_jpeg(images, 0.0, 0.0, seed=0)) * 255
    torch.testing.assert_close(codes, codes.round(), rtol=0, atol=1e-2)
    assert (codes / 255 - linear_to_srgb(images)).abs().max() < 0.51 / 255
    errors = [(with_noise_and_jpeg(images, 0.0, q, seed=0) - images).abs().mean().item() for q in (95.0, 60.0, 20.0)]
    assert errors == sorted(errors) and errors[0] > 0.001


def test_metadata_that_are_wrong_by_what_is_said() -> None:
    sample = a_sample()
    exact = with_wrong_metadata(sample.stack, sample.stack.images, Flaws(), seed=0)
    assert torch.equal(exact.focus_distances, sample.stack.focus_distances)
    torch.testing.assert_close(torch.as_tensor(exact.magnification), torch.as_tensor(sample.stack.magnification))
    wrong = with_wrong_metadata(
        sample.stack, sample.stack.images, Flaws(distance_error=0.05, f_number_error=0.1), seed=3
    )
    errors = np.random.default_rng([3, 1]).standard_normal((2, 3))
    expected = sample.stack.focus_distances * (1 + 0.05 * torch.from_numpy(errors))
    torch.testing.assert_close(wrong.focus_distances, expected)
    torch.testing.assert_close(torch.as_tensor(wrong.magnification), 1 - 0.05 / expected)
    assert torch.as_tensor(wrong.camera.f_number).mean().item() == pytest.approx(2.2)
    # An f-number a tenth too large is a blur a tenth too small.
    truth, told = (coc_px(1.0, 2.0, Camera(0.05, n, 6e-5)).item() for n in (2.0, 2.2))
    assert told == pytest.approx(truth / 1.1)
    near = with_wrong_metadata(sample.stack.scaled(0.06), sample.stack.images, Flaws(distance_error=3.0), seed=0)
    assert (near.focus_distances > 0.05 * 0.06).all()  # never within the focal length


def test_spoiling_leaves_the_truth_and_the_sample_alone() -> None:
    sample = a_sample()
    before = sample.stack.images.clone()
    bad = spoiled(sample, Flaws(0.02, 50.0, 1.0, 0.05, 0.1), seed=0)
    assert torch.equal(sample.stack.images, before)
    assert bad.depth is sample.depth and bad.planes is sample.planes
    assert not torch.allclose(bad.stack.images, before, atol=0.01)


@pytest.mark.parametrize("shape", ["disk", "hexagon", "gaussian"])
def test_apertures_have_the_variance_of_the_disk(shape: str) -> None:
    sets = aperture_samples(shape, 4000)
    assert [len(one) for one in sets] == [1000, 2000, 4000]
    points = sets[-1][:, :2]
    assert points.square().sum(1).mean().item() == pytest.approx(0.5, rel=1e-4)
    assert points.mean(0).abs().max() < 0.01
    # The fourth moment over the squared second tells the shapes apart: 4/3, 7/5 or so, and 2.
    square = points.square().sum(1)
    ratio = (square.square().mean() / square.mean().square()).item()
    # A hexagon of circumradius 1: E r^2 = 5/12, E r^4 = 7/30.
    expected = {"disk": 4 / 3, "hexagon": (7 / 30) / (5 / 12) ** 2, "gaussian": 2.0}[shape]
    print(f"{shape}: {ratio:.4f}, expected {expected:.4f}")
    assert ratio == pytest.approx(expected, rel=0.01)


def test_a_hexagon_has_straight_sides() -> None:
    points = aperture_samples("hexagon", 4000)[-1][:, :2]
    sides = torch.arange(6) * math.pi / 3 + math.pi / 6
    reach = torch.stack([(points @ torch.stack([a.cos(), a.sin()])).max() for a in sides])
    corner = points.norm(dim=1).max()
    torch.testing.assert_close(reach / corner, torch.full((6,), math.cos(math.pi / 6)), rtol=0.02, atol=0)


def test_no_other_aperture() -> None:
    with pytest.raises(ValueError, match="'star'"):
        aperture_samples("star", 8)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(CLEAN, size=16, planes=8, rays=8, textures=4, solids=6, far_share=(0.3, 0.7))
    levels = {name: replace(factor, levels=factor.levels[:2]) for name, factor in FACTORS.items()}
    levels["psf"] = FACTORS["psf"]
    for name, value in {"CLEAN": small, "STACKS": 2, "BATCH": 2, "FACTORS": levels}.items():
        monkeypatch.setattr(robustness, name, value)


def run(readers: dict[str, Callable[[Sample], Tensor]], *factors: str) -> dict[str, Any]:
    said: list[str] = []
    result = evaluate_robustness(readers, "", CPU, said.append, 1.0, factors or tuple(FACTORS))
    assert said[-1] == f"{len(said)} of {len(said)}"
    return result


def test_every_level_has_a_row_and_the_same_scenes(tiny: None) -> None:
    depths: list[Tensor] = []
    frames: list[int] = []

    def remember(sample: Sample) -> Tensor:
        depths.append(sample.depth)
        frames.append(sample.stack.frame_count)
        return 1.1 * sample.depth

    result = run({"too far": remember})
    assert len(result["rows"]) == 2 * 7 + 3 == len(depths)
    for row in result["rows"]:
        assert row["abs_rel"] == pytest.approx(0.1, rel=1e-5)
        assert row["pixels"] == 2 * 16 * 16
    assert all(torch.equal(depth, depths[0]) for depth in depths)
    assert sorted(set(frames)) == [2, 3, 5]


def test_processes_have_every_level_once_between_them(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def remember(sample: Sample) -> Tensor:
        stack = sample.stack.as_batch()
        seen.append(stack.images.numpy().tobytes() + torch.as_tensor(stack.camera.f_number).numpy().tobytes())
        return sample.depth

    run({"a": remember})
    alone, seen = seen, []
    for rank in range(3):
        monkeypatch.setattr(shares, "share_of_process", lambda items, rank=rank: items[rank::3])
        run({"a": remember})
    assert sorted(seen) == sorted(alone)


def test_each_factor_does_its_own_harm(tiny: None) -> None:
    """What a reader sees changes between two levels in what the factor says, and in nothing else."""
    seen: list[Sample] = []

    def remember(sample: Sample) -> Tensor:
        seen.append(sample)
        return sample.depth

    for factor in FACTORS:
        seen.clear()
        run({"a": remember}, factor)
        first, second = seen[0].stack.as_batch(), seen[1].stack.as_batch()
        told = {
            "focus_distances": not torch.equal(first.focus_distances, second.focus_distances),
            "f_number": not torch.equal(
                torch.as_tensor(first.camera.f_number), torch.as_tensor(second.camera.f_number)
            ),
        }
        if factor in told:
            assert told[factor] and torch.equal(first.images, second.images), factor
            assert sum(told.values()) == 1
        elif factor not in ("frames", "blur"):
            assert not any(told.values()) and not torch.equal(first.images, second.images), factor
    assert first.images.shape[1] == 5


def test_a_method_of_a_fixed_number_of_frames_has_a_note(tiny: None) -> None:
    def three(sample: Sample) -> Tensor:
        if sample.stack.frame_count != 3:
            raise FrameCountError("reads 3 frames")
        return sample.depth

    rows = run({"three": three}, "frames")["rows"]
    assert [row.get("note") for row in rows] == ["reads 3 frames", None]
    assert rows[0]["abs_rel"] is None and rows[1]["abs_rel"] == 0
    result = run({"three": three, "any": lambda sample: 1.1 * sample.depth}, "frames")
    text = table_of(result).markdown()
    assert "| three | –¹ |" in text and text.endswith("¹ reads 3 frames")
    assert plot_factor(result, "frames")


def test_plots(tiny: None, tmp_path: Path) -> None:
    result = run({"a": lambda s: s.depth, "b": lambda s: 1.2 * s.depth}, "noise", "jpeg", "psf")
    paths = write_factors(result, tmp_path / "plots")
    assert [path.name for path in paths] == [f"robustness_{name}.png" for name in ("noise", "jpeg", "psf")]
    for path in paths:
        picture = np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB"))
        assert picture.std() > 5
    with pytest.raises(ValueError, match=r"'fog'.*noise, jpeg, psf"):
        plot_factor(result, "fog")
