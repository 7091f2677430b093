"""Files to code values, with what the file says about them. `pictures.read_picture` puts the pieces together."""

from __future__ import annotations

import io
import re
import struct
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from focalsweep.photos.transfer import (
    LINEAR,
    SRGB,
    Array,
    Transfer,
    coded_transfer,
    exif_transfer,
    gamma_transfer,
    icc_transfer,
)

MAX_PIXELS = 2**28  # 268 MP: beyond every camera, below what a hostile header can claim
ORIENTATION_TAG, EXIF_TAG, INTEROPERABILITY_TAG = 0x0112, 0x8769, 0xA005
COLOR_SPACE_TAG, INDEX_TAG, GAMMA_TAG = 0xA001, 0x0001, 0xA500
NO_ALPHA = "the alpha channel is not used"
# LibRaw's flip is bits: 1 mirrors columns, 2 rows, 4 swaps the axes
ORIENTATION_OF_FLIP = {0: 1, 1: 2, 3: 3, 2: 4, 4: 5, 6: 6, 7: 7, 5: 8}


_most_pixels = MAX_PIXELS


def lower_pixel_limit(pixels: int) -> None:
    """Pictures of more pixels are refused from now on in this process: for a worker that strangers send files to."""
    global _most_pixels
    _most_pixels = min(pixels, MAX_PIXELS)


class Refusal(Exception):
    """Why a file is not read, as the end of a sentence that begins with its name."""


@dataclass
class Decoded:
    """Code values as stored: H W C of 0..white, C 1 or 3; `white` None: linear light as floats already."""

    codes: Array
    white: int | None
    bits: int
    transfer: Transfer
    orientation: int = 1
    notes: list[str] = field(default_factory=list)
    white_balance: tuple[float, ...] | None = None


def check_size(width: int, height: int) -> None:
    """Before anything is decoded: a header can claim any size."""
    if width < 1 or height < 1:
        raise Refusal(f"cannot be read as a picture: its size is {width} x {height} px")
    if width * height > _most_pixels:
        raise Refusal(
            f"is too large with {width} x {height} px: at most {_most_pixels // 10**6} megapixels are read, reduce it"
        )


def choose_transfer(
    profile: bytes | None, otherwise: Transfer | None, notes: list[str], first: Transfer | None = None
) -> Transfer:
    """`first` where the format puts something before the ICC profile; the profile's; `otherwise`; or sRGB."""
    if first is not None:
        return first
    if profile:
        transfer = icc_transfer(profile)
        if transfer is not None:
            return transfer
        notes.append("the ICC profile has no tone curve that can be read")
    return otherwise or SRGB.said_by("assumed")


# Pillow: JPEG, WebP, BMP


def read_jpeg(path: Path) -> Decoded:
    from PIL import JpegImagePlugin

    data = path.read_bytes()
    _check_jpeg_is_whole(data)
    return _with_pillow(JpegImagePlugin.JpegImageFile, data)


def read_bmp(path: Path) -> Decoded:
    from PIL import BmpImagePlugin

    return _with_pillow(BmpImagePlugin.BmpImageFile, path.read_bytes())


def read_webp(path: Path) -> Decoded:
    from PIL import WebPImagePlugin

    return _with_pillow(WebPImagePlugin.WebPImageFile, path.read_bytes())


def _with_pillow(opener: Callable[[io.BytesIO], Any], data: bytes) -> Decoded:
    """By the format's own class: `Image.open` refuses large photos."""
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF blocks
        with opener(io.BytesIO(data)) as image:
            check_size(*image.size)
            if image.mode in ("CMYK", "LAB"):
                raise Refusal(f"holds {image.mode} colours: convert it to RGB")
            said, orientation = _read_exif(image.getexif, notes)
            transfer = choose_transfer(image.info.get("icc_profile"), said, notes)
            if image.mode in ("RGBA", "LA"):
                notes.append(NO_ALPHA)
            mode = "L" if image.mode in ("1", "L", "LA") else "RGB"
            codes: Array = np.asarray(image if image.mode == mode else image.convert(mode))
    return Decoded(codes[..., None] if codes.ndim == 2 else codes, 255, 8, transfer, orientation, notes)


