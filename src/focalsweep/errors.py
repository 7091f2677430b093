"""What bad input raises: one sentence, in which every entrance names the settings in its own words.

A sentence is written as a template. A name in braces that no value fills is a setting: it reads as the argument's name
in Python, as a flag on the command line, as a label on the page. {relative=True} is a setting with the value to give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any

_FORMATTER = Formatter()
LONGEST = 400  # characters of a value in a sentence
QUOTES = "\"'"


def shortened(value: Any, write: Callable[[Any], str] = repr, most: int = 120) -> str:
    """A value as text for a sentence, whatever its size: the middle of a long one is left out."""
    try:
        text = write(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; a list in a list in a list ...
        return f"a {type(value).__name__} too large to show"
    if len(text) <= most:
        return text
    return f"{text[: most - 20]} ... {text[-10:]} ({len(text)} characters)"


def _formatting(form: str | None) -> Callable[[Any], str]:
    return lambda value: format(value, form or "")


class SettingName(str):
    """A word of a sentence that stands for a setting: its argument's name, or `name=value`."""

    __slots__ = ()

    def said_with(self, words: Mapping[str, str]) -> str:
        """In other words; what they do not have keeps its name. A value stands behind its word, but for True."""
        if self in words:
            return words[self]
        name, equals, value = self.partition("=")
        if not equals or name not in words:
            return str(self)
        return words[name] if value == "True" else f"{words[name]} {value.strip(QUOTES)}"


class Sentence(str):
    """A sentence that knows which of its words are settings: a string with their Python names, `say` has others.

    Values that are setting names or sentences themselves stay what they are.
    """

    parts: tuple[str, ...]

    def __new__(cls, template: str, **values: Any) -> Sentence:
        parts: list[str] = []
        for literal, name, form, conversion in _FORMATTER.parse(template):
            parts.append(literal)
            if name is None:
                continue
            if name not in values:
                parts.append(SettingName(f"{name}:{form}" if form else name))
                continue
            value = values[name]
            if conversion:
                value = shortened(value, repr if conversion == "r" else str, LONGEST)
            if isinstance(value, Sentence):
                parts.extend(value.parts)
            else:
                parts.append(value if isinstance(value, SettingName) else shortened(value, _formatting(form), LONGEST))
        return cls.of(parts)

    @classmethod
    def of(cls, parts: Iterable[str]) -> Sentence:
        """From its pieces, as they are."""
        kept = tuple(parts)
        sentence = str.__new__(cls, "".join(kept))
        sentence.parts = kept
        return sentence

    def say(self, words: Mapping[str, str]) -> str:
        """With `words` for the settings, by name."""
        return "".join(part.said_with(words) if isinstance(part, SettingName) else part for part in self.parts)

    def within(self, before: str = "", after: str = "") -> Sentence:
        """The same with text around it."""
        return Sentence.of((before, *self.parts, after))

    def with_text(self, old: str, new: str) -> Sentence:
        """The same with other text in place of what it has; settings stay."""
        return Sentence.of(part if isinstance(part, SettingName) else part.replace(old, new) for part in self.parts)

    def __reduce__(self) -> Any:
        return Sentence.of, (self.parts,)


def joined(words: Iterable[str], last: str = " and ") -> Sentence:
    """A list in a sentence: "a, b and c"."""
    listed = list(words)
    parts: list[str] = []
    for number, word in enumerate(listed):
        parts += ["" if number == 0 else last if number == len(listed) - 1 else ", "]
        parts += word.parts if isinstance(word, Sentence) else [word]
    return Sentence.of(parts)


class SettingError(Exception):
    """What errors of this package have beside their Python type: a sentence that entrances say in their own words.

    Args:
        template: the sentence, "{pixel_pitch} must be above 0, but is {value:g}"; `values` fill it.
        field: the setting that is at fault, where it is one.
        rule: what it must be; a `Sentence` where that names settings.
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
            values |= {"value": value, "rule": rule}
            template = Sentence(template, **values)
            if remedy:
                remedy = remedy if isinstance(remedy, Sentence) else Sentence(remedy, **values)
                template = Sentence.of((*template.parts, ": ", *remedy.parts))
        super().__init__(str(template))
        self.sentence = template
        self.field, self.rule, self.value, self.remedy = field, rule, value, remedy

    def about(self, sentence: Sentence) -> SettingError:
        """The same error with another sentence."""
        return type(self)(sentence, field=self.field, rule=self.rule, value=self.value, remedy=self.remedy)

    def __reduce__(self) -> Any:
        return _again, (type(self), self.sentence, self.field, self.rule, self.value, self.remedy)


def _again(
    kind: type[SettingError], sentence: Sentence, field: str, rule: str, value: Any, remedy: str
) -> SettingError:
    return kind(sentence, field=field, rule=rule, value=value, remedy=remedy)


class InputError(SettingError, ValueError):
    """Bad input, in one sentence: what it is about, what it must be, what it is, what to do."""


class InputTypeError(SettingError, TypeError):
    """Input of the wrong type, told likewise."""


class InputFileExistsError(SettingError, FileExistsError):
    """A file that would be lost, told likewise."""


USER_ERRORS = (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError)
"""What bad input, a full disk or a missing package raise: told in a sentence. Anything else is a fault of ours."""


def sentence_of(error: BaseException) -> Sentence:
    """What went wrong in one sentence; the system's errors come as an errno and a path."""
    if isinstance(error, SettingError):
        return error.sentence
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}: check the path, its rights and the disk"
        return Sentence.of([text])
    first = error.args[0] if len(error.args) == 1 else None
    return first if isinstance(first, Sentence) else Sentence.of([str(error)])


def explain(error: BaseException, words: Mapping[str, str] | None = None) -> str:
    """What went wrong in one sentence, with `words` for settings."""
    return sentence_of(error).say(words or {})


def located(error: ValueError | TypeError, before: str, after: str = "") -> Exception:
    """The same error with the place it is about around its sentence."""
    if isinstance(error, SettingError):
        return error.about(error.sentence.within(before, after))
    return type(error)(f"{before}{error}{after}")


def say(text: str, words: Mapping[str, str]) -> str:
    """A note as an entrance says it: with `words` for the settings that it names."""
    return text.say(words) if isinstance(text, Sentence) else text


def note_of(warning: Warning | str) -> str:
    """The sentence that a warning was raised with, which still knows its settings."""
    first = warning.args[0] if isinstance(warning, Warning) and warning.args else warning
    return first if isinstance(first, str) else str(warning)
