"""Likely mistakes in settings: what the settings would be without each, and the sentence that mends it.

Blur tells the order of the frames, how their distances lie to each other, and its own amount. F-number, pixel pitch,
focal length and the unit of distances all change that amount: they are told apart by what cameras have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from focalsweep.errors import Sentence, SettingName
from focalsweep.optics.thin_lens import lens_distance, sensor_distance
from focalsweep.sweep.misfit import Guess
from focalsweep.types import Camera, StageLens
from focalsweep.validation import as_setting

UNITS = {"centimetres": 1e-2, "millimetres": 1e-3, "feet": 0.3048, "inches": 0.0254}
POWERS = (1e3, 1e2, 1e1, 1e-1, 1e-2, 1e-3)
SENSOR_WIDTHS = (2e-3, 0.06)  # metres, that cameras have
F_NUMBERS = (0.9, 45.0)
FOCAL_LENGTHS = (1e-3, 1.2)
FOCAL_WIDTHS = (0.2, 40.0)  # focal length over sensor width
NEAREST_FOCUS = (0.01, 20.0)
BEYOND_LENS = 1.02  # focal lengths: no lens is focused nearer
FULL_FRAME_DIAGONAL = 0.04327
DIAGONAL = 1.25  # widths, of a sensor of 4 to 3


@dataclass(frozen=True)
class Mistake:
    """What may be wrong.

    Args:
        name: in one word, for programs.
        guess: the settings without it.
        sentence: what is wrong, and the option that mends it.
        rank: how unusual it is: of two that explain the photos alike, the lower one comes first.
    """

    name: str
    guess: Guess
    sentence: Sentence
    rank: float


def of_pattern(told: Guess, focus_reference: str | None, names: Sequence[str]) -> Iterator[Mistake]:
    """Mistakes that change how focus distances lie to each other; `names` are those of the frames."""
    given = told.focus_distances
    if isinstance(told.camera, Camera):
        yield from _of_focus(told, focus_reference)
    for i in range(len(given) - 1):
        swapped = (*given[:i], given[i + 1], given[i], *given[i + 2 :])
        words = Sentence(
            "{first} and {second} seem exchanged: exchange their {places}", first=names[i], second=names[i + 1],
            places=_places(told),
        )  # fmt: skip
        yield Mistake("exchanged", Guess(swapped, told.camera), words, 0.5)


def _places(told: Guess) -> Sentence:
    """What says where each frame was focused."""
    if isinstance(told.camera, Camera):
        return Sentence("{focus_distances}")
    return Sentence("{positions}") if isinstance(told.camera, StageLens) else Sentence("places in the order")


def _of_focus(told: Guess, focus_reference: str | None) -> Iterator[Mistake]:
    """Of a lens that focuses."""
    given = told.focus_distances
    backwards = "the photos seem to run the other way, far to near: give {focus_distances} in the opposite order"
    yield Mistake("order", Guess(given[::-1], told.camera), Sentence(backwards), 0.0)
    focal = _camera(told)[0]
    inverse = tuple(1 / distance for distance in given)
    if min(inverse) > BEYOND_LENS * focal:
        words = Sentence("{focus_distances} look like dioptres: give metres, 1 / dioptres")
        yield Mistake("dioptres", Guess(inverse, told.camera), words, 1.0)
    yield from _reference(told, focus_reference)


def _reference(told: Guess, focus_reference: str | None) -> Iterator[Mistake]:
    """Distances from the sensor taken for those from the lens, or the other way round."""
    focal, distances = _camera(told)[0], torch.tensor(told.focus_distances, dtype=torch.float64)
    if focus_reference == "sensor":
        changed, right, wrong = sensor_distance(distances, focal), "lens", "sensor"
    elif bool((distances >= 4 * focal).all()):
        changed, right, wrong = lens_distance(distances, focal), "sensor", "lens"
    else:
        return
    words = Sentence(
        "{focus_distances} seem to count from the {right}, not from the {wrong}: give {option}",
        right=right, wrong=wrong, option=SettingName(f'focus_reference="{right}"'),
    )  # fmt: skip
    yield Mistake("reference", Guess(tuple(changed.tolist()), told.camera), words, 0.8)


def of_amount(
    told: Guess, focus_reference: str | None, width_px: int, blur: float, scale: float = 1.0
) -> Iterator[Mistake]:
    """Mistakes that change the amount of blur, which is `blur` times the told one.

    Pictures are `width_px` wide, `scale` times as wide as the photos that sentences are about.
    """
    if isinstance(told.camera, Camera):
        yield from _reference(told, focus_reference)
        yield from _of_units(told)
        yield from _of_powers(told, width_px, scale)
        yield from _of_any_amount(told, width_px, blur, scale)
    elif isinstance(told.camera, StageLens):
        words = Sentence(
            "they have {times:.2g} times the blur of these settings: check {numerical_aperture}, {pixel_size} and "
            "{step}",
            times=blur,
        )
        yield Mistake("stage", told.with_blur(blur), words, 1.0)


def _of_units(told: Guess) -> Iterator[Mistake]:
    focal, nearest = _camera(told)[0], min(told.focus_distances)
    odd = -1.0 if nearest > NEAREST_FOCUS[1] else 0.0  # what no camera has is blamed first
    for unit, metres in UNITS.items():
        if nearest * metres > max(BEYOND_LENS * focal, NEAREST_FOCUS[0]):
            words = Sentence("{focus_distances} look like {unit}: give metres", unit=unit)
            yield Mistake("unit", _distances_times(told, metres), words, odd + (0.5 if unit == "inches" else 0.0))


def _of_powers(told: Guess, width_px: int, scale: float) -> Iterator[Mistake]:
    """A point or a prefix in the wrong place."""
    focal, stop, pitch = _camera(told)
    nearest, width = min(told.focus_distances), pitch * width_px
    looks = "{setting} looks {times:g} times too {size}: {value:.4g}{unit} would explain the photos"
    for power in POWERS:
        times, size = max(power, 1 / power), "small" if power > 1 else "large"
        if nearest * power > BEYOND_LENS * focal and _within(nearest * power, NEAREST_FOCUS):
            words = Sentence("{focus_distances} look {times:g} times too {size}: give metres", times=times, size=size)
            rank = 0.5 if _within(nearest, NEAREST_FOCUS) else -0.5
            yield Mistake("unit", _distances_times(told, power), words, rank)
        if _within(focal * power, FOCAL_LENGTHS) and BEYOND_LENS * focal * power < nearest:
            name = SettingName("focal_length")
            words = Sentence(looks, setting=name, times=times, size=size, value=focal * power * 1e3, unit=" mm")
            rank = 0.6 if _within(focal / width, FOCAL_WIDTHS) else -0.5
            yield Mistake("focal_length", _guess(told, focal * power, stop, pitch), words, rank)
        if _within(width * power, SENSOR_WIDTHS):
            name = SettingName("pixel_pitch")
            words = Sentence(looks, setting=name, times=times, size=size, value=pitch * power * scale * 1e6, unit=" um")
            rank = 0.6 if _within(width, SENSOR_WIDTHS) else -0.6
            yield Mistake("pixel_pitch", _guess(told, focal, stop, pitch * power), words, rank)


def _of_any_amount(told: Guess, width_px: int, blur: float, scale: float) -> Iterator[Mistake]:
    focal, stop, pitch = _camera(told)
    width = pitch * width_px
    own = focal * DIAGONAL * width / FULL_FRAME_DIAGONAL
    if own < 0.9 * focal and _within(width, SENSOR_WIDTHS) and own > FOCAL_LENGTHS[0]:
        words = Sentence(
            "{focal_length} looks like the 35 mm equivalent: give the lens's own, about {value:.3g} mm", value=own * 1e3
        )
        yield Mistake("equivalent", _guess(told, own, stop, pitch), words, 0.4)
    if _within(stop / blur, F_NUMBERS):
        words = Sentence(
            "{f_number} of {value:.2g} would explain the photos, not {told:.3g}", value=stop / blur, told=stop
        )
        yield Mistake("f_number", _guess(told, focal, stop / blur, pitch), words, 1.0)
    if _within(width / blur, SENSOR_WIDTHS):
        words = Sentence(
            "{pixel_pitch} of {value:.3g} um would explain the photos, not {told:.3g} (the sensor's width over that of "
            "the picture in pixels)",
            value=pitch / blur * scale * 1e6, told=pitch * scale * 1e6,
        )  # fmt: skip
        rank = 1.1 if _within(width, SENSOR_WIDTHS) else -0.4
        yield Mistake("pixel_pitch", _guess(told, focal, stop, pitch / blur), words, rank)
    if focal * math.sqrt(blur) < min(told.focus_distances) / BEYOND_LENS:
        value = focal * math.sqrt(blur)
        words = Sentence(
            "{focal_length} of {value:.3g} mm would explain the photos, not {told:.3g}",
            value=value * 1e3,
            told=focal * 1e3,
        )
        yield Mistake("focal_length", _guess(told, value, stop, pitch), words, 1.6)


def _camera(told: Guess) -> tuple[float, float, float]:
    """Focal length, f-number, pixel pitch of the first frame."""
    names = ("focal_length", "f_number", "pixel_pitch")
    focal, stop, pitch = (float(as_setting(name, getattr(told.camera, name)).flatten()[0]) for name in names)
    return focal, stop, pitch


def _guess(told: Guess, focal: float, stop: float, pitch: float) -> Guess:
    """The same distances and another camera; apertures that differ between frames keep their ratios."""
    _, was, _ = _camera(told)
    assert isinstance(told.camera, Camera)
    stops = as_setting("f_number", told.camera.f_number) * (stop / was)
    return Guess(told.focus_distances, Camera(focal, stops, pitch))


def _distances_times(told: Guess, factor: float) -> Guess:
    return Guess(tuple(distance * factor for distance in told.focus_distances), told.camera)


def _within(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]
