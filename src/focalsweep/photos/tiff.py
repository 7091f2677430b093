"""Pages of a TIFF file: which of them are pictures, and their code values."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from focalsweep.photos.decoding import (
    COLOR_SPACE_TAG,
    GAMMA_TAG,
    NO_ALPHA,
    ORIENTATION_TAG,
    Decoded,
    Refusal,
    check_orientation,
    check_size,
    choose_transfer,
)
from focalsweep.photos.transfer import LINEAR, Array, exif_transfer

KNOWN_COLOURS = {"MINISWHITE": 1, "MINISBLACK": 1, "RGB": 3, "PALETTE": 3, "YCBCR": 3}  # channels of each
MAX_PAGES = 4096
MAX_CHANNELS = 8  # colours and what may come with them
OWN_CODECS = {"NONE", "DEFLATE", "ADOBE_DEFLATE", "PACKBITS", "LZMA"}  # those of tifffile without further packages


def page_count(path: Path) -> int:
    """How many pictures a TIFF holds, as pages of a stack; previews and masks are not counted.

    Raises ValueError: the file is damaged.
    """
    try:
        with _open(path) as file:
            return len(_pictures(file))
    except Exception:  # tifffile raises whatever it likes over damaged files
        raise ValueError(f"{path} cannot be read as a TIFF: is it truncated or damaged?") from None


def read_page(path: Path, number: int) -> Decoded:
    """The picture on the page of this number, from 0; only this page is read."""
    with _open(path) as file:
        pages = _pictures(file)
        if not 0 <= number < len(pages):
            raise Refusal(f"has {len(pages)} pages, but page {number + 1} is asked for")
        page = pages[number]
        check_size(page.imagewidth, page.imagelength)
        check_size(max(page.tilewidth, 1), max(page.tilelength, 1))
        colours = getattr(page.photometric, "name", str(page.photometric))
        if colours not in KNOWN_COLOURS or page.imagedepth != 1 or page.samplesperpixel > MAX_CHANNELS:
            raise Refusal(f"holds {colours} pixels of {page.samplesperpixel} channels: convert it to RGB or gray")
        depth = page.bitspersample
        if page.dtype is None or page.dtype.kind not in "buf" or (page.dtype.kind != "f" and depth not in (1, 8, 16)):
            raise Refusal(f"holds pixels of {depth} bit ({page.dtype}): 8 and 16 bit and floats are read")
        _check_data_is_there(page, file.filehandle.size)
        codes = _codes(path, page)
        notes: list[str] = []
        exif = page.tags.valueof("ExifTag") or {}
        exif = exif if isinstance(exif, dict) else {}
        said = exif_transfer(_tag(exif, "ColorSpace", COLOR_SPACE_TAG), None, _tag(exif, "Gamma", GAMMA_TAG))
        profile = page.tags.valueof(34675)
        orientation = check_orientation(_plain(page.tags.valueof(ORIENTATION_TAG, 1)), notes)
        microscope = "OME-TIFF" if file.is_ome else "ImageJ" if file.is_imagej else None
        palette = np.asarray(page.colormap).T if colours == "PALETTE" else None
    if palette is not None:
        codes, white = palette[codes[..., 0]], 65535
    else:
        white = 1 if codes.dtype == bool else 0 if codes.dtype.kind == "f" else 2 ** (8 * codes.dtype.itemsize) - 1
    channels = KNOWN_COLOURS[colours]
    if codes.shape[-1] < channels:
        raise Refusal(f"has {codes.shape[-1]} channels, but says {colours}")
    if codes.shape[-1] > channels:
        notes.append(NO_ALPHA)
        codes = codes[..., :channels]
    if codes.dtype == bool:
        codes = codes.astype(np.uint8)
    if codes.dtype.kind == "f":
        return Decoded(codes, None, depth, LINEAR.said_by("float"), orientation, notes)
    if colours == "MINISWHITE":
        codes = white - codes
    if microscope and said is None and not profile:
        said = LINEAR.said_by(microscope)  # a count of photons, whatever a picture of so many bits would be
    transfer = choose_transfer(bytes(profile) if profile else None, said, notes)
    return Decoded(codes, white, depth, transfer, orientation, notes)


def _open(path: Path) -> Any:
    import tifffile

    logger = logging.getLogger("tifffile")
    if not logger.handlers:  # its complaints about damaged files become our one sentence
        logger.addHandler(logging.NullHandler())
    return tifffile.TiffFile(path)


def _pictures(file: Any) -> list[Any]:
    """Pages that are no previews: neither marked as one nor of under a quarter of the largest page's pixels."""
    pages: list[Any] = []
    seen: set[int] = set()
    for page in file.pages:
        if page.offset in seen or len(seen) == MAX_PAGES:  # tifffile would follow a circle for ever
            raise Refusal(f"cannot be read as a picture: its pages run in a circle or are over {MAX_PAGES}")
        seen.add(page.offset)
        if not (page.is_reduced or page.is_mask):
            pages.append(page)
    pages = pages or [file.pages.first]
    largest = max(page.imagewidth * page.imagelength for page in pages)
    return [page for page in pages if 4 * page.imagewidth * page.imagelength >= largest]


