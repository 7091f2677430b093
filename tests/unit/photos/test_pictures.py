"""Pictures of every format, written by others: exact values, the right light, upright, damage refused in a sentence."""

import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps, PngImagePlugin

from focalsweep.photos.pictures import Picture, read_picture
from tests.errors import assert_one_sentence, message_of
from tests.unit.photos import files
from tests.unit.photos.files import curv, gray_steps, icc_profile, noise, png_with, srgb, write_dng


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
    assert picture.notes == ()


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

    cv2.imwrite(str(tmp_path / "lzw.tif"), (codes >> 8).astype(np.uint8), [cv2.IMWRITE_TIFF_COMPRESSION, 5])
    with tifffile.TiffFile(tmp_path / "lzw.tif", mode="r+b") as file:
        file.pages.first.tags["PhotometricInterpretation"].overwrite(0)
    same(read_picture(tmp_path / "lzw.tif"), srgb(255 - (codes >> 8).astype(np.uint8)))


def test_ycbcr_is_not_taken_for_rgb(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", noise(), photometric="rgb")
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        file.pages.first.tags["PhotometricInterpretation"].overwrite(6)
    message_of(lambda: read_picture(tmp_path / "a.tif"), ValueError)


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


def test_kind_shows_in_the_content(tmp_path: Path) -> None:
    Image.fromarray(noise()).save(tmp_path / "ä picture.JPG", "png")
    same(read_picture(str(tmp_path / "ä picture.JPG")), srgb(noise()))


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
    (tmp_path / "a.png").write_bytes(png_with(b"tRNS", bytes(6), codes))
    same(read_picture(tmp_path / "a.png"), srgb(codes))
    (tmp_path / "a.png").write_bytes(png_with(b"cICP", bytes([9, 16, 0, 1]), codes))
    assert_one_sentence(message_of(lambda: read_picture(tmp_path / "a.png"), ValueError), "a.png", "PQ", "export")


def test_exif_of_a_tiff(tmp_path: Path) -> None:
    for tags, transfer in (({0xA001: 1}, "sRGB"), ({0xA001: 2}, "Adobe RGB"), ({0xA500: 1.8}, "gamma 1.8")):
        block = exif(3)
        block.get_ifd(0x8769).update(tags)
        block[0x8769] = 0  # Pillow puts the block's place here, where the key is there
        Image.fromarray(noise()).save(tmp_path / "a.tif", exif=block)
        picture = read_picture(tmp_path / "a.tif")
        assert (picture.transfer, picture.orientation) == (f"{transfer} (EXIF)", 3)


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
