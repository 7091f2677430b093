"""Whole stacks laid onto one frame: against the motion they were rendered with, and what cannot be mended."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from focalsweep import Camera, FocalStack, coc_px
from focalsweep.photos.alignment import Alignment, align, measure_alignment
from focalsweep.photos.overlap import common_area
from focalsweep.photos.registration import Array
from tests.errors import assert_one_sentence, message_of

from .handheld import Matrix, Shake, corner_error_px, pan, photograph, similarity

SIZE = (240, 320)
STILL = Shake(frames=4, breathing=0, shift_px=0, turn_deg=0, drift=0, size=SIZE)


@cache
def stack(shake: Shake, seed: int) -> tuple[list[Array], list[Matrix], list[float]]:
    return photograph(shake, seed)


def flat(level: float = 0.4) -> Array:
    noise = 0.01 * np.random.default_rng(9).standard_normal((*SIZE, 3))
    return (level + noise).astype(np.float32)


def errors_px(alignment: Alignment, moves: Sequence[Matrix], places: Sequence[int] | None = None) -> list[float]:
    """Each kept frame's error at the corners; `places` says which rendered frame stands where."""
    moves = [moves[place] for place in places] if places else moves
    onto = np.linalg.inv(moves[alignment.reference])
    return [
        corner_error_px(transform, moves[i] @ onto, SIZE)
        for i, transform in zip(alignment.kept, alignment.transforms, strict=True)
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_shaken_breathing_drifting_stack(seed: int) -> None:
    frames, moves, gains = stack(Shake(size=SIZE), seed)
    images, alignment = align(frames)
    assert alignment.kept == (0, 1, 2, 3, 4)
    assert alignment.reference == 2
    errors = errors_px(alignment, moves)
    assert np.median(errors) < 0.3
    assert max(errors) < 0.7
    scales = np.array([np.sqrt(np.linalg.det(move[:2, :2])) for move in moves])
    np.testing.assert_allclose(alignment.magnification, scales[2] / scales, rtol=1e-3)
    np.testing.assert_allclose(alignment.gains, np.array(gains) / gains[2], rtol=0.01)
    assert "exposure drifts by" in alignment.notes[0]
    assert len(alignment.notes) == 1
    assert {image.shape for image in images} == {images[0].shape}
    assert all(image.dtype == np.float32 and image.min() >= 0 for image in images)


def test_frames_come_to_lie_on_the_reference() -> None:
    shake = Shake(frames=5, blur_px=0.01, noise_std=0, size=SIZE)  # all sharp: what is left is the alignment's doing
    frames, _, _ = stack(shake, 2)
    images, alignment = align(frames)
    inner = (slice(8, -8), slice(8, -8))
    for image in images:
        assert np.abs(image - images[2])[inner].mean() < 0.006
    before = np.mean([np.abs(frame - frames[2]).mean() for frame in frames[:2]])
    assert before > 0.03
    np.testing.assert_array_equal(images[2], frames[2][alignment.area])


def test_a_long_chain_does_not_wander() -> None:
    shake = Shake(frames=15, breathing=0.04, shift_px=6, turn_deg=0.2, size=SIZE)
    frames, moves, _ = stack(shake, 3)
    errors = errors_px(measure_alignment(frames), moves)
    assert np.median(errors) < 0.3
    assert max(errors) < 0.7


def test_a_hand_that_turns_the_camera() -> None:
    moves = tuple(pan(SIZE, 260, *angles) for angles in ((0, 0), (0.8, 0.5), (1.5, -0.6), (0.4, -1.2)))
    frames, moves_seen, _ = photograph(Shake(frames=4, blur_px=8, size=SIZE, moves=moves), 4)
    alignment = measure_alignment(frames)
    assert max(errors_px(alignment, moves_seen)) < 0.7


def test_the_reference_can_be_told() -> None:
    frames, moves, _ = stack(Shake(size=SIZE), 0)
    alignment = measure_alignment(frames, reference=4)
    assert alignment.reference == 4
    assert max(errors_px(alignment, moves)) < 0.7
    assert alignment.magnification[4] == 1
    assert alignment.gains[4] == 1
    np.testing.assert_array_equal(alignment.transforms[4], np.eye(3))


# What must not be touched


def test_identical_frames_come_back_bit_identical() -> None:
    frame = stack(STILL, 5)[0][0]
    images, alignment = align([frame, frame.copy(), frame.copy()])
    for image in images:
        np.testing.assert_array_equal(image, frame)
    np.testing.assert_array_equal(alignment.magnification, 1)
    assert alignment.notes == ()


@pytest.mark.parametrize("seed", [5, 6])
def test_a_tripod_stack_is_left_alone(seed: int) -> None:
    frames, _, _ = stack(STILL, seed)
    images, alignment = align(frames)
    np.testing.assert_array_equal(alignment.magnification, 1)
    np.testing.assert_array_equal(alignment.motion_px, 0)
    for image, frame, gain in zip(images, frames, alignment.gains, strict=True):
        assert gain == pytest.approx(1, abs=0.01)
        np.testing.assert_array_equal(image, frame / np.float32(gain))


def test_mode_none_takes_the_frames_as_they_are() -> None:
    frames, _, _ = stack(Shake(size=SIZE), 0)
    images, alignment = align(frames, mode="none")
    for image, frame in zip(images, frames, strict=True):
        np.testing.assert_array_equal(image, frame)
    np.testing.assert_array_equal(alignment.magnification, 1)
    np.testing.assert_array_equal(alignment.gains, 1)
    assert alignment.area == (slice(0, 240), slice(0, 320))


def test_gray_frames_and_the_smallest_stack() -> None:
    frames, moves, _ = stack(Shake(size=SIZE), 1)
    images, alignment = align([frame[..., 1:2] for frame in frames[:2]])
    assert alignment.kept == (0, 1)
    assert images[0].shape[-1] == 1
    assert images[0].shape == images[1].shape
    assert max(errors_px(alignment, moves[:2])) < 0.7


# The blur grows with the picture


def spread_px(picture: Array) -> float:
    """The diameter of a disk with the variance that a lone spot has: per-axis variance is c^2 / 16."""
    light = picture.mean(-1, dtype=np.float64)
    rows, columns = np.mgrid[0 : light.shape[0], 0 : light.shape[1]]
    total = light.sum()
    row, column = (light * rows).sum() / total, (light * columns).sum() / total
    variance = (light * ((rows - row) ** 2 + (columns - column) ** 2)).sum() / total / 2
    return float(4 * np.sqrt(variance))


def test_magnification_is_what_the_blur_model_needs() -> None:
    moves = (similarity(SIZE, 0.95), np.eye(3), similarity(SIZE, 1.05))
    frames, _, _ = photograph(Shake(frames=3, blur_px=2, drift=0, size=SIZE, moves=moves), 7)
    _, alignment = align(frames)
    np.testing.assert_allclose(alignment.magnification, [1 / 0.95, 1, 1 / 1.05], rtol=1e-3)
    rows, columns = np.mgrid[0:240, 0:320]
    disk = np.clip(10.5 - np.hypot(rows - 120, columns - 160), 0, 1).astype(np.float32)[..., None]  # 20 px across
    dim = np.float32(0.2)  # background, so that nothing is cut off at 0
    seen = [spread_px(alignment.apply(i, disk + dim) * np.float32(alignment.gains[i]) - dim) for i in range(3)]
    np.testing.assert_allclose(seen, spread_px(disk) * alignment.magnification, rtol=2e-3)
    # So a blur of 20 px in the frame is 20 px times the magnification in the registered one, as the formula has it.
    camera, distances = Camera(0.05, 2.8, 1e-5), np.array([1.0, 1.5, 2.0])
    blur = FocalStack(np.zeros((3, 1, 4, 4), np.float32), distances, camera, alignment.magnification)
    with_it = coc_px(0.8, blur.focus_distances, camera, blur.magnification)
    expected = alignment.magnification * np.abs(1 / distances - 1 / 0.8) * 0.05**2 / 2.8 / (1 - 0.05 / distances) / 1e-5
    np.testing.assert_allclose(with_it, expected, rtol=1e-12)


# Frames that cannot be registered


@pytest.mark.parametrize(
    ("place", "what"),
    [(0, "flat"), (2, "flat"), (4, "flat"), (0, "another scene"), (2, "another scene"), (2, "turned")],
)
def test_a_frame_that_does_not_belong_is_left_out(place: int, what: str) -> None:
    frames, moves, _ = stack(Shake(frames=4, size=SIZE), 8)
    turned = similarity(SIZE, 1.0, 9.0)
    odd = {
        "flat": flat,
        "another scene": lambda: stack(Shake(frames=4, size=SIZE), 9)[0][1],
        "turned": lambda: photograph(Shake(frames=2, size=SIZE, moves=(turned, turned)), 8)[0][0],
    }[what]()
    mixed = [*frames[:place], odd, *frames[place:]]
    names = ["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"]
    images, alignment = align(mixed, names=names)
    kept = [i for i in range(5) if i != place]
    assert list(alignment.kept) == kept
    assert len(images) == len(alignment.magnification) == 4
    assert_one_sentence(alignment.notes[0], names[place], "cannot be registered", "left out")
    places = [i if i < place else max(i - 1, 0) for i in range(5)]
    assert max(errors_px(alignment, moves, places)) < 0.7
    with pytest.raises(ValueError, match=f"frame {place} was dropped"):
        alignment.apply(place, odd)


def test_a_reference_that_was_left_out_is_replaced() -> None:
    frames, _, _ = stack(Shake(frames=4, size=SIZE), 8)
    alignment = measure_alignment([*frames, flat()], reference=4)
    assert alignment.reference == 2
    assert any("frame 4 was left out" in note and "frame 2" in note for note in alignment.notes)


def test_too_few_frames_remain() -> None:
    frames, _, _ = stack(Shake(frames=4, size=SIZE), 8)
    message = message_of(lambda: align([frames[0], flat(), frames[1], flat(0.2)]), ValueError)
    assert_one_sentence(message, "only 2 of 4", "frame 1 and frame 3", "tripod", 'align="none"')
    message = message_of(lambda: align([frames[0], flat()], names=["a.jpg", "b.jpg"]), ValueError)
    assert_one_sentence(message, "only 1 of 2", "b.jpg", "tripod", 'align="none"')


def test_parallax_is_told() -> None:
    frames, _, _ = stack(STILL, 5)
    moved = frames[0].copy()
    moved[60:180, 40:200] = frames[0][60:180, 36:196]
    alignment = measure_alignment([frames[0], frames[0], moved])
    assert_one_sentence(alignment.notes[0], "frame 2", "px after alignment", "tripod")
    assert measure_alignment([frames[0], frames[0], frames[0]]).notes == ()


# The area in common


@pytest.mark.parametrize("seed", range(5))
def test_the_area_is_covered_by_all_and_could_not_be_larger(seed: int) -> None:
    rng = np.random.default_rng(seed)
    moves = [
        pan(SIZE, 300, *rng.uniform(-1, 1, 2))
        @ similarity(SIZE, rng.uniform(0.95, 1.05), rng.uniform(-2, 2), tuple(rng.uniform(-15, 15, 2)))
        for _ in range(4)
    ]
    rows, columns = common_area(np.stack(moves), SIZE)

    def covered(top: int, left: int, bottom: int, right: int) -> bool:
        """Whether all corners fall into all frames; both are convex, so the rest does too."""
        if top < 0 or left < 0 or bottom >= SIZE[0] or right >= SIZE[1]:
            return False
        corners = np.array([[left, top, 1], [right, top, 1], [left, bottom, 1], [right, bottom, 1.0]]).T
        for move in moves:
            x, y, w = move @ corners
            if (x / w).min() < 0 or (y / w).min() < 0 or (x / w).max() > 319 or (y / w).max() > 239:
                return False
        return True

    box = [rows.start, columns.start, rows.stop - 1, columns.stop - 1]
    assert covered(*box)
    for side, step in enumerate((-3, -3, 3, 3)):
        assert not covered(*(value + step * (side == i) for i, value in enumerate(box)))


def test_no_motion_keeps_the_whole_picture() -> None:
    assert common_area(np.zeros((0, 3, 3)), SIZE) == (slice(0, 240), slice(0, 320))


def test_frames_that_share_nothing_are_refused() -> None:
    apart = np.stack([similarity(SIZE, shift=(200, 0)), similarity(SIZE, shift=(-200, 0))])
    assert_one_sentence(message_of(lambda: common_area(apart, SIZE), ValueError), "share too little", "tripod")


def test_a_small_area_is_told() -> None:
    moves = tuple(similarity(SIZE, shift=(x, 0.6 * x)) for x in (-40, 0, 40))
    frames, _, _ = photograph(Shake(frames=3, blur_px=2, drift=0, size=SIZE, moves=moves), 4)
    alignment = measure_alignment(frames)
    assert_one_sentence(alignment.notes[0], "share only 58 % of the picture", "cut off")  # 237 x 189 of 320 x 240


# One frame in memory at a time


class Roll(Sequence[Array]):
    """Frames that are read when asked for, and counted."""

    def __init__(self, frames: list[Array]) -> None:
        self.frames, self.taken = frames, [0] * len(frames)

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: Any) -> Any:
        self.taken[index] += 1
        return self.frames[index].copy()

    def __iter__(self) -> Iterator[Array]:
        raise AssertionError("all frames were asked for at once")


