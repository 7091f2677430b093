"""Which way a stack without focus distances runs, near to far or far to near: blur alone does not tell.

Two things do, neither for certain. In photos that are held upright what is near lies below what is far. And a lens that
moves as a whole draws things larger the nearer it is focused, which registration has measured; lenses that focus inside
may do the opposite, so it is asked second.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from focalsweep.errors import Sentence, SettingName
from focalsweep.sweep.misfit import Misfit
from focalsweep.types import FocalStack
from focalsweep.validation import as_setting

LEAST_CORRELATION = 0.15  # of where a pixel is sharpest with its row
LEAST_BREATHING = 0.01  # of the magnification over the frames; lenses that focus inside do it either way
STEADY = 0.9  # correlation of the magnification with the order of the frames


@dataclass(frozen=True)
class Direction:
    """Whether frames run near to far, None where nothing tells; and what tells it."""

    near_to_far: bool | None
    by: str

    @property
    def sentence(self) -> Sentence:
        """For the user: it may be wrong."""
        give = SettingName('order="far-to-near"' if self.near_to_far in (True, None) else 'order="near-to-far"')
        if self.near_to_far is None:
            words = "nothing in the photos tells which way they run: near to far is assumed, give {give} if they do not"
            return Sentence(words, give=give)
        way = "near to far" if self.near_to_far else "far to near"
        return Sentence("the photos seem to run {way}, by {by}: give {give} if not", way=way, by=self.by, give=give)


def find_direction(stack: FocalStack) -> Direction:
    """Of a small stack, batched, of one, of one channel, whose frames are in order."""
    misfit = Misfit(stack)
    if misfit.enough:
        energy = misfit.energy / misfit.energy.mean((1, 2), keepdim=True)
        sharpest = energy.argmax(0).float()
        rows = torch.arange(stack.size[0], device=sharpest.device).float()[:, None].expand_as(sharpest)
        chosen = misfit.informative
        upwards = -float(torch.corrcoef(torch.stack([sharpest[chosen], rows[chosen]])).nan_to_num()[0, 1])
        if abs(upwards) > LEAST_CORRELATION:
            return Direction(upwards > 0, "what lies lower in the picture being nearer")
    magnification = as_setting("magnification", stack.magnification)[0].log()
    steps = torch.arange(stack.frame_count, dtype=torch.float64)
    if float(magnification.max() - magnification.min()) > LEAST_BREATHING:
        both = float(torch.corrcoef(torch.stack([magnification, steps]))[0, 1])
        if abs(both) > STEADY:  # the larger they were drawn, the less they were magnified
            return Direction(both > 0, "how the focus breathes")
    return Direction(None, "")