def _check_data_is_there(page: Any, file_size: int) -> None:
    """Every strip and tile must lie inside the file: tifffile leaves those that are missing black."""
    parts = list(zip(page.dataoffsets, page.databytecounts, strict=False))
    inside = all(offset > 0 and size > 0 and offset + size <= file_size for offset, size in parts)
    if len(parts) < np.prod(page.chunked) or not inside:
        raise Refusal("cannot be read as a picture: it is truncated or damaged (strips are missing)")


def _codes(path: Path, page: Any) -> Array:
    """H W C as stored."""
    ycbcr = page.photometric == 6  # tifffile would leave it so
    if page.compression.name in OWN_CODECS and page.predictor in (1, 2) and not ycbcr:  # 3 is for floats
        codes: Array = page.asarray()
        axes = page.axes
    else:
        codes, axes = _with_other_decoders(path, page)
    if axes not in ("YX", "YXS", "SYX"):
        raise Refusal(f"has the axes {axes}: only pictures and stacks of pages are read")
    if axes == "YXS":
        return codes
    return codes[..., None] if axes == "YX" else np.moveaxis(codes, 0, -1)


def _with_other_decoders(path: Path, page: Any) -> tuple[Array, str]:
    """LZW, JPEG and the like: Pillow at 8 bit (OpenCV misses damage), OpenCV beyond (Pillow has no 16-bit colour)."""
    if page.bitspersample <= 8:
        from PIL import TiffImagePlugin

        with path.open("rb") as file, TiffImagePlugin.TiffImageFile(file) as image:
            image.seek(page.index)
            if image.mode not in ("1", "L", "P", "RGB", "RGBA", "RGBX", "LA"):
                raise Refusal(f"holds {image.mode} pixels: convert it to RGB or gray")
            codes = np.asarray(image)
            if page.photometric == 0:  # white is zero: Pillow has turned it round
                codes = ~codes
    else:
        import cv2

        # OpenCV's order is B G R
        done, found = cv2.imdecodemulti(
            np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED, range=(page.index, page.index + 1)
        )
        if not done:
            raise Refusal("cannot be read as a picture: it is truncated or damaged")
        codes = found[0] if found[0].ndim == 2 else found[0][..., [2, 1, 0, *range(3, found[0].shape[-1])]]
    samples = 1 if codes.ndim == 2 else codes.shape[-1]
    size = (page.imagelength, page.imagewidth)
    if codes.shape[:2] != size or samples != page.samplesperpixel or codes.dtype != page.dtype:
        raise Refusal(f"is compressed in a way that is not read ({page.compression.name}): save it uncompressed")
    return codes, "YX" if codes.ndim == 2 else "YXS"


def _tag(exif: dict[Any, Any], name: str, number: int) -> Any:
    return _plain(exif.get(name, exif.get(number)))


def _plain(value: Any) -> Any:
    """Enumerations as numbers, rationals as their quotient."""
    if isinstance(value, tuple) and len(value) == 2 and value[1]:
        return value[0] / value[1]
    return int(value) if isinstance(value, int) else value
