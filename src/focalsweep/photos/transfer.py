"""Tone curves: how a file's code values stand for linear light. Primaries do not matter here, only the curve."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from focalsweep.optics.light import srgb_to_linear

Array = NDArray[Any]
Curve = Callable[[Array], Array]  # encoded 0..1 -> linear light, float64

ROWS_AT_ONCE = 256
ADOBE_RGB_GAMMA = 563 / 256  # Adobe RGB (1998), 4.3.1.2


def _srgb(encoded: Array) -> Array:
    linear: Array = srgb_to_linear(torch.from_numpy(encoded)).numpy()
    return linear


def _rec709(encoded: Array) -> Array:
    """Inverse of the camera's curve of ITU-R BT.709."""
    return np.where(encoded < 0.081, encoded / 4.5, ((encoded + 0.099) / 1.099) ** (1 / 0.45))


def _power(gamma: float) -> Curve:
    return lambda encoded: encoded**gamma


@dataclass(frozen=True)
class Transfer:
    """Encoded values to linear light.

    Args:
        name: what it is and who says so, "sRGB (ICC profile)".
        curves: one for all channels, or one for each.
    """

    name: str
    curves: tuple[Curve, ...]

    def to_linear(self, codes: Array, white: int) -> Array:
        """Code values 0..white, H W C of an integer type, as linear light in float32: exact for every code."""
        steps = np.arange(white + 1) / white
        tables = [curve(steps).astype(np.float32) for curve in self.curves]
        if codes.dtype == np.uint8 and codes.ndim == 3 and len(steps) == 256 and len(tables) in (1, codes.shape[-1]):
            import cv2

            table = np.stack(tables, -1)[None]  # 1 256 C
            return np.asarray(cv2.LUT(codes, table), np.float32).reshape(codes.shape)
        linear = np.empty(codes.shape, np.float32)
        for top in range(0, len(codes), ROWS_AT_ONCE):  # in bands: NumPy looks up with 8 bytes a value
            rows = slice(top, top + ROWS_AT_ONCE)
            if len(tables) == 1:
                linear[rows] = tables[0][codes[rows]]
            else:
                for channel, table in enumerate(tables):
                    linear[rows, ..., channel] = table[codes[rows, ..., channel]]
        return linear

    def said_by(self, source: str) -> Transfer:
        return Transfer(f"{self.name} ({source})", self.curves)


SRGB = Transfer("sRGB", (_srgb,))
REC709 = Transfer("BT.709", (_rec709,))
LINEAR = Transfer("linear", (lambda encoded: encoded,))


def gamma_transfer(gamma: float) -> Transfer:
    """Light is the code value to the power `gamma`."""
    if gamma == 1:
        return LINEAR
    return Transfer("Adobe RGB" if gamma == ADOBE_RGB_GAMMA else f"gamma {gamma:.4g}", (_power(gamma),))


def coded_transfer(code: int) -> Transfer | None:
    """By the code of ITU-T H.273, as PNG's cICP and HEIF's nclx give it; None where the code says nothing.

    Raises ValueError for PQ and HLG, whose light has no white.
    """
    if code in (16, 18):
        name = "PQ" if code == 16 else "HLG"
        raise ValueError(f"is encoded for HDR displays ({name}), which is not read: export it as sRGB or 16-bit TIFF")
    known = {1: REC709, 6: REC709, 14: REC709, 15: REC709, 4: gamma_transfer(2.2), 5: gamma_transfer(2.8)}
    return (known | {8: LINEAR, 13: SRGB}).get(code)


def exif_transfer(color_space: Any, interoperability: Any, gamma: Any) -> Transfer | None:
    """By the EXIF tags ColorSpace, InteroperabilityIndex and Gamma; None where they do not say.

    ColorSpace 65535 ("uncalibrated") alone says nothing: Adobe RGB has the index R03 with it.
    """
    if color_space == 1:
        return SRGB.said_by("EXIF")
    if color_space == 2 or str(interoperability or "").startswith("R03"):
        return gamma_transfer(ADOBE_RGB_GAMMA).said_by("EXIF")
    try:
        value = float(gamma)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return gamma_transfer(value).said_by("EXIF") if 0.2 <= value <= 5 else None


def icc_transfer(profile: bytes) -> Transfer | None:
    """By the tone curves of an ICC profile of gray or RGB (ICC.1, 10.6 and 10.18); None where they cannot be read."""
    try:
        tags = {}
        (count,) = struct.unpack_from(">I", profile, 128)
        for i in range(min(count, 256)):
            signature, offset, size = struct.unpack_from(">4sII", profile, 132 + 12 * i)
            tags[signature] = profile[offset : offset + size]
        names = (b"kTRC",) if b"kTRC" in tags else (b"rTRC", b"gTRC", b"bTRC")
        parts = [tags[name] for name in names]
        if len(set(parts)) == 1:
            parts = parts[:1]
        curves = tuple(_icc_curve(part) for part in parts)
    except (struct.error, KeyError, ValueError):
        return None
    return Transfer(_name(curves[0]), curves).said_by("ICC profile")


def _icc_curve(tag: bytes) -> Curve:
    if tag[:4] == b"curv":
        (count,) = struct.unpack_from(">I", tag, 8)
        if count == 0:
            return LINEAR.curves[0]
        values = np.array(struct.unpack_from(f">{count}H", tag, 12), dtype=np.float64)
        if count == 1:
            return _power(values[0] / 256)
        return lambda encoded: np.interp(encoded, np.linspace(0, 1, count), values / 65535)
    if tag[:4] == b"para":
        (kind,) = struct.unpack_from(">H", tag, 8)
        if kind > 4:
            raise ValueError("unknown parametric curve")
        numbers = [v / 65536 for v in struct.unpack_from(f">{(1, 3, 4, 5, 7)[kind]}i", tag, 12)]
        return _parametric(kind, numbers)
    raise ValueError("neither curv nor para")


def _parametric(kind: int, numbers: list[float]) -> Curve:
    """(a x + b)^g + e from x = d on, below it the line c x + f (ICC.1, table 68)."""
    g, a, b, c, d, e, f = (numbers + [0.0] * 7)[:7]
    if kind == 0:
        a, b, d = 1.0, 0.0, 0.0
    elif kind in (1, 2):
        if a == 0:
            raise ValueError("curve without slope")
        e = f = c if kind == 2 else 0.0
        c, d = 0.0, -b / a

    def curve(x: Array) -> Array:
        power = np.maximum(a * x + b, 0) ** g + e
        return np.clip(np.where(x >= d, power, c * x + f), 0, 1)

    return curve


def _name(curve: Curve) -> str:
    steps = np.linspace(0, 1, 256)
    light = curve(steps)
    if np.abs(light - _srgb(steps)).max() < 2e-3:
        return "sRGB"
    gamma = float(np.log(max(light[128], 1e-9)) / np.log(steps[128]))
    if np.abs(light - steps**gamma).max() < 1e-3:
        return gamma_transfer(round(gamma, 8)).name if abs(gamma - 1) > 1e-3 else "linear"
    return "tone curve"
