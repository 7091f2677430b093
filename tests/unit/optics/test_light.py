"""The sRGB curve against the twin, and its inverse."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalsweep import linear_to_srgb, srgb_to_linear
from tests.reference import twins

VALUES = np.concatenate([np.linspace(-0.2, 1.5, 200), [0.0, 1.0, 0.0031308, 0.0031307, 0.0031309]])


def test_encoding_against_the_twin() -> None:
    encoded = linear_to_srgb(torch.from_numpy(VALUES))
    torch.testing.assert_close(encoded, torch.from_numpy(twins.srgb_encode(VALUES)), rtol=1e-13, atol=1e-15)


def test_ends() -> None:
    for curve in (linear_to_srgb, srgb_to_linear):
        torch.testing.assert_close(curve(torch.tensor([0.0, 1.0])), torch.tensor([0.0, 1.0]))


@given(st.floats(-0.5, 2.0))
def test_round_trip(value: float) -> None:
    x = torch.tensor(value, dtype=torch.float64)
    torch.testing.assert_close(srgb_to_linear(linear_to_srgb(x)), x, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(linear_to_srgb(srgb_to_linear(x)), x, rtol=1e-6, atol=1e-9)


def test_gradients_are_finite_everywhere() -> None:
    for curve in (linear_to_srgb, srgb_to_linear):
        x = torch.from_numpy(VALUES).requires_grad_()
        curve(x).sum().backward()
        assert x.grad is not None
        assert bool(torch.isfinite(x.grad).all())
        assert bool((x.grad > 0).all())
