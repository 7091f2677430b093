"""Settings that every test shares, and the command line in this process."""

import pytest
import torch
from hypothesis import settings

from tests.e2e.running import Run, runner

settings.register_profile("focalsweep", max_examples=25, deadline=None, derandomize=True)
settings.load_profile("focalsweep")
torch.set_num_threads(1)  # the pictures are small: threads would only fight with other workers


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(capfd)
