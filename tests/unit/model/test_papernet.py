"""The paper's network: its size, shapes, start and loss. A narrow variant stands in where width does not matter."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from focalsweep import DepthGrid
from focalsweep.model.blocks import pad_to_multiple
from focalsweep.model.papernet import PaperNet, UpsampleBlock, paper_loss
from tests.errors import assert_one_sentence, message_of

PLANES = 8
GRID = DepthGrid.uniform_in_depth(0.1, 3.0, PLANES)


def narrow(planes: int = PLANES) -> PaperNet:
    torch.manual_seed(0)
    return PaperNet(planes, encoder_channels=(8, 12, 16, 20, 24), refine_channels=(12, 10, 8))


def inputs(height: int = 64, width: int = 64, batch: int = 1, planes: int = PLANES) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    stack = torch.rand((batch, 3 + planes, height, width), generator=generator)
    return stack[:, :3], stack[:, 3:]


def multiply_adds(planes: int, height: int, width: int) -> int:
    """Of the convolutions, on the meta device: shapes only."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        network = PaperNet(planes).eval()
        network.predict(torch.rand(1, 3, height, width), torch.rand(1, planes, height, width), torch.rand(1, planes))
    return int(counter.get_total_flops()) // 2


def parameter_count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_paper_has_32_million_parameters() -> None:
    with torch.device("meta"):
        assert parameter_count(PaperNet()) == 32_515_665
        assert parameter_count(PaperNet(32)) < 32_515_665


def test_multiply_adds() -> None:
    assert multiply_adds(64, 256, 256) == pytest.approx(94.35e9, rel=1e-3)
    assert multiply_adds(64, 256, 512) == 2 * multiply_adds(64, 256, 256)


def test_levels_share_no_weights() -> None:
    with torch.device("meta"):
        network = PaperNet()
    names = {"upsample_16", "merge_16", "upsample_8", "merge_8", "score_8", "refine_4", "refine_2", "refine_1"}
    assert {name for name, _ in network.named_children()} == names | {"encoder"}
    stored = sum(parameter_count(child) for child in network.children())
    assert stored == parameter_count(network)  # a shared weight would be counted twice here


def test_full_width_on_a_small_picture() -> None:
    torch.manual_seed(0)
    network = PaperNet().eval()
    image, cost = inputs(40, 33, planes=64)
    planes = DepthGrid.uniform_in_depth().as_batch(1)
    with torch.no_grad():
        prediction = network.predict(image, cost, planes)
    assert prediction.depth.shape == (1, 40, 33)
    assert bool((prediction.depth >= 0.1).all()) and bool((prediction.depth <= 3.0).all())
    assert prediction.probabilities is not None and prediction.probabilities.shape == (1, 64, 40, 33)


