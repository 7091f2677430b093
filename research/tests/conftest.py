"""Settings that every test shares."""

import torch
from hypothesis import settings

settings.register_profile("focalsweep", max_examples=25, deadline=None, derandomize=True)
settings.load_profile("focalsweep")
torch.set_num_threads(1)  # the pictures are small: threads would only fight with other workers
