"""Metric depth from a focal stack, for any camera."""

from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.optics.psf import Disk, Gaussian
from focalsweep.optics.thin_lens import coc_px
from focalsweep.photos.reading import load_stack
from focalsweep.pipeline import estimate_depth
from focalsweep.results.result import DepthResult
from focalsweep.sweep.costs import PaperCost, ReblurCost
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import Camera, DepthGrid, DepthPrediction, FocalStack

__version__ = "0.1.0"

__all__ = [
    "Camera",
    "DepthGrid",
    "DepthPrediction",
    "DepthResult",
    "Disk",
    "FocalStack",
    "Gaussian",
    "PaperCost",
    "ReblurCost",
    "coc_px",
    "cost_volume",
    "estimate_depth",
    "linear_to_srgb",
    "load_stack",
    "srgb_to_linear",
]
