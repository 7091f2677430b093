"""Damaged, cut, hostile and unknown files: refused in one sentence, or read whole; never a crash or a gray half."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from focalsweep.photos.pictures import read_picture
from focalsweep.photos.tiff import page_count
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos import files
from tests.unit.photos.files import gray_steps, noise, png_with, write_dng


def pillow(extension: str, **options: Any) -> Callable[[Path], None]:
    return lambda path: Image.fromarray(noise(np.uint8, 3, 60, 80)).save(path, extension, **options)


def tiff(**options: Any) -> Callable[[Path], None]:
    return lambda path: tifffile.imwrite(path, noise(np.uint16, 3, 60, 80), photometric="rgb", **options)


def lzw(dtype: type) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(
        cv2.imencode(".tif", noise(dtype, 3, 60, 80), [cv2.IMWRITE_TIFF_COMPRESSION, 5])[1].tobytes()
    )


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.jpg": pillow("jpeg"),
    "progressive.jpg": pillow("jpeg", progressive=True),
    "restarts.jpg": pillow("jpeg", restart_marker_rows=1),
    "a.png": pillow("png"),
    "sixteen.png": lambda path: cv2.imwrite(str(path), noise(np.uint16, 3, 60, 80)),
    "a.tif": tiff(),
    "strips.tif": tiff(rowsperstrip=7),
    "deflate.tif": tiff(compression="zlib", rowsperstrip=7),
    "tiles.tif": tiff(tile=(16, 16), compression="zlib"),
    "pages.tif": lambda path: tifffile.imwrite(path, np.stack([noise(np.uint16, 3, 60, 80)] * 2), photometric="rgb"),
    "lzw.tif": lzw(np.uint16),
    "lzw8.tif": lzw(np.uint8),
    "pillow.tif": pillow("tiff"),
    "a.webp": pillow("webp"),
    "a.bmp": pillow("bmp"),
    "a.heic": lambda path: path.write_bytes(files.HEIC),
    "a.dng": lambda path: write_dng(path, gray_steps()),
}


@pytest.mark.parametrize("name", WRITERS)
def test_cut_files_are_refused_or_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    whole, light = path.read_bytes(), read_picture(path).pixels
    lengths = [len(whole) * tenth // 10 for tenth in range(10)] + [len(whole) - 40, len(whole) - 3]
    refused = 0
    for length in lengths:
        path.write_bytes(whole[:length])
        try:
            np.testing.assert_array_equal(read_picture(path).pixels, light)
        except ValueError as error:
            refused += 1
            assert_one_sentence(str(error), str(path), "cannot be read")
    assert refused >= (5 if name == "pages.tif" else 9)  # the first page of two is whole in the second half


@pytest.mark.parametrize("name", WRITERS)
def test_overwritten_files_never_crash(tmp_path: Path, name: str) -> None:
    """Bytes replaced in every part: a clean refusal, or a picture (few formats have checksums)."""
    path = tmp_path / name
    WRITERS[name](path)
    whole = path.read_bytes()
    random = np.random.default_rng(3)
    for start in np.linspace(0, len(whole) - 1, 25).astype(int):
        garbage = random.integers(0, 256, 12, dtype=np.uint8).tobytes()
        path.write_bytes((whole[:start] + garbage + whole[start + 12 :])[: len(whole)])
        try:
            picture = read_picture(path)
        except ValueError as error:
            assert_one_sentence(str(error), str(path))
        else:
            assert np.isfinite(picture.pixels).all()


@pytest.mark.parametrize("fill", [b"\0", b"\xaa"])
def test_jpeg_with_an_overwritten_end_is_refused(tmp_path: Path, fill: bytes) -> None:
    """As a full memory card leaves it: the length is right, the second half is gray."""
    pillow("jpeg")(tmp_path / "a.jpg")
    whole = (tmp_path / "a.jpg").read_bytes()
    half = len(whole) // 2
    (tmp_path / "a.jpg").write_bytes(whole[:half] + fill * (len(whole) - half))
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.jpg"), ValueError), "a.jpg", "truncated")


def test_png_whose_pixels_end_early_is_refused(tmp_path: Path) -> None:
    """Every checksum is right, but half of the rows are missing."""
    for bits, kind in ((8, 2), (16, 2)):
        rows = b"".join(b"\0" + bytes(80 * 3 * bits // 8) for _ in range(30))
        chunks = [(b"IHDR", struct.pack(">IIBBBBB", 80, 60, bits, kind, 0, 0, 0)), (b"IDAT", zlib.compress(rows))]
        data = b"\x89PNG\r\n\x1a\n"
        for name, body in [*chunks, (b"IEND", b"")]:
            data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        (tmp_path / "a.png").write_bytes(data)
        assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.png"), ValueError), "a.png", "cannot be read")


@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}], ids=["plain", "deflate"])
@pytest.mark.parametrize("hole", ["no bytes", "nowhere", "beyond the end", "half beyond the end", "not listed"])
def test_tiff_with_a_hole_is_refused(tmp_path: Path, hole: str, options: dict[str, Any]) -> None:
    """tifffile leaves some of these black."""
    tiff(rowsperstrip=7, **options)(tmp_path / "a.tif")
    end = (tmp_path / "a.tif").stat().st_size
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        tags = file.pages.first.tags
        offsets, counts = list(tags["StripOffsets"].value), list(tags["StripByteCounts"].value)
        if hole == "not listed":
            offsets, counts = offsets[:5], counts[:5]
        else:
            offsets[3] = {"nowhere": 0, "beyond the end": end, "half beyond the end": end - 20}.get(hole, offsets[3])
            counts[3] = 0 if hole in ("no bytes", "nowhere") else counts[3]
        tags["StripOffsets"].overwrite(offsets)
        tags["StripByteCounts"].overwrite(counts)
    message = message_of(lambda: read_picture(tmp_path / "a.tif"), ValueError)
    assert_one_sentence(message, "a.tif", "strips are missing")


def test_tiff_whose_pages_run_in_a_circle_is_refused(tmp_path: Path) -> None:
    Image.fromarray(noise()).save(tmp_path / "a.tif")
    data = bytearray((tmp_path / "a.tif").read_bytes())
    (first,) = struct.unpack_from("<I", data, 4)
    (tags,) = struct.unpack_from("<H", data, first)
    end = len(data)
    data += data[first : first + 2 + 12 * tags] + struct.pack("<I", end)  # a second page that follows itself
    struct.pack_into("<I", data, first + 2 + 12 * tags, end)
    (tmp_path / "a.tif").write_bytes(data)
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.tif"), ValueError), "a.tif", "circle")
    assert_one_sentence(message_of(lambda: page_count(tmp_path / "a.tif"), ValueError), "a.tif", "damaged")


def test_damaged_lzw_is_refused(tmp_path: Path) -> None:
    """OpenCV takes 8 bit so damaged without a word."""
    for dtype in (np.uint8, np.uint16):
        lzw(dtype)(tmp_path / "a.tif")
        data = bytearray((tmp_path / "a.tif").read_bytes())
        data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
        (tmp_path / "a.tif").write_bytes(data)
        assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.tif"), ValueError), "a.tif", "cannot be read")


def test_png_chunk_with_a_wrong_checksum_is_refused(tmp_path: Path) -> None:
    """Also a chunk that decoders pass over: here the gamma."""
    data = bytearray(png_with(b"gAMA", struct.pack(">I", 100000), noise(np.uint16)))
    data[data.index(b"gAMA") + 5] ^= 1
    (tmp_path / "a.png").write_bytes(data)
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.png"), ValueError), "a.png", "checksum")


def huge_png(width: int, height: int) -> bytes:
    data = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return data


def test_claims_of_huge_sizes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(huge_png(100_000, 100_000))
    buffer = io.BytesIO()
    Image.fromarray(noise()).save(buffer, "bmp")
    bmp = bytearray(buffer.getvalue())
    bmp[18:26] = struct.pack("<ii", 100_000, 100_000)
    (tmp_path / "a.bmp").write_bytes(bmp)
    Image.fromarray(noise()).save(tmp_path / "a.jpg")
    jpeg = bytearray((tmp_path / "a.jpg").read_bytes())
    start = jpeg.index(b"\xff\xc0") + 5
    jpeg[start : start + 4] = struct.pack(">HH", 65000, 65000)
    (tmp_path / "a.jpg").write_bytes(jpeg)
    tifffile.imwrite(tmp_path / "a.tif", noise())
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        for tag in ("ImageWidth", "ImageLength"):
            file.pages.first.tags[tag].overwrite(100_000, dtype="I")
    tifffile.imwrite(tmp_path / "tile.tif", noise(), photometric="rgb", tile=(16, 16))
    with tifffile.TiffFile(tmp_path / "tile.tif", mode="r+b") as file:
        for tag in ("TileWidth", "TileLength"):
            file.pages.first.tags[tag].overwrite(32_000)
    for name in ("a.png", "a.bmp", "a.jpg", "a.tif", "tile.tif"):
        message = message_of(lambda name=name: read_picture(tmp_path / name), ValueError)  # type: ignore[misc]
        assert_one_sentence(message, name, "too large", "268 megapixels")


def test_large_photos_are_not_taken_for_bombs(tmp_path: Path) -> None:
    """Past the size at which Pillow refuses (179 MP) only the missing pixels are complained of."""
    (tmp_path / "a.png").write_bytes(huge_png(16_000, 12_000))
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.png"), ValueError), "a.png", "cannot be read")
    assert Image.MAX_IMAGE_PIXELS is not None  # Pillow's own setting is left alone


REFUSED: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "empty.jpg": (lambda p: p.write_bytes(b""), ("it is empty",)),
    "text.png": (lambda p: p.write_text("hello"), ("cannot be read", "JPEG, PNG, TIFF")),
    "text.dng": (lambda p: p.write_text("hello"), ("cannot be read as RAW",)),
    "cmyk.jpg": (lambda p: Image.fromarray(noise(np.uint8, 4), "CMYK").save(p), ("CMYK", "convert it to RGB")),
    "cmyk.tif": (lambda p: tifffile.imwrite(p, noise(np.uint8, 4), photometric="separated"), ("SEPARATED", "RGB")),
    "int32.tif": (lambda p: tifffile.imwrite(p, np.ones((4, 5), np.uint32)), ("32 bit", "8 and 16 bit")),
    "nan.tif": (lambda p: tifffile.imwrite(p, np.array([[1.0, np.nan]], np.float32)), ("NaN or infinite",)),
    "inf.tif": (lambda p: tifffile.imwrite(p, np.array([[1.0, np.inf]], np.float16)), ("NaN or infinite",)),
    "channels.tif": (
        lambda p: tifffile.imwrite(p, np.ones((4, 5, 9), np.uint8), planarconfig="contig", photometric="minisblack"),
        ("9 channels",),
    ),
    "complex.tif": (lambda p: tifffile.imwrite(p, np.ones((4, 5), np.complex64)), ("complex64",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_said(tmp_path: Path, name: str) -> None:
    write, parts = REFUSED[name]
    write(tmp_path / name)
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / name), ValueError), str(tmp_path / name), *parts)


def test_missing_file_and_page(tmp_path: Path) -> None:
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "no.jpg"), FileNotFoundError), "no.jpg")
    pillow("png")(tmp_path / "a.png")
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.png", page=1), ValueError), "a.png", "one page")
