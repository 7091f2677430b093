"""How well settings explain the frames of a small stack: one number for each guess at lens and focus distances.

The re-blur cost of every pixel at its best plane is what a guess leaves unexplained, in units of the noise. Guesses are
compared over the same pixels: textured ones that are sharpest in an inner frame, so that their depth lies between the
focus distances whatever the guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from focalsweep.sweep.costs import ReblurCost, gaussian_blur
from focalsweep.sweep.volume import plan_sweep, sweep_coc_px, sweep_tiles
from focalsweep.types import DepthGrid, FocalStack, Lens

COST = ReblurCost(squash=False)
WINDOW_PX = 2.0
TEXTURE = 4.0  # gradient energy over that of the noise, of a pixel that counts
CONTRAST = 1.5  # its energy in its sharpest frame over that in its least sharp one
LEAST_PIXELS = 150
LEAST_INNER = 0.02  # of the picture; with less, pixels that are sharpest in an end frame count too
BLOCK_PX = 24  # pixels this near to each other err alike
FEWEST_PLANES, MOST_PLANES, PLANES_A_PX = 16, 48, 2.0


@dataclass(frozen=True)
class Guess:
    """Focus distances (metres, of each frame in the stack's order) and a lens that may have taken the photos."""

    focus_distances: tuple[float, ...]
    camera: Lens

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of it, for comparing guesses."""
        known = [value for value in vars(self.camera).values() if value is not None]
        lens = (torch.as_tensor(value, dtype=torch.float64).flatten().tolist() for value in known)
        return (*self.focus_distances, *(number for values in lens for number in values))

    def with_blur(self, factor: float) -> Guess:
        """The same with `factor` times the blur: a finer pixel pitch does just that."""
        return Guess(self.focus_distances, self.camera.resized(factor))


@dataclass(frozen=True)
class Difference:
    """How much worse one guess is than another: in the mean logarithm of misfit, and over its standard error."""

    mean: float
    over_error: float


class Misfit:
    """Judges guesses on one small stack: batched, of one, of one channel.

    Guesses are about pictures of another size, of which the stack's is `scale` times.
    """

    def __init__(self, stack: FocalStack, scale: float = 1.0) -> None:
        self.stack, self.scale = stack, scale
        self._known: dict[tuple[float, ...], Tensor] = {}

    @property
    def told(self) -> Guess:
        """The guess that the settings are right."""
        return Guess(tuple(self.stack.focus_distances[0].tolist()), self.stack.camera.resized(1 / self.scale))

    @cached_property
    def informative(self) -> Tensor:  # H W
        """Textured pixels of which some frame shows more than another does."""
        top = self.energy.amax(0)
        return (top > TEXTURE * self.noise_std**2) & (top > CONTRAST * self.energy.amin(0))

    @cached_property
    def _inner(self) -> Tensor:  # H W
        peak = self.energy[self.stack.focus_distances[0].argsort()].argmax(0)
        return self.informative & (peak > 0) & (peak < self.stack.frame_count - 1)

    @property
    def bracketed(self) -> bool:
        """Whether enough of the scene lies between the focus distances."""
        return bool(self._inner.float().mean() > LEAST_INNER)

    @cached_property
    def pixels(self) -> Tensor:  # H W
        """Those that guesses are compared over."""
        return self._inner if self.bracketed else self.informative

    @property
    def enough(self) -> bool:
        """Whether there is texture enough to judge by."""
        return int(self.pixels.sum()) >= LEAST_PIXELS

    def lowest(self, guess: Guess) -> Tensor:  # H W
        """What the best plane of every pixel leaves unexplained, in units of the noise's variance."""
        stack = self._as_guessed(guess)
        planes = DepthGrid.around(stack, self._plane_count(blur_px(stack)))
        plan = plan_sweep(stack, planes, COST, "mirror", None)
        lowest = self.stack.images.new_empty(self.stack.size)
        for tile, costs in sweep_tiles(stack, plan, COST):
            lowest[tile.core] = costs[0].amin(0)
        return lowest

    def difference(self) -> Tensor:  # H W
        """What frames of one blur would leave unexplained, likewise: the texture that comes and goes with focus."""
        frames = self.stack.images[0, :, 0]
        return gaussian_blur((frames - frames.mean(0)).square().sum(0), COST.window_sigma_px) / self.noise_std**2

    def logarithm(self, guess: Guess) -> Tensor:  # H W
        """Of the misfit and that of noise alone: a few pixels that nothing explains do not decide."""
        key = guess.numbers
        if key not in self._known:
            self._known[key] = torch.log(self.lowest(guess) + self.stack.frame_count)
        return self._known[key]

    def score(self, guess: Guess) -> float:
        """The mean over the pixels that count; lower is better."""
        return float(self.logarithm(guess)[self.pixels].mean())

    def compare(self, guess: Guess, better: Guess) -> Difference:
        """How much worse a guess is than a better one."""
        sums, counts = self._in_blocks(self.logarithm(guess) - self.logarithm(better))
        share = counts / counts.sum()
        means = sums / counts
        mean = (share * means).sum()
        error = (share * (means - mean)).square().sum().sqrt()
        return Difference(float(mean), float(mean / error.clamp_min(1e-12)))

    def block_scores(self, guess: Guess) -> tuple[Tensor, Tensor]:
        """Sums of the score and numbers of pixels, of each block that has some."""
        return self._in_blocks(self.logarithm(guess))

    def blur_px(self, guess: Guess) -> float:
        """By a guess, the widest over the focus distances and a margin."""
        return blur_px(self._as_guessed(guess))

    def _as_guessed(self, guess: Guess) -> FocalStack:
        distances = torch.tensor([guess.focus_distances], dtype=torch.float64)
        return self.stack._unchecked(focus_distances=distances, camera=guess.camera.resized(self.scale))

    def _plane_count(self, blur: float) -> int:
        return int(min(max(PLANES_A_PX * blur, FEWEST_PLANES), MOST_PLANES))

    @cached_property
    def noise_std(self) -> float:
        return float(COST.measure(self.stack.images).noise_std)

    @cached_property
    def energy(self) -> Tensor:  # F H W
        """Gradient energy of every frame in a window."""
        picture = self.stack.images[0, :, 0]
        across, down = torch.zeros_like(picture), torch.zeros_like(picture)
        across[..., 1:-1] = (picture[..., 2:] - picture[..., :-2]) / 2
        down[..., 1:-1, :] = (picture[..., 2:, :] - picture[..., :-2, :]) / 2
        return gaussian_blur(across.square() + down.square(), WINDOW_PX)

    def _in_blocks(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Sums and numbers of the pixels that count, block by block."""
        height, width = values.shape
        pad = (0, -width % BLOCK_PX, 0, -height % BLOCK_PX)
        kept = self.pixels.to(torch.float64)
        sums, counts = (
            torch.nn.functional.avg_pool2d(torch.nn.functional.pad(x, pad)[None], BLOCK_PX)[0].flatten() * BLOCK_PX**2
            for x in (values.to(torch.float64) * kept, kept)
        )
        some = counts > 0
        return sums[some], counts[some]


def blur_px(stack: FocalStack) -> float:
    """The widest over the focus distances and a margin."""
    ends = DepthGrid.around(stack, 2)
    return float(sweep_coc_px(stack, ends).abs().amax())
