"""The generator: deterministic, inside its own limits, and consistent with the thin lens."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from focalsweep import coc_px
from focalsweep_research.synthesis import generator
from focalsweep_research.synthesis.cameras import WIDEST_BLUR_PX, Draw, draw_camera, draw_view
from focalsweep_research.synthesis.generator import make_source
from focalsweep_research.synthesis.generator_config import GeneratorConfig, read_generator_config
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.synthesis.scenes import BOX, ELLIPSOID
from focalsweep_research.synthesis.sensor import soften

CPU = torch.device("cpu")
CONFIG = GeneratorConfig(size=24, planes=8, rays=2, textures=4, solids=5, frames=(2, 4))


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    source = make_source(CONFIG)
    return [source(step, 3, CPU) for step in range(4)]


def test_the_same_step_gives_the_same_batch(samples: list[Sample]) -> None:
    again = make_source(CONFIG)(2, 3, CPU)
    assert torch.equal(again.stack.images, samples[2].stack.images)
    assert torch.equal(again.depth, samples[2].depth)
    assert torch.equal(again.planes.inverse_depths, samples[2].planes.inverse_depths)


def test_other_steps_and_seeds_give_others(samples: list[Sample]) -> None:
    assert not torch.equal(samples[0].depth, samples[1].depth)
    other = make_source(GeneratorConfig(size=24, planes=8, rays=2, textures=4, solids=5, frames=(2, 4), seed=1))
    assert not torch.equal(other(0, 3, CPU).depth, samples[0].depth)


def test_held_out_textures_are_others() -> None:
    held_out = make_source(
        GeneratorConfig(size=24, planes=8, rays=2, textures=4, solids=5, frames=(2, 4), held_out=True)
    )
    training = make_source(CONFIG)
    assert torch.equal(held_out(0, 1, CPU).depth, training(0, 1, CPU).depth)
    assert not torch.equal(held_out(0, 1, CPU).stack.images, training(0, 1, CPU).stack.images)


def test_planes_hold_everything_in_sight(samples: list[Sample]) -> None:
    for sample in samples:
        inverse = 1 / sample.depth
        planes = sample.planes.inverse_depths[:, :, None]
        assert bool((inverse.flatten(1) <= planes[:, 0]).all())
        assert bool((inverse.flatten(1) >= planes[:, -1] - 1e-6).all())


def test_blur_stays_in_its_range(samples: list[Sample]) -> None:
    """Between the nearest and the farthest thing in sight: what was asked for, and the metadata's error."""
    for sample in samples:
        for i in range(3):
            stack = sample.stack
            focus = stack.focus_distances[i]
            one = stack.as_batch()
            near, far = sample.depth[i].amin().double(), sample.depth[i].amax().double()
            magnification = one.magnification[i]  # type: ignore[index]
            camera = type(stack.camera)(
                stack.camera.focal_length[i].item(),  # type: ignore[index]
                stack.camera.f_number[i].item(),  # type: ignore[index]
                stack.camera.pixel_pitch[i].item(),  # type: ignore[index]
            )
            blur = coc_px(torch.stack([near, far])[:, None], focus, camera, magnification)
            assert float(blur.max()) < 40


def test_images_are_linear_light_in_range(samples: list[Sample]) -> None:
    for sample in samples:
        assert float(sample.stack.images.min()) >= -0.1
        assert float(sample.stack.images.max()) <= 1.1
        assert 2 <= sample.stack.frame_count <= 4


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="'rayz'"):
        read_generator_config({"rayz": 3})
    assert read_generator_config({"frames": [2, 3]}).frames == (2, 3)


def test_order_of_the_steps_does_not_matter(samples: list[Sample]) -> None:
    """Scenes drawn ahead, skipped or asked for twice: a step's batch is the same."""
    source = make_source(CONFIG)
    for step in (3, 1, 1, 0, 2):
        assert torch.equal(source(step, 3, CPU).stack.images, samples[step].stack.images)


