"""Lenses: a camera that focuses, one of which only the growth of its blur is known, one that moves on a stage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from focalsweep.errors import InputError, SettingName
from focalsweep.validation import as_setting, require

Setting = float | Tensor
"""A number, or one for each stack (B), or one for each frame (F; B F in a batch)."""


UNITS_A_RANGE = 8.0  # ranges of height that make 1 of u: inverse depth stays far from 0
GUESSED_BLUR_PX = 12.0  # over the range, until it is measured
LARGEST = {
    "focal_length": (10.0, "millimetres given as metres"),
    "f_number": (1e4, "the aperture's diameter given for it"),
    "pixel_pitch": (1e-2, "micrometres given as metres"),
}


@dataclass(frozen=True, eq=False)
class Camera:
    """A thin lens in front of a sensor.

    Each field is one number, or a tensor: one value for each stack of a batch (B), or for each frame (F for a single
    stack, B F for a batch).

    Args:
        focal_length: metres.
        f_number: focal length over the diameter of the aperture.
        pixel_pitch: metres per pixel of the image as it is now: a resize changes it, a crop does not.
    """

    focal_length: Setting
    f_number: Setting
    pixel_pitch: Setting

    if TYPE_CHECKING:  # numbers, arrays, tensors and lists go in; numbers and tensors are kept

        def __init__(self, focal_length: Any, f_number: Any, pixel_pitch: Any) -> None: ...

    def __post_init__(self) -> None:
        for name, unit in (("focal_length", " m"), ("f_number", ""), ("pixel_pitch", " m")):
            value = as_setting(name, getattr(self, name))
            require(torch.isfinite(value) & (value > 0), value, name, "be positive and finite", unit, "entry")
            most, mistaken = LARGEST[name]
            if bool((value > most).any()):
                raise InputError(
                    "{name} is {value:g}{unit}, beyond any camera ({mistaken}?)",
                    name=SettingName(name), unit=unit, mistaken=mistaken,
                    field=name, rule=f"at most {most:g}{unit}", value=value.max().item(),
                )  # fmt: skip
            plain = value.ndim == 0 and not value.requires_grad
            object.__setattr__(self, name, value.item() if plain else value)

    def __repr__(self) -> str:
        if any(isinstance(value, Tensor) for value in (self.focal_length, self.f_number, self.pixel_pitch)):
            return f"Camera(focal_length={self.focal_length}, f_number={self.f_number}, pixel_pitch={self.pixel_pitch})"
        return f"Camera({self.focal_length * 1e3:g} mm, f/{self.f_number:g}, {self.pixel_pitch * 1e6:.4g} um per px)"

    def resized(self, scale: float) -> Camera:
        """The camera of the same picture with `scale` times as many pixels across."""
        return self._unchecked(pixel_pitch=self.pixel_pitch / scale)

    def scaled(self, factor: float) -> Camera:
        """Every length multiplied by `factor`: the blur in pixels stays (paper, Eq. 2), depth scales with it."""
        return self._unchecked(focal_length=self.focal_length * factor, pixel_pitch=self.pixel_pitch * factor)

    def expanded(self, shape: tuple[int, int], batched: bool) -> Camera:
        """Every field as a tensor with the axes B F; `batched` says whether a 1-D field runs over B or over F."""
        fields = {}
        for name in ("focal_length", "f_number", "pixel_pitch"):
            fields[name] = expand_setting(name, as_setting(name, getattr(self, name)), shape, batched)
        return self._unchecked(**fields)

    def _unchecked(self, **changes: Setting) -> Camera:
        """A changed copy of a camera that is known to be valid: it may be one that nobody could build."""
        camera = object.__new__(Camera)
        camera.__dict__.update(vars(self) | changes)
        return camera


@dataclass(frozen=True, eq=False)
class RelativeLens:
    """A lens of which only the growth of its blur is known: depth seen through it has no unit.

    It has no focal length and no pixel pitch, so nothing that needs metres can be made of it by mistake.

    Args:
        slope_px: the blur's diameter in pixels for each unit of inverse depth away from the plane in focus.
    """

    slope_px: Setting

    def __post_init__(self) -> None:
        value = as_setting("slope_px", self.slope_px)
        require(torch.isfinite(value) & (value > 0), value, "slope_px", "be positive and finite", " px", "entry")
        object.__setattr__(self, "slope_px", value.item() if value.ndim == 0 and not value.requires_grad else value)

    def resized(self, scale: float) -> RelativeLens:
        """The lens of the same picture with `scale` times as many pixels across."""
        return replace(self, slope_px=self.slope_px * scale)

    def scaled(self, factor: float) -> RelativeLens:
        """Every depth multiplied by `factor`: the blur in pixels stays."""
        return RelativeLens(self.slope_px * factor)

    def expanded(self, shape: tuple[int, int], batched: bool) -> RelativeLens:
        """The slope as a tensor with the axes B F; `batched` says whether a 1-D one runs over B or over F."""
        return replace(self, slope_px=expand_setting("slope_px", as_setting("slope_px", self.slope_px), shape, batched))


@dataclass(frozen=True, eq=False)
class StageLens(RelativeLens):
    """A lens that stays as it is while the camera or the specimen moves along the axis: blur is linear in height.

    What sweeps and networks take for inverse depth is u = 1 + (height - origin) / height_unit here: linear too, and
    larger is nearer to the lens. `Stage` makes it.

    Args:
        slope_px: the blur's diameter in pixels for each unit of u.
        height_unit: metres of height for each unit of u.
        origin: metres, the height at u = 1.
        measure_blur: whether `slope_px` is a guess, to be measured on the frames.
        numerical_aperture, pixel_size, wavelength: of the objective, metres in the specimen and of light, where they
            are known: what is a few waves out of focus is blurred by wave optics.
    """

    height_unit: float = 1.0
    origin: float = 0.0
    measure_blur: bool = False
    numerical_aperture: float | None = None
    pixel_size: float | None = None
    wavelength: float | None = None

    def resized(self, scale: float) -> StageLens:
        size = None if self.pixel_size is None else self.pixel_size / scale
        return replace(self, slope_px=self.slope_px * scale, pixel_size=size)

    def with_aperture(self, numerical_aperture: float) -> StageLens:
        """The same with an aperture that was measured, where the pixel's size in the specimen is known."""
        if self.pixel_size is None:
            raise ValueError("an aperture gives a blur in pixels where the pixel size is known: give it")
        slope_px = self.height_unit * cone_px(numerical_aperture, self.pixel_size)
        slope = torch.full_like(self.slope_px, slope_px) if isinstance(self.slope_px, Tensor) else slope_px
        return replace(self, slope_px=slope, measure_blur=False, numerical_aperture=numerical_aperture)

    def scaled(self, factor: float) -> RelativeLens:
        raise ValueError("heights of a stage have no ratio to keep: scale the step and the pixel size instead")

    def heights(self, depth: Tensor) -> Tensor:
        """Metres, of depths as the sweep counts them: 1 / u."""
        return self.origin + self.height_unit * (1 / depth - 1)

    def height_std(self, depth: Tensor, std: Tensor) -> Tensor:
        """Metres, of the standard deviation of such depths."""
        return self.height_unit * std / depth.square()


