"""Range, focus distances and blur that are read from the frames, on rendered stacks whose truth is known."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch

import focalsweep as fs
from focalsweep import FocalStack
from focalsweep.lenses import cone_px
from focalsweep.optics.diffraction import Diffraction
from focalsweep.sweep import calibration
from focalsweep.sweep.calibration import find_range, measure_aperture, measure_blur, refine_focus
from focalsweep.sweep.colour import project_to_dominant_colour
from tests.demo import demo_stack
from tests.rendering import RIGS, render_plane


def glance(stack: FocalStack) -> FocalStack:
    """Batched and of one channel, as `find_range` and its like take it."""
    return project_to_dominant_colour(stack.as_batch())


def plane(rig: str, depth: float) -> FocalStack:
    return glance(render_plane(rig, depth, size=96).stack)


@cache
def small_demo() -> FocalStack:
    """The middle of the demo stack at half size: objects from 0.4 m to 1.1 m."""
    return glance(demo_stack().stack.resized(0.5).cropped(24, 40, 96, 112))


def changed(stack: FocalStack, focus_distances: torch.Tensor) -> FocalStack:
    return FocalStack(stack.images, focus_distances, stack.camera, stack.magnification)


# The range


def test_range_covers_the_scene_and_little_more() -> None:
    true = 1 / demo_stack().depth
    planes, words = find_range(glance(demo_stack().stack.resized(0.5)), count=40)
    near, far = planes.inverse_depths[0], planes.inverse_depths[-1]
    inside = ((true <= near) & (true >= far)).float().mean()
    print(f"{planes.depths[0]:.3f} m to {planes.depths[-1]:.3f} m, {100 * inside:.2f} % of the pixels inside; {words}")
    assert planes.count == 40
    assert inside > 0.999
    assert near - far < 1.5 * (true.max() - true.min())
    assert words == "the depths in sight"


@pytest.mark.parametrize("rig", RIGS)
def test_range_narrows_to_what_is_in_sight(rig: str) -> None:
    focus = 1 / torch.tensor(RIGS[rig].focus_distances)
    depth = 1 / (0.6 * focus.max() + 0.4 * focus.min()).item()
    planes, words = find_range(plane(rig, depth))
    near, far = planes.depths[0].item(), planes.depths[-1].item()
    assert near < depth < far
    assert 1 / near - 1 / far < 0.5 * (focus.max() - focus.min())
    assert words == "the depths in sight"


@pytest.mark.parametrize(("rig", "depth"), [("phone", 0.12), ("dslr", 0.55), ("paper", 0.07), ("dslr", 20.0)])
def test_range_is_extended_to_a_plane_beyond_the_focus_distances(rig: str, depth: float) -> None:
    focus = 1 / torch.tensor(RIGS[rig].focus_distances)
    margin = 0.25 * (focus.max() - focus.min())
    end = "near" if depth < 0.6 else "far"
    assert not focus.min() - margin < 1 / depth < focus.max() + margin
    planes, words = find_range(plane(rig, depth))
    assert planes.depths[0] < depth < planes.depths[-1]
    assert f"beyond the focus distances at the {end} end" in words
    kept, words = find_range(plane(rig, depth), extend=False)
    assert not kept.depths[0] < depth < kept.depths[-1]
    assert "beyond" not in words


@pytest.mark.parametrize("rig", RIGS)
def test_range_reaches_infinity(rig: str) -> None:
    planes, _ = find_range(plane(rig, 1e6))
    assert planes.depths[-1] == math.inf
    assert planes.depths[0] > min(RIGS[rig].focus_distances)


def test_range_of_flat_pictures_is_that_of_the_focus_distances() -> None:
    stack = plane("dslr", 1.2)
    flat = FocalStack(torch.full_like(stack.images, 0.4), stack.focus_distances, stack.camera)
    planes, words = find_range(flat)
    focus = 1 / stack.focus_distances
    span = focus.max() - focus.min()
    assert planes.inverse_depths[0].item() == pytest.approx(float(focus.max() + 0.25 * span))
    assert planes.inverse_depths[-1].item() == pytest.approx(float(focus.min() - 0.25 * span))
    assert "too little texture" in words


# The focus distances


@pytest.mark.parametrize("first", [1, -1])
def test_focus_distances_are_found_inside_their_intervals(first: int) -> None:
    """Middles that are 3 % off, every other one in the other direction; the intervals reach 5 % to either side."""
    stack = small_demo()
    true = 1 / stack.focus_distances[0]
    signs = torch.tensor([first * (-1.0) ** i for i in range(len(true))], dtype=torch.float64)
    middles = true * (1 + 0.03 * signs)
    intervals = [(0.95 * float(u), 1.05 * float(u)) for u in middles]
    shares: list[float] = []
    found = 1 / torch.tensor(
        refine_focus(
            changed(stack, (1 / middles)[None]), intervals, rounds=1, progress=lambda _, share: shares.append(share)
        ),
        dtype=torch.float64,
    )
    before, after = ((u / true - 1).abs() for u in (middles, found))
    print(f"middles {100 * before.mean():.2f} %, found {100 * after.mean():.2f} %, at most {100 * after.max():.2f} %")
    assert before.mean() > 0.029
    assert after.mean() < 0.01
    assert after.max() < 0.02
    assert all(low <= u <= high for u, (low, high) in zip(found.tolist(), intervals, strict=True))
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_exact_distances_stay() -> None:
    stack = plane("dslr", 1.2)
    inverse = (1 / stack.focus_distances[0]).tolist()
    found = refine_focus(stack, [(u, u) for u in inverse])
    assert found == stack.focus_distances[0].tolist()
    some = refine_focus(stack, [(0.98 * u, 1.01 * u) if i == 2 else (u, u) for i, u in enumerate(inverse)], rounds=1)
    assert [i for i, (a, b) in enumerate(zip(some, found, strict=True)) if a != b] == [2]


def test_touching_intervals_leave_two_frames_apart() -> None:
    """Two frames whose ranges meet: no try gives both one distance, which no stack may have."""
    images = plane("dslr", 1.2).images[:, :2]
    stack = FocalStack(images, [[1 / 1.05, 1 / 0.95]], RIGS["dslr"].camera)
    near, far = refine_focus(stack, [(1.0, 1.1), (0.9, 1.0)])
    assert 1 / 1.1 <= near < 1.0 < far <= 1 / 0.9


# The blur


@pytest.mark.parametrize("hidden", [0.4, 2.2])
@pytest.mark.parametrize(("rig", "depth"), [("phone", 0.4), ("dslr", 1.2), ("paper", 0.25)])
def test_blur_of_a_hidden_camera(rig: str, depth: float, hidden: float) -> None:
    stack = plane(rig, depth)
    unknown = FocalStack(stack.images, stack.focus_distances, stack.camera.resized(hidden), stack.magnification)
    found = measure_blur(unknown) * hidden
    print(f"{rig}: {found:.3f} of the true slope")
    assert found == pytest.approx(1, rel=0.15)


def test_blur_of_the_demo_stack() -> None:
    stack = small_demo()
    unknown = FocalStack(stack.images, stack.focus_distances, stack.camera.resized(0.5), stack.magnification)
    assert measure_blur(unknown) * 0.5 == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("slope", [0.5, 60.0])
def test_blur_beyond_what_is_tried_is_the_end(monkeypatch: pytest.MonkeyPatch, slope: float) -> None:
    monkeypatch.setattr(calibration, "_misfit", lambda stack: abs(calibration._blur_px(stack) - slope))
    stack = plane("dslr", 1.2)
    end = calibration.BLURS_PX[0] if slope < 1 else calibration.BLURS_PX[-1]
    assert measure_blur(stack) * calibration._blur_px(stack) == pytest.approx(end)


# The parabola


def test_vertex() -> None:
    def value(x: float) -> float:
        return 3 * (x - 0.7) ** 2 + 2

    for points in ([0.0, 0.4, 1.0], [0.0, 0.9, 1.0], [-3.0, 0.6, 5.0]):
        assert calibration._vertex(points, [value(x) for x in points]) == pytest.approx(0.7)
    assert calibration._vertex([1.0, 2.0, 3.0], [value(x) for x in (1, 2, 3)]) == 1.0  # not beyond the points
    assert calibration._vertex([0.0, 0.5, 1.0], [-value(x) for x in (0, 0.5, 1)]) == 0.0  # opens down: the lowest
    assert calibration._vertex([0.0, 1.0, 2.0], [3.0, 2.0, 1.0]) == 2.0  # a line


def test_an_aperture_is_measured_by_wave_optics() -> None:
    """Two halves of texture at two heights, blurred by the objective's own transfer function."""
    truth, pixel = 0.3, 0.35e-6
    stage = fs.Stage(step=2.5e-6, pixel_size=pixel, numerical_aperture=truth)
    psf = Diffraction(truth, pixel, stage.wavelength)
    rng = torch.Generator().manual_seed(3)
    fy, fx = torch.fft.fftfreq(96, dtype=torch.float64)[:, None], torch.fft.fftfreq(192, dtype=torch.float64)
    white = torch.randn((96, 192), generator=rng, dtype=torch.float64)
    texture = torch.fft.ifft2(torch.fft.fft2(white) / (torch.hypot(fy, fx) + 0.01)).real  # as surfaces have it
    texture = 0.5 + 0.15 * (texture - texture.mean()) / texture.std()
    places, heights = torch.tensor(stage.places(7)), torch.tensor([5e-6, 9e-6])
    frames = torch.zeros((7, 1, 96, 192))
    for number, place in enumerate(places.tolist()):
        for part, height in enumerate(heights.tolist()):
            cone = torch.tensor(cone_px(truth, pixel) * abs(height - place), dtype=torch.float64)
            blurred = torch.fft.ifft2(torch.fft.fft2(texture) * psf(cone, fy, fx)).real
            columns = slice(96 * part, 96 * part + 96)
            frames[number, 0, :, columns] = blurred[:, columns].float()
    frames += 0.003 * torch.randn(frames.shape, generator=rng)
    unknown = fs.FocalStack(frames.clamp(0, 1), camera=replace(stage, numerical_aperture=None)).as_batch()
    assert measure_aperture(unknown) == pytest.approx(truth, rel=0.05)