@pytest.mark.parametrize(
    ("asked", "made"),
    [
        ((0, 1, 2), [0, 1, 2, 3]),  # one after the other
        ((7, 8, 9), [7, 8, 9, 10]),  # resumed
        ((0, 1, 0, 1), [0, 1, 2, 0, 1, 2]),  # validation, again and again
        ((1, 4, 7), [1, 2, 4, 7, 10]),  # the second of three processes
    ],
)
def test_the_batch_that_comes_next_is_made_ahead(
    asked: tuple[int, ...], made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step is made in vain, but for one guess where the stride is not known yet or changes."""
    drawn: list[int] = []
    config = replace(CONFIG)

    def draw(given: GeneratorConfig, textures: int, step: int, batch_size: int) -> generator.Drawing:
        if given is config:  # sources of other tests may be at work
            drawn.append(step)
        return draw_scenes(given, textures, step, batch_size)

    draw_scenes = generator.draw_scenes
    monkeypatch.setattr(generator, "draw_scenes", draw)
    source = make_source(config)
    for step in asked:
        assert torch.equal(source(step, 1, CPU).stack.images, make_source(CONFIG)(step, 1, CPU).stack.images)
    deadline = time.monotonic() + 20
    while len(drawn) < len(made) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert drawn == made


@pytest.mark.parametrize("parts", [0.0, 1.0])
def test_replays_are_other_stacks_of_the_same_rays(parts: float) -> None:
    """Frames are left out, pictures mirrored, noise is another; depth, focus and the place of a part go along."""
    config = replace(
        CONFIG, replays=3, parts=parts, whole=24, noise_std=(1e-4, 1e-3), quantised=0.0, soft=0.0, frames=(3, 6)
    )
    source = make_source(config)
    first, *others = (source(step, 4, CPU) for step in (3, 4, 5))
    assert torch.equal(make_source(config)(5, 4, CPU).stack.images, others[1].stack.images)  # resumed in the middle
    assert torch.equal(source(3, 4, CPU).stack.images, first.stack.images)
    plain = make_source(replace(config, replays=1))(1, 4, CPU)
    assert torch.equal(plain.depth, first.depth) and plain.stack.frame_count == first.stack.frame_count
    mirrored = set()
    for other in others:
        assert other.planes.count == first.planes.count
        for i in range(4):
            flipped = not torch.equal(other.depth[i], first.depth[i])
            mirrored.add(flipped)
            assert torch.equal(other.depth[i].flip(-1) if flipped else other.depth[i], first.depth[i])
            distances = first.stack.focus_distances[i].tolist()
            for number, distance in enumerate(other.stack.focus_distances[i].tolist()):
                place = distances.index(distance)
                image, before = other.stack.images[i, number], first.stack.images[i, place]
                apart = ((image.flip(-1) if flipped else image) - before).abs()
                assert 0 < float(apart.mean()) < 0.01  # other noise, the same picture
            if parts:
                left, top, width, height = first.window[i].tolist()  # type: ignore[index]
                moved = [1 - left - width if flipped else left, top, width, height]
                assert other.window[i].tolist() == pytest.approx(moved)  # type: ignore[index]
                assert other.whole is not None and other.whole.stack.frame_count == other.stack.frame_count
    assert mirrored == {False, True}


def test_replays_of_photographs_have_flaws_of_their_own() -> None:
    config = replace(CONFIG, replays=2, photographs=1.0)
    source = make_source(config)
    first, other = source(0, 3, CPU), source(1, 3, CPU)
    assert torch.equal(make_source(config)(1, 3, CPU).stack.images, other.stack.images)
    assert torch.equal(source(0, 3, CPU).stack.images, first.stack.images)
    assert float((first.stack.images[:, 0].mean((1, 2, 3)) - other.stack.images[:, 0].mean((1, 2, 3))).abs().max()) > 0


def test_another_batch_size_is_another_batch() -> None:
    """What was made ahead for one size is not handed out for another."""
    source = make_source(CONFIG)
    source(0, 2, CPU)
    three = source(1, 3, CPU)
    assert torch.equal(three.stack.images, make_source(CONFIG)(1, 3, CPU).stack.images)


def test_an_error_ahead_is_raised_where_its_batch_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(config: GeneratorConfig, textures: int, step: int, batch_size: int) -> generator.Drawing:
        if step == 1:
            raise ValueError("no scene number 1")
        return draw_scenes(config, textures, step, batch_size)

    draw_scenes = generator.draw_scenes
    monkeypatch.setattr(generator, "draw_scenes", draw)
    source = make_source(CONFIG)
    source(0, 1, CPU)
    with pytest.raises(ValueError, match="number 1"):
        source(1, 1, CPU)


def test_focus_on_a_part_and_planes_far_beyond_the_scene() -> None:
    def draws(**shares: float) -> list[Draw]:
        config = GeneratorConfig(**shares)  # type: ignore[arg-type]
        rngs = [np.random.default_rng(i) for i in range(200)]
        return [draw_camera(rng, config, draw_view(rng, config, config.size), (0.5, 2.5), 4) for rng in rngs]

    def focused(draw: Draw) -> float:  # share of the scene's range between the ends of focus
        inverse = [1 / d for d in draw.focus_distances]
        return (max(inverse) - min(inverse)) / 2

    plain = draws(partial_focus=0.0, wide_range=0.0)
    partial = draws(partial_focus=1.0, wide_range=0.0)
    wide = draws(partial_focus=0.0, wide_range=1.0)
    assert np.median([focused(draw) for draw in plain]) > 0.7 > 0.55 > np.median([focused(draw) for draw in partial])
    reach = [(draw.near - draw.far) / 2 for draw in wide]
    assert max((draw.near - draw.far) / 2 for draw in plain) <= 1.6 < np.median(reach)
    for draw in wide:
        slope_px = draw.aperture * draw.focal_px  # px for each 1/m
        assert slope_px * (draw.near - draw.far) <= max(WIDEST_BLUR_PX, 1.6 * 2 * slope_px) * (1 + 1e-9)
    for one, other in zip(plain, partial, strict=True):  # the other flaws are drawn alike
        assert (one.sensor, one.near) == (other.sensor, other.near)


def test_lights_burn_out_and_change_nothing_but_colours() -> None:
    dark, lit = (replace(CONFIG, rooms=0.0, lights=share) for share in (0.0, 1.0))
    plain, bright = (generator.draw_scenes(config, 4, 0, 20).scenes for config in (dark, lit))
    for name in ("kind", "centre", "axes", "half", "waves", "texture", "mapping", "light"):
        assert torch.equal(getattr(plain, name), getattr(bright, name)), name
    brighter = (bright.tint > 1.99 * plain.tint).all(-1)
    sky = bright.tint[:, 0].amin(-1) >= 7.99 * plain.tint[:, 0].amax(-1)
    assert bool((brighter[~sky].sum(1) >= 1).all() and (brighter[~sky].sum(1) <= 2).all())
    assert 0.2 < sky.float().mean() < 0.8 and bool((bright.contrast[sky, 0] <= 0.3 * plain.contrast[sky, 0]).all())
    burnt_out = [make_source(config)(0, 12, CPU).stack.images.ge(0.99).float().mean() for config in (dark, lit)]
    assert burnt_out[1] > burnt_out[0]


def test_rooms_are_plainer_and_their_things_larger() -> None:
    scenes = [generator.draw_scenes(replace(CONFIG, rooms=share), 4, 0, 100).scenes for share in (0.0, 1.0)]
    there = [scene.kind > 0 for scene in scenes]
    faint = [float((scene.contrast[here] < 0.15).float().mean()) for scene, here in zip(scenes, there, strict=True)]
    assert 0.1 < faint[0] < 0.2 < 0.5 < faint[1] < 0.7
    half = [scene.half[(scene.kind == ELLIPSOID) | (scene.kind == BOX)].median() for scene in scenes]
    assert half[1] > 1.5 * half[0]


def test_softness_is_a_gaussian_of_its_width_for_each_stack() -> None:
    points = torch.zeros((3, 2, 1, 31, 31), dtype=torch.float64)
    points[..., 15, 15] = 1
    sigmas = [0.7, 0.0, 1.2]
    soft = soften(points, sigmas)
    at = torch.arange(-15, 16, dtype=torch.float64)
    torch.testing.assert_close(soft.sum((-2, -1)), torch.ones((3, 2, 1), dtype=torch.float64))
    for summed in (-2, -1):
        variance = (soft.sum(summed) * at.square()).sum(-1)[:, 0, 0]
        # sampled, and cut at 3 of the widest sigma
        torch.testing.assert_close(variance, torch.tensor(sigmas, dtype=torch.float64).square(), rtol=0.02, atol=1e-9)
    assert torch.equal(soft[1], points[1])
    assert torch.allclose(soften(torch.full_like(points, 0.3), sigmas), torch.tensor(0.3, dtype=torch.float64))


def test_some_stacks_are_soft_and_only_their_pixels_differ() -> None:
    sharp, soft = (replace(CONFIG, soft=share) for share in (0.0, 1.0))
    assert set(generator.draw_scenes(sharp, 4, 0, 20).softness_px) == {0.0}
    widths = generator.draw_scenes(soft, 4, 0, 20).softness_px
    assert min(widths) >= CONFIG.softness_px[0] and max(widths) <= CONFIG.softness_px[1] and len(set(widths)) == 20
    one, other = (make_source(replace(config, noise_std=(1e-4, 2e-4)))(0, 6, CPU) for config in (sharp, soft))
    assert torch.equal(one.depth, other.depth)
    assert torch.equal(one.stack.focus_distances, other.stack.focus_distances)
    slopes = [sample.stack.images.diff(dim=-1).abs().mean() for sample in (one, other)]
    assert slopes[1] < 0.95 * slopes[0]
