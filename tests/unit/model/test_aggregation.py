"""Adaptive cost aggregation (Eq. 10): closed forms, its twin, gradients."""

import numpy as np
import pytest
import torch
from torch import Tensor

from focalsweep.model.aggregation import CENTRE, aggregate
from tests.errors import assert_one_sentence, message_of
from tests.reference import twins_model


def arguments(
    batch: int = 2, planes: int = 3, height: int = 7, width: int = 6, reach: float = 3.0
) -> tuple[Tensor, Tensor, Tensor]:
    """A random volume, offsets within `reach` pixels, weights that sum to one; float64."""
    generator = torch.Generator().manual_seed(0)

    def rand(channels: int) -> Tensor:
        return torch.rand((batch, channels, height, width), dtype=torch.float64, generator=generator)

    return rand(planes), reach * (2 * rand(18) - 1), torch.softmax(3 * rand(9), 1)


def twin(volume: Tensor, offsets: Tensor, weights: Tensor, dilation: int = 2) -> Tensor:
    stacks = zip(volume.double().numpy(), offsets.double().numpy(), weights.double().numpy(), strict=True)
    results = [twins_model.aggregate(v, o.reshape(9, 2, *o.shape[-2:]), w, dilation) for v, o, w in stacks]
    return torch.from_numpy(np.stack(results))


@pytest.mark.parametrize("size", [(7, 6), (1, 9), (5, 1), (1, 1)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_agrees_with_its_twin(size: tuple[int, int], dilation: int) -> None:
    given = arguments(height=size[0], width=size[1])
    torch.testing.assert_close(aggregate(*given, dilation), twin(*given, dilation), rtol=0, atol=1e-12)


def test_agrees_with_its_twin_in_single_precision_and_any_memory_layout() -> None:
    volume, offsets, weights = (tensor.float() for tensor in arguments(planes=8))
    expected = twin(volume, offsets, weights).float()
    for layout in (torch.contiguous_format, torch.channels_last):
        given = [tensor.contiguous(memory_format=layout) for tensor in (volume, offsets, weights)]
        torch.testing.assert_close(aggregate(*given), expected, rtol=0, atol=1e-6)


def test_the_twin_notices_a_wrong_dilation_and_swapped_axes() -> None:
    volume, offsets, weights = arguments()
    swapped = offsets.unflatten(1, (9, 2)).flip(2).flatten(1, 2)
    right = twin(volume, offsets, weights)
    assert (aggregate(volume, offsets, weights, 1) - right).abs().max() > 1e-2
    assert (aggregate(volume, swapped, weights) - right).abs().max() > 1e-2


def test_zero_offsets_and_equal_weights_are_a_dilated_mean() -> None:
    volume, offsets, weights = arguments(height=9, width=8)
    result = aggregate(volume, torch.zeros_like(offsets), torch.full_like(weights, 1 / 9))
    padded = torch.nn.functional.pad(volume, (2, 2, 2, 2), mode="replicate")
    kernel = torch.full((3, 1, 3, 3), 1 / 9, dtype=torch.float64)
    torch.testing.assert_close(result, torch.nn.functional.conv2d(padded, kernel, dilation=2, groups=3))


@pytest.mark.parametrize(("neighbour", "rest"), [(0, (-2, -2)), (1, (-2, 0)), (5, (0, 2)), (6, (2, -2))])
@pytest.mark.parametrize("move", [(1, 0), (0, 1), (-1, 2)])
def test_whole_offsets_shift(neighbour: int, rest: tuple[int, int], move: tuple[int, int]) -> None:
    volume, offsets, weights = arguments(height=12, width=12)
    offsets, weights = torch.zeros_like(offsets), torch.zeros_like(weights)
    weights[:, neighbour] = 1
    offsets[:, 2 * neighbour], offsets[:, 2 * neighbour + 1] = move
    result = aggregate(volume, offsets, weights)
    shift = (-rest[0] - move[0], -rest[1] - move[1])
    inner = (..., slice(4, 8), slice(4, 8))
    assert torch.equal(result[inner], volume.roll(shift, (-2, -1))[inner])


def test_half_an_offset_lies_between_pixels() -> None:
    volume, offsets, weights = (tensor[..., :1, :] for tensor in arguments(width=8))
    offsets, weights = torch.zeros_like(offsets), torch.zeros_like(weights)
    weights[:, 5], offsets[:, 11] = 1, 0.5  # the right neighbour, half a pixel further
    expected = (volume[..., 2:7] + volume[..., 3:8]) / 2
    torch.testing.assert_close(aggregate(volume, offsets, weights)[..., :5], expected)


def test_the_centre_stays() -> None:
    volume, offsets, weights = arguments()
    weights = torch.zeros_like(weights)
    weights[:, CENTRE] = 1
    assert torch.equal(aggregate(volume, offsets, weights), volume)


def test_far_offsets_reach_the_border_only() -> None:
    volume, offsets, weights = arguments()
    result = aggregate(volume, torch.full_like(offsets, -1e6), weights)
    outer = 1 - weights[:, CENTRE : CENTRE + 1]
    torch.testing.assert_close(result, outer * volume[..., :1, :1] + weights[:, CENTRE : CENTRE + 1] * volume)


def test_probabilities_still_sum_to_one() -> None:
    volume, offsets, weights = arguments(planes=5)
    total = aggregate(torch.softmax(volume, 1), offsets, weights).sum(1)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_gradients_reach_volume_offsets_and_weights() -> None:
    given = [tensor.requires_grad_() for tensor in arguments(batch=2, planes=2, height=4, width=3, reach=1.5)]
    assert torch.autograd.gradcheck(aggregate, given)
    for gradient in torch.autograd.grad(aggregate(*given).square().sum(), given):
        assert gradient.abs().max() > 0


def test_every_stack_of_a_batch_is_aggregated_alone() -> None:
    given = arguments(batch=3)
    alone = torch.cat([aggregate(*(tensor[i : i + 1] for tensor in given)) for i in range(3)])
    assert torch.equal(aggregate(*given), alone)


def test_half_precision_keeps_positions_in_a_wide_picture() -> None:
    volume, offsets, weights = (tensor.bfloat16() for tensor in arguments(batch=1, planes=8, height=2, width=600))
    precise = aggregate(volume.float(), offsets.float(), weights.float())
    torch.testing.assert_close(aggregate(volume, offsets, weights).float(), precise, rtol=0.02, atol=0.02)


def test_wrong_shapes_are_named() -> None:
    volume, offsets, weights = arguments()
    assert_one_sentence(message_of(lambda: aggregate(volume, offsets[:, :16], weights), ValueError), "offsets", "C=18")
    assert_one_sentence(message_of(lambda: aggregate(volume, offsets, weights[:1]), ValueError), "weights", "B=2")
    assert_one_sentence(message_of(lambda: aggregate(volume[0], offsets, weights), ValueError), "volume", "B D H W")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("shape", [(2, 64, 33, 20), (1, 5, 1, 40), (1, 3, 9, 1)])
def test_the_kernel_and_its_gradient_agree_with_the_plain_version(shape: tuple[int, int, int, int]) -> None:
    batch, planes, height, width = shape
    given = [tensor.float() for tensor in arguments(batch, planes, height, width)]
    results = []
    for device in ("cpu", "cuda"):
        inputs = [tensor.to(device).requires_grad_() for tensor in given]
        out = aggregate(*inputs)
        gradients = torch.autograd.grad(out, inputs, torch.cos(torch.arange(out.numel(), device=device)).view_as(out))
        results.append([tensor.cpu() for tensor in (out, *gradients)])
    for plain, fused in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5)
