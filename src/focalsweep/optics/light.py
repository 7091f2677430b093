"""Display-encoded (sRGB) values to linear light and back. Blur adds light, so physics runs on linear values."""

from __future__ import annotations

from torch import Tensor


def srgb_to_linear(encoded: Tensor) -> Tensor:
    """IEC 61966-2-1. Below the knee the line goes on (negatives too), above 1 the power does."""
    power = ((encoded.clamp_min(0.04045) + 0.055) / 1.055) ** 2.4
    return (encoded / 12.92).where(encoded <= 0.04045, power)


def linear_to_srgb(linear: Tensor) -> Tensor:
    """The inverse of `srgb_to_linear`."""
    power = 1.055 * linear.clamp_min(0.0031308) ** (1 / 2.4) - 0.055
    return (linear * 12.92).where(linear <= 0.0031308, power)
