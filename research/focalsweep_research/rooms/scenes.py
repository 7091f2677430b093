"""The rooms of `evaluate rooms`: a table, a floor or a shelf with things on it, in a furnished room, lit.

A room is a plain description that depends on nothing but the random generator, the camera and the library. The frame:
metres, z up, the lens at (0, 0, height), looking along y; `Room.solids` are as they are before the room is scaled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from focalsweep_research.benchmark.objects import Library
from focalsweep_research.benchmark.scenes import View, camera_axes
from focalsweep_research.rooms import furniture, surfaces
from focalsweep_research.rooms.arranging import Arrangement, Face, Support, hang
from focalsweep_research.rooms.building import Sight, build_shell, draw_shell
from focalsweep_research.rooms.furniture import FLOOR
from focalsweep_research.rooms.lighting import Light, draw_lights
from focalsweep_research.rooms.solids import Array, Rng, Solid, about_z, box

VERSION = 1  # of the layout: another one means other rooms for the same seed
KINDS = ("table", "floor", "shelf")
TRIES = 60
TABLE_HEIGHT = 0.72
WIDE = 0.35  # tangent of the half angle


@dataclass(frozen=True, eq=False)
class Room:
    """Solids and lights about the lens at `sight.eye`; `scale` makes them metres of the picture.

    Args:
        sky: name of the environment map seen and shining through an open side; "": closed, or an even sky.
    """

    kind: str
    sight: Sight
    solids: list[Solid]
    lights: list[Light]
    sky: str
    sky_turn_deg: float
    opened: bool
    scale: float

    def placed(self, points: Array) -> Array:
        """Points of the room as the lens has them: metres, the lens at the origin."""
        return np.asarray((points - self.sight.eye) * self.scale)


def draw_room(rng: Rng, library: Library, view: View, scale: float) -> Room:
    """A room whose nearest and farthest depths in the picture are about those of the view."""
    kind = str(rng.choice(KINDS, p=[0.5, 0.28, 0.22]))
    near, far = view.near / scale, view.far / scale
    for _ in range(TRIES):
        arrangement = _furnished(rng, library, view, kind, near, far)
        if arrangement is not None and len(arrangement.things) >= 4:
            break
    else:
        raise RuntimeError(f"no {kind} with things on it was found in {TRIES} tries")
    opened = "ceiling" not in {solid.name for solid in arrangement.solids}
    lights = [] if opened else draw_lights(rng, arrangement.shell, arrangement.sight)
    sky = str(rng.choice(library.skies)) if library.skies and opened else ""
    return Room(kind, arrangement.sight, arrangement.solids, lights, sky, float(rng.uniform(0, 360)), opened, scale)


def _furnished(rng: Rng, library: Library, view: View, kind: str, near: float, far: float) -> Arrangement | None:
    """A room and what is in it; None where the piece that it is about does not fit."""
    pitch = math.radians(rng.uniform(*{"table": (7, 30), "floor": (8, 30), "shelf": (-4, 12)}[kind]))
    roll = math.radians(float(np.clip(rng.normal(0, 2), -5, 5)))
    axes = camera_axes(pitch, roll)
    reach = math.sin(pitch) + (view.half_height + view.half_width * abs(math.sin(roll))) * math.cos(pitch)
    above = 1.03 * near * reach
    levels = _board_levels(rng)
    board = int(rng.integers(1, len(levels) - 1))
    eye_height = {"table": TABLE_HEIGHT + above, "floor": above, "shelf": levels[board] + rng.uniform(0.06, 0.2)}[kind]
    sight = Sight(np.array([0.0, 0, eye_height]), axes, view.half_width, view.half_height)
    shell = draw_shell(rng, sight, far, max(rng.uniform(2.3, 2.7), eye_height + 0.4))
    room = Arrangement(rng, library, sight, shell, near)
    room.solids += build_shell(rng, shell, opened=bool(rng.random() < 0.2))
    walls = tuple(Face(name, *shell.wall(name), 1.5) for name in ("back wall", "left wall", "right wall"))
    floor = Support(FLOOR, 0.0, shell.outline, faces=walls)
    if kind == "table":
        if not _set_table(room, near):
            return None
    elif kind == "shelf":
        if not _set_bookcase(room, levels, board, near):
            return None
    else:
        _set_boxes(room, floor)
    furnish(room, floor)
    if kind != "floor":
        for _ in range(rng.integers(0, 4)):
            room.put_thing(floor)
    return room


def _set_table(room: Arrangement, near: float) -> bool:
    rng = room.rng
    size = (rng.uniform(0.9, 1.8), rng.uniform(0.6, 1.1))
    yaw = room.shell.yaw - math.pi / 2 * round(room.shell.yaw / (math.pi / 2)) + rng.normal(0, 0.06)
    ahead = 0.5 * (size[1] * abs(math.cos(yaw)) + size[0] * abs(math.sin(yaw)))
    place = np.array([rng.uniform(-0.25, 0.25), 0.85 * near + ahead * rng.uniform(0.8, 1.0), 0.0])
    legs = surfaces.furniture(rng)
    parts = furniture.put(furniture.table("table", size, TABLE_HEIGHT, surfaces.table_top(rng), legs), yaw, place)
    if not room.add(parts):
        return False
    top = room.on_top(parts[-1])
    for _ in range(rng.integers(1, 4)):  # larger boxes first, for others to stand and lean on
        _put_block(room, top, (0.12, 0.3))
    for _ in range(rng.integers(8, 18)):
        room.put_thing(room.supports["table top"])
    return True


def _set_boxes(room: Arrangement, floor: Support) -> None:
    rng = room.rng
    room.supports[FLOOR] = floor
    for _ in range(rng.integers(2, 6)):
        _put_block(room, floor, (0.15, 0.55))
    for _ in range(rng.integers(8, 18)):
        room.put_thing(room.supports[FLOOR])


def _put_block(room: Arrangement, support: Support, size: tuple[float, float]) -> None:
    """A box on a support, whose top is another and whose front things may lean on."""
    rng = room.rng
    for _ in range(10):
        spot = room.spot(support)
        if spot is None:
            return
        place, depth = spot
        most = 0.5 * 2 * room.sight.half_width * depth
        shape = np.minimum(rng.uniform(size[0], size[1], 3), most)
        surface = surfaces.plain(rng, 0.15, 0.75, 0.3) if rng.random() < 0.6 else surfaces.packaging(rng, room.library)
        yaw = room.shell.yaw + rng.uniform(-0.6, 0.6)
        block = furniture.standing(box(room.name("block"), shape, surface), support.holder)
        block = furniture.put([block], yaw, np.array([*place[:2], support.level]))[0]
        if not room.keep(block, support):
            continue
        room.on_top(block)
        front = np.array([*(block.middle[:2] - about_z(yaw)[:2, 1] * shape[1] / 2), support.level])
        face = Face(block.name, front, yaw, float(shape[0]), float(shape[2]))
        owner = room.supports[support.holder]
        room.supports[support.holder] = replace(owner, faces=(*owner.faces, face))
        for _ in range(rng.integers(0, 3)):
            room.put_thing(room.supports[block.name])
        return


def _set_bookcase(room: Arrangement, levels: list[float], board: int, near: float) -> bool:
    """A bookcase before the lens, as near as may be; often without a back, so that the room shows behind it."""
    rng = room.rng
    size = (rng.uniform(0.8, 1.3), rng.uniform(0.24, 0.32))
    yaw = math.radians(rng.uniform(-28, 28))
    back = room.sight.half_width < WIDE and bool(rng.random() < 0.5)  # one so near would fill a wide picture
    case = furniture.bookcase("bookcase", size, levels, surfaces.furniture(rng), back)
    side = rng.uniform(-0.35, 0.35) * size[0]
    for step in range(40):
        place = np.array([side, 0.9 * near + size[1] / 2 + 0.03 * step, 0.0])
        parts = furniture.put(case, yaw, place)
        if room.add(parts):
            break
    else:
        return False
    by_name = {part.name: part for part in parts}
    for i in range(max(0, board - 1), min(len(levels) - 1, board + 2)):
        support = room.on_top(by_name[f"bookcase board {i}"], clearance=levels[i + 1] - levels[i] - 0.02)
        if room.spot(support) is not None:
            room.fill_board(support, yaw)
    return True


def _board_levels(rng: Rng) -> list[float]:
    """Tops of a bookcase's boards."""
    step, count = rng.uniform(0.28, 0.38), int(rng.integers(4, 6))
    return [0.08 + step * i for i in range(count)]


