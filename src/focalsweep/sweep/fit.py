"""Do the settings explain the photos? Their misfit in units of the noise, and the mistake that would explain it.

All of it is worked out on the small preview. See docs/fit.md for what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from focalsweep.errors import Sentence
from focalsweep.lenses import StageLens, part_of_lens
from focalsweep.sweep.misfit import Guess, Misfit
from focalsweep.sweep.mistakes import Mistake, of_amount, of_pattern
from focalsweep.sweep.odd_frames import odd_frames
from focalsweep.types import Camera, FocalStack
from focalsweep.validation import as_setting

MOST_FRAMES = 10  # evenly chosen ones of a longer stack
HALVED_FROM_PX = 200  # pictures at least so long are halved for the first look
BLURS_PX = (1.0, 1.5, 2.2, 3.2, 4.7, 7.0, 10.0, 15.0, 22.0)  # that are tried on it, over the focus distances
RISES = 3  # so many of them in a row that are worse than another end the search
HALF_ENOUGH_PX = 5.0  # of blur: there the halved pictures tell as much
STEP = math.log(1.15)  # between amounts of blur that a parabola is laid through
STEPS = 8
TOLERANCE = math.log(1.25)  # more or less blur than told is what real apertures make of it
HIATUS = 2.0  # focal lengths: what a lens is thicker than thin, where distances count from the sensor
BETTER = 0.06  # in the mean logarithm of misfit: what another order or another reference must gain
SURE = 4.0  # standard errors
SPREAD = 0.2  # of the logarithm of blur, between right settings and what is measured
FARTHEST_CAUSE = math.log(1.6)
SCORE_SPREAD = 0.03
LEAST_EXPLAINED = 0.3
NOISE, DIFFERENCE = 4.0, 0.2  # an explained pixel's misfit is so much of the noise's, or of what its frames differ by
BREATHING = 0.005  # of the magnification over the frames: less is error of the registration


@dataclass(frozen=True)
class Cause:
    """A mistake that would explain the photos: its name, and how to mend it."""

    name: str
    sentence: Sentence


@dataclass(frozen=True, eq=False)
class Fit:
    """Whether the settings explain the photos.

    Args:
        fits: None where the photos have too little texture to tell.
        explained: share of the textured pixels whose frames the settings explain.
        misfit: median of the textured pixels; 1 is noise alone.
        blur: how many times the told amount of blur the photos have; None where nobody told it.
        blur_error: one standard error of its logarithm, of measuring alone.
        bracketed: whether so much of the scene lies between the focus distances that the amount of blur is sure.
        causes: mistakes that would explain them, the likeliest first; none where the settings fit.
        map: misfit of every pixel of the preview, H W.
    """

    fits: bool | None
    explained: float
    misfit: float
    blur: float | None
    blur_error: float | None
    bracketed: bool
    causes: tuple[Cause, ...]
    map: npt.NDArray[np.float32]

    @property
    def sentence(self) -> Sentence:
        """In one line."""
        if self.fits is None:
            return Sentence("fit: too little texture to tell whether the settings are right")
        share = f"{self.explained:.0%} of the textured pixels"
        if self.fits and self.blur is not None:
            blur = f"{self.blur:.2f}"
            return Sentence("fit: the settings explain {share}, with {blur} times their blur", share=share, blur=blur)
        if self.fits:
            return Sentence("fit: focus and its blur explain {share}", share=share)
        if not self.causes:
            what = "the settings explain" if self.blur is not None else "focus and its blur explain"
            check = "check the settings, the order of the photos, and that nothing moved"
            return Sentence("fit: {what} only {share}: {check}", what=what, share=share, check=check)
        first, *more = (cause.sentence for cause in self.causes[:2])
        causes = Sentence("{first}; or {second}", first=first, second=more[0]) if more else first
        return Sentence("fit: the settings do not explain the photos: {causes}", causes=causes)

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        return {
            "fits": self.fits,
            "explained": self.explained,
            "misfit": self.misfit,
            "blur": None if self.blur is None else {"times_told": self.blur, "relative_error": self.blur_error},
            "causes": [{"name": cause.name, "sentence": str(cause.sentence)} for cause in self.causes],
        }


def check_fit(stack: FocalStack, scale: float = 1.0, names: Sequence[str] = ()) -> Fit:
    """How the settings of a small stack (batched, of one, of one channel) fit its frames.

    `scale` is its size over that of the photos, whose pixel pitch sentences tell; `names` are those of its frames.
    """
    kept = _spread(stack.frame_count)
    names = [names[i] if names else f"frame {i + 1}" for i in kept]
    focus_reference = stack.record.settings.get("focus_reference", {}).get("value")
    leeway = _leeway(stack, focus_reference)
    stack = _with_frames(stack, kept)
    full = Misfit(stack)
    odd = [Cause(name, sentence) for name, sentence in odd_frames(stack, full.noise_std, names)]
    small = Misfit(stack.resized(0.5), 0.5) if max(stack.size) >= HALVED_FROM_PX else full
    if not small.enough:
        small = full
    if not full.enough:
        return _fit(full, None if not odd else False, _Amount(1.0, math.inf, 0.0), odd)
    told = full.told
    judge, amount = _measure(full, small, told)
    if odd:
        return _fit(full, False, amount, odd)
    others = list(_better_patterns(judge, small, told, amount, focus_reference, names))
    low, high = (end + sign * (TOLERANCE + 2 * amount.error) for end, sign in zip(leeway, (-1, 1), strict=True))
    if not others and (not _tells_blur(stack) or low < math.log(amount.factor) < high):
        return _trusted(_fit(full, True, amount, []))
    best = min([amount.score, *(found.score for _, found in others)])
    for mistake in of_amount(told, focus_reference, max(stack.size), amount.factor, scale):
        by = judge.blur_px(mistake.guess) / judge.blur_px(told)
        others.append((mistake, _Amount(amount.factor / by, amount.error, amount.score)))
    return _fit(full, False, amount, _ranked(others, best))


def _fit(full: Misfit, fits: bool | None, amount: _Amount, causes: list[Cause]) -> Fit:
    """With the misfit of the settings as they were told."""
    freedom = full.stack.frame_count - 1
    lowest = full.lowest(full.told)
    explained = lowest <= torch.maximum(DIFFERENCE * full.difference(), torch.full_like(lowest, NOISE * freedom))
    pixels = full.informative if bool(full.informative.any()) else torch.ones_like(full.informative)
    told = _tells_blur(full.stack)
    return Fit(
        fits=fits,
        explained=float(explained[pixels].float().mean()),
        misfit=float(lowest[pixels].median()) / freedom,
        blur=amount.factor if told else None,
        blur_error=amount.error if told else None,
        bracketed=full.bracketed,
        causes=tuple(causes),
        map=(lowest / freedom).float().cpu().numpy(),
    )


def _trusted(fit: Fit) -> Fit:
    """What explains next to nothing does not fit, whatever else."""
    return replace(fit, fits=bool(fit.fits) and fit.explained >= LEAST_EXPLAINED)


def _tells_blur(stack: FocalStack) -> bool:
    """Whether somebody said how fast the blur grows, and the frames can show it.

    Where nobody did, it was measured on these frames. Frames of one focus show it for no known distance.
    """
    lens, distances = stack.camera, stack.focus_distances
    if bool((distances == distances[0, 0]).all()):
        return False
    return isinstance(lens, Camera) or (isinstance(lens, StageLens) and not lens.measure_blur)


def _leeway(stack: FocalStack, focus_reference: str | None) -> tuple[float, float]:
    """Logarithms of the least and the most blur that the told distances leave open, as factors on the told blur.

    Coarse metadata gives intervals; and a distance from the sensor leaves open where in a thick lens it ends.
    """
    near, far = float(stack.focus_distances.min()), float(stack.focus_distances.max())
    told = 1 / near - 1 / far
    if told <= 0:
        return 0.0, 0.0
    ranges = stack.record.focus_ranges or ((near, near), (far, far))
    first, last = min(ranges), max(ranges)
    hiatus = 0.0
    if focus_reference == "sensor" and isinstance(stack.camera, Camera):
        hiatus = min(HIATUS * float(as_setting("focal_length", stack.camera.focal_length).amax()), 0.5 * near)
    least = (1 / first[1] - 1 / last[0]) / told
    most = (1 / (first[0] - hiatus) - 1 / (last[1] - hiatus)) / told
    return math.log(max(least, 0.1)), math.log(most)


@dataclass(frozen=True)
class _Amount:
    """Of blur, as a factor on that of a guess, with one standard error of its logarithm and the score there."""

    factor: float
    error: float
    score: float


def _measure(full: Misfit, small: Misfit, told: Guess) -> tuple[Misfit, _Amount]:
    """The amount of blur that explains the frames best, whatever was told; and the size to judge others at."""
    told_px = small.blur_px(told)
    scores = {1.0: small.score(told)}
    for px in BLURS_PX:
        scores[px / told_px] = small.score(told.with_blur(px / told_px))
        tried = list(scores.values())[1:]
        if min(tried[-RISES:]) > min(tried):  # wider blurs take longest
            break
    start = min(scores, key=scores.__getitem__)
    judge = small if start * told_px >= HALF_ENOUGH_PX else full
    return judge, _refined(judge, told, start)


def _refined(judge: Misfit, guess: Guess, start: float) -> _Amount:
    """From a first amount down to the lowest misfit."""

    def at(steps: float) -> Guess:
        return guess.with_blur(start * math.exp(steps * STEP))

    middle = 0
    for _ in range(STEPS):
        before, here, after = (judge.score(at(middle + k)) for k in (-1, 0, 1))
        if here <= min(before, after):
            break
        middle += 1 if after < before else -1
    blocks = [judge.block_scores(at(middle + k)) for k in (-1, 0, 1)]
    sums = torch.stack([block for block, _ in blocks])
    counts = blocks[0][1]
    lowest = middle + float(_vertex(sums.sum(1) / counts.sum()))
    # Leave one block out, each in turn.
    left = _vertex((sums.sum(1, keepdim=True) - sums) / (counts.sum() - counts).clamp_min(1))
    error = STEP * float((left.var(correction=0) * (len(counts) - 1)).sqrt()) if len(counts) > 1 else math.inf
    return _Amount(start * math.exp(lowest * STEP), error, judge.score(at(lowest)))


def _vertex(values: Tensor) -> Tensor:
    """Where the parabola through three equal steps (3 ...) is lowest, in steps from the middle one."""
    before, here, after = values
    bend = (before - 2 * here + after).clamp_min(1e-12)
    steps: Tensor = (0.5 * (before - after) / bend).clamp(-1, 1)
    return steps


def _better_patterns(
    judge: Misfit, small: Misfit, told: Guess, amount: _Amount, focus_reference: str | None, names: Sequence[str]
) -> Iterator[tuple[Mistake, _Amount]]:
    """Other ways for the focus distances to lie that explain the frames better than the told one, at its best."""
    best = told.with_blur(amount.factor)
    seen_px, told_score = judge.blur_px(best), small.score(best)
    backwards = _breathes_backwards(judge.stack)
    for mistake in of_pattern(told, focus_reference, names):
        start = seen_px / judge.blur_px(mistake.guess)
        expected = mistake.name == "order" and backwards
        if told_score - small.score(mistake.guess.with_blur(start)) < BETTER / 2 and not expected:
            continue
        found = _refined(judge, mistake.guess, start)
        gain = judge.compare(best, mistake.guess.with_blur(found.factor))
        if gain.mean > BETTER and gain.over_error > SURE:
            yield mistake, found
        elif expected and gain.mean > -BETTER / 2:
            yield mistake, replace(found, score=min(found.score, amount.score - BETTER))


def _breathes_backwards(stack: FocalStack) -> bool:
    """Whether frames were magnified by registration as if those told to be near were far."""
    if not isinstance(stack.camera, Camera) or stack.frame_count < 3:
        return False
    focal = as_setting("focal_length", stack.camera.focal_length).flatten()[0]
    told = torch.log1p(-focal / stack.focus_distances[0])
    measured = as_setting("magnification", stack.magnification).flatten().expand_as(told).log()
    if measured.max() - measured.min() < BREATHING:
        return False
    both = torch.corrcoef(torch.stack([told, measured]))[0, 1]
    return bool(both < -0.9)


def _ranked(others: list[tuple[Mistake, _Amount]], best: float) -> list[Cause]:
    """By how well each explains the photos and how usual it is; of each name the likeliest."""

    def loss(mistake: Mistake, amount: _Amount) -> float:
        amiss = 0.5 * (math.log(amount.factor) / SPREAD) ** 2
        return mistake.rank + amiss + (amount.score - best) / SCORE_SPREAD

    near = [other for other in others if abs(math.log(other[1].factor)) < FARTHEST_CAUSE]
    causes: dict[str, Cause] = {}
    for mistake, _ in sorted(near, key=lambda other: loss(*other)):
        causes.setdefault(mistake.name, Cause(mistake.name, mistake.sentence))
    return list(causes.values())


def _spread(count: int) -> list[int]:
    """Frames that stand for all of a long stack."""
    if count <= MOST_FRAMES:
        return list(range(count))
    return sorted({round(i * (count - 1) / (MOST_FRAMES - 1)) for i in range(MOST_FRAMES)})


def _with_frames(stack: FocalStack, kept: list[int]) -> FocalStack:
    if len(kept) == stack.frame_count:
        return stack
    stack = stack.as_batch()
    return stack._unchecked(
        images=stack.images[:, kept],
        focus_distances=stack.focus_distances[:, kept],
        camera=part_of_lens(stack.camera, (slice(None), kept)),
        magnification=as_setting("magnification", stack.magnification)[:, kept],
    )