@dataclass(frozen=True, eq=False)
class Stage:
    """A microscope's stage, a macro rail, a camera on an axis: the lens stays, what is in focus moves by known steps.

    Args:
        step: metres from frame to frame; or
        positions: metres, one for each frame.
        pixel_size: metres in the specimen a pixel shows; with `magnification`, the size of a pixel of the sensor.
        numerical_aperture: of the objective, in air. None: how fast the blur grows is measured on the frames.
        magnification: of the objective, where `pixel_size` is the sensor's.
        wavelength: metres, of the light; green where nobody says.
        upwards: whether the plane in focus rises towards the lens from frame to frame, as it does where the camera is
            raised; False where the specimen is.
        rail: whether the whole camera moves and sees things grow as it nears them; a microscope's picture only shifts.
    """

    step: float | None = None
    positions: Sequence[float] | None = None
    pixel_size: float | None = None
    numerical_aperture: float | None = None
    magnification: float | None = None
    wavelength: float = 0.55e-6
    upwards: bool = True
    rail: bool = False

    def __post_init__(self) -> None:
        if (self.step is None) == (self.positions is None):
            raise InputError("{step} or {positions} must be given, one of them", field="step", value=self.step)
        if self.step is not None and not (math.isfinite(self.step) and self.step != 0):
            raise InputError(
                "{step} must be {rule}, but is {value:g} m",
                field="step", rule="a number of metres other than 0", value=self.step,
            )  # fmt: skip
        for name in ("pixel_size", "numerical_aperture", "magnification", "wavelength"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(
                    "{name} must be above 0, but is {value:g}", name=SettingName(name), field=name, value=value
                )
        if not 1e-7 < self.wavelength < 2e-6:
            raise InputError(
                "{wavelength} must be {rule}, but is {value:g} m",
                field="wavelength", rule="between 1e-7 and 2e-6 m", value=self.wavelength,
            )  # fmt: skip
        if self.numerical_aperture is not None and self.numerical_aperture >= 1:
            raise InputError(
                "{numerical_aperture} is {value:g}, but in air it stays below {rule}",
                field="numerical_aperture", rule="1", value=self.numerical_aperture,
                remedy="leave it out for an immersion objective: the blur is measured",
            )  # fmt: skip
        if self.numerical_aperture is not None and self.pixel_size is None:
            raise InputError(
                "{numerical_aperture} needs {pixel_size} to say how many pixels the blur has",
                field="pixel_size", rule="known", value=None, remedy="give it, or leave out the aperture",
            )  # fmt: skip

    @property
    def specimen_pixel(self) -> float | None:
        """Metres in the specimen a pixel shows."""
        return None if self.pixel_size is None else self.pixel_size / (self.magnification or 1.0)

    def places(self, frames: int) -> list[float]:
        """Metres of height of the plane in focus, of each frame."""
        if self.positions is not None:
            places = [float(place) for place in self.positions]
        else:
            places = [number * float(self.step or 0.0) for number in range(frames)]
        if len(places) != frames:
            raise InputError(
                "{positions} has {value} values for {rule}",
                field="positions", rule=f"{frames} frames", value=len(places), remedy="give one for each frame",
            )  # fmt: skip
        if not all(map(math.isfinite, places)) or max(places) == min(places):
            raise InputError(
                "{positions} must be {rule}", field="positions", rule="finite and differ from each other", value=places
            )
        return places if self.upwards else [-place for place in places]

    def lens(self, frames: int) -> tuple[Tensor, StageLens]:
        """The focus distances of the frames as sweeps count them, and the lens."""
        heights = torch.tensor(self.places(frames), dtype=torch.float64)
        low, high = heights.min().item(), heights.max().item()
        unit = UNITS_A_RANGE * (high - low)
        origin = (low + high) / 2
        lens = StageLens(
            GUESSED_BLUR_PX * UNITS_A_RANGE, unit, origin, True, None, self.specimen_pixel, self.wavelength
        )
        if self.numerical_aperture is not None:
            lens = lens.with_aperture(self.numerical_aperture)
        return 1 / (1 + (heights - origin) / unit), lens


Lens = Camera | RelativeLens


def cone_px(numerical_aperture: float, pixel_size: float) -> float:
    """The diameter of an objective's cone of light, pixels for each metre out of focus."""
    return 2 * math.tan(math.asin(numerical_aperture)) / pixel_size


def unit_of(lens: Lens) -> Literal["m"] | None:
    """Of what is found through the lens; None where only the order of the frames is known."""
    return "m" if isinstance(lens, Camera | StageLens) else None


def expand_setting(name: str, value: Tensor, shape: tuple[int, int], batched: bool, one_each: str = "stack") -> Tensor:
    """Broadcast a setting to B F. A 1-D one in a batch holds one value a stack (camera) or a frame (distances)."""
    if value.ndim == 1 and batched and one_each == "stack":
        value = value[:, None]
    try:
        return value.expand(shape)
    except RuntimeError:
        wanted = f"a number, or B={shape[0]}, or B F={shape}" if batched else f"a number, or F={shape[1]}"
        raise InputError(
            "{name} has the shape {value}; it must be {rule} values",
            name=SettingName(name), field=name, rule=wanted, value=tuple(value.shape),
        ) from None  # fmt: skip


def part_of_lens(lens: Lens, part: Any) -> Lens:
    """Of some stacks of a batch, or with (slice(None), frames) of some frames; all of its settings being tensors."""
    if isinstance(lens, RelativeLens):
        return replace(lens, slope_px=as_setting("slope_px", lens.slope_px)[part])
    return lens._unchecked(**{name: value[part] for name, value in vars(lens).items()})
