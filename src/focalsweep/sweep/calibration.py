"""What the frames themselves say about the planes and the lens, by the re-blur likelihood on small pictures.

The range of depths in sight; focus distances inside the intervals that coarse metadata leaves; and, where nothing is
known of the lens, how fast blur grows. All take a batched stack of one, small and of one channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from focalsweep.lenses import StageLens
from focalsweep.progress import Progress
from focalsweep.sweep.argmin import argmin_depth
from focalsweep.sweep.costs import ReblurCost
from focalsweep.sweep.one_focus import OneFocus
from focalsweep.sweep.volume import plan_sweep, sweep_tiles
from focalsweep.types import DepthGrid, FocalStack
from focalsweep.validation import as_setting

COST = ReblurCost(squash=False)
PLANES = 48
# Focus is refined on smaller pictures with fewer planes: on real photos the misfit it reaches is the same.
REFINED_AT_PX, REFINED_PLANES = 180, 24
NEIGHBOURS = 4  # frames to either side that judge a frame's focus; with 2, rounding drifts along the stack
RANGE_CONFIDENCE = 0.6  # confidence of the pixels that decide on the range
END_PLANE_SHARE = 0.015  # share of them at an end plane that extends it
TRIMMED_SHARE = 0.002  # share of them that may lie outside when a range is trimmed
MARGIN = 0.08  # of the range, added at either end
EXTENSION = 0.6  # of the range, in inverse depth
ROUNDS = 5
APERTURES = tuple(0.02 * 1.4**power for power in range(12))
APERTURE_STEPS = (0.15, 0.05)  # of the logarithm, of the parabolas laid through the best one
WIDEST_SHARE = 1.0  # of the picture, of blur over the range
BLURS_PX = (2.0, 3.0, 4.5, 6.5, 9.0, 13.0, 19.0, 28.0, 41.0, 60.0)


def find_range(stack: FocalStack, count: int = 64, *, extend: bool = True) -> tuple[DepthGrid, str]:
    """Planes over the depths that are in sight, and how they were found, in words.

    From the focus distances and a margin; an end where sure pixels pile up is moved outwards, as far as infinity, and
    a range far wider than what is in sight is narrowed. Without `extend` no end moves outwards.
    """
    focus = 1 / stack.focus_distances.detach()
    near, far = float(focus.max()), float(focus.min())
    span = max(near - far, 0.1 * near)
    near, far = near + 0.25 * span, max(far - 0.25 * span, 0.0)
    moved: set[str] = set()
    inverse = torch.empty(0)
    for _ in range(ROUNDS):
        planes = DepthGrid.uniform_in_inverse_depth(1 / near, 1 / far if far else torch.inf, PLANES)
        prediction = argmin_depth(stack, planes, COST)
        inverse = (1 / prediction.depth)[prediction.confidence > RANGE_CONFIDENCE]
        if inverse.numel() < 100:
            return _grid(near, far, count), "the focus distances and a margin: too little texture to say more"
        step = (near - far) / (PLANES - 1)
        at_near = float((inverse > near - 1.5 * step).float().mean()) > END_PLANE_SHARE
        at_far = far > 0 and float((inverse < far + 1.5 * step).float().mean()) > END_PLANE_SHARE
        if not extend or not (at_near or at_far):
            break
        width = near - far
        if at_near:
            near, moved = near + EXTENSION * width, moved | {"near"}
        if at_far:
            far, moved = max(far - EXTENSION * width, 0.0), moved | {"far"}
            far = 0.0 if far < 0.05 * near else far
    ends = torch.tensor([TRIMMED_SHARE, 1 - TRIMMED_SHARE], dtype=torch.float64, device=inverse.device)
    low, high = torch.quantile(inverse.double(), ends).tolist()
    margin = MARGIN * (high - low) + 2 * (near - far) / (PLANES - 1)
    trimmed_near, trimmed_far = min(near, high + margin), max(far, low - margin, 0.0)
    words = "the depths in sight"
    if moved:
        words += f", beyond the focus distances at the {' and the '.join(sorted(moved))} end"
    return _grid(trimmed_near, trimmed_far, count), words


def refine_focus(
    stack: FocalStack,
    intervals: Sequence[tuple[float, float]],  # of each frame's inverse focus distance, low and high
    rounds: int = 2,
    progress: Progress | None = None,
) -> list[float]:
    """Focus distances, metres, that explain the frames best, each inside its interval; others stay.

    One frame at a time: the misfit at both ends and the present value, then the vertex of the parabola through them.
    Only the frames next to it in focus are asked, so the work grows with the number of frames and no faster. A scene
    of several depths settles how the frames lie to each other. What all of them share is hardly seen: the scene may
    move with them.
    """
    stack = stack.resized(min(1.0, REFINED_AT_PX / max(stack.size)))
    focus = (1 / stack.focus_distances[0]).tolist()
    free = [i for i, (low, high) in enumerate(intervals) if high - low > 1e-9]
    done = 0
    for _ in range(rounds):
        for i in free:
            edge = 0.01 * (intervals[i][1] - intervals[i][0])  # ranges that touch leave two distances, not one
            low, high = intervals[i][0] + edge, intervals[i][1] - edge
            middle = min(max(focus[i], low + edge), high - edge)
            points = [low, middle, high]
            near = _next_in_focus(focus, i)
            around = OneFocus(_with_focus(stack, focus, i, middle, near), near.index(i), REFINED_PLANES, COST)
            focus[i] = _vertex(points, [around.misfit(u) for u in points])
            done += 1
            if progress:
                progress("refining focus", done / (rounds * len(free)))
    return [
        (1 / u if u > 0 else torch.inf) if i in free else given
        for i, (u, given) in enumerate(zip(focus, stack.focus_distances[0].tolist(), strict=True))
    ]


def _next_in_focus(focus: Sequence[float], frame: int) -> list[int]:
    """A frame and those whose focus is next to its own, in the order of the stack."""
    order = sorted(range(len(focus)), key=lambda i: (focus[i], i))
    first = min(max(order.index(frame) - NEIGHBOURS, 0), max(len(order) - 2 * NEIGHBOURS - 1, 0))
    return sorted(order[first : first + 2 * NEIGHBOURS + 1])


def measure_blur(stack: FocalStack) -> float:
    """How many times the stack's own blur explains its frames best, where the lens is unknown."""
    slopes = [blur / _blur_px(stack) for blur in BLURS_PX]
    values = [_misfit(_with_blur(stack, slope)) for slope in slopes]
    best = min(range(len(values)), key=values.__getitem__)
    if best in (0, len(values) - 1):
        return slopes[best]
    logs = [float(torch.tensor(slope).log()) for slope in slopes[best - 1 : best + 2]]
    return float(torch.tensor(_vertex(logs, values[best - 1 : best + 2])).exp())


