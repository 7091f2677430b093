"""Textures of what rooms and streets are made of: bricks, tiles, carpet, cloth, wallpaper, print, speckle, plaster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from focalsweep_research.synthesis.textures import SIZE, Array, Rng, _noise

DIVISORS = (4, 8, 16, 32)  # of SIZE: rows and columns that keep a texture tileable


def procedural_more(rng: Rng) -> Array:
    """A tileable texture, SIZE SIZE 3 in linear light. Its draws are apart from those of `textures.procedural`."""
    kinds: list[Callable[[Rng], Array]] = [
        *(_bricks, _tiles, _planks, _carpet, _carpet, _cloth, _cloth, _wallpaper, _letters, _speckle, _plaster),
    ]
    return np.asarray(np.clip(kinds[rng.integers(len(kinds))](rng), 0.005, 1.0))


def _colour(rng: Rng, low: float = 0.1, high: float = 0.9, colourful: float = 0.15) -> Array:
    return np.clip(rng.uniform(low, high) + rng.uniform(-colourful, colourful, 3), 0.01, 1.0)


def _mix(share: Array, one: Array, other: Array) -> Array:
    """`one` where the share is 0, `other` where it is 1."""
    return np.asarray(one + share[..., None] * (other - one))


def _grain(rng: Rng, strength: float, slope: float) -> Array:
    return np.asarray(1 + strength * _noise(rng, slope)[..., None])


def _courses(rng: Rng, rows: int, columns: int, joint_px: float, shift: float) -> tuple[Array, Array]:
    """Whether a texel is in a joint (0..1), and a number for each stone; every other row is shifted."""
    y, x = np.meshgrid(np.arange(SIZE) + 0.5, np.arange(SIZE) + 0.5, indexing="ij")
    high, wide = SIZE / rows, SIZE / columns
    row = np.floor(y / high).astype(int)
    along = x / wide + shift * (row % 2)
    column = np.floor(along).astype(int) % columns
    edge = np.minimum(
        np.minimum(y % high, high - y % high), wide * np.minimum(along % 1, 1 - along % 1)
    )  # px to the nearest joint
    joint = np.clip(1 - (edge - joint_px / 2), 0, 1)
    return joint, rng.random((rows, columns))[row, column]


def _laid(rng: Rng, rows: int, columns: int, joint_px: float, shift: float, variety: float) -> Array:
    """Stones of one colour, each a little lighter or darker, in mortar."""
    joint, number = _courses(rng, rows, columns, joint_px, shift)
    stone, mortar = _colour(rng, 0.15, 0.8, 0.2), _colour(rng, 0.1, 0.8, 0.03)
    stones = stone * (1 + variety * (number - 0.5))[..., None] * _grain(rng, rng.uniform(0, 0.12), rng.uniform(0, 1))
    return _mix(joint, stones, mortar * _grain(rng, 0.05, 0.3))


def _bricks(rng: Rng) -> Array:
    rows = int(rng.choice(DIVISORS[1:]))
    return _laid(rng, rows, rows // 2, rng.uniform(1, 4), 0.5, rng.uniform(0.1, 0.8))


def _tiles(rng: Rng) -> Array:
    rows = int(rng.choice(DIVISORS))
    return _laid(rng, rows, rows, rng.uniform(1, 3), 0.0, rng.uniform(0, 0.3))


def _planks(rng: Rng) -> Array:
    """Boards with fibres along them."""
    rows = int(rng.choice(DIVISORS[:3]))
    joint, number = _courses(rng, rows, 2, 1.0, rng.uniform(0.2, 0.5))
    wood = np.array([0.45, 0.28, 0.15]) * rng.uniform(0.4, 1.8) + rng.uniform(-0.04, 0.04, 3)
    short = _noise(rng, rng.uniform(0.6, 1.2))
    fibre = sum(np.roll(short, k, axis=1) for k in range(24)) / 12
    boards = wood * (1 + 0.5 * (number - 0.5) + rng.uniform(0.03, 0.12) * fibre)[..., None]
    return _mix(joint, boards, 0.3 * wood)


def _carpet(rng: Rng) -> Array:
    """Fine grain, nearly white noise, and sometimes worn paths."""
    pile = _colour(rng) * _grain(rng, rng.uniform(0.1, 0.4), rng.uniform(0, 0.5))
    return pile * _grain(rng, rng.choice([0.0, 0.08]), 1.8)


def _cloth(rng: Rng) -> Array:
    """Warp and weft, two to five texels a thread, irregular as threads are; stripes or checks of dyed threads."""
    threads = int(rng.choice([64, 128]))
    y, x = np.meshgrid(np.arange(SIZE) / SIZE * threads, np.arange(SIZE) / SIZE * threads, indexing="ij")
    over = (np.floor(y) + np.floor(x) * (1 if rng.random() < 0.6 else 2)) % 4 < 2
    round_ = np.where(over, np.sin(np.pi * (y % 1)), np.sin(np.pi * (x % 1)))
    one, other = _colour(rng), _colour(rng)
    dyed: list[Array] = [np.zeros(threads), np.zeros(threads)]
    if rng.random() < 0.4:
        period = int(rng.choice([8, 16, 32]))
        band = ((np.arange(threads) % period) < rng.integers(1, period)).astype(np.float64)
        dyed = [band, band] if rng.random() < 0.5 else [band, np.zeros(threads)]
    share = np.where(over, dyed[0][y.astype(int)], dyed[1][x.astype(int)])
    uneven = np.where(over, rng.standard_normal(threads)[y.astype(int)], rng.standard_normal(threads)[x.astype(int)])
    light = (1 - rng.uniform(0.1, 0.6) * (1 - round_)) * (1 + 0.08 * uneven)
    return np.asarray(_mix(share, one, other) * light[..., None] * _grain(rng, 0.06, 0.2))


def _wallpaper(rng: Rng) -> Array:
    """One ornament again and again: mirrored blobs on a ground, or stripes."""
    side = int(rng.choice([32, 64, 128]))
    if rng.random() < 0.3:
        wave = np.sin(2 * np.pi * np.arange(SIZE) / side) + 0.6 * np.sin(6 * np.pi * np.arange(SIZE) / side + 1)
        pattern = np.tile(np.clip(4 * wave, 0, 1), (SIZE, 1))
    else:
        blob = _noise(rng, 1.6)[: side // 2, : side // 2]
        ornament = np.block([[blob, blob[:, ::-1]], [blob[::-1], blob[::-1, ::-1]]])
        sharp = np.clip((ornament - rng.uniform(0, 0.8) * ornament.std()) * rng.uniform(4, 30), 0, 1)
        pattern = np.tile(sharp, (SIZE // side, SIZE // side))
    ground = _colour(rng, 0.4, 0.9)
    return _mix(pattern, ground, np.clip(ground + rng.uniform(-0.35, 0.35, 3), 0.02, 1)) * _grain(rng, 0.02, 0.2)


def _letters(rng: Rng) -> Array:
    """Large letters made of strokes, in two to eight lines: signs, packages, titles."""
    lines = int(rng.choice([2, 4, 8]))
    high = SIZE // lines
    page = np.zeros((SIZE, SIZE))
    y, x = np.meshgrid(np.linspace(0, 1, high), np.linspace(0, 1, high), indexing="ij")
    thick = rng.uniform(0.05, 0.1)
    for line in range(lines):
        left = 0
        while left + high // 3 <= SIZE:
            wide = int(high * rng.uniform(0.35, 0.7))
            nodes = np.array([(a, b) for a in (0.2, 0.5, 0.8) for b in (0.2, 0.5, 0.8)])
            glyph = np.zeros((high, high))
            for start, end in rng.integers(0, 9, (int(rng.integers(2, 5)), 2)):
                glyph = np.maximum(glyph, _stroke(y, x, nodes[start], nodes[end], thick))
            columns = np.linspace(0, high - 1, wide).astype(int)
            here = glyph[:, columns][:, : SIZE - left]
            page[line * high : (line + 1) * high, left : left + here.shape[1]] = here
            left += wide
    return _mix(page, _colour(rng, 0.1, 0.95, 0.2), _colour(rng, 0.02, 0.9, 0.2))


def _stroke(y: Array, x: Array, start: Array, end: Array, thick: float) -> Array:
    """1 near the line between two points of the unit square."""
    way = end - start
    along = np.clip(((y - start[0]) * way[0] + (x - start[1]) * way[1]) / max(way @ way, 1e-9), 0, 1)
    distance = np.hypot(y - start[0] - along * way[0], x - start[1] - along * way[1])
    return np.asarray(np.clip((thick - distance) * len(y) + 0.5, 0, 1))


def _speckle(rng: Rng) -> Array:
    """Granite, gravel, asphalt: grains of a few colours, soft or sharp."""
    share = np.clip(_noise(rng, rng.uniform(0, 0.9)) * rng.uniform(0.5, 3) + rng.uniform(-0.5, 1), 0, 1)
    stone = _mix(share, _colour(rng), _colour(rng))
    chips = _noise(rng, rng.uniform(0.3, 1.0)) > rng.uniform(1.3, 2.2)
    return np.where(chips[..., None], _colour(rng), stone)


def _plaster(rng: Rng) -> Array:
    """A wall that is nearly plain: shallow dents lit from a side, and faint stains."""
    height = _noise(rng, rng.uniform(0.8, 1.6))
    turn = rng.uniform(0, 2 * np.pi)
    slope = np.cos(turn) * (np.roll(height, 1, 0) - height) + np.sin(turn) * (np.roll(height, 1, 1) - height)
    lit = 1 + rng.uniform(0.02, 0.12) * slope / slope.std() + rng.choice([0.0, 0.03]) * _noise(rng, 2.0)
    return np.asarray(_colour(rng, 0.4, 0.9, 0.08) * lit[..., None])
