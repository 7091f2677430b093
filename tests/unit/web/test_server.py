"""Names and passwords of the page."""

from pathlib import Path

from focalsweep.web.server import read_auth, serve
from tests.errors import assert_one_sentence, message_of


def test_auth() -> None:
    assert read_auth(None) is None and read_auth("anna:a:b") == ("anna", "a:b")
    for text in ("anna", "anna:", ":secret", ""):
        assert_one_sentence(message_of(lambda text=text: read_auth(text), ValueError), "--auth", "anna:secret")
    call = lambda: serve("0.0.0.0", 0, None, example=Path(), device="cpu")  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "--host 0.0.0.0", "--auth")