def measure_aperture(stack: FocalStack) -> float | None:
    """The aperture that explains the frames of a stage best, by wave optics; None where none does.

    The pixel's size in the specimen is known.
    """
    lens, widest_px = stack.camera, WIDEST_SHARE * max(stack.size)
    assert isinstance(lens, StageLens)

    def score(aperture: float) -> float:
        return _misfit(replace(stack, camera=lens.with_aperture(aperture)))

    within = [a for a in APERTURES if 1 < _blur_px(replace(stack, camera=lens.with_aperture(a))) < widest_px]
    values = [score(aperture) for aperture in within]
    if len(within) < 3:
        return None
    best = min(range(len(within)), key=values.__getitem__)
    if best == 0:
        return None
    found = within[best]
    for step in APERTURE_STEPS:
        points = [math.log(found) - step, math.log(found), math.log(found) + step]
        if math.exp(points[-1]) >= 1:
            break
        found = math.exp(_vertex(points, [score(math.exp(point)) for point in points]))
    return found


def _grid(near: float, far: float, count: int) -> DepthGrid:
    return DepthGrid.uniform_in_inverse_depth(1 / near, 1 / far if far > 0 else torch.inf, count)


def _misfit(stack: FocalStack, count: int = PLANES) -> float:
    """The mean of the logarithm of each pixel's lowest cost: a few pixels that nothing explains do not decide."""
    planes = DepthGrid.around(stack, count)
    plan = plan_sweep(stack, planes, COST, "mirror", None)
    total, pixels = 0.0, 0
    for _, costs in sweep_tiles(stack, plan, COST):
        lowest = costs.amin(1)
        total += float(torch.log(lowest + stack.frame_count).sum())
        pixels += lowest.numel()
    return total / pixels


def _with_focus(stack: FocalStack, focus: Sequence[float], frame: int, inverse: float, chosen: list[int]) -> FocalStack:
    """The chosen frames of a batched stack of one, with another focus of one of them."""
    changed = [inverse if i == frame else focus[i] for i in chosen]
    batch = stack.as_batch()
    camera = {name: as_setting(name, value)[:, chosen] for name, value in vars(batch.camera).items()}
    return FocalStack(
        stack.images[:, chosen],
        torch.tensor([[1 / u if u > 0 else torch.inf for u in changed]], dtype=torch.float64),
        type(batch.camera)(**camera),
        as_setting("magnification", batch.magnification)[:, chosen],
    )


def _with_blur(stack: FocalStack, factor: float) -> FocalStack:
    """The same frames with `factor` times the blur: a finer pixel pitch does just that."""
    return FocalStack(stack.images, stack.focus_distances, stack.camera.resized(factor), stack.magnification)


def _blur_px(stack: FocalStack) -> float:
    """Of the nearest focus plane, seen by the frame that is focused farthest."""
    from focalsweep.optics.thin_lens import blur_slope_px

    focus = 1 / stack.focus_distances
    slope = blur_slope_px(stack.focus_distances, stack.camera, stack.magnification)
    return float(slope.mean() * (focus.max() - focus.min()))


def _vertex(points: Sequence[float], values: Sequence[float]) -> float:
    """Where the parabola through three points is lowest, not beyond them; the lowest point where it opens down."""
    (a, b, c), (fa, fb, fc) = points, values
    top = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
    bottom = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    lowest = points[min(range(3), key=values.__getitem__)]
    if bottom >= 0:  # for rising points the parabola opens upwards where this is negative
        return lowest
    return min(max(b - top / (2 * bottom), min(points)), max(points))
