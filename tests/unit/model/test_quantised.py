"""Weights in 8 bits: how far off, how small, and that damage is seen."""

import pytest
import torch

from focalsweep.model.quantised import pack, unpack


def state() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    convolution = torch.randn(64, 128, 3, 3, generator=generator)
    convolution[3] *= 100
    convolution[5] = 0
    return {
        "convolution.weight": convolution,
        "convolution.bias": torch.randn(64, generator=generator),
        "norm.num_batches_tracked": torch.tensor(7),
    }


def test_weights_are_off_by_half_a_step_of_their_channel_at_most() -> None:
    before, after = state(), unpack(pack(state()))
    assert set(after) == set(before)
    weight, back = before["convolution.weight"], after["convolution.weight"]
    steps = weight.flatten(1).abs().amax(1) / 127
    error = (weight - back).flatten(1).abs().amax(1)
    assert (error <= 0.5001 * steps + 1e-12).all()
    assert error.max() > 0  # it is not simply stored
    assert back[5].eq(0).all()
    assert after["convolution.bias"].equal(before["convolution.bias"])
    assert after["norm.num_batches_tracked"] == 7


def test_codes_are_compressed() -> None:
    """Normal weights, the largest of a channel at 127: less than 8 bits each."""
    size = len(pack(state()))
    assert size < 0.97 * 64 * 128 * 9


def test_damage_is_seen() -> None:
    content = pack(state())
    with pytest.raises(ValueError, match="damaged"):
        unpack(content[: len(content) // 2])
    with pytest.raises(ValueError, match="damaged"):
        unpack(b"\x00" + content[1:])


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("focalsweep.model.quantised.LARGEST_BYTES", 1000)
    with pytest.raises(ValueError, match="larger"):
        unpack(pack(state()))
