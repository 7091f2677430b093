"""The stack that ships in the package, and its true depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEMO_STACK = Path(__file__).resolve().parent.parent / "demo_stack"


def demo_depth() -> NDArray[np.float64]:
    """Metres, H W, as ray-traced."""
    import cv2

    tenths_mm: Any = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED)
    return np.asarray(tenths_mm, dtype=np.float64) * 1e-4
