"""The tracer: exact depth, blur discs of the size the thin lens says, and the same for the same seed."""

import math

import pytest
import torch

from focalsweep import Camera, coc_px
from focalsweep_research.synthesis.generator import draw_scenes
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.scenes import BOX, ELLIPSOID, SHEET, SUN, WAVES, Scenes
from focalsweep_research.synthesis.textures import LEVELS, SIZE, TEXELS, Atlas, make_atlas
from focalsweep_research.synthesis.tracer import Lenses, depth, disk_samples, fetch, render

CPU = torch.device("cpu")
NO_WAVES = torch.zeros(WAVES, 4)


def flat_atlas(level: float = 1.0) -> Atlas:
    code = round(255 * math.sqrt(level))
    words = torch.full((TEXELS,), code | code << 8 | code << 16, dtype=torch.int32)
    return Atlas(words, torch.full((1, 3), level))


def scene(*solids: tuple[int, tuple[float, float, float], tuple[float, float, float]]) -> Scenes:
    """Solids of a kind, centre and half size, axes along the camera's, lit evenly."""
    count = len(solids)
    return Scenes(
        kind=torch.tensor([[kind for kind, _, _ in solids]], dtype=torch.int32),
        centre=torch.tensor([[centre for _, centre, _ in solids]]),
        axes=torch.eye(3).expand(1, count, 3, 3).contiguous(),
        half=torch.tensor([[half for _, _, half in solids]]),
        waves=NO_WAVES.expand(1, count, WAVES, 4).contiguous(),
        texture=torch.zeros((1, count), dtype=torch.int32),
        mapping=torch.tensor([1.0, 0.0, 0.0]).expand(1, count, 3).contiguous(),
        tint=torch.ones((1, count, 3)),
        contrast=torch.ones((1, count)),
        gloss=torch.tensor([0.0, 1.0]).expand(1, count, 2).contiguous(),
        light=torch.tensor([[0.0, 0.0, -SUN, 1.0, *[0.0] * 6]]),
    )


def pinhole_axes(size: int, focal_px: float) -> torch.Tensor:
    return (torch.arange(size) + 0.5 - size / 2) / focal_px


def test_depth_of_a_sphere_in_closed_form() -> None:
    focal_px, size, radius, distance = 80.0, 40, 0.2, 1.0
    found = depth(scene((ELLIPSOID, (0.0, 0.0, distance), (radius,) * 3)), torch.tensor([focal_px]), (size, size))[0]
    x = pinhole_axes(size, focal_px)
    a = 1 + x[:, None] ** 2 + x[None] ** 2
    inside = distance**2 - a * (distance**2 - radius**2)
    expected = torch.where(inside > 0, (distance - inside.clamp_min(0).sqrt()) / a, torch.inf)
    clear = inside.abs() > 1e-3
    torch.testing.assert_close(found[clear], expected[clear], rtol=1e-5, atol=0)


def test_depth_of_a_box_is_its_front_and_the_nearest_wins() -> None:
    solids = scene((SHEET, (0.0, 0.0, 2.0), (1.0, 1.0, 1.0)), (BOX, (0.0, 0.0, 1.0), (0.1, 0.2, 0.25)))
    found = depth(solids, torch.tensor([100.0]), (60, 60))[0]
    assert found[30, 30].item() == pytest.approx(0.75, rel=1e-6)
    assert found[0, 0].item() == pytest.approx(2.0, rel=1e-6)
    width_px = (found[30] < 1).sum().item()
    assert width_px == pytest.approx(100 * 0.2 / 0.75, abs=1)


def test_waves_are_hit_where_they_are() -> None:
    wavy = scene((SHEET, (0.0, 0.0, 1.0), (1.0, 1.0, 1.0)))
    wavy.waves[0, 0, 0] = torch.tensor([0.01, 12.0, 5.0, 0.3])
    found = depth(wavy, torch.tensor([60.0]), (32, 32))[0]
    x = pinhole_axes(32, 60.0)
    height = 0.01 * torch.sin(12 * x[None] * found + 5 * x[:, None] * found + 0.3)
    torch.testing.assert_close(found, 1 + height, rtol=1e-5, atol=0)


