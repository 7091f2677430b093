"""The rivals' losses: closed forms, gradients, unknown pixels, and that each learns a scene."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from research.tests.unit.training.toy import silent
from torch import Tensor, nn

from focalsweep import DepthGrid, FocalStack, coc_px
from focalsweep_research.rivals import objectives as rivals
from focalsweep_research.rivals.answer import Answer
from focalsweep_research.rivals.networks import build, load
from focalsweep_research.rivals.objectives import (
    LARGEST_BLUR_PX,
    OBJECTIVES,
    edge_aware_roughness,
    masked_mean,
    stitched,
    true_blur,
    true_depth,
)
from focalsweep_research.synthesis.sample import Sample
from focalsweep_research.training.config import TrainingConfig, read_config
from focalsweep_research.training.objectives import depth_at
from focalsweep_research.training.run import build_network, build_objective, run_training
from tests.errors import assert_one_sentence, message_of
from tests.rendering import RIGS, render_plane

SIZE = 32
SMALL = {
    "ddff": {"frames": 5, "width": 6},
    "defocusnet": {"width": 6},
    "aifdepthnet": {"width": 0.12},
    "aifdepthnet-aif": {"width": 0.12},
}
CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Two planes side by side, some of whose pixels are unknown."""
    near, far = (render_plane("phone", depth, size=SIZE, seed=seed).stack for depth, seed in ((0.3, 0), (0.7, 1)))
    images = torch.cat([near.images[..., : SIZE // 2], far.images[..., SIZE // 2 :]], -1)[None].clamp(0, 1)
    depth = torch.full((1, SIZE, SIZE), 0.3)
    depth[..., SIZE // 2 :] = 0.7
    depth[:, :3] = math.nan
    stack = FocalStack(images, near.focus_distances, near.camera).as_batch()
    return Sample(stack, DepthGrid(DepthGrid.uniform_in_inverse_depth(0.15, 2.5, 16).inverse_depths[None]), depth)


class Says(nn.Module):
    """A network that knows its answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, pictures: Tensor, distances: Tensor) -> Answer:
        return self.answer


def truthful(sample: Sample) -> Answer:
    truth, _ = true_depth(sample)
    return Answer(truth, blur=true_blur(sample, truth), sharp=stitched(sample), disparity=1 / truth, metres=truth)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_truth_has_no_loss_and_the_unknown_does_not_count(sample: Sample, name: str) -> None:
    objective, right = OBJECTIVES[name](), truthful(sample)
    unknown = torch.isnan(sample.depth)
    assert unknown.any()
    loss, figures = objective(Says(right), sample)
    roughness = rivals.SMOOTHNESS * figures.get("roughness", torch.zeros(()))  # depth has an edge
    assert loss.item() == pytest.approx(roughness.item(), abs=1e-9)
    assert figures["abs_rel"].item() == 0
    if name == "aifdepthnet-aif":
        return
    wrong = torch.where(unknown, torch.nan, right.depth)
    there = Answer(wrong, disparity=1 / wrong, metres=wrong, blur=torch.where(unknown[:, None], 9.0, right.blur))  # type: ignore[arg-type]
    loss, _ = objective(Says(there), sample)
    assert loss.item() == pytest.approx(0, abs=1e-9)
    nothing = Sample(sample.stack, sample.planes, torch.full_like(sample.depth, math.nan))
    loss, figures = objective(Says(right), nothing)
    assert loss.item() == 0 and figures["abs_rel"].item() == 0


def test_losses_by_hand(sample: Sample) -> None:
    right, (truth, _) = truthful(sample), true_depth(sample)
    assert right.blur is not None
    off = Answer(truth + 0.1, disparity=1 / truth + 0.2, metres=truth + 0.3, blur=right.blur + 0.4)
    assert OBJECTIVES["ddff"]()(Says(off), sample)[0].item() == pytest.approx(0.04, rel=1e-4)
    assert OBJECTIVES["defocusnet"]()(Says(off), sample)[0].item() == pytest.approx(0.16 + 0.3**2 / 9, rel=1e-4)
    assert OBJECTIVES["aifdepthnet"]()(Says(off), sample)[0].item() == pytest.approx(0.1, rel=1e-4)
    bright = Answer(torch.ones_like(truth), sharp=stitched(sample) + 0.25)
    assert OBJECTIVES["aifdepthnet-aif"]()(Says(bright), sample)[0].item() == pytest.approx(0.25, rel=1e-4)


def test_blur_is_that_of_the_lens(sample: Sample) -> None:
    truth, _ = true_depth(sample)
    blur = true_blur(sample, truth)
    rig = RIGS["phone"]
    for i, distance in enumerate(sorted(rig.focus_distances)):
        for column, depth in ((2, 0.3), (SIZE - 2, 0.7)):
            expected = min(1.0, float(coc_px(depth, distance, rig.camera)) / LARGEST_BLUR_PX)
            assert blur[0, i, 9, column].item() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    order = [4, 1, 3, 0, 2]  # the answer's frames go from near to far, whatever the stack's do
    stack = FocalStack(sample.stack.images[:, order], sample.stack.focus_distances[:, order], rig.camera).as_batch()
    torch.testing.assert_close(true_blur(Sample(stack, sample.planes, sample.depth), truth), blur)


def test_infinity_is_the_farthest(sample: Sample) -> None:
    depth = sample.depth.clone()
    depth[0, 9, 9] = math.inf
    truth, known = true_depth(Sample(sample.stack, sample.planes, depth))
    assert truth[0, 9, 9].item() == pytest.approx(rivals.TRAINED_DEPTH_END * 0.15, rel=1e-5) and known[0, 9, 9]
    assert not known[0, 0].any() and torch.isfinite(truth).all()


def test_roughness_is_free_at_edges_of_the_picture() -> None:
    depth, picture = torch.ones(1, 4, 8), torch.zeros(1, 3, 4, 8)
    depth[..., 4:] = 3.0  # a step of one mean depth between 2 of 8 columns: 1 of 7 steps
    assert edge_aware_roughness(depth, picture).item() == pytest.approx(1 / 7, rel=1e-5)
    picture[..., 4:] = 1.0
    assert edge_aware_roughness(depth, picture).item() < 1e-5


def test_masked_mean_has_no_gradient_where_nothing_is_known() -> None:
    values = torch.tensor([1.0, math.nan, 3.0], requires_grad=True)
    mean = masked_mean(values, torch.tensor([True, False, True]))
    mean.backward()  # type: ignore[no-untyped-call]
    assert mean.item() == 2 and values.grad is not None and values.grad.tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_are_those_of_the_loss(sample: Sample, name: str) -> None:
    """Along a random direction of all weights, against a central difference in double precision."""
    torch.manual_seed(0)
    network = build(name, **SMALL[name]).double().eval()
    stack = sample.stack.to(dtype=torch.float64)
    double = Sample(stack, sample.planes, sample.depth.double())
    for weight in network.parameters():  # away from the kinks of ReLUs that start at 0 exactly
        if weight.ndim == 1:
            nn.init.normal_(weight, 0.5, 0.1)
    objective = OBJECTIVES[name]()
    loss, _ = objective(network, double)
    loss.backward()  # type: ignore[no-untyped-call]
    weights = list(network.parameters())
    directions = [torch.randn_like(w) for w in weights]
    slope = sum(float((w.grad * d).sum()) for w, d in zip(weights, directions, strict=True) if w.grad is not None)
    step, values = 1e-7, []
    with torch.no_grad():
        for sign in (1, -2):
            for w, d in zip(weights, directions, strict=True):
                w += sign * step * d
            values.append(objective(network, double)[0].item())
    assert slope == pytest.approx((values[0] - values[1]) / (2 * step), rel=2e-3, abs=1e-7)
    assert slope != 0


def learnt(name: str, samples: list[Sample]) -> tuple[list[float], float]:
    """Losses on the samples in turn, and the mean AbsRel at the end."""
    torch.manual_seed(1)
    network, objective = build(name, **SMALL[name]), OBJECTIVES[name]()
    rate, steps = (1e-3, 200) if name == "defocusnet" else (3e-3, 60)  # without norms it is the slowest
    optimizer = torch.optim.Adam(network.parameters(), rate)
    losses, errors = [], []
    for step in range(steps):
        loss, figures = objective(network, samples[step % len(samples)])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
        errors.append(figures["abs_rel"].item())
    return losses, sum(errors[-4:]) / 4


@pytest.mark.parametrize("name", OBJECTIVES)
def test_each_learns_by_looking(sample: Sample, name: str) -> None:
    """A scene and its mirror image: one alone could be learnt by heart, without a look at the pictures."""
    images = sample.stack.images.flip(-1)
    pair = [sample, Sample(sample.stack.with_images(images), sample.planes, sample.depth.flip(-1))]
    losses, error = learnt(name, pair)
    assert sum(losses[-2:]) < 0.5 * sum(losses[:2])
    if name != "aifdepthnet-aif":  # without depth it learns the picture
        grey = [replace(one, stack=one.stack.with_images(torch.full_like(images, 0.3))) for one in pair]
        blind = learnt(name, grey)[1]
        print(f"{name}: AbsRel {error:.3f}, blind {blind:.3f}")
        assert error < 0.7 * blind


@pytest.mark.parametrize("uniform", [DepthGrid.uniform_in_inverse_depth, DepthGrid.uniform_in_depth])
def test_reading_gives_depth_back(sample: Sample, uniform: Callable[..., DepthGrid]) -> None:
    sample = replace(sample, planes=uniform(0.15, 2.5, 16))
    depth = torch.linspace(0.05, 9.0, SIZE * SIZE).reshape(1, SIZE, SIZE)  # also before and beyond the planes
    reading = OBJECTIVES["ddff"]().read(Says(Answer(depth)), sample)
    torch.testing.assert_close(depth_at(reading.position, sample), depth, rtol=1e-4, atol=0)
    assert reading.picture.shape == (1, 3, SIZE, SIZE) and reading.scale is None


@pytest.mark.parametrize("data", ["defocusnet", "nyu"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_configs_build(name: str, data: str) -> None:
    config = read_config(CONFIGS / (f"{name}-nyu.toml" if data == "nyu" else f"{name}.toml"))
    assert config.network == name and type(build_objective(config)) is OBJECTIVES[name]
    assert config.data["kind"] == data
    if name != "defocusnet":
        assert config.network_options.get("frames", 5) == {"defocusnet": 5, "nyu": 3}[data]
    small = replace(config, network_options=SMALL[name])
    assert type(build_network(small)) is type(build(name, **SMALL[name]))


def test_costs_and_networks_go_together() -> None:
    for network, cost in (("ddff", "reblur"), ("sweepnet", "none")):
        words = message_of(partial(TrainingConfig, network, cost, 1, 1, 1e-3), ValueError)
        assert_one_sentence(words, network, cost)


def test_a_run_makes_weights_that_load(tmp_path: Path) -> None:
    lines = ['network = "defocusnet"', 'cost = "none"', "steps = 1", "batch_size = 2", "learning_rate = 1e-3"]
    lines += ["image_size = [32, 32]", "planes = 8", "validation_samples = 2", "[network_options]", "width = 2"]
    lines += ["[data]", "rays = 4", "textures = 4", "solids = 6", "frames = [2, 3]"]
    (tmp_path / "tiny.toml").write_text("\n".join(lines))
    outcome = run_training(tmp_path / "tiny.toml", tmp_path / "run", device=torch.device("cpu"), console=silent())
    assert outcome.step == 1 and {"blur", "depth", "abs_rel"} <= set(outcome.validation)
    network = load("defocusnet", tmp_path / "run")
    answer = network(torch.rand(1, 2, 3, 32, 32), torch.tensor([[0.5, 1.0]]))
    assert answer.depth.shape == (1, 32, 32)
