"""The flaws of photographs: what each does, that they are a stack's own, and what a reduction leaves of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from focalsweep.optics.light import linear_to_srgb
from focalsweep_research.synthesis.flaws import KINDS, reduce_flaws
from focalsweep_research.synthesis.photograph import Flaws, draw_flaws, metered_gain, photograph

STILL = (1.0, 1.0, 1.0)
NONE = Flaws((STILL,))
DEVELOPED = replace(NONE, file=True)


def scene(size: int = 48, frames: int = 2, seed: int = 0) -> Tensor:
    """Smooth areas of colour, fine texture and an edge: F 3 H W of linear light, about 0.05 to 0.7."""
    rng = torch.Generator().manual_seed(seed)
    areas = functional.interpolate(torch.rand(frames, 3, 4, 4, generator=rng), size=(size, size), mode="bicubic")
    texture = 0.1 * torch.rand(frames, 1, size, size, generator=rng)
    light = (0.1 + 0.35 * areas.clamp(0, 1) + texture) * (1 + 0.3 * (torch.arange(size) > size // 2))
    return light


def flat(level: float, size: int = 128) -> Tensor:
    return torch.full((1, 1, 3, size, size), level)


def drawn(kind: str, frames: int = 2, skip: int = 0) -> Flaws:
    draws = (draw_flaws(np.random.default_rng([7, number]), frames) for number in range(500))
    return [flaws for flaws in draws if flaws.kind == kind][skip]


def share_that_differs(one: Tensor, other: Tensor) -> float:
    return float(((one - other).abs() > 1e-5).float().mean())


def test_draws_are_the_generators_own() -> None:
    one, again, other = (draw_flaws(np.random.default_rng(seed), 3) for seed in (1, 1, 2))
    assert one == again != other
    assert len(one.drift) == 3


def test_shares_are_as_told() -> None:
    draws = [draw_flaws(np.random.default_rng(number), 2) for number in range(800)]
    kinds = Counter(flaws.kind for flaws in draws)
    for kind, share in KINDS.items():
        assert kinds[kind] / len(draws) == pytest.approx(share, abs=0.06)
    files = [flaws.jpeg_quality for flaws in draws if flaws.jpeg_quality]
    assert 0.5 < len(files) / len(draws) < 0.75
    assert 60 <= min(files) < 65
    assert 96 < max(files) <= 98
    noise = [flaws.noise_std for flaws in draws]
    assert 5e-4 <= min(noise) < 1e-3
    assert 0.04 < max(noise) <= 6e-2
    assert max(abs(gain - 1) for flaws in draws for frame in flaws.drift for gain in frame) <= 0.03 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_a_stack_is_the_same_whatever_else_is_in_its_batch(kind: str) -> None:
    flaws = drawn(kind)
    others = [drawn(other, skip=3) for other in KINDS]
    images = torch.stack([scene(seed=seed) for seed in range(len(others) + 1)])
    alone = photograph(images[:1], [flaws], seed=5)
    assert torch.equal(alone, photograph(images[:1], [flaws], seed=5))
    last = torch.cat([images[1:], images[:1]])
    for place, batch, drawing in ((0, images, [flaws, *others]), (len(others), last, [*others, flaws])):
        assert share_that_differs(photograph(batch, drawing, seed=5)[place], alone[0]) < 0.01  # 8 bit may round
    assert share_that_differs(photograph(images[:1], [flaws], seed=6), alone) > 0.3


@pytest.mark.parametrize("size", [(20, 33), (48, 48)])
def test_any_draw_gives_light_of_a_photo(size: tuple[int, int]) -> None:
    flaws = [draw_flaws(np.random.default_rng(number), 2) for number in range(24)]
    images = torch.stack([scene(seed=seed) for seed in range(24)])[..., : size[0], : size[1]] * 3
    images[0], images[1] = 0.0, 50.0
    before = images.clone()
    photos = photograph(images, flaws, 0)
    assert torch.equal(images, before)
    assert photos.shape == images.shape
    assert bool(torch.isfinite(photos).all())
    assert float(photos.min()) >= -0.2
    assert float(photos.max()) <= 1.2
    means = photos[2:].flatten(1).mean(1)
    assert float(means.min()) > 0.02
    assert float(means.max()) < 0.7


def test_wrong_input_is_named() -> None:
    with pytest.raises(ValueError, match="B F 3 H W"):
        photograph(scene()[None], [], 0)
    with pytest.raises(ValueError, match="stack 0 has 2 frames, its flaws are of 1"):
        photograph(scene()[None], [NONE], 0)
    with pytest.raises(ValueError, match="reduced by 1 or more"):
        reduce_flaws(NONE, 0.5)


def test_without_flaws_nothing_changes() -> None:
    images = scene(frames=1)[None]
    torch.testing.assert_close(photograph(images, [NONE], 0), images)
    torch.testing.assert_close(photograph(images, [DEVELOPED], 0), images, atol=2e-6, rtol=1e-5)


def test_clean_stacks_stay_close_to_the_light() -> None:
    images = 0.5 * scene()[None]
    for skip in range(5):
        flaws = drawn("clean", skip=skip)
        error = photograph(images, [flaws], 0) / metered_gain(images, [flaws]) - images
        assert float(error.std()) < 3 * flaws.noise_std
        assert abs(float(error.mean())) < 0.003


def test_exposure_brings_the_mean_to_its_level() -> None:
    images = scene(frames=1)[None]
    for level in (0.1, 0.3):
        exposed = photograph(images, [replace(NONE, level=level)], 0)
        assert float(exposed.mean()) == pytest.approx(level, rel=0.02)
    lamp = images.clone()
    lamp[..., :3, :3] = 200.0
    assert float(metered_gain(lamp, [replace(NONE, level=0.2)])) > 0.5 * float(
        metered_gain(images, [replace(NONE, level=0.2)])
    )
    told = photograph(images, [replace(NONE, level=0.3)], 0, gain=torch.tensor([0.5]))
    torch.testing.assert_close(told, 0.5 * images)


def test_frames_drift_by_their_gains() -> None:
    drift = ((1.0, 1.0, 1.0), (1.02, 0.99, 1.01))
    images = scene(frames=1)[None].expand(-1, 2, -1, -1, -1)
    photos = photograph(images, [Flaws(drift)], 0)
    torch.testing.assert_close(photos[0, 1] / photos[0, 0], torch.tensor(drift[1])[:, None, None].expand(3, 48, 48))


def test_noise_has_its_size_and_grows_with_the_light() -> None:
    flaws = replace(NONE, noise_std=0.01, read_share=0.25)
    for level in (0.1, 0.4, 0.8):
        noise = photograph(flat(level), [flaws], 0) - level
        expected = 0.01 * np.sqrt(0.25 + 0.75 * level / 0.4)
        assert float(noise.std()) == pytest.approx(expected, rel=0.03)
    red, green, _ = photograph(flat(0.4), [replace(flaws, colour_gains=(2.0, 1.0, 1.0))], 0)[0, 0].std((1, 2)).tolist()
    assert red / green == pytest.approx(np.sqrt(0.25 * 4 + 0.75 * 2), rel=0.05)


def test_stacks_and_frames_have_noise_of_their_own() -> None:
    one = replace(NONE, noise_std=0.01)
    stacks = photograph(flat(0.4).expand(2, -1, -1, -1, -1), [one, replace(one, seed=1)], 0) - 0.4
    assert abs(float((stacks[0] * stacks[1]).mean())) < 0.02 * float(stacks.square().mean())
    flaws = replace(NONE, drift=(STILL, STILL), noise_std=0.01)
    first, second = (photograph(flat(0.4).expand(-1, 2, -1, -1, -1), [flaws], 0) - 0.4)[0]
    assert abs(float((first * second).mean())) < 0.02 * float(first.square().mean())


@pytest.mark.parametrize("flaws", [NONE, DEVELOPED, *(replace(DEVELOPED, mosaic=True, edge_aware=e) for e in (0, 1))])
@pytest.mark.parametrize("factor", [2, 4, 8])
def test_a_reduced_photo_has_the_noise_of_one_averaged(flaws: Flaws, factor: int) -> None:
    flaws = replace(flaws, noise_std=0.02)
    light = flat(0.3, 256)
    averaged = functional.avg_pool2d(photograph(light, [flaws], 0)[0], factor)
    small = photograph(light[..., ::factor, ::factor], [flaws], 0, reduced=[float(factor)])[0]
    for colour in range(3):
        assert float(small[:, colour].std()) == pytest.approx(float(averaged[:, colour].std()), rel=0.2)
    assert float(small.mean()) == pytest.approx(float(averaged.mean()), rel=0.01)


def test_a_reduced_photo_looks_like_one_averaged() -> None:
    flaws = replace(
        DEVELOPED, gamma=2.0, contrast=0.5, lift=0.4, local_contrast=0.4, local_px=16.0, saturation=1.2, level=0.25,
        mosaic=True, sharpening=0.5, sharpening_px=1.0, noise_std=1e-3, denoise_luma=3e-3, denoise_chroma=6e-3,
        rounded=True, jpeg_quality=85.0,
    )  # fmt: skip
    light = functional.interpolate(scene(48, frames=1), scale_factor=4, mode="bilinear")[None]
    ideal = functional.avg_pool2d(light[0], 4)[None]
    gain = metered_gain(light, [flaws])
    averaged = functional.avg_pool2d(photograph(light, [flaws], 0)[0], 4)[None]
    small = photograph(ideal, [flaws], 0, reduced=[4.0], gain=gain)
    assert float((small - averaged).abs().mean()) < 0.008
    untouched = (gain * ideal - averaged).abs().mean()
    assert float((small - averaged).abs().mean()) < 0.2 * float(untouched)
    at_full_size = photograph(ideal, [flaws], 0, gain=gain)
    assert float((small - averaged).abs().mean()) < 0.7 * float((at_full_size - averaged).abs().mean())


def test_small_flaws_vanish_when_reduced() -> None:
    flaws = reduce_flaws(drawn("phone"), 5.0)
    assert not (flaws.mosaic or flaws.sharpening or flaws.rounded or flaws.jpeg_quality)
    assert (flaws.contrast, flaws.local_contrast) == (drawn("phone").contrast, drawn("phone").local_contrast)
    mild = reduce_flaws(replace(DEVELOPED, rounded=True, jpeg_quality=80.0, sharpening=1.0), 1.6)
    assert mild.jpeg_quality == pytest.approx(87.5)
    assert mild.rounded
    assert mild.sharpening


@pytest.mark.parametrize("phase", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_mosaic_leaves_plain_colours_and_loses_fine_ones(phase: tuple[int, int]) -> None:
    flaws = replace(DEVELOPED, mosaic=True, mosaic_phase=phase)
    colour = torch.tensor([0.5, 0.3, 0.1])[:, None, None].expand(1, 1, 3, 16, 17)
    torch.testing.assert_close(photograph(colour, [flaws], 0), colour, atol=1e-5, rtol=1e-4)
    ramp = (0.2 + torch.arange(16) / 50).expand(1, 1, 3, 16, 16)
    torch.testing.assert_close(photograph(ramp, [flaws], 0)[..., 2:-2], ramp[..., 2:-2], atol=1e-5, rtol=1e-4)
    stripes = (0.2 + 0.4 * (torch.arange(16) % 2)).expand(1, 1, 3, 16, 16)
    assert float((photograph(stripes, [flaws], 0) - stripes).abs().mean()) > 0.05


def test_an_edge_aware_mosaic_loses_less() -> None:
    row, column = torch.arange(40.0)[:, None], torch.arange(40.0)
    for across in (row, column, 0.3 * row + column):
        edge = torch.sigmoid((across - 20) * 1.5).expand(40, 40)
        images = (0.1 + edge * torch.tensor([0.6, 0.5, 0.4])[:, None, None])[None, None]
        bilinear, aware = (
            (photograph(images, [replace(DEVELOPED, mosaic=True, edge_aware=aware)], 0) - images).square().mean()
            for aware in (False, True)
        )
        assert float(aware) < 0.15 * float(bilinear)


@pytest.mark.parametrize("turned", [False, True])
def test_an_edge_aware_mosaic_bends_green_as_its_pixel_does(turned: bool) -> None:
    at = torch.arange(40.0)
    wave, stripes = 0.003 * torch.cos(2 * torch.pi * at / 5), 0.25 * torch.cos(2 * torch.pi * at / 3)
    grey = 0.4 + wave[:, None] + stripes  # along the stripes, down, the wave is interpolated
    images = (grey.mT if turned else grey).expand(1, 1, 3, 40, 40)
    green = photograph(images, [replace(DEVELOPED, mosaic=True)], 0)[0, 0, 1]
    worst = 0.003 * (1 - np.cos(2 * np.pi / 5))  # of the two neighbours' mean alone
    assert float((green - images[0, 0, 1])[4:-4, 4:-4].abs().max()) < 0.6 * worst


def test_noise_reduction_wipes_faint_texture_and_keeps_edges() -> None:
    faint = 0.3 + 0.004 * torch.randn(1, 1, 1, 64, 64, generator=torch.Generator().manual_seed(0)).expand(
        1, 1, 3, 64, 64
    )
    flaws = replace(DEVELOPED, denoise_luma=0.01, denoise_chroma=0.02)
    assert float(photograph(faint, [flaws], 0).std()) < 0.2 * float(faint.std())
    edge = (0.2 + 0.4 * (torch.arange(64) > 31)).expand(1, 1, 3, 64, 64)
    torch.testing.assert_close(photograph(edge, [flaws], 0), edge, atol=0.01, rtol=0)
    texture = scene(64, frames=1)[None]
    kept = photograph(texture, [flaws], 0) - texture
    assert float(kept.std()) < 0.35 * 0.1 / np.sqrt(12)


def test_tone_curves_rise_and_differ() -> None:
    ramp = torch.linspace(0, 1, 128).expand(1, 1, 3, 1, 128)
    curves = []
    for number in range(60):
        own = draw_flaws(np.random.default_rng(number), 1)
        flaws = replace(DEVELOPED, gamma=own.gamma, contrast=own.contrast, lift=own.lift, headroom=own.headroom)
        curves.append(photograph(ramp * own.headroom, [flaws], 0)[0, 0, 0, 0])
        assert bool((curves[-1].diff() > 0).all())
        assert float(curves[-1][-1]) == pytest.approx(1, abs=1e-3)
    assert float(torch.stack(curves)[:, 32].std()) > 0.03


def test_contrast_parts_the_tones_and_lift_raises_the_dark_ones() -> None:
    tones = torch.tensor([0.02, 0.1, 0.6]).expand(1, 1, 3, 3, 3)
    low, middle, high = (photograph(tones, [replace(DEVELOPED, contrast=0.5)], 0) - tones)[0, 0, 0, 0].tolist()
    assert low < -0.002
    assert middle < -0.01
    assert high > 0.02
    lifted = (photograph(tones, [replace(DEVELOPED, lift=0.5)], 0) / tones - 1)[0, 0, 0, 0].tolist()
    assert lifted[0] > 2 * lifted[1] > 4 * abs(lifted[2])


def test_highlights_of_a_sensor_that_holds_more_are_compressed() -> None:
    light = torch.tensor([0.3, 0.8, 1.5, 2.0, 5.0]).expand(1, 1, 3, 1, 5)
    dark, shoulder, above, white, clipped = photograph(light, [replace(DEVELOPED, headroom=2.0)], 0)[
        0, 0, 0, 0
    ].tolist()
    assert dark == pytest.approx(0.3, rel=1e-4)
    t, w = 0.3 / 0.5, 1.5 / 0.5  # by Reinhard
    assert shoulder == pytest.approx(0.5 + 0.5 * t * (1 + t / w**2) / (1 + t), rel=1e-4)
    assert shoulder < above < white == pytest.approx(1, rel=1e-4)
    assert clipped == white


def test_sharpening_overshoots_near_edges_only_and_local_contrast_far_around() -> None:
    edge = (0.2 + 0.3 * (torch.arange(96) > 47)).expand(1, 1, 3, 96, 96)
    sharp = photograph(edge, [replace(DEVELOPED, sharpening=1.0, sharpening_px=1.0)], 0)[0, 0, 1, 40]
    assert float(sharp[48]) > 0.53
    assert float(sharp[47]) < 0.18
    assert float((sharp - edge[0, 0, 1, 40]).abs()[8:40].max()) < 1e-3
    local = photograph(edge, [replace(DEVELOPED, local_contrast=0.4, local_px=12.0)], 0)[0, 0, 1, 40]
    assert float(local[56]) > 0.52
    assert float(local[10]) == pytest.approx(0.2, abs=2e-3)


def test_files_of_8_bit_are_rounded() -> None:
    photo = photograph(scene(frames=1)[None], [replace(DEVELOPED, rounded=True)], 0)
    steps = linear_to_srgb(photo) * 255
    torch.testing.assert_close(steps, steps.round(), atol=2e-3, rtol=0)


def test_a_lower_quality_loses_more() -> None:
    images = scene(frames=1)[None].expand(2, -1, -1, -1, -1)
    flaws = [replace(DEVELOPED, rounded=True, jpeg_quality=quality) for quality in (60.0, 97.0)]
    worse, better = (photograph(images, flaws, 0) - images).square().flatten(1).mean(1).tolist()
    assert worse > 3 * better
