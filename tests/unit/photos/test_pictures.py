"""Pictures of every format, written by others: exact values, the right light, upright, damage refused in a sentence."""

import io
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps, PngImagePlugin

from focalsweep.photos.pictures import Picture, read_picture
from focalsweep.photos.tiff import page_count
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos import files
from tests.unit.photos.files import curv, icc_profile, write_dng


def noise(dtype: type = np.uint8, channels: int = 3, height: int = 24, width: int = 32) -> np.ndarray:
    """H W C, or H W for one channel."""
    shape = (height, width, channels) if channels > 1 else (height, width)
    top = np.iinfo(dtype).max
    return np.random.default_rng(1).integers(0, top + 1, shape, dtype=dtype)


def srgb(codes: np.ndarray) -> np.ndarray:
    """IEC 61966-2-1, H W C."""
    x = codes.astype(np.float64) / np.iinfo(codes.dtype).max
    light = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    return light[..., None] if light.ndim == 2 else light


def same(picture: Picture, light: np.ndarray) -> None:
    assert picture.pixels.dtype == np.float32
    assert picture.pixels.flags.c_contiguous
    np.testing.assert_allclose(picture.pixels, light, rtol=2e-6, atol=1e-7)


# Values


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("writer", ["OpenCV png", "tifffile", "OpenCV bmp"])
def test_values_are_exact(tmp_path: Path, writer: str, dtype: type, channels: int) -> None:
    codes = noise(dtype, channels)
    path = tmp_path / {"OpenCV png": "a.png", "tifffile": "a.tif", "OpenCV bmp": "a.bmp"}[writer]
    if writer == "tifffile":
        tifffile.imwrite(path, codes, photometric="rgb" if channels == 3 else "minisblack")
    elif writer == "OpenCV bmp" and dtype is np.uint16:
        return  # has no such thing
    else:
        cv2.imwrite(str(path), codes[..., ::-1] if channels == 3 else codes)
    picture = read_picture(path)
    same(picture, srgb(codes))
    assert (picture.bits, picture.transfer) == (8 * codes.dtype.itemsize, "sRGB (assumed)")
    assert picture.stored_size == picture.size == (32, 24)
    assert picture.notes == () or writer == "OpenCV bmp"


def test_webp_without_loss_and_jpeg_as_pillow_reads_it(tmp_path: Path) -> None:
    Image.fromarray(noise()).save(tmp_path / "a.webp", lossless=True, exact=True)
    same(read_picture(tmp_path / "a.webp"), srgb(noise()))
    for name, codes in {"colour": noise(), "gray": noise(channels=1)}.items():
        for progressive in (False, True):
            path = tmp_path / f"{name}{progressive}.jpg"
            Image.fromarray(codes).save(path, quality=90, progressive=progressive)
            same(read_picture(path), srgb(np.asarray(Image.open(path))))


def test_palette_bilevel_and_small_depths(tmp_path: Path) -> None:
    image = Image.fromarray(noise()).quantize(16)
    image.save(tmp_path / "palette.png")
    same(read_picture(tmp_path / "palette.png"), srgb(np.asarray(image.convert("RGB"))))
    assert read_picture(tmp_path / "palette.png").bits == 4
    image.save(tmp_path / "clear.png", transparency=bytes(range(16)))
    same(read_picture(tmp_path / "clear.png"), srgb(np.asarray(image.convert("RGB"))))
    bits = noise(channels=1) > 127
    Image.fromarray(bits).save(tmp_path / "bits.png")
    same(read_picture(tmp_path / "bits.png"), bits[..., None].astype(float))
    tifffile.imwrite(tmp_path / "bits.tif", bits, photometric="minisblack")
    same(read_picture(tmp_path / "bits.tif"), bits[..., None].astype(float))
    colours = np.random.default_rng(0).integers(0, 65536, (3, 256), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "palette.tif", noise(channels=1), photometric="palette", colormap=colours)
    same(read_picture(tmp_path / "palette.tif"), srgb(colours.T[noise(channels=1)]))


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_alpha_changes_no_colour(tmp_path: Path, dtype: type, channels: int) -> None:
    codes = noise(dtype, channels)
    colours = codes[..., : channels - 1] if channels == 4 else codes[..., 0]
    tifffile.imwrite(
        tmp_path / "a.tif", codes, photometric="rgb" if channels == 4 else "minisblack", planarconfig="contig",
        extrasamples=["unassalpha"],
    )  # fmt: skip
    paths = [tmp_path / "a.tif"]
    if dtype is np.uint8:
        Image.fromarray(codes, mode=None).save(tmp_path / "a.png")
        paths.append(tmp_path / "a.png")
    elif channels == 4:
        cv2.imwrite(str(tmp_path / "a.png"), codes[..., [2, 1, 0, 3]])
        paths.append(tmp_path / "a.png")
    for path in paths:
        picture = read_picture(path)
        same(picture, srgb(colours))
        assert picture.notes == ("the alpha channel is not used",)


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "big-endian": {"byteorder": ">"},
    "big TIFF": {"bigtiff": True},
    "tiles": {"tile": (16, 16)},
    "planes": {"planarconfig": "separate"},
    "planes in tiles": {"planarconfig": "separate", "tile": (16, 16)},
    "strips": {"rowsperstrip": 5},
    "deflate": {"compression": "zlib", "predictor": True, "rowsperstrip": 5},
    "deflate tiles": {"compression": "zlib", "tile": (16, 16)},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32])
