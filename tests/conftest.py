"""Settings that every test shares."""

import os

# One thread, here and in the processes that tests start: the pictures are small, and threads would only fight with
# other workers. Sums over pixels are split by threads, so files are alike to the last bit where their number is.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import settings

settings.register_profile("focalsweep", max_examples=25, deadline=None, derandomize=True)
settings.load_profile("focalsweep")
torch.set_num_threads(1)
