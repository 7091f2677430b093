"""The assertions of `tests/errors.py` can fail."""

import pytest

from tests.errors import assert_one_sentence, message_of


def fail_with(error: Exception) -> None:
    raise error


def test_message_of_wants_exactly_the_error() -> None:
    assert message_of(lambda: fail_with(ValueError("a is 3")), ValueError) == "a is 3"
    with pytest.raises(AssertionError, match="no ValueError"):
        message_of(lambda: None, ValueError)
    for wrong in (TypeError("x"), UnicodeError("x")):  # UnicodeError is a ValueError: a subclass is not good enough
        with pytest.raises(AssertionError, match="instead of ValueError"):
            message_of(lambda wrong=wrong: fail_with(wrong), ValueError)


@pytest.mark.parametrize("message", ["", "two\nlines", "It is bad. Mend it", "a is 3.", "b is 3"])
def test_one_sentence_fails(message: str) -> None:
    assert_one_sentence("a is 3 m, 4.5 is wanted", "a", "3 m")
    with pytest.raises(AssertionError):
        assert_one_sentence(message, "a", "3")
