"""The server's password and folder."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from focalsweep.web.server import own_folder, read_auth, serve
from tests.errors import assert_one_sentence, message_of


def test_auth() -> None:
    assert read_auth(None) is None and read_auth("anna:a:b") == ("anna", "a:b")
    for text in ("anna", "anna:", ":secret", ""):
        assert_one_sentence(message_of(lambda text=text: read_auth(text), ValueError), "auth must", "anna:secret")
    call = lambda: serve("0.0.0.0", 0, None, example=Path(), device="cpu")  # noqa: E731
    assert_one_sentence(message_of(call, ValueError), "host 0.0.0.0", "auth=NAME:PASSWORD")


KILLED = """
import os, signal
from focalsweep.web.server import own_folder
with own_folder() as folder:
    (folder / "photo.jpg").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks are not told apart there")
def test_folders_of_killed_servers_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", KILLED], env=environment, timeout=60)
    (left,) = tmp_path.iterdir()
    (tmp_path / "focalsweep-other").mkdir()  # somebody else's, without a lock
    with own_folder() as alive:
        assert left.exists()  # it may have begun just now
        for folder in (left, alive):
            os.utime(folder / "lock", (0, 0))
        with own_folder() as second:
            assert {path.name for path in tmp_path.iterdir()} == {alive.name, second.name, "focalsweep-other"}
    assert [path.name for path in tmp_path.iterdir()] == ["focalsweep-other"]
