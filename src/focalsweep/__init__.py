"""Metric depth from a focal stack, for any camera."""

import focalsweep.threads  # noqa: F401  # isort: skip  # before anything loads torch

from focalsweep.errors import InputError
from focalsweep.estimate import estimate_depth
from focalsweep.from_files import load_result
from focalsweep.methods.method import Options
from focalsweep.methods.registry import register_method
from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.optics.psf import Disk, Gaussian
from focalsweep.optics.thin_lens import coc_px
from focalsweep.photos.reading import load_stack
from focalsweep.results.result import DepthResult
from focalsweep.sweep.costs import PaperCost, ReblurCost
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import Camera, DepthGrid, DepthPrediction, FocalStack, RelativeLens, Stage
from focalsweep.version import __version__

__all__ = [
    "Camera",
    "DepthGrid",
    "DepthPrediction",
    "DepthResult",
    "Disk",
    "FocalStack",
    "Gaussian",
    "InputError",
    "Options",
    "PaperCost",
    "ReblurCost",
    "RelativeLens",
    "Stage",
    "__version__",
    "coc_px",
    "cost_volume",
    "estimate_depth",
    "linear_to_srgb",
    "load_result",
    "load_stack",
    "register_method",
    "srgb_to_linear",
]