def test_an_empty_scene_is_infinitely_far_and_black() -> None:
    empty = scene((0, (0.0, 0.0, 1.0), (1.0, 1.0, 1.0)))
    assert bool(depth(empty, torch.tensor([50.0]), (8, 8)).isinf().all())
    lenses = Lenses(torch.tensor([50.0]), torch.tensor([0.01]), torch.tensor([[1.0]]))
    assert float(render(empty, lenses, flat_atlas(), disk_samples(4), (8, 8)).max()) == 0


@pytest.mark.parametrize(("focus", "distance"), [(1.0, 0.6), (0.5, 1.2), (math.inf, 0.8)])
def test_blur_disc_has_the_size_of_the_formula(focus: float, distance: float) -> None:
    """A small bright thing: the second moment of its picture is that of a disk of the predicted diameter."""
    focal_length, f_number, pitch, size = 0.05, 2.8, 1e-4, 65
    focal_px = focal_length / pitch
    radius = 3e-3
    thing = scene((ELLIPSOID, (0.0, 0.0, distance), (radius, radius, radius)))
    lenses = Lenses(torch.tensor([focal_px]), torch.tensor([focal_length / f_number]), torch.tensor([[1 / focus]]))
    picture = render(thing, lenses, flat_atlas(), disk_samples(700), (size, size))[0, 0, 0]
    x = torch.arange(size) - (size - 1) / 2
    second_moment = ((picture.sum(0) * x**2).sum() / picture.sum()).item()
    magnification = 1 - focal_length / focus
    diameter = coc_px(distance, focus, Camera(focal_length, f_number, pitch), magnification).item()
    thing_px = 2 * radius / distance * focal_px
    expected = diameter**2 / 16 + thing_px**2 / 16 + 1 / 12
    assert second_moment == pytest.approx(expected, rel=0.03)


def test_light_is_kept_by_blur() -> None:
    """A plane that fills the view has the same brightness however far out of focus."""
    plane = scene((SHEET, (0.0, 0.0, 1.0), (1.0, 1.0, 1.0)))
    lenses = Lenses(torch.tensor([60.0]), torch.tensor([0.02]), torch.tensor([[1.0, 3.0]]))
    frames = render(plane, lenses, flat_atlas(0.25), disk_samples(16), (16, 16))[0]
    torch.testing.assert_close(frames, torch.full_like(frames, 0.25), rtol=0, atol=3e-3)


def test_texture_levels_keep_the_mean_and_interpolate() -> None:
    atlas = make_atlas(2, seed=0)
    u, v = torch.rand(2, 4000, generator=torch.Generator().manual_seed(0)) * SIZE
    texture = torch.ones(4000, dtype=torch.int64)
    means = [
        fetch(atlas, texture, u, v, torch.full((4000,), float(1 << level))).mean(0) for level in range(0, LEVELS, 2)
    ]
    for mean in means:
        torch.testing.assert_close(mean, atlas.means[1], rtol=0.1, atol=0.02)
    once = fetch(atlas, texture[:1], torch.tensor([10.5]), torch.tensor([20.5]), torch.ones(1))
    again = fetch(atlas, texture[:1], torch.tensor([2.0 * SIZE + 10.5]), torch.tensor([20.5]), torch.ones(1))
    torch.testing.assert_close(once, again)


def test_samples_fill_the_disk_evenly() -> None:
    samples = disk_samples(400)
    assert float(samples[:, :2].norm(dim=1).max()) <= 1
    torch.testing.assert_close(samples[:, :2].square().sum(1).mean(), torch.tensor(0.5), rtol=0, atol=1e-3)
    assert float(samples[:, 2:].abs().max()) <= 0.5
    assert float(samples[:, :2].mean(0).norm()) < 0.01


def test_nothing_comes_nearer_than_the_scene_says() -> None:
    """Along wavy horizons Newton's steps go astray: one such pixel would ruin a stack's range of planes."""
    drawing = draw_scenes(GeneratorConfig(size=96, seed=5), 10, 0, 60)
    focal_px, near = (torch.tensor([getattr(view, name) for view in drawing.views]) for name in ("focal_px", "near"))
    found = depth(drawing.scenes, focal_px, (96, 96))
    assert float((1 / found / near[:, None, None]).max()) < 1.4
    assert bool(found.isfinite().all())  # and there is always something behind
