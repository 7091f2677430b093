"""What photographs have and renderings have not: simple flaws of the test's own, none of them the training's code.

In order: frames that do not register to a pixel, exposure and colour that drift, a sensor's noise, a phone's smoothing
and sharpening, a tone curve, JPEG.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Frames = npt.NDArray[np.float32]  # F H W 3, linear light
Rng = np.random.Generator


@dataclass(frozen=True)
class Flaws:
    """How strong each is, for one stack.

    Args:
        shift_px: the farthest that a frame lies off the first.
        exposure: standard deviation of the logarithm of each frame's exposure.
        colour: of each channel of a frame besides.
        shot: standard deviation of the noise at full light, which goes with the root of the light.
        read: of what is there in the dark.
        smooth: sigma in px of the smoothing that the noise, and a little of the picture, goes through.
        sharpen: how much of what a blur of 1 px removes is added again.
        contrast: of the tone curve; 0: none.
        quality: of JPEG.
    """

    shift_px: float
    exposure: float
    colour: float
    shot: float
    read: float
    smooth: float
    sharpen: float
    contrast: float
    quality: int


def draw_flaws(rng: Rng) -> Flaws:
    return Flaws(
        shift_px=float(rng.uniform(0, 1)),
        exposure=float(rng.uniform(0, 0.04)),
        colour=float(rng.uniform(0, 0.012)),
        shot=float(np.exp(rng.uniform(np.log(0.004), np.log(0.025)))),
        read=float(np.exp(rng.uniform(np.log(0.0005), np.log(0.004)))),
        smooth=float(rng.choice([0.0, 0.4, 0.55])),
        sharpen=float(rng.uniform(0, 0.8)),
        contrast=float(rng.uniform(0, 0.5)),
        quality=int(rng.integers(78, 97)),
    )


def photographed(linear: Frames, flaws: Flaws, rng: Rng) -> list[bytes]:
    """The frames as JPEG files."""
    files = []
    for i, frame in enumerate(linear):
        light = _moved(frame, flaws.shift_px if i else 0.0, rng)
        light = light * np.exp(rng.normal(0, flaws.exposure)) * np.exp(rng.normal(0, flaws.colour, 3))
        light = np.clip(light, 0, None)
        light = light + rng.standard_normal(light.shape) * np.sqrt(flaws.read**2 + flaws.shot**2 * light)
        files.append(_jpeg(_developed(np.clip(light, 0, 1), flaws), flaws.quality))
    return files


def _moved(frame: Any, most_px: float, rng: Rng) -> Any:
    """Moved, turned and enlarged so that no pixel moves farther than this."""
    import cv2

    height, width = frame.shape[:2]
    angle, reach = rng.uniform(0, 2 * np.pi), 0.7 * most_px * np.sqrt(rng.uniform())
    turn, size = rng.uniform(-1, 1, 2) * 0.15 * most_px / (np.hypot(height, width) / 2)
    matrix = np.array([[1 + size, -turn, 0], [turn, 1 + size, 0]])
    middle = np.array([(width - 1) / 2, (height - 1) / 2])
    matrix[:, 2] = middle - matrix[:, :2] @ middle + reach * np.array([np.cos(angle), np.sin(angle)])
    return cv2.warpAffine(frame, matrix, (width, height), flags=cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REFLECT_101)


def _developed(light: Any, flaws: Flaws) -> Any:
    """8-bit codes: smoothed, encoded, with a tone curve, sharpened."""
    import cv2

    light = light.astype(np.float32)
    if flaws.smooth:
        light = cv2.GaussianBlur(light, (0, 0), flaws.smooth, borderType=cv2.BORDER_REFLECT_101)
    codes = np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055)
    codes = (1 - flaws.contrast) * codes + flaws.contrast * codes**2 * (3 - 2 * codes)
    blurred = cv2.GaussianBlur(codes.astype(np.float32), (0, 0), 1.0, borderType=cv2.BORDER_REFLECT_101)
    return np.rint(255 * np.clip(codes + flaws.sharpen * (codes - blurred), 0, 1)).astype(np.uint8)


def _jpeg(codes: Any, quality: int) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(codes).save(buffer, "JPEG", quality=quality, subsampling=2 if quality < 90 else 0)
    return buffer.getvalue()