def furnish(room: Arrangement, floor: Support) -> None:
    """Cupboards, boxes, shelves and pictures where the camera sees walls and floor."""
    rng, shell, sight = room.rng, room.shell, room.sight
    for _ in range(rng.integers(3, 8)):
        ray = sight.ray(rng.uniform(-0.9, 0.9), rng.uniform(-0.7, 0.9))
        name, way = shell.hit(float(sight.eye[2]), ray)
        if not name.endswith("wall") or name == "front wall":
            continue
        foot, yaw, _ = shell.wall(name)
        point = sight.eye + way * ray
        along = float((point - foot)[:2] @ about_z(yaw)[:2, 0])
        if name not in {solid.name for solid in room.solids}:
            continue
        kind = rng.random()
        if point[2] > 0.5 and kind < 0.35:
            size = (rng.uniform(0.2, 0.7), rng.uniform(0.2, 0.6))
            frame, print_ = surfaces.furniture(rng), surfaces.packaging(rng, room.library)
            parts = furniture.framed_picture(room.name("picture"), size, frame, print_, name)
            room.add(hang(parts, name, foot, yaw, along, max(0.4, point[2] - size[1] / 2)))
        elif point[2] > 0.5 and kind < 0.65:
            parts = furniture.wall_shelf(room.name("shelf"), rng.uniform(0.4, 1.1), surfaces.furniture(rng), name)
            parts = hang(parts, name, foot, yaw, along, point[2])
            if room.add(parts):
                support = room.on_top(parts[0], faces=(Face(name, point * [1, 1, 0], yaw, 0.6, 0.5),))
                for _ in range(rng.integers(1, 5)):
                    room.put_thing(support)
        else:
            size3 = (rng.uniform(0.5, 1.2), rng.uniform(0.3, 0.5), rng.uniform(0.4, 1.4))
            body, door = surfaces.furniture(rng), surfaces.furniture(rng)
            parts = furniture.cupboard(room.name("cupboard"), size3, body, door)
            back = size3[1] / 2 + 0.014
            place = foot + about_z(yaw) @ np.array([along, -back, 0])
            parts = furniture.put(parts, yaw, place)
            if room.add(parts):
                support = room.on_top(parts[0])
                for _ in range(rng.integers(0, 4)):
                    room.put_thing(support)
