"""Furniture about the origin of its own frame, front towards -y, standing on z = 0 on a floor of that name."""

from __future__ import annotations

from dataclasses import replace

from focalsweep_research.rooms.solids import Array, Solid, Surface, about_z, box, turned

FLOOR = "floor"


def table(name: str, size: tuple[float, float], height: float, top: Surface, legs: Surface) -> list[Solid]:
    """A board on four legs."""
    width, depth = size
    thick, leg = 0.028, 0.05
    parts = []
    for i, (x, y) in enumerate(((-1, -1), (1, -1), (1, 1), (-1, 1))):
        post = box(f"{name} leg {i}", (leg, leg, height - thick), legs)
        parts.append(standing(post.moved((x * (width / 2 - leg), y * (depth / 2 - leg), 0)), FLOOR))
    board = box(f"{name} top", (width, depth, thick), top).moved((0, 0, height - thick))
    return [*parts, standing(board, *(part.name for part in parts))]


def bookcase(name: str, size: tuple[float, float], levels: list[float], surface: Surface, back: bool) -> list[Solid]:
    """Two sides with boards between them at these heights; with a back, or open as a divider of rooms."""
    width, depth = size
    thick, height = 0.02, levels[-1]
    sides = [
        standing(box(f"{name} side {i}", (thick, depth, height), surface).moved((x * (width - thick) / 2, 0, 0)), FLOOR)
        for i, x in enumerate((-1, 1))
    ]
    inner = width - 2 * thick
    boards = [
        fixed(box(f"{name} board {i}", (inner, depth, thick), surface).moved((0, 0, level - thick)), sides[0].name)
        for i, level in enumerate(levels)
    ]
    if not back:
        return [*sides, *boards]
    panel = box(f"{name} back", (width, 0.008, height), surface).moved((0, depth / 2 + 0.004, 0))
    return [*sides, *boards, standing(panel, FLOOR)]


def cupboard(name: str, size: tuple[float, float, float], body: Surface, door: Surface) -> list[Solid]:
    """A block with two doors and knobs; its back is at y = depth / 2."""
    width, depth, height = size
    parts = [standing(box(f"{name} top", size, body), FLOOR)]
    for i, x in enumerate((-1, 1)):
        panel = box(f"{name} door {i}", (width / 2 - 0.02, 0.012, height - 0.06), door)
        panel = panel.moved((x * width / 4, -depth / 2 - 0.006, 0.03))
        knob = box(f"{name} knob {i}", (0.022, 0.02, 0.022), body)
        knob = knob.moved((x * 0.04, -depth / 2 - 0.022, 0.6 * height))
        parts += [fixed(panel, f"{name} top"), fixed(knob, panel.name)]
    return parts


def wall_shelf(name: str, width: float, surface: Surface, wall: str) -> list[Solid]:
    """A board on two brackets; the wall is at y = 0, the board's top at z = 0."""
    board = fixed(box(f"{name} top", (width, 0.22, 0.02), surface).moved((0, -0.11, -0.02)), wall)
    brackets = [
        fixed(box(f"{name} bracket {i}", (0.02, 0.16, 0.1), surface).moved((x * width * 0.35, -0.08, -0.12)), wall)
        for i, x in enumerate((-1, 1))
    ]
    return [board, *brackets]


def framed_picture(name: str, size: tuple[float, float], frame: Surface, print_: Surface, wall: str) -> list[Solid]:
    """The wall is at y = 0, the lower edge at z = 0."""
    width, height = size
    back = fixed(box(f"{name} frame", (width, 0.02, height), frame).moved((0, -0.01, 0)), wall)
    front = box(f"{name} print", (0.82 * width, 0.002, 0.82 * height), print_)
    return [back, fixed(front.moved((0, -0.021, 0.09 * height)), back.name)]


def standing(solid: Solid, *holders: str) -> Solid:
    return replace(solid, held="stands", holders=holders)


def fixed(solid: Solid, holder: str) -> Solid:
    return replace(solid, held="fixed", holders=(holder,))


def put(parts: list[Solid], yaw: float, place: Array) -> list[Solid]:
    """Parts that belong together, turned about z and moved."""
    matrix = about_z(yaw)
    return [turned(part, matrix).moved(place) for part in parts]
