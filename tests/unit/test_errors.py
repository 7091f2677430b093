"""Sentences that know their settings; and the assertions of `tests/errors.py` can fail."""

import json
import pickle

import pytest

from focalsweep.errors import (
    InputError,
    InputFileExistsError,
    InputTypeError,
    Sentence,
    SettingError,
    SettingName,
    explain,
    joined,
    located,
    note_of,
    say,
)
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


# Sentences


LINE = {"pixel_pitch": "--pixel-pitch-um", "relative": "--relative", "align": "--align"}


def test_a_sentence_has_arguments_and_says_other_words() -> None:
    sentence = Sentence("{pixel_pitch} of {file} is {value:g} m", file="{a}.jpg", value=0.5)
    assert sentence == "pixel_pitch of {a}.jpg is 0.5 m"  # what fills a template is no template
    assert sentence.say(LINE) == "--pixel-pitch-um of {a}.jpg is 0.5 m"
    assert sentence.say({}) == sentence
    again = pickle.loads(pickle.dumps(sentence))
    assert again.say(LINE) == sentence.say(LINE)
    assert json.loads(json.dumps([sentence])) == [str(sentence)]


def test_a_setting_with_the_value_to_give() -> None:
    sentence = Sentence('{relative=True} or {align="none"}')
    assert sentence == 'relative=True or align="none"'
    assert sentence.say(LINE) == "--relative or --align none"
    assert sentence.say({'align="none"': "aligned", "relative": "tick"}) == "tick or aligned"
    assert Sentence("{auth=NAME:PASSWORD}").say({"auth": "--auth"}) == "--auth NAME:PASSWORD"


def test_sentences_and_names_fill_others() -> None:
    name, inner = SettingName("pixel_pitch"), Sentence("or {relative=True}")
    sentence = Sentence("give {what}, {rest}", what=joined([name, "x", SettingName("align")]), rest=inner)
    assert sentence.say(LINE) == "give --pixel-pitch-um, x and --align, or --relative"
    assert joined(["a"]) == "a" and joined([]) == "" and joined("abc", last=", ") == "a, b, c"


def test_text_around_and_within_a_sentence() -> None:
    sentence = Sentence("{align} of {file}", file="/tmp/align/a.jpg").within("/tmp: ", "!").with_text("/tmp", "")
    assert sentence.say(LINE) == ": --align of /align/a.jpg!"


@pytest.mark.parametrize(
    ("kind", "caught"), [(InputError, ValueError), (InputTypeError, TypeError), (InputFileExistsError, FileExistsError)]
)
def test_errors_have_parts_and_survive_a_pickle(kind: type[SettingError], caught: type[Exception]) -> None:
    error = kind("{align} is {value!r}", field="align", rule="auto", value="x", remedy="give {relative=True}")
    assert isinstance(error, caught)
    for one in (error, pickle.loads(pickle.dumps(error)), located(error, "")):  # type: ignore[arg-type]
        assert type(one) is kind
        assert str(one) == "align is 'x': give relative=True"
        assert explain(one, LINE) == "--align is 'x': give --relative"
        assert (one.field, one.rule, one.value, one.remedy) == ("align", "auto", "x", "give relative=True")
    assert explain(located(error, "shots: ", " (2)"), LINE) == "shots: --align is 'x': give --relative (2)"  # type: ignore[arg-type]


def test_other_errors_are_explained_as_they_are() -> None:
    assert explain(ValueError("{align}"), LINE) == "{align}"
    assert explain(located(ValueError("no"), "a: ")) == "a: no"
    assert (
        explain(FileNotFoundError(2, "No such file", "x")) == "x: no such file: check the path, its rights and the disk"
    )
    note = Sentence("{align} it")
    assert say(note_of(UserWarning(note)), LINE) == "--align it" and note_of("plain") == "plain"
    assert say("align", LINE) == "align"
