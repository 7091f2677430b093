"""What rooms are painted, papered and covered with: much of it plain, for shading alone to show."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from focalsweep_research.benchmark.objects import Library
from focalsweep_research.rooms.solids import Pixels, Rng, Surface

Picture = npt.NDArray[np.float64]
SIDE = 768  # px of a pattern


def plain(rng: Rng, low: float = 0.35, high: float = 0.8, tint: float = 0.12) -> Surface:
    """Paint or varnish of one colour."""
    return Surface("", _encoded(np.broadcast_to(_colour(rng, low, high, tint), (4, 4, 3))), 1.0)


def wall(rng: Rng) -> Surface:
    """Mostly painted; some plastered, some papered."""
    kind = rng.choice(["paint", "plaster", "wallpaper"], p=[0.68, 0.12, 0.2])
    if kind == "paint":
        return plain(rng, 0.45, 0.82, 0.15)
    return plaster(rng) if kind == "plaster" else wallpaper(rng)


def ceiling(rng: Rng) -> Surface:
    return plain(rng, 0.7, 0.85, 0.03)


def floor(rng: Rng) -> Surface:
    kind = rng.choice(["plain", "wood", "carpet", "tiles"], p=[0.38, 0.25, 0.24, 0.13])
    if kind == "plain":
        return plain(rng, 0.2, 0.55)
    return {"wood": planks, "carpet": carpet, "tiles": tiles}[str(kind)](rng)


def table_top(rng: Rng) -> Surface:
    kind = rng.choice(["plain", "varnish", "wood", "cloth"], p=[0.45, 0.15, 0.27, 0.13])
    if kind == "plain":
        return plain(rng, 0.25, 0.75)
    if kind == "varnish":
        coloured = plain(rng, 0.2, 0.7)
        return Surface("", coloured.pixels, 1.0, roughness=float(rng.uniform(0.25, 0.4)))
    return wood(rng) if kind == "wood" else cloth(rng)


def furniture(rng: Rng) -> Surface:
    return wood(rng) if rng.random() < 0.35 else plain(rng, 0.2, 0.8)


def packaging(rng: Rng, library: Library) -> Surface:
    """Of a box or a book: printed with a held-out picture, of cardboard, or of one colour."""
    kind = rng.random()
    if kind < 0.5:
        name = str(rng.choice(library.textures))
        return Surface(name, np.clip(library.texture(name), 8, 240))
    return cardboard(rng) if kind < 0.65 else plain(rng, 0.12, 0.7, 0.35)


def plaster(rng: Rng) -> Surface:
    """Faint mottling."""
    field = 0.7 * noise(rng, 1.2) + 0.3 * noise(rng, 0.2)
    return _patterned("plaster", _colour(rng, 0.45, 0.8, 0.1) * (1 + rng.uniform(0.015, 0.04) * field), 1.2)


def cardboard(rng: Rng) -> Surface:
    colour = np.array([0.45, 0.31, 0.19]) * rng.uniform(0.7, 1.2)
    return _patterned("cardboard", colour * (1 + 0.04 * noise(rng, 0.8, (1, 6))), 0.5)


def wood(rng: Rng) -> Surface:
    """Boards of long grain."""
    grain = noise(rng, 1.0, (1, 14))
    rings = np.sin(2 * np.pi * (rng.uniform(6, 16) * _ramp(0) + 1.2 * noise(rng, 2.0, (1, 5))[..., 0]))[..., None]
    dark, light = _colour(rng, 0.08, 0.2, 0.0) * [1.3, 1.0, 0.7], _colour(rng, 0.25, 0.55, 0.0) * [1.25, 1.0, 0.72]
    share = np.clip(0.55 + 0.18 * rings + 0.2 * grain, 0, 1)
    return _patterned("wood", dark + share * (light - dark), float(rng.uniform(0.4, 0.8)))


def planks(rng: Rng) -> Surface:
    """A floor of boards, each of its own tone, with joints."""
    base = wood(rng)
    count = int(rng.integers(5, 9))
    linear = (base.pixels / 255.0) ** 2.2
    column = np.minimum((_ramp(0) * count).astype(int), count - 1)
    linear *= rng.uniform(0.75, 1.15, count)[column][..., None]
    joint = (np.abs(_ramp(0) * count % 1 - 0.5) > 0.485)[..., None]
    return _patterned("planks", np.where(joint, 0.4 * linear, linear), float(rng.uniform(0.8, 1.2)))


def carpet(rng: Rng) -> Surface:
    """Pile: fine noise on one colour or on a weak pattern."""
    colour = _colour(rng, 0.1, 0.45, 0.4)
    second = colour * rng.uniform(0.5, 1.4) if rng.random() < 0.4 else colour
    ornament = np.clip(0.5 + 1.5 * noise(rng, 1.8), 0, 1)
    linear = colour + ornament * (second - colour)
    return _patterned("carpet", linear * (1 + rng.uniform(0.1, 0.3) * noise(rng, 0.0)), float(rng.uniform(0.4, 0.7)))


def cloth(rng: Rng) -> Surface:
    """A weave, checked or striped in some."""
    x, y = _ramp(1), _ramp(0)
    threads = int(rng.integers(90, 180))
    weave = np.sin(2 * np.pi * threads * x) * np.sin(2 * np.pi * threads * y)
    colour, other = _colour(rng, 0.3, 0.75, 0.2), _colour(rng, 0.15, 0.6, 0.4)
    stripes = int(rng.integers(4, 12))
    check = 0.5 * ((x * stripes % 1 < 0.5).astype(float) + (y * stripes % 1 < 0.5) * rng.integers(0, 2))
    strength = rng.choice([0.0, 1.0])
    linear = colour + strength * check[..., None] * (other - colour)
    return _patterned("cloth", linear * (1 + 0.08 * weave[..., None] + 0.03 * noise(rng, 0.3)), 0.5)


def tiles(rng: Rng) -> Surface:
    count = int(rng.integers(3, 7))
    x, y = _ramp(1) * count % 1, _ramp(0) * count % 1
    joint = np.maximum(np.abs(x - 0.5), np.abs(y - 0.5)) > 0.485
    each = rng.uniform(0.94, 1.06, (count, count))
    place = np.minimum((_ramp(0) * count).astype(int), count - 1), np.minimum((_ramp(1) * count).astype(int), count - 1)
    linear = _colour(rng, 0.25, 0.6, 0.12) * each[place][..., None] * (1 + 0.02 * noise(rng, 1.0))
    return _patterned("tiles", np.where(joint[..., None], 0.35, linear), float(rng.uniform(0.7, 1.3)))


def wallpaper(rng: Rng) -> Surface:
    """Stripes, dots or ornaments on a pale ground."""
    ground, figure = _colour(rng, 0.45, 0.75, 0.15), _colour(rng, 0.25, 0.65, 0.3)
    x, y = _ramp(1), _ramp(0)
    count = int(rng.integers(4, 12))
    kind = rng.choice(["stripes", "dots", "ornament"])
    if kind == "stripes":
        share = (np.sin(2 * np.pi * count * x) > rng.uniform(-0.5, 0.6)).astype(float)
    elif kind == "dots":
        share = (np.hypot(x * count % 1 - 0.5, y * count % 1 - 0.5) < rng.uniform(0.12, 0.35)).astype(float)
    else:
        wave = np.cos(2 * np.pi * count * x) + np.cos(2 * np.pi * count * y)
        wave = wave + np.cos(2 * np.pi * count * (x + y) + 2 * np.sin(2 * np.pi * count * y))
        share = (wave > rng.uniform(0.4, 1.4)).astype(float)
    strength = rng.uniform(0.3, 1.0)
    return _patterned(
        "wallpaper", ground + strength * share[..., None] * (figure - ground), float(rng.uniform(0.6, 1.2))
    )


def noise(rng: Rng, slope: float, stretch: tuple[float, float] = (1, 1)) -> Picture:  # H W 1
    """A random field with a spectrum of 1 / frequency^slope, deviation 1; stretched along an axis, as grain is."""
    fy, fx = np.fft.fftfreq(SIDE)[:, None] * stretch[0], np.fft.rfftfreq(SIDE)[None] * stretch[1]
    frequency = np.maximum(np.hypot(fy, fx), 1 / SIDE)
    spectrum = np.fft.rfft2(rng.standard_normal((SIDE, SIDE))) * frequency**-slope
    spectrum[0, 0] = 0
    field = np.fft.irfft2(spectrum, s=(SIDE, SIDE))
    return np.asarray((field / field.std())[..., None])


def _ramp(axis: int) -> Picture:
    """0 to 1 along rows (axis 0: changes from column to column is axis 1)."""
    steps = (np.arange(SIDE) + 0.5) / SIDE
    return np.broadcast_to(steps[:, None] if axis == 0 else steps[None], (SIDE, SIDE))


def _colour(rng: Rng, low: float, high: float, tint: float) -> Picture:
    """Linear light."""
    return np.asarray(np.clip(rng.uniform(low, high) * (1 + rng.uniform(-tint, tint, 3)), 0.02, 0.87))


def _patterned(name: str, linear: Picture, tile: float) -> Surface:
    return Surface(name, _encoded(linear), tile)


def _encoded(linear: Picture) -> Pixels:
    linear = np.clip(linear, 0.0031308, 0.87)
    return np.asarray(np.rint(255 * (1.055 * linear ** (1 / 2.4) - 0.055)), np.uint8)