def test_tiff_in_every_layout(tmp_path: Path, dtype: type, way: str) -> None:
    options = dict(WAYS[way])
    floating = np.issubdtype(dtype, np.floating)
    if (way == "packbits" and dtype is not np.uint8) or (floating and "predictor" in options):
        options.pop("predictor", None)
        options.pop("compression")
    codes = (noise(np.uint16) / 65535).astype(dtype) if floating else noise(dtype)
    stored = np.moveaxis(codes, -1, 0) if "planarconfig" in options else codes
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", **options)
    picture = read_picture(tmp_path / "a.tif")
    if floating:
        np.testing.assert_array_equal(picture.pixels, codes.astype(np.float32))
        assert picture.transfer == "linear (float)"
    else:
        same(picture, srgb(codes))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("channels", [1, 3])
def test_lzw_tiff(tmp_path: Path, dtype: type, channels: int) -> None:
    """What Photoshop writes; tifffile needs a large package for it, OpenCV and Pillow do not."""
    codes = noise(np.uint8 if dtype is np.uint8 else np.uint16, channels)
    stored = (codes / 65535).astype(dtype) if dtype is np.float32 else codes
    flags = [cv2.IMWRITE_TIFF_COMPRESSION, cv2.IMWRITE_TIFF_COMPRESSION_LZW]
    cv2.imwrite(str(tmp_path / "a.tif"), stored[..., ::-1] if channels == 3 else stored, flags)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.pages.first.compression.name == "LZW"  # type: ignore[union-attr]
    picture = read_picture(tmp_path / "a.tif")
    if dtype is np.float32:
        np.testing.assert_array_equal(picture.pixels, stored if channels == 3 else stored[..., None])
    else:
        same(picture, srgb(codes))


def test_float_predictor(tmp_path: Path) -> None:
    """OpenCV's own float files have it."""
    values = np.random.default_rng(0).random((24, 32, 3), dtype=np.float32)
    flags = [cv2.IMWRITE_TIFF_COMPRESSION, 8, cv2.IMWRITE_TIFF_PREDICTOR, 3]
    cv2.imwrite(str(tmp_path / "a.tif"), values[..., ::-1], flags)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.pages.first.predictor == 3  # type: ignore[union-attr]
    np.testing.assert_array_equal(read_picture(tmp_path / "a.tif").pixels, values)


@pytest.mark.parametrize("compression", ["packbits", "tiff_lzw", "jpeg", "tiff_adobe_deflate"])
def test_tiff_of_pillow(tmp_path: Path, compression: str) -> None:
    Image.fromarray(noise()).save(tmp_path / "a.tif", compression=compression)
    same(read_picture(tmp_path / "a.tif"), srgb(np.asarray(Image.open(tmp_path / "a.tif"))))


def test_white_is_zero(tmp_path: Path) -> None:
    codes = noise(np.uint16, 1)
    tifffile.imwrite(tmp_path / "a.tif", codes, photometric="miniswhite")
    same(read_picture(tmp_path / "a.tif"), srgb(65535 - codes))


