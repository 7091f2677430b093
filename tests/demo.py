"""The demo stack with its truth: rendered by Mitsuba, so by nothing of ours."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

import focalsweep
from focalsweep import FocalStack, load_stack

FOLDER = Path(focalsweep.__file__).parent / "demo_stack"


@dataclass(frozen=True, eq=False)
class Demo:
    stack: FocalStack
    depth: Tensor  # H W, metres


@cache
def demo_stack() -> Demo:
    tenths_mm = cv2.imread(str(FOLDER / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED)
    assert tenths_mm is not None
    return Demo(load_stack(FOLDER), torch.from_numpy(tenths_mm.astype(np.float64) * 1e-4))
