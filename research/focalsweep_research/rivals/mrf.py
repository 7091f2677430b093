"""Labels on a grid of pixels: sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006), batched in torch.

    energy(x) = sum_p unary_p(x_p) + sum_pq weight_pq min(|x_p - x_q|, limit)

over 4 neighbours. Pixels are visited along anti-diagonals: those of one do not touch each other, so they are updated
at once and the order is still one that the proof allows. Hence the lower bound never falls, and energy - bound says
how far from the best labelling the answer can be at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ENOUGH = 1e-3  # of the energy: a gap or a rise of the bound below it ends the passes


@dataclass(frozen=True, eq=False)
class Labelling:
    """The best labels that were met, and how good they are."""

    labels: Tensor  # B H W, whole numbers
    beliefs: Tensor  # B L H W: the unary costs and what the neighbours say; lowest where the label is likely
    energy: Tensor  # B, of the labels
    bounds: list[Tensor]  # B after each pass: no labelling has less energy

    @property
    def gap(self) -> Tensor:
        """B: (energy - bound) / energy; 0 is proof that the labels are the best."""
        return (self.energy - self.bounds[-1]) / self.energy.abs().clamp_min(1e-12)


@torch.no_grad()
def find_labels(
    unary: Tensor,  # B L H W
    right: Tensor,  # B H W-1: weight between a pixel and the one to its right
    down: Tensor,  # B H-1 W
    limit: float,
    passes: int = 5,
) -> Labelling:
    """Labels of low energy; ends early where the bound no longer rises or meets the energy."""
    if unary.shape[2] > unary.shape[3]:  # the diagonals of a wide picture are the longer ones
        turned = find_labels(unary.mT.contiguous(), down.mT, right.mT, limit, passes)
        return Labelling(turned.labels.mT, turned.beliefs.mT, turned.energy, turned.bounds)
    solver = _Solver(unary, right, down, limit)
    best = solver.decode()
    lowest, bounds = solver.energy(best), []
    for number in range(passes):
        solver.sweep(forward=True)
        bounds.append(solver.sweep(forward=False))
        labels = solver.decode()
        energy = solver.energy(labels)
        better = energy < lowest
        best = torch.where(better[:, None, None], labels, best)
        lowest = torch.minimum(energy, lowest)
        settled = lowest - bounds[-1] < ENOUGH * lowest.abs()
        if number:
            settled |= bounds[-1] - bounds[-2] < ENOUGH * lowest.abs()
        if bool(settled.all()):
            break
    return Labelling(best, solver.beliefs(), lowest, bounds)


class _Solver:
    """Costs and messages as B P L, P = H W: a step along a diagonal is a step of W - 1 in P."""

    def __init__(self, unary: Tensor, right: Tensor, down: Tensor, limit: float) -> None:
        self.batch, self.count, self.height, self.width = unary.shape
        self.limit = limit
        self.unary = unary.movedim(1, -1).reshape(self.batch, -1, self.count).contiguous()
        pad = torch.nn.functional.pad
        self.right = pad(right, (0, 1)).reshape(self.batch, -1, 1)
        self.down = pad(down, (0, 0, 0, 1)).reshape(self.batch, -1, 1)
        # What each pixel has heard from its neighbours.
        self.heard = {name: torch.zeros_like(self.unary) for name in ("left", "up", "right", "down")}
        self.place = torch.arange(self.count, dtype=unary.dtype, device=unary.device)
        row, column = torch.arange(self.height)[:, None], torch.arange(self.width)
        before = (row > 0).long() + (column > 0).long()
        after = (row < self.height - 1).long() + (column < self.width - 1).long()
        self.share = (1 / torch.maximum(before, after).clamp_min(1)).to(unary).reshape(1, -1, 1)

    def sweep(self, forward: bool) -> Tensor:
        """One pass over all diagonals; returns the lower bound B."""
        bound = self.unary.new_zeros(self.batch, dtype=torch.float64)
        diagonals = range(self.height + self.width - 1)
        for d in diagonals if forward else reversed(diagonals):
            first, last = self._rows(d)
            here = self._pixels(d, first, last)
            heard = [self.heard[name][:, here] for name in self.heard]
            belief = self.unary[:, here] + heard[0] + heard[1] + heard[2] + heard[3]
            least = belief.amin(-1, keepdim=True)
            bound += least.sum((1, 2))
            shared = self.share[:, here] * (belief - least)
            if forward:
                across = slice(max(first, d + 2 - self.width) - first, None)
                along = slice(0, min(last, self.height - 2) + 1 - first)
                weights, steps, names = (self.right[:, here], self.down[:, here]), (1, self.width), ("right", "down")
                answers = ("left", "up")
            else:
                across, along = slice(0, min(last, d - 1) + 1 - first), slice(max(first, 1) - first, None)
                weights = (self._before(self.right, here, 1), self._before(self.down, here, self.width))
                steps, names, answers = (-1, -self.width), ("left", "up"), ("right", "down")
            parts = [
                (shared - self.heard[name][:, here])[:, rows] for name, rows in zip(names, (across, along), strict=True)
            ]
            weight = torch.cat([w[:, rows] for w, rows in zip(weights, (across, along), strict=True)], 1)
            message = self._spread(torch.cat(parts, 1), weight)
            lowest = message.amin(-1, keepdim=True)
            bound += lowest.sum((1, 2))
            message -= lowest
            cut = parts[0].shape[1]
            pieces = (message[:, :cut], message[:, cut:])
            for answer, step, rows, piece in zip(answers, steps, (across, along), pieces, strict=True):
                if piece.shape[1]:
                    start, stop, _ = rows.indices(last - first + 1)
                    there = self._pixels(d, first + start, first + stop - 1)
                    self.heard[answer][:, slice(there.start + step, there.stop + step, there.step)] = piece
        return bound

    def decode(self) -> Tensor:  # B H W
        """Labels one diagonal after the other, each given those before it and the messages of those behind."""
        labels = torch.zeros((self.batch, self.height * self.width), dtype=torch.long, device=self.unary.device)
        for d in range(self.height + self.width - 1):
            first, last = self._rows(d)
            here = self._pixels(d, first, last)
            cost = self.unary[:, here] + self.heard["right"][:, here] + self.heard["down"][:, here]
            for weights, step in ((self.right, 1), (self.down, self.width)):
                weight = self._before(weights, here, step)  # 0 at the border
                at = torch.arange(here.start, here.stop, here.step, device=cost.device) - step
                chosen = labels[:, at.clamp_min(0)][..., None]
                cost = cost + weight * (self.place - chosen).abs().clamp_max(self.limit)
            labels[:, here] = cost.argmin(-1)
        return labels.reshape(self.batch, self.height, self.width)

    def energy(self, labels: Tensor) -> Tensor:  # B
        flat = labels.reshape(self.batch, -1, 1)
        total = self.unary.gather(2, flat).double().sum((1, 2))
        for weights, dim in ((self.right, 2), (self.down, 1)):
            weight = weights.reshape(labels.shape).narrow(dim, 0, labels.shape[dim] - 1)
            total += (weight * labels.diff(dim=dim).abs().clamp_max(self.limit)).double().sum((1, 2))
        return total

    def beliefs(self) -> Tensor:  # B L H W
        total = self.unary + sum(self.heard.values())
        return total.reshape(self.batch, self.height, self.width, -1).movedim(-1, 1)

    def _spread(self, cost: Tensor, weight: Tensor) -> Tensor:
        """min over k of cost_k + weight min(|k - l|, limit), for every l.

        By steps of 1, 2, 4, ... labels to either side, which add up to every distance below the limit.
        """
        result, step = cost, 1
        while step < 2 * min(self.limit, self.count - 1):
            risen, lower = result + step * weight, result.clone()
            reach = min(step, self.count)
            torch.minimum(lower[..., reach:], risen[..., : self.count - reach], out=lower[..., reach:])
            torch.minimum(lower[..., : self.count - reach], risen[..., reach:], out=lower[..., : self.count - reach])
            result, step = lower, 2 * step
        return torch.minimum(result, cost.amin(-1, keepdim=True) + weight * self.limit)

    def _rows(self, diagonal: int) -> tuple[int, int]:
        return max(0, diagonal - self.width + 1), min(self.height - 1, diagonal)

    def _pixels(self, diagonal: int, first: int, last: int) -> slice:
        step = max(1, self.width - 1)
        return slice(first * (self.width - 1) + diagonal, last * (self.width - 1) + diagonal + 1, step)

    def _before(self, weights: Tensor, here: slice, step: int) -> Tensor:
        """Weights of the pixels one `step` earlier; those that are beyond the border have weight 0 already."""
        start = here.start - step
        if start >= 0:
            return weights[:, start : here.stop - step : here.step]
        at = torch.arange(here.start, here.stop, here.step, device=weights.device) - step
        return torch.where((at >= 0)[None, :, None], weights[:, at.clamp_min(0)], 0.0)
