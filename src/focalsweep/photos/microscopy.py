"""What microscope files say of themselves: OME-TIFF and ImageJ's stacks. Spacing, pixel size, objective, channels."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from focalsweep.errors import InputError

METRES = {
    "m": 1.0, "cm": 1e-2, "mm": 1e-3, "µm": 1e-6, "μm": 1e-6, "um": 1e-6, "micron": 1e-6, "microns": 1e-6, "nm": 1e-9,
    "inch": 25.4e-3,
}  # fmt: skip
LONGEST_XML = 2**24  # bytes: what says more than that of a stack is no description
AXES = {"Z": "slices", "C": "channels", "T": "times"}


@dataclass(frozen=True)
class Hyperstack:
    """How the pages of a file are laid out, and what it says of the stage. None where it says nothing.

    Args:
        source: "OME-TIFF" or "ImageJ".
        axes: of the pages, the slowest first: "TZC".
        lengths: of those axes.
        step: metres from slice to slice.
        pixel_size: metres in the specimen a pixel.
        numerical_aperture: of the objective.
    """

    source: str
    axes: str
    lengths: tuple[int, ...]
    step: float | None = None
    pixel_size: float | None = None
    numerical_aperture: float | None = None

    def length(self, axis: str) -> int:
        return self.lengths[self.axes.index(axis)] if axis in self.axes else 1

    def pages(self, channel: int | None, time: int | None) -> list[int]:
        """The pages of one channel at one time, from 0 each, slice by slice."""
        numbers = np.arange(math.prod(self.lengths)).reshape(self.lengths)
        for axis, name, chosen in (("C", "channel", channel), ("T", "time", time)):
            count = self.length(axis)
            if chosen is None and count > 1:
                raise InputError(
                    "the file has {value} {what}",
                    field=name, value=count, what=AXES[axis], remedy=f"say which with {{{name}}}, from 0",
                )  # fmt: skip
            if not 0 <= (chosen or 0) < count:
                raise InputError(
                    "{name} must be {rule}, but is {value}",
                    name=name, field=name, rule=f"from 0 to {count - 1}", value=chosen,
                )  # fmt: skip
        for axis in self.axes:
            place = self.axes.index(axis)
            if axis in "CT":
                chosen = channel if axis == "C" else time
                numbers = np.take(numbers, [chosen or 0], axis=place)
        return [int(number) for number in numbers.ravel()]


def read_hyperstack(path: Path) -> Hyperstack | None:
    """Of a TIFF of many pages; None where it is none of a microscope's."""
    import tifffile

    try:
        with tifffile.TiffFile(path) as file:
            if not (file.is_ome or file.is_imagej) or _is_no_description(file.pages.first.description):
                return None
            if not file.series:  # this reads the description: not before it was looked at
                return None
            series = file.series[0]
            pages = [
                (axis, length) for axis, length in zip(series.axes, series.shape, strict=True) if axis not in "YXS"
            ]
            axes, lengths = "".join(axis for axis, _ in pages), tuple(int(length) for _, length in pages)
            if math.prod(lengths) != len(file.pages) or set(axes) - {"Z", "C", "T", "I", "Q"}:
                return None
            if not set(axes) & {"Z"} and len(axes) == 1:
                axes = "Z"  # pages that nobody named: a stack
            if file.is_ome:
                return _ome(file.ome_metadata or "", axes, lengths)
            return _imagej(file, axes, lengths)
    except InputError:
        raise
    except Exception:  # tifffile raises whatever it likes over damaged files; reading the pages says what is wrong
        return None


def _is_no_description(text: str) -> bool:
    """Too long, or with a document type: OME has none, and its entities could explode."""
    return len(text) > LONGEST_XML or "<!DOCTYPE" in text or "<!ENTITY" in text


def _ome(text: str, axes: str, lengths: tuple[int, ...]) -> Hyperstack:
    """OME's XML; a length without a unit is in micrometres."""
    found = Hyperstack("OME-TIFF", axes, lengths)
    if _is_no_description(text):
        return found
    root = ElementTree.fromstring(text.encode())
    pixels = next((node for node in root.iter() if _tag(node) == "Pixels"), None)
    objective = next((node for node in root.iter() if _tag(node) == "Objective"), None)
    if pixels is None:
        return found
    lengths_m = {
        axis: _metres(pixels.get(f"PhysicalSize{axis}"), pixels.get(f"PhysicalSize{axis}Unit", "µm")) for axis in "XZ"
    }
    aperture = None if objective is None else _above_zero(objective.get("LensNA"))
    return Hyperstack("OME-TIFF", axes, lengths, lengths_m["Z"], lengths_m["X"], aperture)


def _imagej(file: Any, axes: str, lengths: tuple[int, ...]) -> Hyperstack:
    """ImageJ's description and the resolution tag, pixels a unit."""
    said = file.imagej_metadata or {}
    unit = str(said.get("unit", "")).replace("\\u00B5", "µ")
    resolution = file.pages.first.tags.valueof("XResolution")
    pixels_a_unit = resolution[0] / resolution[1] if isinstance(resolution, tuple) and resolution[1] else 0.0
    pixel_size = _metres(1 / pixels_a_unit, unit) if pixels_a_unit > 0 else None
    return Hyperstack("ImageJ", axes, lengths, _metres(said.get("spacing"), unit), pixel_size)


def _metres(value: Any, unit: str) -> float | None:
    number = _above_zero(value)
    return number * METRES[unit.strip()] if number and unit.strip() in METRES else None


def _above_zero(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]
