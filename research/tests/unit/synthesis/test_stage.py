"""The stage: solids lie where they are put, all of a thing or nothing is built, and the camera sees it so."""

import math

import numpy as np
import pytest

from focalsweep_research.synthesis.scenes import BOX, SHEET
from focalsweep_research.synthesis.stage import Dice, Eye, Paint, Seen, Stage, eye_at, look, spot

PAINT = Paint(0, 1.0, 0.0, 0.0, 0.5, 0.5, 0.5, 1.0, 0.0, 4.0)
LEVEL = eye_at(0, 0, 1.0, 0.0, 0.0, (0.5, 0.5))


def in_world(seen: Seen, eye: Eye, i: int, local: tuple[float, float, float]) -> np.ndarray:
    camera = seen.centre[i] + (np.array(local) * seen.half[i]) @ seen.axes[i]
    return np.asarray(camera @ np.array(eye.axes) + [eye.x, eye.y, eye.z])


def on_a_floor() -> Stage:
    stage = Stage(10)
    stage.floor(-2.0, PAINT)
    stage.wall(spot(0, 9.0), PAINT)
    return stage


@pytest.mark.parametrize("eye", [LEVEL, eye_at(0.3, -1, 2, -0.4, 0.1, (0.5, 0.5))])
@pytest.mark.parametrize("end", [(1.0, 4.0, 0.5), (-0.7, 3.0, 2.0), (0.2, 3.0, -1.0)])
def test_a_rod_goes_from_point_to_point(eye: Eye, end: tuple[float, float, float]) -> None:
    stage, start = on_a_floor(), (0.2, 3.0, 0.1)
    stage.rod(spot(0, 0), start, end, 0.01, PAINT)
    seen = look(stage, eye)
    assert np.allclose(in_world(seen, eye, 2, (0, 0, -1)), start)
    assert np.allclose(in_world(seen, eye, 2, (0, 0, 1)), end)


@pytest.mark.parametrize("tilt", [-0.5, 0.4])
def test_a_leaning_box_stands_on_its_lowest_edge(tilt: float) -> None:
    stage = on_a_floor()
    stage.leaning_box(spot(0, 0), 0.1, 3.0, 0.2, (0.4, 0.1, 0.8), PAINT, tilt)
    seen = look(stage, LEVEL)
    corners = np.array([in_world(seen, LEVEL, 2, (x, y, z)) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    lowest = corners[np.isclose(corners[:, 2], corners[:, 2].min())]
    assert np.allclose(lowest[:, 1:], [3.0, 0.2])
    top = in_world(seen, LEVEL, 2, (0, 0, 1)) - in_world(seen, LEVEL, 2, (0, 0, -1))
    assert top[1] * tilt < 0


def test_spots_turn_what_is_built_at_them() -> None:
    corner = spot(1, 2, 3, math.pi / 2).at(1, 0, 0.5)
    assert np.allclose(corner[:3], [1, 3, 3.5])


def test_all_of_a_thing_is_built_or_nothing() -> None:
    stage = Stage(3)

    def build() -> None:
        for k in range(3):
            stage.card(spot(0, 0), (0, 3.0 + k, 0), (1, 1), PAINT, [(1.0, 2.0, 0.0, 0.0)])

    stage.floor(0, PAINT)
    assert not stage.attempt(build)
    assert (len(stage.rows), stage.waves) == (1, {})
    stage.limit = 4
    assert stage.attempt(build)
    assert (len(stage.rows), len(stage.waves)) == (4, 3)


def test_a_look_tells_depths_and_what_is_in_sight() -> None:
    stage = on_a_floor()
    stage.box(spot(0, 4.0), 0, 0, -2.0, (1.0, 1.0, 3.5), PAINT)
    stage.box(spot(0, -4.0), 0, 0, -2.0, (1.0, 1.0, 3.5), PAINT)
    seen = look(stage, LEVEL)
    assert seen.kind.tolist() == [SHEET, SHEET, BOX, BOX]
    assert seen.nearest == pytest.approx(3.5)
    assert seen.points[:, 2].max() == pytest.approx(9.0)
    assert seen.things == 1
    assert seen.behind == 1
    assert seen.depth_of[2] == pytest.approx(3.5)


def test_the_eye_casts_to_the_floor_and_to_a_depth() -> None:
    eye = eye_at(0, 0, 1.0, -math.pi / 4, 0.0, (0.5, 0.5))
    place = eye.on_floor(0, 0)
    assert place is not None
    assert np.allclose(place, [0, 1, math.sqrt(2)])
    assert LEVEL.on_floor(0, -0.5) is None
    assert np.allclose(LEVEL.at_depth(1, 1, 2.0), [1, 2, 0])


def test_dice_stay_inside_their_limits() -> None:
    dice = Dice(np.random.default_rng(0))
    counts = {dice.count(2, 4) for _ in range(200)}
    assert counts == {2, 3, 4}
    scales = [dice.scale(0.1, 10) for _ in range(2000)]
    assert min(scales) >= 0.1 and max(scales) <= 10
    assert np.median(scales) == pytest.approx(1, rel=0.2)
