"""Fused CUDA versions of the two costs (Triton). The plain versions beside this folder are twin and fallback.

What plain torch spends on a GPU is bytes: every step writes the whole sweep (some 400 MB) and reads it again. Here each
cost is one pass that writes the filtered spectra, the inverse transforms, one pass that reads them, and small ones.
Real OTFs only; nothing here is differentiable.
"""

from focalsweep.sweep.kernels.frames import disk_quadrant_otf, pad_periodic, stack_statistics
from focalsweep.sweep.kernels.maps import finish
from focalsweep.sweep.kernels.planes import paper_deviation, reblur_energy

__all__ = [
    "disk_quadrant_otf",
    "finish",
    "pad_periodic",
    "paper_deviation",
    "reblur_energy",
    "stack_statistics",
]
