"""What an error message owes the user: one sentence with the field or file and the offending value."""

import re
from collections.abc import Callable
from typing import Any

from focalsweep import InputError


def message_of(call: Callable[[], Any], error: type[Exception]) -> str:
    """The message of exactly the error that `call` raises; an `InputError` is the ValueError of our own sentences."""
    try:
        call()
    except Exception as raised:
        kind = ValueError if type(raised) is InputError else type(raised)
        assert kind is error, f"{type(raised).__name__} instead of {error.__name__}: {raised}"
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