def test_pages_of_a_tiff(tmp_path: Path) -> None:
    stack = np.stack([noise(np.uint16), noise(np.uint16)[::-1], noise(np.uint16)[:, ::-1]])
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric="rgb")
    for page in range(3):
        same(read_picture(tmp_path / "a.tif", page=page), srgb(stack[page]))
    cv2.imwritemulti(str(tmp_path / "lzw.tif"), [np.ascontiguousarray(page[..., ::-1]) for page in stack])
    same(read_picture(tmp_path / "lzw.tif", page=2), srgb(stack[2]))
    message = message_of(lambda: read_picture(tmp_path / "a.tif", page=3), ValueError)
    assert_one_sentence(message, "a.tif", "3 pages", "page 4")


def test_float_beyond_white_is_reported_not_scaled(tmp_path: Path) -> None:
    values = np.linspace(0, 12.5, 24, dtype=np.float32).reshape(4, 6)
    tifffile.imwrite(tmp_path / "a.tif", values)
    picture = read_picture(tmp_path / "a.tif")
    np.testing.assert_array_equal(picture.pixels[..., 0], values)
    assert picture.largest == 12.5


# Tone curves


def gamma_chunk(value: int) -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    info.add(b"gAMA", struct.pack(">I", value))
    return info


def exif(orientation: int | None = None, color_space: int | None = None, index: str | None = None) -> Image.Exif:
    block = Image.Exif()
    if orientation is not None:
        block[0x0112] = orientation
    if color_space is not None:
        block.get_ifd(0x8769)[0xA001] = color_space
    if index is not None:
        block.get_ifd(0x8769)[0xA005] = {1: index}
    return block


def profile(gamma: float) -> bytes:
    return icc_profile(*[curv(round(gamma * 256))] * 3)


LIGHT: dict[str, tuple[str, dict[str, Any], float, str]] = {
    "Adobe RGB by EXIF": ("jpg", {"exif": exif(None, 65535, "R03")}, 563 / 256, "Adobe RGB (EXIF)"),
    "Adobe RGB by profile": ("jpg", {"icc_profile": profile(563 / 256)}, 563 / 256, "Adobe RGB (ICC profile)"),
    "profile before EXIF": ("jpg", {"icc_profile": profile(2), "exif": exif(None, 1)}, 2.0, "gamma 2 (ICC profile)"),
    "linear profile in TIFF": ("tif", {"icc_profile": icc_profile(*[curv()] * 3)}, 1.0, "linear (ICC profile)"),
    "profile in PNG": ("png", {"icc_profile": profile(2)}, 2.0, "gamma 2 (ICC profile)"),
    "profile in WebP": ("webp", {"icc_profile": profile(2), "lossless": True}, 2.0, "gamma 2 (ICC profile)"),
    "gAMA in PNG": ("png", {"pnginfo": gamma_chunk(50000)}, 2.0, "gamma 2 (PNG gAMA)"),
    "linear gAMA in PNG": ("png", {"pnginfo": gamma_chunk(100000)}, 1.0, "linear (PNG gAMA)"),
}


@pytest.mark.parametrize("name", LIGHT)
def test_files_that_are_not_srgb(tmp_path: Path, name: str) -> None:
    extension, options, gamma, transfer = LIGHT[name]
    path = tmp_path / f"a.{extension}"
    Image.fromarray(noise()).save(path, **options)
    picture = read_picture(path)
    assert (picture.transfer, picture.notes) == (transfer, ())
    same(picture, (np.asarray(Image.open(path)) / 255.0) ** gamma)


def test_16_bit_with_a_linear_profile(tmp_path: Path) -> None:
    codes = noise(np.uint16)
    profile = icc_profile(*[curv()] * 3)
    tifffile.imwrite(tmp_path / "a.tif", codes, photometric="rgb", iccprofile=profile)
    picture = read_picture(tmp_path / "a.tif")
    assert picture.transfer == "linear (ICC profile)"
    np.testing.assert_array_equal(np.rint(picture.pixels.astype(np.float64) * 65535), codes)


