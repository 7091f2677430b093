"""SweepNet: any size, any number of planes, a bounded budget, and weights that are what they say."""

import shutil
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import LOOK, SweepNet, look_up, position_mean
from focalsweep.model.weights import FOLDER, WEIGHTS, load_network, read_weights
from tests.errors import assert_one_sentence, message_of


def inputs(planes: int, height: int, width: int, batch: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand((batch, 3, height, width), generator=generator) - 0.5
    cost = torch.rand((batch, planes, height, width), generator=generator)
    return image, cost, torch.linspace(4.0, 0.5, planes).expand(batch, planes)


@pytest.mark.parametrize(("planes", "height", "width"), [(32, 40, 33), (64, 32, 64), (33, 17, 50), (128, 32, 32)])
def test_any_size_and_number_of_planes(planes: int, height: int, width: int) -> None:
    prediction = load_network().predict(*inputs(planes, height, width, batch=2))
    assert prediction.depth.shape == (2, height, width)
    assert bool(((prediction.depth > 0.24) & (prediction.depth < 2.01)).all())
    assert bool((prediction.std > 0).all())
    assert bool(((prediction.confidence >= 0) & (prediction.confidence <= 1)).all())


def test_budget_against_papernet() -> None:
    """Under 6 M parameters, at most a fifth of PaperNet's arithmetic."""
    assert sum(parameter.numel() for parameter in SweepNet().parameters()) < 6e6
    image, cost, _ = inputs(64, 64, 64)
    operations = []
    for network in (SweepNet().eval(), PaperNet(64).eval()):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(image, cost)
        operations.append(counter.get_total_flops())
    print(f"SweepNet / PaperNet: {operations[0] / operations[1]:.3f}")
    assert operations[0] <= operations[1] / 5


def test_look_up_reads_between_planes() -> None:
    cost = torch.arange(10.0)[None, :, None, None].expand(1, 10, 2, 3)
    seen = look_up(cost, torch.full((1, 2, 3), 5.25))
    assert seen[0, :, 0, 0].tolist() == pytest.approx([5.25 + k for k in range(-LOOK, LOOK)] + [9.0], abs=1e-5)


def test_a_sharp_score_gives_its_plane() -> None:
    logits = torch.full((1, 5, 2, 2), -50.0)
    logits[:, 3] = 50.0
    torch.testing.assert_close(position_mean(logits), torch.full((1, 2, 2), 0.75))


def test_the_answer_starts_at_the_coarse_one() -> None:
    image, cost, _ = inputs(32, 32, 32)
    output = SweepNet().eval()(image, cost)
    torch.testing.assert_close(output.position, output.coarse)


def test_gradients_reach_every_weight() -> None:
    network = SweepNet()
    image, cost, _ = inputs(16, 32, 32, batch=2)
    output = network(image, cost)
    (output.position.sum() + output.scale.sum() + output.coarse.sum()).backward()
    missing = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    assert missing == []


def test_shipped_weights_say_what_they_are() -> None:
    for weights in WEIGHTS.values():
        assert weights.licence == "MIT" and "CC BY 4.0" in weights.attribution
        assert (FOLDER / weights.file).stat().st_size < 12 * 2**20


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    weights = WEIGHTS["sweepnet"]
    path = tmp_path / weights.file
    shutil.copy(FOLDER / weights.file, path)
    read_weights(SweepNet(), path, weights.sha256)
    path.write_bytes(path.read_bytes()[:-7])
    message = message_of(lambda: read_weights(SweepNet(), path, weights.sha256), ValueError)
    assert_one_sentence(message, weights.file, "sha256")
    wider = message_of(
        lambda: read_weights(SweepNet(volume_width=32), FOLDER / weights.file, weights.sha256), ValueError
    )
    assert_one_sentence(wider, "shape", "another version")
    missing = message_of(lambda: read_weights(SweepNet(), tmp_path / "none", weights.sha256), FileNotFoundError)
    assert_one_sentence(missing, "none")
    assert_one_sentence(message_of(lambda: load_network("bignet"), ValueError), "bignet")
