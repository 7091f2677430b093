"""What a sharp picture takes over from a photo beside its light: bits, colour profile, EXIF."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from focalsweep.photos.pictures import RAW_EXTENSIONS, TIFF_MAGIC
from focalsweep.photos.transfer import icc_transfer
from focalsweep.types import PhotoTags

CURVE_STEPS = 4096
EXIF_IFD, GPS_IFD = 0x8769, 0x8825
# Of the photo as a whole: maker, model, resolution and its unit, date, artist, copyright.
KEPT = (0x010F, 0x0110, 0x011A, 0x011B, 0x0128, 0x0132, 0x013B, 0x8298)
MAKER_NOTE = 0x927C  # holds places in its own file
SIZES = (0xA002, 0xA003, 0xA005)  # of the photo's pixels; a pointer
ICC_PROFILE = 34675


def read_photo_tags(path: Path) -> PhotoTags:
    """What the file says; a file that says nothing, or is damaged there, gives 8 bits and nothing else."""
    raw = path.suffix.lower() in RAW_EXTENSIONS
    with path.open("rb") as file:
        start = file.read(32)
    tiff = start[:4] in TIFF_MAGIC
    bits, profile = 16 if raw else 8, None
    if start.startswith(b"\x89PNG") and start[24:25] == b"\x10":
        bits = 16
    try:
        if tiff and not raw:
            bits, profile = _tiff(path)
        elif not raw:
            from PIL import Image

            with Image.open(path) as picture:
                profile = picture.info.get("icc_profile")
    except Exception:  # what no reader understands is not worth keeping
        profile = None
    transfer = icc_transfer(profile) if profile else None
    curves: tuple[Any, ...] = ()
    if transfer is not None:
        steps = np.linspace(0, 1, CURVE_STEPS)
        curves = tuple(np.asarray(curve(steps), np.float32) for curve in transfer.curves)
    if any((np.diff(curve) < 0).any() for curve in curves):
        curves = ()
    return PhotoTags(bits, profile if curves else None, curves, _exif(path, tiff))


def _tiff(path: Path) -> tuple[int, bytes | None]:
    import tifffile

    with tifffile.TiffFile(path) as file:
        page: Any = file.pages[0]
        tag = page.tags.get(ICC_PROFILE)
        return 16 if page.bitspersample > 8 else 8, bytes(tag.value) if tag is not None else None


def _exif(path: Path, tiff: bool) -> bytes | None:
    """Of the photo and of how it was taken, without what belongs to its file alone."""
    from PIL import Image

    try:
        if tiff:
            found = Image.Exif()
            found.load_from_fp(io.BytesIO(path.read_bytes()))  # type: ignore[no-untyped-call]
        else:
            with Image.open(path) as picture:
                found = picture.getexif()
        kept = Image.Exif()
        for tag in KEPT:
            if tag in found:
                kept[tag] = found[tag]
        for ifd in (EXIF_IFD, GPS_IFD):
            values = {tag: value for tag, value in found.get_ifd(ifd).items() if tag not in (MAKER_NOTE, *SIZES)}
            if values:
                kept.get_ifd(ifd).update(values)
        if not len(kept) and not kept.get_ifd(EXIF_IFD):
            return None
        return bytes(kept.tobytes())
    except Exception:  # as above
        return None
