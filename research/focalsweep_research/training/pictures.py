"""What a network sees and says of a few validation stacks, as strips of pictures for people."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from focalsweep.optics.light import linear_to_srgb
from focalsweep_research.synthesis.sample import Sample, Source
from focalsweep_research.training.kinds import Objective
from focalsweep_research.training.loop import Pictures
from focalsweep_research.training.objectives import Reading, depth_at, true_position

STACKS = 4
PANEL_PX = 240  # smaller pictures are enlarged, or their captions would not fit
CAPTION_PX = 16
GAP_PX = 4
ERROR_PLANES = 5.0  # where the colours of errors end, always: strips of different steps can be compared

Panel = tuple[str, Tensor]
"""A caption and a picture, 3 H W in 0..1."""


def make_pictures(objective: Objective, source: Source) -> Pictures:
    """For `training.loop.train`: a strip for each of the first stacks of a source, by the averaged network."""

    def pictures(network: nn.Module) -> dict[str, Tensor]:
        sample = source(0, STACKS, next(network.parameters()).device)
        reading = objective.read(network, sample)
        return {f"validation_{i}": strip(panels(sample, reading, i)) for i in range(len(sample.depth))}

    return pictures


def panels(sample: Sample, reading: Reading, i: int) -> list[Panel]:
    """Stack number `i`: a frame, what the network reads beside the costs, depth true and estimated, error, scale.

    Depth is coloured in equal steps between planes over what is in sight, near red and far blue; errors and scales
    in steps between planes.
    """
    steps = sample.planes.count - 1
    truth, estimate = true_position(sample)[i], reading.position[i].float()
    known = truth[torch.isfinite(truth)]
    first, last = (known if len(known) else truth.new_tensor([0.0, 1.0])).aminmax()  # a scale may move all beyond
    truth = truth.where(torch.isfinite(truth), first)
    span = (last - first).clamp_min(1 / steps)
    ends = torch.stack([first, first + span]).expand(len(sample.depth), 1, 2)
    nearest, farthest = (_metres(depth) for depth in depth_at(ends, sample)[i, 0].tolist())
    stack = sample.stack.as_batch()
    frame = stack.frame_count // 2
    result = [
        (f"frame {frame + 1} of {stack.frame_count}, at {stack.focus_distances[i, frame]:.3g} m",
         linear_to_srgb(stack.images[i, frame].clamp(0, 1))),
        ("what the network reads", reading.picture[i].clamp(0, 1)),
        (f"true depth, {nearest} to {farthest}", in_colour(1 - (truth - first) / span)),
        ("estimate, same colours", in_colour(1 - (estimate - first) / span)),
        (f"error, 0 to {ERROR_PLANES:g} planes", in_colour((estimate - truth).abs() * steps / ERROR_PLANES)),
    ]  # fmt: skip
    if reading.scale is not None:
        scale = reading.scale[i].float() * steps / ERROR_PLANES
        result.append(("error that it expects, same", in_colour(scale)))
    return result


def strip(parts: list[Panel]) -> Tensor:  # 3 h w
    """Panels side by side on black, each under its caption."""
    from PIL import Image, ImageDraw

    height, width = parts[0][1].shape[-2:]
    times = max(1, math.ceil(PANEL_PX / width))
    height, width = times * height, times * width
    sheet = np.zeros((height + CAPTION_PX, len(parts) * (width + GAP_PX) - GAP_PX, 3), np.uint8)
    lefts = range(0, sheet.shape[1], width + GAP_PX)
    for left, (_, picture) in zip(lefts, parts, strict=True):
        pixels = picture.detach().float().clamp(0, 1).mul(255).round().to("cpu", torch.uint8).movedim(0, -1).numpy()
        sheet[CAPTION_PX:, left : left + width] = pixels.repeat(times, 0).repeat(times, 1)
    image = Image.fromarray(sheet)
    draw = ImageDraw.Draw(image)
    for left, (caption, _) in zip(lefts, parts, strict=True):
        draw.text((left + 2, 2), caption, fill=(255, 255, 255))
    return torch.from_numpy(np.array(image)).movedim(-1, 0).float() / 255


def in_colour(
    values: Tensor,  # H W, 0..1; what lies beyond has the colour of the end
) -> Tensor:  # 3 H W
    """Matplotlib's turbo: blue at 0, red at 1."""
    import matplotlib

    table: npt.NDArray[np.float64] = matplotlib.colormaps["turbo"](np.linspace(0, 1, 256))[:, :3]
    index = values.detach().float().clamp(0, 1).mul(255).round().long().cpu()
    return torch.from_numpy(table).float()[index].movedim(-1, 0)


def _metres(depth: float) -> str:
    return f"{depth:.3g} m" if depth < 1e6 else "infinity"
