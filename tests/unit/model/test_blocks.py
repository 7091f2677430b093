"""Bricks: norms folded into convolutions change nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from focalsweep.model.blocks import fold_batch_norms
from focalsweep.model.papernet import PaperNet
from focalsweep.model.sweepnet import SweepNet


def after_data(network: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> nn.Module:
    """Ready to predict, with norms that have seen data and learned weights unlike those at the start."""
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data = 0.5 + torch.rand(module.weight.shape, generator=generator)
            module.bias.data = 0.2 * torch.randn(module.bias.shape, generator=generator)
    network.train()
    with torch.no_grad():
        for picture, volume in batches:
            network(picture, volume)
    return network.eval()


def final(output: object) -> list[Tensor]:
    """All that a network says, whichever it is."""
    if isinstance(output, list):
        return output
    return [getattr(output, name) for name in ("logits", "coarse", "position", "scale")]


@pytest.mark.parametrize(
    "build",
    [
        lambda: SweepNet(volume_width=8, context_width=8, detail_width=8),
        lambda: PaperNet(16, encoder_channels=(8, 8, 16, 16, 16), refine_channels=(8, 8, 8)),
    ],
    ids=["sweepnet", "papernet"],
)
def test_folded_norms_give_the_same_output(build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    batches = [(torch.rand(2, 3, 64, 64) - 0.3, torch.rand(2, 16, 64, 64)) for _ in range(3)]
    network = after_data(build(), batches)
    picture, volume = batches[0]
    with torch.no_grad():
        before = final(network(picture, volume))
        norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
        assert norms and any(float(norm.running_mean.abs().max()) > 0.01 for norm in norms)  # type: ignore[union-attr]
        folded = fold_batch_norms(network)
        assert folded is network
        assert not any(isinstance(module, nn.BatchNorm2d) for module in network.modules())
        after = final(network(picture, volume))
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert float(before[-1].std()) > 0


def test_a_norm_without_a_convolution_before_it_stays() -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1), nn.ReLU(), nn.BatchNorm2d(3)).eval()
    assert sum(isinstance(module, nn.BatchNorm2d) for module in fold_batch_norms(network)) == 2