def png_with(chunk: bytes, body: bytes, codes: np.ndarray) -> bytes:
    """A PNG of OpenCV with one chunk put in front of the pixels."""
    data = cv2.imencode(".png", codes[..., ::-1])[1].tobytes()
    added = struct.pack(">I", len(body)) + chunk + body + struct.pack(">I", zlib.crc32(chunk + body))
    return data[:33] + added + data[33:]


def test_chunks_of_16_bit_png(tmp_path: Path) -> None:
    codes = noise(np.uint16)
    x = codes / 65535.0
    for chunk, body, light, transfer in (
        (b"gAMA", struct.pack(">I", 100000), x, "linear (PNG gAMA)"),
        (b"cICP", bytes([1, 8, 0, 1]), x, "linear (PNG cICP)"),
        (b"cICP", bytes([12, 13, 0, 1]), srgb(codes), "sRGB (PNG cICP)"),
        (b"sRGB", b"\0", srgb(codes), "sRGB (PNG sRGB)"),
        (b"iCCP", b"x\0\0" + zlib.compress(icc_profile(*[curv(512)] * 3)), x**2, "gamma 2 (ICC profile)"),
    ):
        (tmp_path / "a.png").write_bytes(png_with(chunk, body, codes))
        picture = read_picture(tmp_path / "a.png")
        assert picture.transfer == transfer
        same(picture, light)
    (tmp_path / "a.png").write_bytes(png_with(b"cICP", bytes([9, 16, 0, 1]), codes))
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.png"), ValueError), "a.png", "PQ", "export")


def test_profile_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    Image.fromarray(noise()).save(tmp_path / "a.png", icc_profile=icc_profile(*[b"mAB \0\0\0\0"] * 3))
    picture = read_picture(tmp_path / "a.png")
    assert picture.transfer == "sRGB (assumed)"
    assert picture.notes == ("the ICC profile has no tone curve that can be read",)


# Orientation


def stored_for(upright: np.ndarray, orientation: int) -> np.ndarray:
    """What a camera stores so that a viewer who follows the orientation sees `upright`."""
    inverse = {1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud, 5: lambda a: a.swapaxes(0, 1)}
    inverse |= {6: np.rot90, 7: lambda a: np.rot90(a, 2).swapaxes(0, 1), 8: lambda a: np.rot90(a, -1)}
    return np.ascontiguousarray(inverse[orientation](upright))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_eight_orientations_are_one_picture(tmp_path: Path, orientation: int) -> None:
    stored = stored_for(noise(), orientation)
    Image.fromarray(stored).save(tmp_path / "a.png", exif=exif(orientation))
    seen = ImageOps.exif_transpose(Image.open(tmp_path / "a.png"))
    np.testing.assert_array_equal(np.asarray(seen), noise())  # the test's own files are right
    tags = [(274, "H", 1, orientation, True)]
    tifffile.imwrite(tmp_path / "a.tif", stored.astype(np.uint16) * 257, photometric="rgb", extratags=tags)
    Image.fromarray(stored).save(tmp_path / "a.webp", exif=exif(orientation), lossless=True)
    for name in ("a.png", "a.tif", "a.webp"):
        picture = read_picture(tmp_path / name)
        same(picture, srgb(noise()))
        assert picture.orientation == orientation
        assert picture.stored_size == (stored.shape[1], stored.shape[0])
        same(picture.turned_to(1), srgb(stored))
        same(picture.turned_to(1).turned_to(orientation), srgb(noise()))
    Image.fromarray(stored).save(tmp_path / "a.jpg", exif=exif(orientation))
    seen = ImageOps.exif_transpose(Image.open(tmp_path / "a.jpg"))
    same(read_picture(tmp_path / "a.jpg"), srgb(np.asarray(seen)))


def test_orientation_out_of_range_is_noted(tmp_path: Path) -> None:
    Image.fromarray(noise()).save(tmp_path / "a.png", exif=exif(9))
    picture = read_picture(tmp_path / "a.png")
    assert (picture.orientation, len(picture.notes)) == (1, 1)
    Image.fromarray(noise()).save(tmp_path / "b.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\xee" * 40)
    assert read_picture(tmp_path / "b.jpg").orientation == 1


# RAW and HEIC


