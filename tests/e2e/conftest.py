"""What the end-to-end tests share: a small good stack, and the command line in this process."""

from pathlib import Path

import pytest

from tests.e2e.running import Run, runner, write_small_stack


@pytest.fixture(scope="module")
def small_stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_stack(tmp_path_factory.mktemp("made") / "shots")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(capfd)
