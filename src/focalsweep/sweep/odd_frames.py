"""Frames that do not belong: the same photo twice, another scene, something that moved.

Whatever its focus, a photo of the scene looks alike when it is blurred far more than any focus does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from focalsweep.errors import Sentence, joined
from focalsweep.sweep.costs import gaussian_blur
from focalsweep.types import FocalStack

ALIKE = 0.02  # of the largest difference between two frames: what the same photo, saved twice, differs by
ALIKE_LIGHT = 2e-4
OTHER_SCENE = 0.5  # correlation of the coarse picture with that of the other frames
SAME_SCENE = 0.8  # theirs with each other
COARSE = 0.025  # of the picture's longer side: the sigma of a coarse picture
MOVED = 0.4  # of its contrast, by which a part of a frame is unlike the same part of the others
MOVED_SHARE = 0.005  # of the picture, that is a part
MOVED_MORE = 4.0  # times as unlike as nine tenths of the picture: blur and light differ all over


def odd_frames(stack: FocalStack, noise_std: float, names: Sequence[str]) -> Iterator[tuple[str, Sentence]]:
    """A name and a sentence for each mistake that is found in a small stack, batched, of one, of one channel."""
    frames = stack.images[0, :, 0]
    yield from _same(frames.flatten(1), names)
    sigma = COARSE * max(frames.shape[-2:])
    coarse = gaussian_blur(frames, sigma)
    step = max(1, int(sigma / 2))
    coarse = coarse[:, step // 2 :: step, step // 2 :: step]
    if float(coarse.flatten(1).std(1).min()) <= noise_std:  # nothing to see
        return
    scenes = list(_other_scene(coarse, names))
    yield from scenes or _moved(coarse, names)


def _same(frames: Tensor, names: Sequence[str]) -> Iterator[tuple[str, Sentence]]:  # frames: F n
    """The same photo twice, or saved twice."""
    pairs = [(i, j) for j in range(len(frames)) for i in range(j)]
    differences = {(i, j): float((frames[i] - frames[j]).square().mean().sqrt()) for i, j in pairs}
    least = max(ALIKE_LIGHT, ALIKE * max(differences.values()))
    twins = sorted({frame for pair, difference in differences.items() if difference <= least for frame in pair})
    if twins:
        listed = joined([names[i] for i in twins])
        yield "same", Sentence("{frames} are the same photo: leave out all but one", frames=listed)


def _other_scene(coarse: Tensor, names: Sequence[str]) -> Iterator[tuple[str, Sentence]]:  # coarse: F h w
    """Frames whose coarse picture is not that of the others."""
    middle = torch.corrcoef(coarse.flatten(1)).median(1).values
    odd = [names[i] for i in range(len(coarse)) if middle[i] < OTHER_SCENE]
    if odd and len(coarse) - len(odd) > 1 and middle.max() > SAME_SCENE:
        yield "scene", Sentence("{frames} show another scene: leave them out", frames=joined(odd))
    elif odd:
        yield "scene", Sentence("the photos do not show one scene: give those of one, taken from one place")


def _moved(coarse: Tensor, names: Sequence[str]) -> Iterator[tuple[str, Sentence]]:  # coarse: F h w
    """A part of the picture that is elsewhere, or gone, in some frame."""
    usual = coarse.median(0).values
    contrast = usual.std()
    if len(coarse) < 3:
        return
    light = (coarse * usual).sum((1, 2)) / coarse.square().sum((1, 2)).clamp_min(1e-12)
    unlike = (coarse * light[:, None, None] - usual).abs() / contrast
    most, frame = unlike.max(0)
    ends = torch.tensor([0.9, 1 - MOVED_SHARE], dtype=most.dtype, device=most.device)
    elsewhere, part = torch.quantile(most.flatten(), ends).tolist()
    if part > MOVED and part > MOVED_MORE * elsewhere:
        row, column = divmod(int(most.argmax()), most.shape[1])
        yield "moved", Sentence(
            "something moved between the photos, most in {frame}, {across:.0%} from the left and {down:.0%} from the "
            "top: leave that photo out, or do not trust the depth there",
            frame=names[int(frame[row, column])],
            across=(column + 0.5) / most.shape[1], down=(row + 0.5) / most.shape[0],
        )  # fmt: skip
