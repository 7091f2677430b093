"""One pair of frames: the transform against the one it was rendered with."""

import numpy as np
import pytest

from focalsweep.photos import registration
from focalsweep.photos.registration import (
    Pyramid,
    Registration,
    build_pyramid,
    local_scale,
    normal_coordinates,
    register,
)

from .handheld import Array, Matrix, Shake, corner_error_px, pan, photograph, similarity

SIZE = (240, 320)


def in_pixels(found: Registration, size: tuple[int, int] = SIZE) -> Matrix:
    normal = normal_coordinates(size)
    return np.asarray(np.linalg.inv(normal) @ found.transform @ normal)


def pair(shake: Shake, seed: int) -> tuple[Pyramid, Pyramid, Matrix]:
    """The first and the last frame, and the transform between them."""
    frames, moves, _ = photograph(shake, seed)
    return build_pyramid(frames[0]), build_pyramid(frames[-1]), moves[-1] @ np.linalg.inv(moves[0])


def test_pairs_that_differ_in_focus_zoom_place_and_exposure() -> None:
    errors, scales, models = [], [], []
    for seed in range(7):
        shake = Shake(frames=2, blur_px=2.0 * seed, breathing=0.04 * (seed % 3) / 2, size=SIZE)
        first, second, true = pair(shake, seed)
        found = register(first, second)
        assert found.plausible, seed
        errors.append(corner_error_px(in_pixels(found), true, SIZE))
        scales.append(local_scale(found.transform) / np.sqrt(np.linalg.det(true[:2, :2])) - 1)
        models.append(found.model)
    assert np.median(errors) < 0.3
    assert max(errors) < 0.7
    assert np.abs(scales).max() < 1e-3
    assert set(models) == {"similarity"}  # the truth is one: nothing richer explains more


def test_a_turned_camera_needs_a_homography() -> None:
    shake = Shake(frames=2, blur_px=6, size=SIZE, moves=(np.eye(3), pan(SIZE, 250, 2.0, -1.5)))
    first, second, true = pair(shake, 3)
    found = register(first, second)
    assert found.model == "homography"
    assert corner_error_px(in_pixels(found), true, SIZE) < 0.7


def test_a_sheared_picture_needs_an_affine() -> None:
    sheared = similarity(SIZE, 1.01, 0.2, (3, -2)) @ np.array([[1, 0.02, -2.4], [0, 1, 0], [0, 0, 1]])
    first, second, true = pair(Shake(frames=2, blur_px=6, size=SIZE, moves=(np.eye(3), sheared)), 4)
    found = register(first, second)
    assert found.model == "affine"
    assert corner_error_px(in_pixels(found), true, SIZE) < 0.7


def test_photos_larger_than_the_working_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "FINEST_PX", 150)  # not a divisor of the width
    first, second, true = pair(Shake(frames=2, blur_px=8, size=SIZE), 5)
    assert max(first.levels[-1].shape) == 150
    assert corner_error_px(in_pixels(register(first, second)), true, SIZE) < 0.7


def test_pictures_of_odd_size() -> None:
    size = (183, 251)
    first, second, true = pair(Shake(frames=2, blur_px=4, size=size, shift_px=9), 6)
    assert corner_error_px(in_pixels(register(first, second), size), true, size) < 0.3


def stars(move: Matrix) -> Array:
    """Spots of light, drawn where the transform puts them: coarse levels of such a picture hold nothing to climb on."""
    rng = np.random.default_rng(0)
    x, y, w = move @ np.stack([rng.uniform(-60, 380, 300), rng.uniform(-60, 300, 300), np.ones(300)])
    rows, columns = np.mgrid[0 : SIZE[0], 0 : SIZE[1]]
    picture = np.full(SIZE, 0.1)
    for column, row, light in zip(x / w, y / w, rng.uniform(0.2, 0.9, 300), strict=True):
        picture += light * np.exp(-((columns - column) ** 2 + (rows - row) ** 2) / (2 * 1.3**2))
    return picture.clip(0, 1).astype(np.float32)[..., None]


