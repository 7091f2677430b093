"""Pictures one after the other as a GIF or an MP4."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

FRAMES_A_SECOND = 15
PALETTE_FRAMES = 6  # of a GIF that its colours are taken from
CODECS = ("vp09", "mp4v")  # the first that this computer can write; browsers show the first alone
Pixels = npt.NDArray[np.uint8]


def gif_bytes(frames: Sequence[Pixels]) -> bytes:
    """Endless, of frames H W C (sRGB) alike in size; 256 colours for all frames together, so nothing flickers."""
    from PIL import Image

    pictures = [Image.fromarray(f[..., 0] if f.shape[-1] == 1 else f).convert("RGB") for f in frames]
    some = frames[:: max(1, len(frames) // PALETTE_FRAMES)]
    sheet = np.concatenate([np.repeat(f, 3 // f.shape[-1], -1) for f in some])
    palette = Image.fromarray(sheet).quantize(256)
    reduced = [picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG) for picture in pictures]
    buffer = io.BytesIO()
    duration = round(1000 / FRAMES_A_SECOND)
    reduced[0].save(buffer, "gif", save_all=True, append_images=reduced[1:], duration=duration, loop=0)
    return buffer.getvalue()


def mp4_bytes(frames: Sequence[Pixels]) -> bytes:
    """Of frames H W C (sRGB) alike in size; an odd last row or column is left out, since codecs want even sizes."""
    import cv2

    height, width = (size - size % 2 for size in frames[0].shape[:2])
    with tempfile.TemporaryDirectory(prefix="focalsweep-") as folder:
        path = Path(folder) / "movie.mp4"
        for codec in CODECS:
            code = cv2.VideoWriter.fourcc(*codec)
            writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, code, FRAMES_A_SECOND, (width, height))
            if not writer.isOpened():
                continue
            for frame in frames:
                cut = frame[:height, :width]
                writer.write(np.ascontiguousarray(np.repeat(cut, 3 // cut.shape[-1], -1)[..., ::-1]))
            writer.release()
            return path.read_bytes()
    raise ValueError("this computer's OpenCV writes no MP4: ask for a GIF")


MOVIES = {".gif": gif_bytes, ".mp4": mp4_bytes}


def there_and_back(count: int) -> list[float]:
    """So many shares of the way, slowly at both ends, from 0 to 1 and back: played without end it does not jump."""
    return [float(share) for share in (1 - np.cos(2 * np.pi * np.arange(count) / count)) / 2]