def test_each_frame_is_read_once_to_measure_and_once_to_warp() -> None:
    frames, _, _ = stack(Shake(size=SIZE), 0)
    roll = Roll(frames)
    measure_alignment(roll)
    assert roll.taken == [1] * 5
    align(roll)
    assert roll.taken == [3] * 5


# What is refused


BAD: dict[str, tuple[Callable[[list[Array]], object], tuple[str, ...]]] = {
    "one frame": (lambda f: align(f[:1]), ("at least 2 frames", "has 1")),
    "mode": (lambda f: align(f, mode="best"), ("'best'", "auto or shift or none")),
    "sizes": (lambda f: align([f[0], f[1][:-1]], names=["a.jpg", "b.jpg"]), ("b.jpg", "a.jpg", "one size")),
    "names": (lambda f: align(f, names=["a.jpg"]), ("5 frames", "are 1")),
    "reference": (lambda f: align(f, reference=5), ("0 to 4", "is 5")),
    "precision": (lambda f: align([f[0].astype(np.float64), f[1]]), ("frame 0", "float32", "float64")),
    "axes": (lambda f: align([f[0][..., 0], f[1]]), ("frame 0", "H W C")),
    "not finite": (lambda f: align([f[0], np.full_like(f[0], np.nan)]), ("frame 1", "NaN")),
    "tiny": (lambda f: align([f[0][:9], f[1][:9]]), ("frame 0", "9 x 320 px", "too small")),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_gets_one_sentence(what: str) -> None:
    call, parts = BAD[what]
    frames, _, _ = stack(Shake(size=SIZE), 0)
    assert_one_sentence(message_of(lambda: call(frames), ValueError), *parts)


def test_a_frame_is_exact_where_it_matters_and_close_elsewhere() -> None:
    frames, _, _ = stack(Shake(size=SIZE), 0)
    alignment = measure_alignment(frames)
    whole = alignment.apply(0, frames[0])
    matters = np.zeros((12, 16), bool)
    matters[3, 5] = True  # of a map much smaller than the picture
    part = alignment.apply(0, frames[0], matters)
    rows, columns = (
        slice(int(at * n / m), int((at + 1) * n / m)) for at, n, m in zip((3, 5), whole.shape, (12, 16), strict=False)
    )
    np.testing.assert_allclose(part[rows, columns], whole[rows, columns], atol=1e-4)
    assert 1e-4 < np.abs(part - whole).max() < 0.2
    assert np.abs(part - whole).mean() < 0.004
    np.testing.assert_array_equal(alignment.apply(0, frames[0], np.ones((12, 16), bool)), whole)
