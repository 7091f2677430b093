"""Focus distances in the names of the files, as capture apps write them: image_2_0.50.jpg, a_350mm.png, b_2.5dpt.dng.

Frame numbers, dates and times are no distances: a number counts only with a decimal point or a unit, and only where it
stands at one place in every name, differs from file to file and spans more than a hair.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import PurePath

from focalsweep.photos.values import Value

METRES = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "": 1.0}
NUMBER = re.compile(
    r"(?<![\d.])(?P<whole>\d{1,5})(?:\.(?P<part>\d{1,5}))?"
    r"(?:[ _-]?(?P<unit>mm|cm|m|dpt|dioptres?|diopters?|D)(?![A-Za-z\d])|(?![\d.]))"
    r"|(?<![A-Za-z])(?P<infinity>inf|infinity)(?![A-Za-z])"
)
SMALLEST_SPAN = 1.02  # the farthest over the nearest
NEAREST, FARTHEST = 0.01, 1000.0  # metres; infinity is allowed


def distances_in_names(names: Sequence[str]) -> list[Value] | None:
    """The focus distance that each name holds, or None where the names hold none, or more than one."""
    rows = [_candidates(PurePath(name).stem) for name in names]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1:
        return None
    columns = [list(column) for column in zip(*rows, strict=True)]
    found = [column for column in map(_distances, columns) if column is not None]
    if not found:
        return None
    for other in found[1:]:  # 0.50m_2.00dpt says one thing twice
        if any(abs(1 / a.value - 1 / b.value) > 0.05 / a.value for a, b in zip(found[0], other, strict=True)):
            return None
    return found[0]


def _candidates(stem: str) -> list[re.Match[str]]:
    return [m for m in NUMBER.finditer(stem) if m["infinity"] or m["unit"] or (m["part"] and len(m["whole"]) <= 3)]


def _distances(column: Sequence[re.Match[str]]) -> list[Value] | None:
    """The numbers at one place of all names as metres, if they can be distances."""
    units = {_unit(match) for match in column if not match["infinity"]}
    if len(units) != 1:
        return None
    unit = units.pop()
    values = [_value(match, unit) for match in column]
    metres = [value.value for value in values]
    plain = all(NEAREST <= distance <= FARTHEST or math.isinf(distance) for distance in metres)
    if not plain or len(set(metres)) != len(metres) or max(metres) < SMALLEST_SPAN * min(metres):
        return None
    return values


def _unit(match: re.Match[str]) -> str:
    unit = match["unit"] or ""
    return unit if unit in METRES else "dpt"


def _value(match: re.Match[str], unit: str) -> Value:
    """Half of the last digit to either side."""
    if match["infinity"]:
        return Value(math.inf, "file name", FARTHEST, math.inf)
    part = match["part"] or ""
    number, half = float(f"{match['whole']}.{part or 0}"), 0.5 * 10.0 ** -len(part)
    if unit == "dpt":
        low, high = 1 / (number + half), 1 / (number - half) if number > half else math.inf
        return Value(1 / number if number else math.inf, "file name, dioptres", low, high)
    scale = METRES[unit]
    return Value(number * scale, "file name", max(number - half, 0) * scale, (number + half) * scale)
