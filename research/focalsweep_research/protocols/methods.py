"""A method as a protocol reads it: one of `focalsweep`'s registry, with the planes that it takes for a stack.

Rows of a table are named by what asks for them: `estimate_depth(stack, method=ROW)` gives the same depth, to the last
digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from focalsweep.estimate import auto_depth_grid, predict
from focalsweep.methods.method import Method, Options, uninformed
from focalsweep.methods.paper import farthest_frame, planes_over, within_blur
from focalsweep.methods.paper import predict as read_paper
from focalsweep.methods.registry import Choice, choose_method
from focalsweep.model.sweepnet import prediction_from_positions
from focalsweep.model.weights import load_papernet
from focalsweep.sweep.costs import PaperCost
from focalsweep.sweep.volume import cost_volume
from focalsweep.types import DepthGrid, DepthPrediction, FocalStack
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.kinds import Objective
from focalsweep_research.training.objectives import PaperObjective, depth_at, uniform_in_depth

Reader = Callable[[Sample], Tensor]
"""A batch of stacks with their planes -> depth B H W."""
Windows = Sequence[tuple[int, int]]
"""Top and left of square windows."""


@dataclass(frozen=True, eq=False)
class Compared:
    """A method under test.

    Args:
        choice: of the registry, with the settings of its row.
        displayed: whether it works on display-encoded values, as the paper's cost does, and not on light.
        own_planes: those that a network was trained on, where it knows no others.
        read_windows: depth in square windows of one stack, whose costs are those of the whole picture: N h w. The paper
            measures its network so on NYU; without it the whole picture is read, and cut afterwards.
    """

    choice: Choice
    displayed: bool = False
    own_planes: DepthGrid | None = None
    read_windows: Callable[[Sample, Windows, int], Tensor] | None = None

    def planes(self, stack: FocalStack) -> DepthGrid:
        """As `estimate_depth` takes them for a stack (not batched), where a protocol gives none."""
        asked = self.own_planes or self.choice.grid()
        if asked is not None:
            return asked
        found, _ = auto_depth_grid(stack, self.choice.plane_count)
        return self.choice.grid(found) or found

    def read(self, sample: Sample) -> Tensor:
        """Depth over the sample's planes."""
        return predict(sample.stack.as_batch(), self.choice, sample.planes).depth

    def read_refitted(self, sample: Sample) -> Tensor:
        """Depth where a protocol gives the range: over as many planes as the method's settings say."""
        return self.read(replace(sample, planes=self.choice.grid(sample.planes) or sample.planes))


def compared(method: str | Method | Choice) -> Compared:
    """By the name of its row; raises where it cannot work here, before hours of work and not after them."""
    choice = choose_method(method)
    choice.method.check()
    of_paper_cost = choice.settings.get("cost") == "paper"
    windows = _paper_windows if choice.method.name == "paper" else None
    return Compared(choice, choice.method.reads_displayed or of_paper_cost, read_windows=windows)


@torch.no_grad()
def _paper_windows(sample: Sample, windows: Windows, size: int) -> Tensor:  # N size size
    """As the method "paper" reads a picture of one tile, but for what its network sees of it."""
    stack = sample.stack.as_batch()
    stack = stack.with_images(stack.images.float().expand(-1, -1, 3, -1, -1))
    planes = planes_over(sample.planes)
    volume = cost_volume(stack, within_blur(stack, planes), PaperCost())
    inverse = planes.as_batch(1).to(volume).expand(len(windows), -1)

    def cut(maps: Tensor) -> Tensor:
        return torch.stack([maps[0, :, top : top + size, left : left + size] for top, left in windows])

    return read_paper(load_papernet(volume.device), cut(farthest_frame(stack)), cut(volume), inverse).depth


def read_windows(
    network: nn.Module, objective: PaperObjective, sample: Sample, windows: Windows, size: int, *, half: bool
) -> Tensor:  # N size size
    """Depth in windows of one stack, whose costs are those of the whole picture; `half`: in half precision."""
    with torch.no_grad(), torch.autocast(sample.depth.device.type, dtype=torch.bfloat16, enabled=half):
        positions = objective.read_windows(network, sample, windows, size).float()
    return depth_at(positions[None].flatten(1, 2), sample).view_as(positions)


def trained_method(name: str, network: nn.Module, objective: Objective, *, half: bool) -> Method:
    """A network on the device where it will run, read as its training reads it; `half`: in half precision on a GPU."""

    def read(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
        batch, _, _, height, width = stack.images.shape
        sample = Sample(stack, planes, stack.images.new_zeros((batch, height, width)))
        with torch.autocast(stack.images.device.type, dtype=torch.bfloat16, enabled=half):
            reading = objective.read(network, sample)
        found = uninformed(depth_at(reading.position.float(), sample), planes)
        if reading.scale is None or uniform_in_depth(planes):
            return found
        inverse = planes.as_batch(batch).to(found.depth)
        informed = prediction_from_positions(reading.position.float(), reading.scale.float(), inverse)
        return replace(informed, depth=found.depth)

    return Method(name, "a network of a training run", read)


def flat_depth(stack: FocalStack, planes: DepthGrid, options: Options) -> DepthPrediction:
    """A wall in the middle of the focus distances: what a method that sees nothing would say."""
    distance = (1 / (1 / stack.focus_distances).mean(-1)).to(stack.images)
    return uninformed(distance[:, None, None].expand(len(distance), *stack.images.shape[-2:]), planes)


FLAT = Method("flat", "sees nothing: a wall in the middle of the focus distances", flat_depth)
