"""What an error message owes the user: one sentence with the field or file and the offending value."""

import re
from collections.abc import Callable
from typing import Any

from focalsweep.errors import InputError, InputFileExistsError, InputTypeError

OURS = {ValueError: InputError, TypeError: InputTypeError, FileExistsError: InputFileExistsError}
"""Errors that say the settings in each entrance's words, by what callers catch."""


def message_of(call: Callable[[], Any], error: type[Exception]) -> str:
    """The message of exactly the error that `call` raises, or of our own error of that very kind."""
    try:
        call()
    except Exception as raised:
        assert type(raised) in (error, OURS.get(error)), (
            f"{type(raised).__name__} instead of {error.__name__}: {raised}"
        )
        return str(raised)
    raise AssertionError(f"no {error.__name__} was raised")


def assert_one_sentence(message: str, *parts: str) -> None:
    """A single line, a single sentence, no full stop, and every one of `parts` in it."""
    assert message, "the message is empty"
    assert "\n" not in message, f"more than one line: {message!r}"
    assert not re.search(r"[.!?] [A-Z]", message), f"more than one sentence: {message!r}"
    assert not message.endswith("."), f"ends with a full stop: {message!r}"
    for part in parts:
        assert part in message, f"{part!r} is missing from {message!r}"
