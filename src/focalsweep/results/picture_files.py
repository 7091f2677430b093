"""The sharp picture as a photo file: 8 or 16 bit, with the colour profile and the EXIF of the photo that it is like."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from focalsweep.results.figures import ROWS_AT_ONCE, srgb_8_bit
from focalsweep.results.result import Array, DepthResult
from focalsweep.types import PhotoTags
from focalsweep.version import __version__

JPEG_QUALITY = 95
SOFTWARE, DESCRIPTION = 0x0131, 0x010E
Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


def encoded(linear: Array, tags: PhotoTags, bits: int | None = None) -> Codes:
    """Linear light H W C as code values of the photo's colour profile, or sRGB; what lies outside 0 to 1 is clipped."""
    bits = bits or tags.bits
    if bits == 8 and not _fits(linear, tags):
        return srgb_8_bit(linear)
    import torch

    from focalsweep.optics.light import linear_to_srgb

    white, kind = (65535, np.uint16) if bits == 16 else (255, np.uint8)
    codes = np.empty(linear.shape, kind)
    for top in range(0, len(linear), ROWS_AT_ONCE):
        rows = slice(top, top + ROWS_AT_ONCE)
        band = np.clip(linear[rows], 0, 1)
        if _fits(linear, tags):
            for channel in range(linear.shape[-1]):
                curve = tags.curves[min(channel, len(tags.curves) - 1)]
                values = np.interp(band[..., channel], curve, np.linspace(0, 1, len(curve)))
                codes[rows, ..., channel] = np.rint(values * white)
        else:
            codes[rows] = np.rint(linear_to_srgb(torch.from_numpy(band)).numpy() * white)
    return codes


def png_bytes(linear: Array, tags: PhotoTags | None = None, description: str = "") -> bytes:
    """A PNG of 8 or 16 bit as the photo has it, with its profile and EXIF."""
    import cv2

    tags = tags or PhotoTags()
    codes = encoded(linear, tags)
    done, data = cv2.imencode(".png", codes[..., ::-1] if codes.shape[-1] == 3 else codes)
    if not done:
        raise ValueError(f"a picture of {linear.shape[1]} x {linear.shape[0]} px cannot be written as PNG")
    chunks = b""
    if _fits(linear, tags):
        chunks += _chunk(b"iCCP", b"photo\0\0" + zlib.compress(tags.profile or b""))
    chunks += _chunk(b"eXIf", _exif(tags, description))
    whole = data.tobytes()
    return whole[:33] + chunks + whole[33:]  # after the signature and IHDR


def jpg_bytes(result: DepthResult) -> bytes:
    """The sharp picture as a JPEG of high quality."""
    return _with_pillow(result, "jpeg", quality=JPEG_QUALITY, subsampling=0)


def tif_bytes(result: DepthResult) -> bytes:
    """The sharp picture as a TIFF, 16 bit where the photos have more than 8."""
    import tifffile

    tags = result.photo or PhotoTags()
    codes = encoded(result.all_in_focus, tags)
    grey = codes.shape[-1] == 1
    buffer = io.BytesIO()
    tifffile.imwrite(
        buffer, codes[..., 0] if grey else codes, photometric="minisblack" if grey else "rgb", compression="zlib",
        iccprofile=tags.profile if _fits(result.all_in_focus, tags) else None, software=f"focalsweep {__version__}",
        description=describe(result), metadata=None,
    )  # fmt: skip
    return buffer.getvalue()


def describe(result: DepthResult) -> str:
    """The stack in a line, for the file's description."""
    names = [str(frame.get("file", "")) for frame in result.record.get("frames", [])]
    return f"sharp all over, from {len(names)} photos: {names[0]} to {names[-1]}" if names else "sharp all over"


def _fits(linear: Array, tags: PhotoTags) -> bool:
    """Whether the photo's profile is one for this picture."""
    return (
        bool(tags.profile)
        and bool(tags.curves)
        and len(tags.curves) in (1, linear.shape[-1])
        and _space(tags) == (b"GRAY" if linear.shape[-1] == 1 else b"RGB ")
    )


def _space(tags: PhotoTags) -> bytes:
    return (tags.profile or b"")[16:20]


def _exif(tags: PhotoTags, description: str) -> bytes:
    from PIL import Image

    exif = Image.Exif()
    if tags.exif:
        exif.load(tags.exif)
    exif[SOFTWARE] = f"focalsweep {__version__}"
    if description:
        exif[DESCRIPTION] = description
    data = bytes(exif.tobytes())
    return data.removeprefix(b"Exif\0\0")


def _with_pillow(result: DepthResult, kind: str, **options: Any) -> bytes:
    from PIL import Image

    tags = result.photo or PhotoTags()
    codes = encoded(result.all_in_focus, tags, bits=8)
    buffer = io.BytesIO()
    profile = tags.profile if _fits(result.all_in_focus, tags) else None
    exif = b"Exif\0\0" + _exif(tags, describe(result))
    picture = Image.fromarray(codes[..., 0] if codes.shape[-1] == 1 else codes)
    picture.save(buffer, kind, exif=exif, icc_profile=profile, **options)
    return buffer.getvalue()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