def _read_exif(open_exif: Callable[[], Any], notes: list[str]) -> tuple[Transfer | None, int]:
    """The tone curve that EXIF names, if any, and the orientation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exif = open_exif()
            details = exif.get_ifd(EXIF_TAG)
            index = _interoperability(exif).get(INDEX_TAG)
        said = exif_transfer(details.get(COLOR_SPACE_TAG), index, details.get(GAMMA_TAG))
        orientation = exif.get(ORIENTATION_TAG, 1)
    except Exception:  # a damaged EXIF block can raise anything, and the pixels do not need it
        notes.append("the EXIF block is damaged: orientation and colour space are not known")
        return None, 1
    return said, check_orientation(orientation, notes)


def _interoperability(exif: Any) -> Any:
    try:
        return exif.get_ifd(INTEROPERABILITY_TAG)
    except KeyError:  # Pillow before 13, where there is none
        return {}


def check_orientation(value: Any, notes: list[str]) -> int:
    if isinstance(value, int) and 1 <= value <= 8:
        return value
    if value not in (0, None):
        notes.append(f"the orientation {value!r} is none of 1 to 8: taken as 1")
    return 1


def _check_jpeg_is_whole(data: bytes) -> None:
    """Walk the segments to the end marker: decoders fill what is missing with gray, some of them silently."""
    marker = re.compile(rb"\xff++([^\x00\xff\xd0-\xd7])")
    next_marker = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])")  # inside a scan: not a stuffed 255, not a restart
    position = 2
    while True:
        found = marker.match(data, position)
        if found is None:
            raise Refusal("cannot be read as a picture: it is truncated or damaged")
        position, kind = found.end(), found[1][0]
        if kind == 0xD9:
            return
        if kind == 0x01:
            continue
        if position + 2 > len(data):
            raise Refusal("cannot be read as a picture: it is truncated")
        position += int.from_bytes(data[position : position + 2], "big")
        if kind == 0xDA:
            found = next_marker.search(data, position)  # linear, also in a long run of 255
            if found is None:
                raise Refusal("cannot be read as a picture: it is truncated")
            position = found.start()


# PNG


def read_png(path: Path) -> Decoded:
    """Pixels through OpenCV: Pillow cuts 16-bit colour to 8 bit, and takes a picture whose rows end early."""
    import cv2

    data = path.read_bytes()
    chunks = _png_chunks(data)
    width, height, bits, kind = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    check_size(width, height)
    notes: list[str] = []
    said, orientation = _read_exif(lambda: _png_exif(chunks), notes)
    transfer = choose_transfer(_png_profile(chunks), said, notes, _png_transfer(chunks))
    codes = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if codes is None or codes.shape[:2] != (height, width) or codes.dtype not in (np.uint8, np.uint16):
        raise Refusal("cannot be read as a picture: is it truncated or damaged?")
    codes = codes[..., None] if codes.ndim == 2 else codes[..., 2::-1]  # OpenCV's order is B G R (A)
    if kind in (4, 6) or b"tRNS" in chunks:
        notes.append(NO_ALPHA)
    if kind in (0, 4):
        codes = codes[..., :1]
    return Decoded(codes, 65535 if codes.dtype == np.uint16 else 255, bits, transfer, orientation, notes)


def _png_exif(chunks: dict[bytes, bytes]) -> Any:
    from PIL import Image

    exif = Image.Exif()
    exif.load(chunks.get(b"eXIf", b""))
    return exif


def _png_profile(chunks: dict[bytes, bytes]) -> bytes | None:
    """What iCCP holds: a name, a zero, the method 0, and the profile in deflate. At most 16 MiB, or none at all."""
    _, _, packed = chunks.get(b"iCCP", b"").partition(b"\0")
    if not packed:
        return None
    try:
        return zlib.decompressobj().decompress(packed[1:], 2**24)
    except zlib.error:
        return b"damaged"


def _png_chunks(data: bytes) -> dict[bytes, bytes]:
    """The chunks before and after the pixels; every chunk must be whole, with a right checksum, up to the last."""
    chunks: dict[bytes, bytes] = {}
    position, kind = 8, b""
    while kind != b"IEND":
        if position + 12 > len(data):
            raise Refusal("cannot be read as a picture: it is truncated")
        (size,) = struct.unpack_from(">I", data, position)
        kind, end = data[position + 4 : position + 8], position + 8 + size
        if end + 4 > len(data):
            raise Refusal("cannot be read as a picture: it is truncated")
        body = memoryview(data)[position + 4 : end]
        if zlib.crc32(body) != struct.unpack_from(">I", data, end)[0]:
            raise Refusal("cannot be read as a picture: it is damaged or truncated (a checksum is wrong)")
        if kind != b"IDAT":
            chunks.setdefault(kind, bytes(body[4:]))
        position = end + 4
    return chunks


def _png_transfer(chunks: dict[bytes, bytes]) -> Transfer | None:
    """PNG, third edition, 4.3: cICP, then iCCP (None here), then sRGB, then gAMA."""
    if b"cICP" in chunks and len(chunks[b"cICP"]) == 4:
        transfer = _coded(chunks[b"cICP"][1])
        if transfer is not None:
            return transfer.said_by("PNG cICP")
    if b"iCCP" in chunks:
        return None
    if b"sRGB" in chunks:
        return SRGB.said_by("PNG sRGB")
    if len(chunks.get(b"gAMA", b"")) == 4:
        (encoding,) = struct.unpack(">I", chunks[b"gAMA"])
        if 20000 <= encoding <= 500000:
            return gamma_transfer(round(100000 / encoding, 4)).said_by("PNG gAMA")
    return None


def _coded(code: int) -> Transfer | None:
    try:
        return coded_transfer(code)
    except ValueError as error:
        raise Refusal(str(error)) from None


# HEIC and RAW


def read_heif(path: Path) -> Decoded:
    """8 to 16 bit. The decoder turns and mirrors the picture itself, so the orientation is 1."""
    try:
        import pi_heif  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f'{path} is HEIC, which needs the package pi-heif: pip install "focalsweep[heic]"'
        ) from None
    image = pi_heif.open_heif(io.BytesIO(path.read_bytes()), convert_hdr_to_8bit=False)
    check_size(*image.size)
    notes: list[str] = []
    bits = int(image.info.get("bit_depth", 8))
    nclx = image.info.get("nclx_profile") or {}
    coded = _coded(int(nclx.get("transfer_characteristics", 2)))
    coded = coded.said_by("HEIF nclx") if coded else None
    transfer = choose_transfer(image.info.get("icc_profile"), coded, notes)
    codes: Array = np.array(image)  # a copy: the memory is the decoder's, and goes with it
    codes = codes[..., None] if codes.ndim == 2 else codes
    if codes.shape[-1] in (2, 4):
        notes.append(NO_ALPHA)
    codes = codes[..., : 1 if codes.shape[-1] < 3 else 3]
    if bits > 8:  # the decoder moves the values up to 16 bit
        codes = codes >> (16 - bits)
    return Decoded(codes, 2**bits - 1, bits, transfer, 1, notes)


def read_raw(path: Path, white_balance: tuple[float, ...] | None) -> Decoded:
    """Linear, the sensor's white at 1, nothing fitted to the one frame: frames of a stack stay comparable."""
    import rawpy

    try:
        with path.open("rb") as file, rawpy.imread(file) as raw:
            sizes = raw.sizes
            check_size(sizes.raw_width, sizes.raw_height)
            multipliers = white_balance or _own_white_balance(raw)
            codes = raw.postprocess(
                user_wb=list(multipliers),
                gamma=(1, 1),
                no_auto_bright=True,
                adjust_maximum_thr=0.0,  # or LibRaw moves the white to the frame's own brightest pixel
                output_bps=16,
                user_flip=0,
            )
            orientation = ORIENTATION_OF_FLIP.get(sizes.flip, 1)
            bits = int(raw.white_level or 65535).bit_length()
    except rawpy.LibRawError:
        raise Refusal("cannot be read as RAW: is it truncated, or its camera too new (convert it to DNG)?") from None
    transfer = LINEAR.said_by("RAW")
    return Decoded(codes, 65535, bits, transfer, orientation, [], tuple(float(v) for v in multipliers))


def _own_white_balance(raw: Any) -> tuple[float, ...]:
    """The camera's multipliers of this shot, or daylight's; R, G, B, second G, the least of them 1."""
    red, green, blue, green_2 = (*raw.camera_whitebalance, 0.0, 0.0, 0.0, 0.0)[:4]
    if not (red > 0 and green > 0 and blue > 0):
        red, green, blue, green_2 = (*raw.daylight_whitebalance, 0.0, 0.0, 0.0, 0.0)[:4]
    multipliers = (red, green, blue, green_2 or green)
    if not (np.isfinite(multipliers).all() and min(multipliers) > 0):
        return (1.0, 1.0, 1.0, 1.0)
    return tuple(value / min(multipliers) for value in multipliers)
