"""The method "argmin": the lowest cost alone, without any network."""

from __future__ import annotations

from focalsweep.methods.method import Method, Options, uninformed
from focalsweep.methods.sweep import PSF_SETTING, reblur_cost
from focalsweep.sweep.argmin import argmin_depth, find_minimum
from focalsweep.sweep.colour import grey_for_sweep
from focalsweep.sweep.costs import PaperCost
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack


def lowest_cost_depth(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    """Depth of a batched stack at the lowest of its costs, between planes; re-blur reads its dominant colour alone."""
    if options.settings.get("cost") == "paper":
        return _of_paper_cost(stack, planes, options)
    cost = reblur_cost(options.settings.get("psf", "disk"), squash=False)
    grey = grey_for_sweep(stack)
    return argmin_depth(grey, planes, cost, workspace=options.workspace, progress=options.progress)


def _of_paper_cost(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    """The paper's cost is no likelihood: its std and confidence are those of a guess among the planes."""
    volume = cost_volume(stack, planes, PaperCost(), workspace=options.workspace, progress=options.progress)
    return uninformed(1 / find_minimum(volume, planes.as_batch(len(volume))).inverse_depth, planes)


ARGMIN = Method(
    "argmin",
    "the lowest cost alone: no network, and unsure where there is no texture",
    lowest_cost_depth,
    settings=PSF_SETTING | {"cost": (("reblur", "paper"), "which of the two costs")},
)
