"""What bad input raises: one sentence, in which every entrance names the settings in its own words.

A sentence is written as a template. A name in braces that no value fills is a setting: it reads as the argument's name
in Python, as a flag on the command line, as a label on the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any

_FORMATTER = Formatter()


class SettingName(str):
    """A word of a sentence that stands for a setting."""

    __slots__ = ()


class Sentence(str):
    """A sentence that knows which of its words are settings: a string with their Python names, `say` has others."""

    parts: tuple[str, ...]

    def __new__(cls, template: str, **values: Any) -> Sentence:
        parts: list[str] = []
        for literal, name, form, conversion in _FORMATTER.parse(template):
            parts.append(literal)
            if name is not None:
                known = name in values
                value = _FORMATTER.convert_field(values[name], conversion) if known else name  # type: ignore[arg-type]
                parts.append(format(value, form or "") if known else SettingName(name))
        return cls.of(parts)

    @classmethod
    def of(cls, parts: list[str] | tuple[str, ...]) -> Sentence:
        """From its pieces, as they are."""
        sentence = str.__new__(cls, "".join(parts))
        sentence.parts = tuple(parts)
        return sentence

    def say(self, words: Mapping[str, str]) -> str:
        """With `words` for the settings, by name."""
        return "".join(words.get(part, part) if isinstance(part, SettingName) else part for part in self.parts)

    def within(self, before: str = "", after: str = "") -> Sentence:
        """The same with text around it."""
        return Sentence.of((before, *self.parts, after))

    def __reduce__(self) -> Any:
        return Sentence.of, (self.parts,)


class InputError(ValueError):
    """Bad input, in one sentence: what it is about, what it must be, what it is, what to do.

    Args:
        template: the sentence, "{pixel_pitch} must be above 0, but is {value:g}"; `values` fill it.
        field: the setting that is at fault, where it is one.
        rule: what it must be.
        value: what it is.
        remedy: what to do: the sentence's end, behind a colon.
    """

    def __init__(
        self,
        template: str | Sentence,
        *,
        field: str = "",
        rule: str = "",
        value: Any = None,
        remedy: str = "",
        **values: Any,
    ) -> None:
        if not isinstance(template, Sentence):
            template = Sentence(f"{template}: {remedy}" if remedy else template, value=value, rule=rule, **values)
        super().__init__(str(template))
        self.sentence = template
        self.field, self.rule, self.value, self.remedy = field, rule, value, remedy

    def __reduce__(self) -> Any:
        return _input_error, (self.sentence, self.field, self.rule, self.value, self.remedy)


def _input_error(sentence: Sentence, field: str, rule: str, value: Any, remedy: str) -> InputError:
    return InputError(sentence, field=field, rule=rule, value=value, remedy=remedy)


USER_ERRORS = (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError)
"""What bad input, a full disk or a missing package raise: told in a sentence. Anything else is a fault of ours."""


def explain(error: BaseException, words: Mapping[str, str] | None = None) -> str:
    """What went wrong in one sentence, with `words` for settings; the system's errors come as an errno and a path."""
    if isinstance(error, InputError):
        return error.sentence.say(words or {})
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}: check the path, its rights and the disk"
    return str(error)


def located(error: ValueError | TypeError, before: str, after: str = "") -> ValueError | TypeError:
    """The same error with the place it is about around its sentence."""
    if isinstance(error, InputError):
        moved = error.sentence.within(before, after)
        return InputError(moved, field=error.field, rule=error.rule, value=error.value, remedy=error.remedy)
    return type(error)(f"{before}{error}{after}")


def say(text: str, words: Mapping[str, str]) -> str:
    """A note as an entrance says it: with `words` for the settings that it names."""
    return text.say(words) if isinstance(text, Sentence) else text
