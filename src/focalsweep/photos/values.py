"""What is known of a photo's settings: every value with where it came from and how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

Reference = Literal["lens", "sensor"]
LARGEST_DISAGREEMENT = 0.05


@dataclass(frozen=True)
class Value:
    """A setting, its source, and the interval that the truth lies in.

    Args:
        value: the best guess, in metres where it is a length; a distance may be infinite.
        source: the tag, the table or the file it was read from.
        low, high: the ends of the interval: half a step of the quantisation to either side, or a range.
        only_range: the source has no more than the interval; `value` is its middle.
    """

    value: float
    source: str
    low: float
    high: float
    only_range: bool = False

    def scaled(self, factor: float) -> Value:
        return Value(self.value * factor, self.source, self.low * factor, self.high * factor, self.only_range)

    def disagrees(self, other: Value) -> bool:
        """Whether two routes to one value differ by more than 5 %; a range agrees with what overlaps it."""
        a, b = sorted((self, other), key=lambda route: route.value)
        if (a.only_range or b.only_range) and a.high >= b.low:
            return False
        return b.value > a.value * (1 + LARGEST_DISAGREEMENT)

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.source})"


def rounded(value: float, source: str, unit: float = 1.0, coarsest: float = 1.0) -> Value:
    """A value that was rounded to the digits it shows (6.81 is 6.805 to 6.815), times `unit`.

    The digits of a round number do not show: steps are never taken as larger than `coarsest`.
    """
    low = high = value
    if math.isfinite(value):
        shown = Decimal(repr(float(value)))
        half = min(Decimal(1).scaleb(int(shown.normalize().as_tuple().exponent)), Decimal(repr(coarsest))) / 2
        low, high = float(max(shown - half, Decimal(0))), float(shown + half)
    return Value(value * unit, source, low * unit, high * unit)


def between(near: float, far: float, source: str) -> Value:
    """An interval of distances; its middle in dioptres, where a lens's scale is even. `far` may be infinite."""
    near, far = min(near, far), max(near, far)
    middle = 2 / (1 / near + 1 / far) if math.isfinite(near) else math.inf
    return Value(middle, source, near, far, only_range=True)


def exact(value: float, source: str) -> Value:
    return Value(value, source, value, value)


def setting_to_json(value: Value | None) -> dict[str, Any] | None:
    """A value with its source and interval, for run.json."""
    return None if value is None else {"value": value.value, "source": value.source, "range": [value.low, value.high]}
