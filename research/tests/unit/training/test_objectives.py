"""Objectives: closed forms, and that the learning is real."""

import pytest
import torch

from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import SweepNet, SweepOutput
from focalsweep.types import DepthGrid
from focalsweep_research.synthesis.generator import make_source
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.objectives import (
    EDGE_WEIGHT,
    PaperObjective,
    SweepObjective,
    abs_rel,
    depth_at,
    near_edges,
    network_inputs,
    plane_cross_entropy,
    sweep_loss,
    true_position,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sample() -> Sample:
    return make_source(GeneratorConfig(size=64, planes=16, rays=4, textures=4, solids=6, frames=(3, 3)))(0, 2, CPU)


def test_position_of_the_planes_themselves(sample: Sample) -> None:
    depths = sample.planes.depths.float()
    flat = Sample(sample.stack, sample.planes, depths[:, 5, None, None].expand_as(sample.depth))
    torch.testing.assert_close(true_position(flat), torch.full_like(sample.depth, 5 / 15), rtol=1e-4, atol=1e-5)


def test_cross_entropy_of_a_certain_answer_is_zero_and_of_a_flat_one_log_d() -> None:
    position = torch.full((1, 2, 2), 3 / 7)
    certain = torch.full((1, 8, 2, 2), -60.0)
    certain[:, 3] = 60.0
    assert plane_cross_entropy(certain, position).mean().item() == pytest.approx(0, abs=1e-4)
    assert plane_cross_entropy(torch.zeros(1, 8, 2, 2), position).mean().item() == pytest.approx(
        torch.tensor(8.0).log().item()
    )


def test_likelihood_is_best_where_the_scale_is_the_error(sample: Sample) -> None:
    position = true_position(sample)

    def likelihood(scale: float) -> float:
        output = SweepOutput(torch.zeros(2, 16, 16, 16), position, position + 0.03, torch.full_like(position, scale))
        return sweep_loss(output, sample)[1]["likelihood"].item()

    assert likelihood(0.03) < min(likelihood(0.02), likelihood(0.045))


def test_relative_error_is_that_of_depth(sample: Sample) -> None:
    position = (true_position(sample) - 0.01).clamp_min(0)
    output = SweepOutput(torch.zeros(2, 16, 16, 16), position, position, torch.full_like(position, 0.01))
    depth = depth_at(position, sample)
    error = (depth - sample.depth).abs() / sample.depth
    assert abs_rel(position, sample).item() == pytest.approx(error.mean().item(), rel=1e-3)
    edges = near_edges(true_position(sample) * 15)
    assert 0 < edges.mean() < 1
    weight = 1 + EDGE_WEIGHT * edges
    expected = (error * weight).sum() / weight.sum()
    assert sweep_loss(output, sample)[1]["relative"].item() == pytest.approx(expected.item(), rel=1e-3)


def test_inputs_are_the_cost_and_a_sharp_picture(sample: Sample) -> None:
    picture, volume = network_inputs(sample, "reblur")
    assert volume.shape == (2, 16, 64, 64) and picture.shape == (2, 3, 64, 64)
    assert float(picture.min()) >= -0.51 and float(picture.max()) <= 0.6
    frames = sample.stack.images
    chosen = torch.isclose(frames, (((picture + 0.5 + 0.055) / 1.055) ** 2.4)[:, None], atol=1e-3).all(2).any(1)
    bright = (picture > -0.4).all(1)
    assert chosen[bright].float().mean() > 0.99


def test_one_scene_is_learned_in_seconds(sample: Sample) -> None:
    torch.manual_seed(0)
    network = SweepNet(volume_width=8, context_width=16, detail_width=16)
    objective = SweepObjective()
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    errors = []
    for _ in range(40):
        loss, figures = objective(network, sample)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(figures["error_planes"].item())
    print(f"error in planes: {errors[0]:.2f} at the start, {errors[-1]:.2f} after 40 steps")
    assert errors[-1] < 0.5
    assert errors[0] > 2 * errors[-1]


def test_the_paper_objective_learns_too(sample: Sample) -> None:
    torch.manual_seed(0)
    network = PaperNet(16, encoder_channels=(16, 16, 32, 32, 32), refine_channels=(16, 16, 8))
    objective = PaperObjective("reblur")
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    losses = []
    for _ in range(15):
        loss, figures = objective(network, sample)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"paper loss: {losses[0]:.3f} at the start, {losses[-1]:.3f} after 15 steps")
    assert losses[-1] < 0.6 * losses[0]
    assert set(figures) == {"error_planes", "abs_rel"}


def test_positions_among_planes_uniform_in_depth(sample: Sample) -> None:
    planes = DepthGrid.uniform_in_depth(0.1, 3.0, 30)
    depth = torch.full_like(sample.depth, 0.1 + 2.9 * 0.25)
    even = Sample(sample.stack, planes, depth)
    torch.testing.assert_close(true_position(even), torch.full_like(depth, 0.25))
    torch.testing.assert_close(depth_at(true_position(even), even), depth)


def test_unknown_depth_counts_nowhere(sample: Sample) -> None:
    """A batch whose lower half is unknown has the loss of its upper half alone."""
    half = sample.depth.shape[1] // 2
    depth = sample.depth.clone()
    depth[:, half:] = torch.nan
    position = (true_position(sample) + 0.05).clamp(0, 1).requires_grad_()
    logits = torch.zeros(len(depth), sample.planes.count, depth.shape[1] // 4, depth.shape[2] // 4)
    output = SweepOutput(logits, position, position, torch.full_like(position, 0.1))
    loss, figures = sweep_loss(output, Sample(sample.stack, sample.planes, depth))
    loss.backward()
    assert position.grad is not None
    assert not position.grad[:, half:].any() and torch.isfinite(position.grad).all()
    expected = (position - true_position(sample)).abs()[:, :half].mean() * (sample.planes.count - 1)
    torch.testing.assert_close(figures["error_planes"], expected)
