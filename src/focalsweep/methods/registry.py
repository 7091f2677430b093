"""Every method by name: the one list that all entrances, help texts, protocols and documents read.

    estimate_depth(stack, method="sweep")                     a name
    estimate_depth(stack, method="sweep:psf=sampled")         and settings of the method
    estimate_depth(stack, method="argmin:planes=80,range=0.1-3,spacing=depth")    and of the planes, for any method
    estimate_depth(stack, method=my_function)                 (batched stack, planes, options) -> DepthPrediction

Other packages add methods by the entry point `focalsweep.methods`, programs by `register_method`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from focalsweep.errors import InputError, InputTypeError
from focalsweep.methods.argmin import ARGMIN
from focalsweep.methods.focus_measure import FOCUS_MEASURE
from focalsweep.methods.method import Method, Options, Predict
from focalsweep.methods.paper import PAPER
from focalsweep.methods.sweep import SWEEP
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack

GROUP = "focalsweep.methods"
PLANE_SETTINGS = {
    "planes": ((), "how many planes are swept, from 2 to 512; 64 by default"),
    "range": ((), "nearest and farthest plane in metres, 0.1-3; by default what the stack shows"),
    "spacing": (
        ("inverse", "depth"),
        "in equal steps of inverse depth, or of depth as the paper has it",
    ),
}
PLANE_COUNT, MOST_PLANES = 64, 512

_METHODS: dict[str, Method] = {method.name: method for method in (SWEEP, ARGMIN, PAPER, FOCUS_MEASURE)}


def register_method(
    name: str, predict: Predict, *, about: str = "", settings: Mapping[str, tuple[tuple[str, ...], str]] | None = None
) -> None:
    """Add a method by name, for `estimate_depth`, the command line and the protocols of this process.

    Args:
        name: letters, digits, "_" and "-".
        predict: (batched `FocalStack`, `DepthGrid`, `Options`) -> `DepthPrediction`.
        about: what it does, in a phrase.
        settings: what it takes behind its name: name -> (the values it may have, none for any text; what it does).
    """
    if not name or not all(letter.isalnum() or letter in "_-" for letter in name):
        raise InputError(
            "a method's name has letters, digits, _ and - only, but is {value!r}", field="name", value=name
        )
    if name in all_methods():
        raise InputError("a method is called {value} already", field="name", value=name, remedy="choose another name")
    _METHODS[name] = Method(name, about, predict, settings=settings or {})


def all_methods() -> dict[str, Method]:
    """By name, ours first."""
    return {**_METHODS, **{name: method for name, method in _of_other_packages().items() if name not in _METHODS}}


@cache
def _of_other_packages() -> dict[str, Method]:
    found = {}
    for entry in entry_points(group=GROUP):
        try:
            method: Any = entry.load()
        except Exception as error:  # whatever another package does wrong, ours still work
            warnings.warn(f"the method {entry.name} of another package cannot be loaded: {error}", stacklevel=2)
            continue
        found[entry.name] = method if isinstance(method, Method) else Method(entry.name, "", method)
    return found


@dataclass(frozen=True, eq=False)
class Choice:
    """A method with its settings, as it was asked for.

    Args:
        label: what it is called in records and tables: the text that asks for it.
        method: the method.
        settings: its own.
        planes: of the planes: "planes", "range", "spacing".
    """

    label: str
    method: Method
    settings: Mapping[str, str] = field(default_factory=dict)
    planes: Mapping[str, str] = field(default_factory=dict)

    @property
    def plane_count(self) -> int:
        return int(self.planes.get("planes", PLANE_COUNT))

    def grid(self, found: DepthGrid | None = None) -> DepthGrid | None:
        """The planes that the settings ask for, over their range or that of the planes that were found."""
        if "range" not in self.planes:
            if found is None or not ({"planes", "spacing"} & set(self.planes)):
                return found
            near, far = found.depths[..., 0], found.depths[..., -1]
        else:
            near, far = (float(end) for end in self.planes["range"].split("-"))  # type: ignore[assignment]
        spaced = self.planes.get("spacing") == "depth"
        make = DepthGrid.uniform_in_depth if spaced else DepthGrid.uniform_in_inverse_depth
        return make(near, far, self.plane_count)

    def swept(self, planes: DepthGrid) -> DepthGrid:
        """The planes that it really sweeps for these."""
        return self.method.swept(planes, self.settings)

    def predict(self, stack: FocalStack, planes: DepthGrid, options: Options | None = None) -> DepthPrediction:
        """What it makes of a batched stack."""
        return self.method.predict(stack, planes, replace(options or Options(), settings=self.settings))


def choose_method(method: str | Predict | Method | Choice) -> Choice:
    """The method of a name with settings, "sweep:psf=sampled", or a function as a method; a sentence where none is."""
    if isinstance(method, Choice):
        return method
    if isinstance(method, Method):
        return Choice(method.name, method)
    if callable(method):
        name = getattr(method, "__name__", type(method).__name__)
        return Choice(name, Method(name, "a function", method))
    if not isinstance(method, str):
        raise InputTypeError(
            "{method} must be {rule}, but is {value!r}", field="method", rule="a name or a function", value=method
        )
    name, _, text = method.partition(":")
    methods = all_methods()
    if name not in methods:
        raise InputError(
            "{method} must be one of {rule}, but is {value!r}", field="method", rule=", ".join(methods), value=name
        )
    found = methods[name]
    settings = _read_settings(found, text)
    planes = {key: settings.pop(key) for key in PLANE_SETTINGS if key in settings}
    return Choice(method, found, settings, planes)


def _read_settings(method: Method, text: str) -> dict[str, str]:
    known = {**PLANE_SETTINGS, **method.settings}
    settings: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            raise InputError(
                "{method} {name} has no setting {value!r}: it takes {rule}",
                field="method", name=method.name, value=part, rule=", ".join(known),
            )  # fmt: skip
        allowed = known[key][0]
        fits = value in allowed if allowed else _CHECKS.get(key, bool)(value)
        if not fits:
            raise InputError(
                "{method} {name}: {key} must be {rule}, but is {value!r}",
                field="method", name=method.name, key=key, value=value, rule=" or ".join(allowed) or known[key][1],
            )  # fmt: skip
        settings[key] = value
    return settings


def _is_plane_count(value: str) -> bool:
    return value.isdecimal() and 2 <= int(value) <= MOST_PLANES


def _is_range(value: str) -> bool:
    try:
        near, far = (float(end) for end in value.split("-"))
    except ValueError:
        return False
    return 0 < near < far


_CHECKS: dict[str, Callable[[str], bool]] = {"planes": _is_plane_count, "range": _is_range}


def describe_methods() -> str:
    """All methods in one text, for help."""
    return "; ".join(f"{method.name}: {method.about}" for method in all_methods().values() if method.about)
