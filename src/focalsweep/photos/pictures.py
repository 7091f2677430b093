"""The pixels of one file as linear light: JPEG, PNG, TIFF, RAW, HEIC, WebP, BMP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalsweep.photos import decoding, tiff
from focalsweep.photos.decoding import Decoded, Refusal

RAW_EXTENSIONS = {
    *(".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".fff", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef"),
    *(".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"),
}
TIFF_EXTENSIONS = {".tif", ".tiff"}
JPEG_EXTENSIONS = {".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"}
PICTURE_EXTENSIONS = RAW_EXTENSIONS | TIFF_EXTENSIONS | JPEG_EXTENSIONS
PICTURE_EXTENSIONS |= {".png", ".heic", ".heif", ".hif", ".webp", ".bmp"}
LARGEST_FILE = 4 * 2**30  # bytes: the largest picture that is read has less, uncompressed
TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


@dataclass(frozen=True, eq=False)
class Picture:
    """One photo in linear light.

    Args:
        pixels: H W C float32, C 1 or 3, upright. 0 is no light, 1 is white; only pictures stored as floats pass 1
            (see `largest`).
        transfer: the tone curve that was undone, and who named it: "sRGB (assumed)", "linear (RAW)".
        bits: of a channel, as stored.
        orientation: EXIF's number, 1..8, which is already applied.
        stored_size: width, height in pixels of the file, before the orientation.
        notes: what a user should know: channels that were dropped, curves that could not be read.
        white_balance: RAW only: the multipliers that were applied, for the other frames of the stack.
    """

    pixels: NDArray[np.float32]
    transfer: str
    bits: int
    orientation: int
    stored_size: tuple[int, int]
    notes: tuple[str, ...] = ()
    white_balance: tuple[float, ...] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width, height in pixels, upright."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @property
    def largest(self) -> float:
        """The largest value. Where it passes 1, the caller scales the whole stack by one factor."""
        return float(self.pixels.max())

    def turned_to(self, orientation: int) -> Picture:
        """The same, as if the file had named this orientation instead of its own."""
        stored = upright(self.pixels, {6: 8, 8: 6}.get(self.orientation, self.orientation))
        return replace(self, pixels=upright(stored, orientation), orientation=orientation)


def read_picture(
    path: str | Path, *, page: int | None = None, white_balance: tuple[float, ...] | None = None
) -> Picture:
    """One photo as linear light, by the tone curve that the file itself names (sRGB where it names none).

    Args:
        path: the file. What it is shows in its first bytes; RAW shows in its extension.
        page: of a TIFF with several, from 0; None is the first.
        white_balance: RAW only: multipliers of another frame, so that a stack has one white balance; None is the
            camera's own.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, cut short, too large, or of a kind that is not read: one sentence.
        ModuleNotFoundError: HEIC without the extra `heic`.
    """
    path = Path(path)
    with _one_sentence(path):
        decoded = _decode(path, page, white_balance)
        # Turned as it is stored: a fourth of the memory.
        decoded.codes = upright(decoded.codes, decoded.orientation)
        pixels = _linear(decoded)
    height, width = pixels.shape[:2]
    return Picture(
        pixels=pixels,
        transfer=decoded.transfer.name,
        bits=decoded.bits,
        orientation=decoded.orientation,
        stored_size=(height, width) if decoded.orientation >= 5 else (width, height),
        notes=tuple(decoded.notes),
        white_balance=decoded.white_balance,
    )


def read_codes(path: str | Path) -> NDArray[np.uint8 | np.uint16]:
    """The values of a picture as its file stores them, H W C, neither linearised nor turned: for data, not for photos.

    Raises what `read_picture` raises.
    """
    path = Path(path)
    with _one_sentence(path):
        decoded = _decode(path, None, None)
        if decoded.codes.dtype not in (np.uint8, np.uint16):
            raise Refusal(f"holds {decoded.codes.dtype} values: 8 or 16 bit are wanted")
    return decoded.codes


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    """Whatever goes wrong over a file is said in one sentence that names it."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: check the name")
    try:
        yield
    except Refusal as refusal:
        raise ValueError(f"{path} {refusal}") from None
    except (ModuleNotFoundError, PermissionError):
        raise
    except MemoryError:
        raise ValueError(f"{path} does not fit into memory: reduce it first") from None
    except Exception:  # decoders raise whatever they like over damaged files
        raise ValueError(f"{path} cannot be read as a picture: is it truncated, damaged or of another type?") from None


def upright(stored: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Stored rows and columns (H W C) as the picture is to be seen: EXIF's orientation, 1..8."""
    if orientation >= 5:
        stored = stored.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        stored = stored[::-1]
    if orientation in (2, 3, 6, 7):
        stored = stored[:, ::-1]
    return np.ascontiguousarray(stored)


def _decode(path: Path, page: int | None, white_balance: tuple[float, ...] | None) -> Decoded:
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise Refusal(f"is too large with {size / 2**30:.3g} GB: at most {LARGEST_FILE / 2**30:.0f} GB are read")
    with path.open("rb") as file:
        start = file.read(16)
    if path.suffix.lower() in RAW_EXTENSIONS:
        return decoding.read_raw(path, white_balance)
    if start[:4] in TIFF_MAGIC:
        return tiff.read_page(path, page or 0)
    if page:
        raise Refusal(f"has one page, but page {page + 1} is asked for: only TIFF files have several")
    if start[4:8] == b"ftyp" and start[8:12] in HEIF_BRANDS:
        return decoding.read_heif(path)
    if start.startswith(b"\xff\xd8"):
        return decoding.read_jpeg(path)
    if start.startswith(b"\x89PNG"):
        return decoding.read_png(path)
    if start.startswith(b"BM"):
        return decoding.read_bmp(path)
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return decoding.read_webp(path)
    if not start:
        raise Refusal("cannot be read as a picture: it is empty")
    raise Refusal(
        "cannot be read as a picture: it is truncated or none of JPEG, PNG, TIFF, WebP, BMP, HEIC and the RAW types"
    )


def _linear(decoded: Decoded) -> NDArray[np.float32]:
    if decoded.white is not None:
        return decoded.transfer.to_linear(decoded.codes, decoded.white)
    if not bool(np.isfinite(decoded.codes).all()):
        raise Refusal("has NaN or infinite pixels: export it again without them")
    return decoded.codes.astype(np.float32)