@pytest.mark.parametrize("size", [(64, 96), (33, 47), (31, 1), (1, 1), (70, 65)])
def test_any_size(size: tuple[int, int]) -> None:
    network, (image, cost) = narrow().eval(), inputs(*size, batch=2)
    with torch.no_grad():
        volumes = network(image, cost)
        prediction = network.predict(image, cost, GRID.as_batch(2))
    for stride, volume in zip((8, 4, 2, 1), volumes, strict=True):
        assert volume.shape == (2, PLANES, -(-size[0] // stride), -(-size[1] // stride))
        torch.testing.assert_close(volume.sum(1), torch.ones_like(volume[:, 0]))
        assert bool((volume >= 0).all())
    for value in (prediction.depth, prediction.std, prediction.confidence):
        assert value.shape == (2, *size) and bool(value.isfinite().all())


def test_a_padded_size_is_the_same_picture_with_its_border_repeated() -> None:
    network, (image, cost) = narrow().eval(), inputs(45, 58)
    with torch.no_grad():
        cropped = network(image, cost)
        whole = network(pad_to_multiple(image, 32), pad_to_multiple(cost, 32))
    for part, volume in zip(cropped, whole, strict=True):
        torch.testing.assert_close(part, volume[..., : part.shape[-2], : part.shape[-1]])


def test_every_stack_of_a_batch_is_alone() -> None:
    network, (image, cost) = narrow().eval(), inputs(batch=3)
    near, far = torch.tensor([0.3, 0.5, 1.0]), torch.tensor([2.0, 3.0, 9.0])
    planes = DepthGrid.uniform_in_depth(near, far, PLANES).as_batch(3)
    with torch.no_grad():
        together = network.predict(image, cost, planes).depth
        alone = [network.predict(image[i : i + 1], cost[i : i + 1], planes[i : i + 1]).depth for i in range(3)]
    torch.testing.assert_close(together, torch.cat(alone))


def test_half_precision_keeps_probabilities_precise() -> None:
    network, (image, cost) = narrow().eval(), inputs()
    with torch.no_grad():
        precise = network.predict(image, cost, GRID.as_batch(1))
        with torch.autocast("cpu", torch.bfloat16):
            cast = network.predict(image, cost, GRID.as_batch(1))
        half = network.bfloat16().predict(image.bfloat16(), cost.bfloat16(), GRID.as_batch(1))
    for prediction in (cast, half):
        assert prediction.depth.dtype == torch.float32 and prediction.probabilities is not None
        torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(1, 64, 64))
        torch.testing.assert_close(prediction.depth, precise.depth, rtol=0.05, atol=0)


def test_other_numbers_of_planes() -> None:
    for planes in (2, 32):
        image, cost = inputs(planes=planes)
        with torch.no_grad():
            assert narrow(planes).eval()(image, cost)[-1].shape[1] == planes


def test_offsets_are_zero_at_the_start_and_can_be_learned() -> None:
    network, (image, cost) = narrow(), inputs(batch=2)
    depth = torch.full((2, 64, 64), 1.0)
    paper_loss(network(image, cost), depth, GRID.depths.expand(2, -1)).backward()
    levels = [module for module in network.modules() if isinstance(module, UpsampleBlock)]
    assert len(levels) == 3
    for level in levels:
        assert not any(bool(parameter.any()) for parameter in level.offsets.parameters())
        assert level.offsets.weight.grad is not None and bool(level.offsets.weight.grad.any())
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name


def test_one_sample_is_overfitted() -> None:
    network, (image, cost) = narrow().train(), inputs()
    depth = torch.linspace(0.3, 2.5, 64).expand(1, 64, 64)
    optimiser = torch.optim.Adam(network.parameters(), 3e-3)
    losses = []
    for _ in range(25):
        optimiser.zero_grad()
        loss = paper_loss(network(image, cost), depth, GRID.depths[None])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses


def one_hot_scales(plane: Tensor) -> list[Tensor]:
    """Certain volumes at 1/8 to 1 from plane indices, H W, constant in blocks of 8."""
    volume = torch.nn.functional.one_hot(plane, PLANES).movedim(-1, 0)[None].double()
    return [volume[..., ::stride, ::stride] for stride in (8, 4, 2, 1)]


def test_loss_closed_forms() -> None:
    plane = torch.arange(PLANES).reshape(2, 4).repeat_interleave(8, 0).repeat_interleave(8, 1)[:13, :30]
    scales, depths = one_hot_scales(plane), GRID.depths[None]
    truth = GRID.depths[plane][None]
    assert paper_loss(scales, truth, depths).item() == pytest.approx(0, abs=1e-12)
    assert paper_loss(scales, truth + 0.25, depths).item() == pytest.approx(0.25)
    finest_wrong = [*scales[:-1], scales[-1].roll(1, 1)]
    error = (GRID.depths.roll(-1) - GRID.depths)[plane].abs().mean().item() / 4
    assert paper_loss(finest_wrong, truth, depths).item() == pytest.approx(error)


def test_coarse_truth_is_the_middle_of_its_block() -> None:
    flat = torch.full((1, 2, 1, 1), 0.5)
    truth = torch.arange(1.0, 17.0).reshape(1, 4, 4)  # 1/4: row 2, column 2 is 11
    scales = [flat, flat.expand(1, 2, 2, 2), flat.expand(1, 2, 4, 4)]
    middle = torch.tensor([[6.0, 8.0], [14.0, 16.0]])
    expected = (abs(11 - 1.5) + (middle - 1.5).abs().mean() + (truth - 1.5).abs().mean()) / 3
    assert paper_loss(scales, truth, torch.tensor([[1.0, 2.0]])).item() == pytest.approx(expected.item())


def test_pixels_without_truth_count_nowhere() -> None:
    plane = torch.full((16, 16), 3)
    scales = [volume.requires_grad_() for volume in one_hot_scales(plane)]
    truth = GRID.depths[plane][None] + 0.1
    truth[..., :8] = torch.tensor([torch.nan, 0.0, torch.inf, -1.0]).repeat(2)
    loss = paper_loss(scales, truth, GRID.depths[None])
    assert loss.item() == pytest.approx(0.1)
    assert all(bool(gradient.isfinite().all()) for gradient in torch.autograd.grad(loss, scales))


def test_wrong_arguments_are_named() -> None:
    network, (image, cost) = narrow(), inputs()
    assert_one_sentence(message_of(lambda: network(image, cost[:, 1:]), ValueError), "cost", "D=8", "(1, 7")
    assert_one_sentence(message_of(lambda: network(image[:, :1], cost), ValueError), "image", "C=3")
    assert_one_sentence(message_of(lambda: PaperNet(1), ValueError), "planes", "1")
    scales = network.eval()(image, cost)
    message = message_of(lambda: paper_loss(scales, torch.ones(1, 60, 64), GRID.depths[None]), ValueError)
    assert_one_sentence(message, "scales[1]", "H=15")
