"""Worlds like ours: rooms, tables, outdoors, close-ups and hanging things, with gravity, corners and lamps.

A world is built in life size around a camera that looks along +y, then scaled so that what is nearest in sight lies
where the view asks for it. The far end follows from the view's share of far to near inverse depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from focalsweep_research.synthesis.close_ups import close_up
from focalsweep_research.synthesis.hanging import hanging
from focalsweep_research.synthesis.interiors import room
from focalsweep_research.synthesis.layout import Frame, Setting
from focalsweep_research.synthesis.outdoors import SUN_M, outdoor
from focalsweep_research.synthesis.paints import Palette
from focalsweep_research.synthesis.scenes import CARD, SHEET, View, empty_scene
from focalsweep_research.synthesis.stage import DEGREE, Array, Dice, Seen, Stage, look, wave_array
from focalsweep_research.synthesis.table_tops import table_top

HARD = 0.14  # share of worlds in which nearly all is plain
FEWEST = 6  # solids that every setting may use
LAMPS = 8  # places tried for a lamp
TRIES, WANTED = 6, (0, 2, 3, 4, 5, 6)  # compositions tried until that many things are in sight


def random_world(rng: np.random.Generator, view: View, textures: int, solids: int) -> dict[str, Array]:
    """The fields of `Scenes` for one world of up to `solids` solids, at least FEWEST.

    As in `random_scene` the first solid is the sheet behind all: a wall, or the sky.
    """
    if solids < FEWEST:
        raise ValueError(f"solids must be at least {FEWEST}: {solids} are given")
    dice = Dice(rng)
    frame = Frame(view.width / 2 / view.focal_px, view.height / 2 / view.focal_px, view.far / view.near)
    hard = dice.chance(HARD)
    palette = Palette(dice, textures, hard)
    most = solids if dice.chance(0.4) else dice.count(FEWEST, solids)
    compose = _choose(dice, frame, hard)
    wanted = dice.pick(WANTED)
    for _ in range(TRIES):
        stage = Stage(most)
        setting = compose(stage, frame, palette)
        seen = look(stage, setting.eye)
        if seen.things >= wanted and len(stage.rows) >= FEWEST - 2:
            break
    return _fields(stage, seen, _light(dice, setting, seen), view, solids)


def _choose(dice: Dice, frame: Frame, hard: bool) -> Callable[[Stage, Frame, Palette], Setting]:
    """Outdoors is mostly for views that reach far, close-ups for those that do not."""
    far = frame.ratio < 0.2
    outdoors = 0.0 if hard else 0.36 if far else 0.1
    shares = (0.38, 0.33, outdoors, 0.04 if far else 0.12, 0.07)
    options = (room, table_top, outdoor, close_up, hanging)
    at = dice.unit() * sum(shares)
    for share, option in zip(shares, options, strict=True):
        at -= share
        if at < 0:
            return option
    return room


def _light(dice: Dice, setting: Setting, seen: Seen) -> Array:
    """The numbers of `Scenes.light`, in the camera's coordinates and the world's metres."""
    to_camera = np.array(setting.eye.axes)
    up = to_camera @ [0, 0, 1]
    middle = float(np.median(seen.points[:, 2]))
    mood = dice.unit()
    if setting.sunny:
        turn = dice.between(-140, 140) if dice.chance(0.75) else dice.between(140, 220)  # from straight behind
        rise = dice.between(12, 75) * DEGREE
        turn *= DEGREE
        away = np.array([math.sin(turn) * math.cos(rise), -math.cos(turn) * math.cos(rise), math.sin(rise)])
        cloudy = mood < 0.3
        ambient, width = (dice.between(0.7, 0.95), 0.4) if cloudy else (dice.between(0.2, 0.5), dice.scale(0.005, 0.05))
        place, radius = to_camera @ away * SUN_M, width * SUN_M
    elif mood < 0.08:  # like a flash
        place = np.array([dice.between(-0.2, 0.2), dice.between(-0.3, 0.1), -dice.between(0.4, 1.0)]) * middle
        ambient, radius = dice.between(0.15, 0.4), dice.between(0.01, 0.08) * middle
    else:
        place = _lamp_place(dice, setting, seen, to_camera, middle)
        overcast = mood < 0.35
        ambient = dice.between(0.65, 0.9) if overcast else dice.between(0.2, 0.6)
        radius = float(np.linalg.norm(place)) * (dice.between(0.1, 0.35) if overcast else dice.scale(0.02, 0.25))
    return np.array([*place, ambient, radius, 1.0, dice.between(0.5, 1.0), *up])


def _lamp_place(dice: Dice, setting: Setting, seen: Seen, to_camera: Array, middle: float) -> Array:
    """Above and to a side, on this side of all walls, outside of things, and not so near to one place that it burns."""
    low, high = setting.lamp_heights
    tried = [
        (dice.between(-1.2, 1.2) * middle, dice.between(-0.6, 0.8) * middle, dice.between(low, high) - setting.eye.z)
        for _ in range(LAMPS)
    ]
    places = np.array(tried) @ to_camera.T
    local = np.einsum("pij,npj->npi", seen.axes, places[:, None] - seen.centre)  # N P 3
    sheets = seen.kind == SHEET
    own_side = -(seen.axes[:, 2] * seen.centre).sum(1)
    behind = (local[..., 2] * np.sign(own_side) < 0.05 * middle) & sheets
    half = np.where((seen.kind == CARD)[:, None], [1, 1, 0.0], 1.0) * seen.half
    inside = (np.abs(local) < half).all(-1) & ~sheets
    distance = np.linalg.norm(places[:, None] - seen.points, axis=-1)
    gain = (np.linalg.norm(places, axis=1)[:, None] / distance) ** 2
    typical = np.median(gain, axis=1)
    penalty = 10.0 * behind.any(1) + 5.0 * inside.any(1) + np.abs(np.log(typical)) + 0.1 * gain.max(1)
    fine = np.flatnonzero(penalty < 1.5)
    return np.asarray(places[fine[0] if len(fine) else penalty.argmin()])


def _fields(stage: Stage, seen: Seen, lamp: Array, view: View, solids: int) -> dict[str, Array]:
    """All of it scaled so that what is nearest in sight lies at the view's near end; the backmost sheet comes first."""
    scale = 1 / (view.near * seen.nearest)
    count = len(seen.kind)
    scene = empty_scene(solids)
    waves, cards = wave_array(stage), seen.kind == CARD
    waves[..., 1:3] /= scale
    waves[~cards, :, 0] *= scale
    half = seen.half * scale
    half[cards, 2] = seen.half[cards, 2]
    order = [seen.behind, *(i for i in range(count) if i != seen.behind)]
    scene["kind"][:count] = seen.kind[order]
    scene["centre"][:count] = seen.centre[order] * scale
    scene["axes"][:count] = seen.axes[order]
    scene["half"][:count] = half[order]
    scene["waves"][:count] = waves[order]
    paint = seen.paint[order]
    scene["texture"][:count] = paint[:, 0]
    scene["mapping"][:count, 0] = paint[:, 1] * view.focal_px / (seen.depth_of[order] * scale)
    scene["mapping"][:count, 1:] = paint[:, 2:4]
    scene["tint"][:count] = paint[:, 4:7]
    scene["contrast"][:count] = paint[:, 7]
    scene["gloss"][:count] = paint[:, 8:10]
    lamp[:3] *= scale
    lamp[4] *= scale
    scene["light"][:] = lamp
    return scene
