"""Tiles keep every solid that one of their rays meets, and enough rays for their blur."""

import numpy as np
import torch

from focalsweep_research.synthesis import tracer
from focalsweep_research.synthesis.cameras import _cut_to_polygon, lens_samples
from focalsweep_research.synthesis.culling import TILE, largest_blur_px, solids_in_reach, widest_sample
from focalsweep_research.synthesis.generator import draw_scenes
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.scenes import BOX, ELLIPSOID, LIGHT, Scenes
from focalsweep_research.synthesis.textures import make_atlas
from focalsweep_research.synthesis.tracer import Lenses, disk_samples, render

SIZE = (64, 96)


def scenes_and_lenses(count: int) -> tuple[tracer.Scenes, Lenses]:
    drawing = draw_scenes(GeneratorConfig(size=96), 4, 3, count)
    focal_px = torch.tensor([view.focal_px for view in drawing.views])
    near = torch.tensor([view.near for view in drawing.views])
    focus = torch.stack([near, 0.5 * near, 0.1 * near], 1)
    return drawing.scenes, Lenses(focal_px, 25 / near / focal_px, focus)


def test_no_solid_that_a_ray_meets_is_left_out() -> None:
    scenes, lenses = scenes_and_lenses(6)
    bits = solids_in_reach(scenes, lenses.focal_px, lenses.aperture, lenses.inverse_focus, SIZE)
    bits_px = bits.repeat_interleave(TILE[0], -2).repeat_interleave(TILE[1], -1)[..., : SIZE[0], : SIZE[1]]
    for x, y, offset_x, offset_y in disk_samples(12).tolist():
        origin, direction, _ = tracer._rays(lenses, (x, y, offset_x, offset_y), SIZE, 1.0)
        nearest, owner = tracer._nearest(scenes, origin, direction)
        kept = (bits_px >> owner.to(torch.int32)) & 1
        assert bool((kept == 1)[nearest < tracer.MISS].all())


def test_a_marble_seen_through_the_corners_of_a_pentagon_is_kept() -> None:
    """A polygon of the disk's variance reaches beyond the disk, and its corners see more."""
    rng = np.random.default_rng(0)
    pentagon = _cut_to_polygon(disk_samples(96), 5)
    widest = widest_sample(pentagon)
    assert 1.05 < widest < 1.15 and widest_sample(disk_samples(96)) == 1
    corners = pentagon[pentagon[:, :2].norm(dim=1).argsort(descending=True)[:8]].tolist()
    count = 20
    scenes = Scenes(
        kind=torch.full((count, 1), ELLIPSOID, dtype=torch.int32),
        centre=torch.tensor([[[*rng.uniform(-0.3, 0.3, 2), 1.0]] for _ in range(count)], dtype=torch.float32),
        axes=torch.eye(3).expand(count, 1, 3, 3),
        half=torch.full((count, 1, 3), 0.003),
        waves=torch.zeros(count, 1, 3, 4),
        texture=torch.zeros((count, 1), dtype=torch.int32),
        mapping=torch.ones(count, 1, 3),
        tint=torch.ones(count, 1, 3),
        contrast=torch.ones(count, 1),
        gloss=torch.ones(count, 1, 2),
        light=torch.ones(count, LIGHT),
    )
    lenses = Lenses(torch.full((count,), 100.0), torch.full((count,), 0.6), torch.zeros(count, 1))
    rays = [tracer._rays(lenses, corner, SIZE, float(widest))[:2] for corner in corners]
    hits = [tracer._nearest(scenes, *ray)[0] < tracer.MISS for ray in rays]
    lost = []
    for aperture in (lenses.aperture * widest, lenses.aperture):
        bits = solids_in_reach(scenes, lenses.focal_px, aperture, lenses.inverse_focus, SIZE)
        bits_px = bits.repeat_interleave(TILE[0], -2).repeat_interleave(TILE[1], -1)[..., : SIZE[0], : SIZE[1]]
        lost.append(sum(int(((bits_px == 0) & hit).sum()) for hit in hits))
    assert lost[0] == 0 < lost[1]


def test_most_things_are_out_of_reach_of_a_tile() -> None:
    config = GeneratorConfig()
    drawing = draw_scenes(config, 4, 3, 24)
    focal_px, near, far = (
        torch.tensor([getattr(view, name) for view in drawing.views]) for name in ("focal_px", "near", "far")
    )
    bits = solids_in_reach(drawing.scenes, focal_px, 12 / (near - far) / focal_px, near[:, None], (256, 256))
    thing = (drawing.scenes.kind == ELLIPSOID) | (drawing.scenes.kind == BOX)
    kept = sum(((bits >> i) & 1) * thing[:, i, None, None, None] for i in range(config.solids))
    assert kept.float().mean() < 0.3 * thing.sum(1).float().mean()


def test_the_largest_blur_of_a_plane_is_its_blur() -> None:
    found = largest_blur_px(torch.full((1, 20, 40), 2.0), torch.tensor([30.0]), torch.tensor([[0.5, 1.5]]))
    assert found.shape == (1, 2, 3, 3)
    torch.testing.assert_close(found[0, :, 0, 0], torch.tensor([0.0, 30.0]))


def test_few_rays_where_the_blur_is_small_change_next_to_nothing() -> None:
    drawing = draw_scenes(GeneratorConfig(size=96), 4, 3, 1)
    focal_px = torch.tensor([view.focal_px for view in drawing.views])
    near = torch.tensor([view.near for view in drawing.views])
    lenses = Lenses(focal_px, 16 / near / focal_px, torch.stack([near, 0.5 * near], 1))
    atlas = make_atlas(4, 7, [])
    sets = lens_samples(np.random.default_rng(0), GeneratorConfig(rays=96, odd_aperture=0))
    every = render(drawing.scenes, lenses, atlas, sets[-1], (40, 56))
    chosen = render(drawing.scenes, lenses, atlas, sets, (40, 56))
    few = render(drawing.scenes, lenses, atlas, sets[0], (40, 56))
    error = (chosen - every).square().mean().sqrt()
    assert 0 < error < 0.006
    assert error < 0.6 * (few - every).square().mean().sqrt()