def test_features_find_what_the_climb_misses() -> None:
    true = similarity(SIZE, 1.1, 3.0, (-30, 30))
    first, second = build_pyramid(stars(np.eye(3))), build_pyramid(stars(true))
    assert not registration._climb(first, second, np.eye(3), from_features=False).plausible
    found = register(first, second)
    assert found.plausible
    assert corner_error_px(in_pixels(found), true, SIZE) < 0.3


def test_features_that_do_not_agree_give_no_start() -> None:
    first, _, _ = pair(Shake(frames=2, size=SIZE), 0)
    other, _, _ = pair(Shake(frames=2, size=SIZE), 1)
    flat = build_pyramid(np.full((*SIZE, 3), 0.4, np.float32))
    assert registration._match_features(first, other) is None
    assert registration._match_features(first, flat) is None


@pytest.mark.parametrize("what", ["another scene", "noise", "nothing", "black"])
def test_what_does_not_belong_is_not_plausible(what: str) -> None:
    frames, _, _ = photograph(Shake(frames=2, size=SIZE), 0)
    rng = np.random.default_rng(1)
    others = {
        "another scene": photograph(Shake(frames=2, size=SIZE), 1)[0][0],
        "noise": (0.4 + 0.01 * rng.standard_normal((*SIZE, 3))).astype(np.float32),
        "nothing": np.full((*SIZE, 3), 0.4, np.float32),
        "black": np.zeros((*SIZE, 3), np.float32),
    }
    first, other = build_pyramid(frames[0]), build_pyramid(others[what])
    assert not register(first, other).plausible


@pytest.mark.parametrize(
    ("move", "plausible"),
    [
        (similarity(SIZE, 1.15), True),
        (similarity(SIZE, 1.2), False),
        (similarity(SIZE, 0.83), False),
        (similarity(SIZE, 1.0, 4.5), True),
        (similarity(SIZE, 1.0, -5.5), False),
        (similarity(SIZE, shift=(45, 0)), True),
        (similarity(SIZE, shift=(-50, 0)), False),
        (pan(SIZE, 250, 0, 2), True),
        (pan(SIZE, 250, 0, 20), False),
    ],
)
def test_limits_of_what_one_camera_does(move: Matrix, plausible: bool) -> None:
    normal = normal_coordinates(SIZE)
    transform = normal @ move @ np.linalg.inv(normal)
    assert Registration(transform, 0.9, "similarity", 0.0).plausible == plausible
    assert not Registration(transform, 0.4, "similarity", 0.0).plausible


def test_parallax_shows_as_residual() -> None:
    frames, _, _ = photograph(Shake(frames=2, blur_px=4, size=SIZE, shift_px=0, turn_deg=0, breathing=0), 8)
    first = build_pyramid(frames[0])
    still = register(first, build_pyramid(frames[0])).residual_px
    moved = frames[0].copy()
    moved[60:180, 40:200] = frames[0][60:180, 37:197]  # a near thing that went 3 px to the right
    assert still == 0
    assert 2 < register(first, build_pyramid(moved)).residual_px < 4.5


def test_local_scale_of_a_homography_is_that_of_small_things() -> None:
    matrix = pan(SIZE, 250, 3, 2) @ similarity(SIZE, 1.1)
    at, step = np.array([100.0, 40.0]), 1e-4
    corners = [matrix @ [*(at + offset), 1] for offset in ([0, 0], [step, 0], [0, step])]
    origin, right, down = (corner[:2] / corner[2] for corner in corners)
    area = np.linalg.det(np.column_stack([right - origin, down - origin])) / step**2
    assert local_scale(matrix, (100.0, 40.0)) == pytest.approx(np.sqrt(area), rel=1e-5)
    assert local_scale(similarity(SIZE, 1.1, 3.0, (5, 6)), (12.0, 3.0)) == pytest.approx(1.1)


@pytest.mark.parametrize("level", [(240, 320), (120, 160), (113, 150)])
def test_normal_coordinates_are_the_same_at_every_size(level: tuple[int, int]) -> None:
    """The outer edges of the first and the last pixel, half a pixel beyond their centres, are those of the photo."""
    rows, columns = level
    x, y, w = normal_coordinates(SIZE, level) @ np.array([[-0.5, columns - 0.5], [-0.5, rows - 0.5], [1, 1]])
    np.testing.assert_allclose([x, y, w], [[-0.8, 0.8], [-0.6, 0.6], [1, 1]], atol=1e-12)