def gray_steps(top: float = 0.8) -> np.ndarray:
    """Four flat quarters, wide enough that demosaicing leaves their middles alone."""
    steps = np.array([[0.1, 0.2], [0.4, 1.0]]) * top
    return np.kron(steps, np.ones((24, 32)))


def middles(pixels: np.ndarray) -> np.ndarray:
    height, width = pixels.shape[:2]
    return pixels[height // 4 :: height // 2, width // 4 :: width // 2]


def test_raw_is_linear_light_with_the_cameras_white(tmp_path: Path) -> None:
    """Nothing is stretched: 0.8 of the sensor's white stays 0.8, though nothing in the picture is brighter."""
    write_dng(tmp_path / "a.dng", gray_steps(0.8))
    picture = read_picture(tmp_path / "a.dng")
    np.testing.assert_allclose(middles(picture.pixels), middles(gray_steps(0.8))[..., None].repeat(3, -1), atol=3e-4)
    assert (picture.transfer, picture.bits, picture.orientation) == ("linear (RAW)", 16, 1)
    assert picture.white_balance == pytest.approx((2.0, 1.0, 1 / 0.6, 1.0), rel=1e-4)
    assert picture.stored_size == (64, 48)


def test_raw_white_balance_of_another_frame(tmp_path: Path) -> None:
    write_dng(tmp_path / "a.dng", gray_steps())
    write_dng(tmp_path / "b.dng", gray_steps(), neutral=(0.7, 1.0, 0.7), camera=(0.5, 1.0, 0.6))
    first = read_picture(tmp_path / "a.dng")
    own = read_picture(tmp_path / "b.dng")
    assert np.abs(middles(own.pixels) - middles(first.pixels)).max() > 0.05
    same_white = read_picture(tmp_path / "b.dng", white_balance=first.white_balance)
    np.testing.assert_allclose(middles(same_white.pixels), middles(first.pixels), atol=3e-4)
    assert same_white.white_balance == first.white_balance


@pytest.mark.parametrize("orientation", range(1, 9))
def test_raw_orientations(tmp_path: Path, orientation: int) -> None:
    write_dng(tmp_path / "a.dng", stored_for(gray_steps(), orientation), orientation=orientation)
    picture = read_picture(tmp_path / "a.dng")
    assert picture.orientation == orientation
    assert picture.size == (64, 48)
    np.testing.assert_allclose(middles(picture.pixels)[..., 1], middles(gray_steps()), atol=3e-4)


def heic_truth(bits: int) -> np.ndarray:
    white = 2**bits - 1
    rising = np.floor(np.linspace(0, white, 32)) if bits == 8 else np.rint(np.linspace(0, white, 32))
    row = np.stack([rising, rising, white - rising], axis=-1) / white
    return np.where(row <= 0.04045, row / 12.92, ((row + 0.055) / 1.055) ** 2.4)[None].repeat(16, 0)


def test_heic(tmp_path: Path) -> None:
    for name, data, bits in (("a", files.HEIC, 8), ("b", files.HEIC_10_BIT, 10)):
        (tmp_path / f"{name}.heic").write_bytes(data)
        picture = read_picture(tmp_path / f"{name}.heic")
        assert (picture.bits, picture.transfer, picture.size) == (bits, "sRGB (HEIF nclx)", (32, 16))
        np.testing.assert_allclose(picture.pixels, heic_truth(bits), atol=0.02)
    (tmp_path / "turned.heic").write_bytes(files.HEIC_TURNED)
    turned = read_picture(tmp_path / "turned.heic")
    np.testing.assert_allclose(turned.pixels, np.rot90(heic_truth(8), -1), atol=0.02)


def test_heic_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    (tmp_path / "a.heic").write_bytes(files.HEIC)
    message = message_of(lambda: read_picture(tmp_path / "a.heic"), ModuleNotFoundError)
    assert_one_sentence(message, "a.heic", 'pip install "focalsweep[heic]"')


# Damage


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


def test_kind_shows_in_the_content(tmp_path: Path) -> None:
    pillow("png")(tmp_path / "ä picture.JPG")
    same(read_picture(str(tmp_path / "ä picture.JPG")), srgb(noise(np.uint8, 3, 60, 80)))
