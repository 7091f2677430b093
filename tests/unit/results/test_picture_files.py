"""The sharp picture's files, opened by other readers: bits, colour profile, EXIF."""

import io
import subprocess
import warnings
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

import focalsweep as fs
from focalsweep.photos.photo_tags import read_photo_tags
from focalsweep.results.picture_files import encoded, png_bytes
from focalsweep.types import PhotoTags

SRGB_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
MAKE, MODEL, DATE, ORIENTATION, EXIF, F_NUMBER, MAKER_NOTE = 0x010F, 0x0110, 0x0132, 0x0112, 0x8769, 0x829D, 0x927C
RAMP = np.linspace(0, 1, 24 * 4096, dtype=np.float32).reshape(96, 1024, 1).repeat(3, -1)


def gamma_profile(gamma: float) -> bytes:
    """The sRGB profile of Pillow with tone curves of another gamma: a curv tag of one value for all channels."""
    data = bytearray(SRGB_PROFILE)
    for number in range(int.from_bytes(data[128:132], "big")):
        at = 132 + 12 * number
        if data[at : at + 4] in (b"rTRC", b"gTRC", b"bTRC"):
            start = int.from_bytes(data[at + 4 : at + 8], "big")
            data[start : start + 14] = (
                b"curv" + bytes(4) + (1).to_bytes(4, "big") + round(gamma * 256).to_bytes(2, "big")
            )
            data[at + 8 : at + 12] = (14).to_bytes(4, "big")
    return bytes(data)


def shot(path: Path, codes: np.ndarray, profile: bytes | None) -> Path:
    exif = Image.Exif()
    exif[MAKE], exif[MODEL], exif[DATE], exif[ORIENTATION] = "Maker", "Camera 1", "2026:01:02 03:04:05", 1
    exif.get_ifd(EXIF).update({F_NUMBER: 2.8, MAKER_NOTE: b"places in the file"})
    Image.fromarray(codes).save(path, exif=exif, icc_profile=profile, quality=95)
    return path


def stack_of(folder: Path, profile: bytes | None) -> Path:
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    for number, blur in enumerate((0.5, 1.5, 2.5)):
        shot(folder / f"{number}.jpg", cv2.GaussianBlur(noise, (0, 0), blur), profile)
    (folder / "stack.toml").write_text(
        "[camera]\nfocal_length = 0.05\nf_number = 4.0\npixel_pitch = 2e-4\naligned = true\n"
        + "".join(f'[[frame]]\nfile = "{i}.jpg"\nfocus_distance = {d}\n' for i, d in enumerate((0.5, 0.6, 0.8)))
    )
    return folder


def test_profile_and_exif_survive(tmp_path: Path) -> None:
    """From a folder of JPEG to PNG, JPEG and TIFF, read by exiftool and Pillow."""
    profile = gamma_profile(2.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fs.estimate_depth(stack_of(tmp_path / "shots", profile), method="argmin:planes=8")
    result.save(tmp_path / "out", exports=["jpg", "tif"])
    for name in ("all_in_focus.png", "all_in_focus.jpg"):
        with Image.open(tmp_path / "out" / name) as picture:
            picture.load()
            assert picture.info["icc_profile"] == profile, name
            exif = picture.getexif()
            assert exif[MAKE] == "Maker" and exif[DATE] == "2026:01:02 03:04:05" and ORIENTATION not in exif
            assert exif.get_ifd(EXIF)[F_NUMBER] == 2.8 and MAKER_NOTE not in exif.get_ifd(EXIF)
        command = ["exiftool", "-s3", "-Model", "-Software", "-ImageDescription", str(tmp_path / "out" / name)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        assert said[0] == "Camera 1" and said[1].startswith("focalsweep ") and "0.jpg to 2.jpg" in said[2]
    with tifffile.TiffFile(tmp_path / "out" / "all_in_focus.tif") as file:
        assert file.pages[0].tags[34675].value == profile
        assert file.pages[0].dtype == np.uint8


def test_light_is_encoded_by_the_profile() -> None:
    """Encoded and read back by the photo's own curve it is the same light; by sRGB's it is not."""
    steps = np.linspace(0, 1, 4096)
    tags = PhotoTags(16, gamma_profile(1.8), ((steps**1.796875).astype(np.float32),))
    codes = encoded(RAMP, tags)
    np.testing.assert_allclose((codes / 65535) ** 1.796875, RAMP, atol=2e-4)
    assert np.abs(codes.astype(float) - encoded(RAMP, PhotoTags(16))).max() > 1000
    gray = PhotoTags(16, tags.profile, tags.curves)
    np.testing.assert_array_equal(encoded(RAMP[..., :1], gray), encoded(RAMP[..., :1], PhotoTags(16)))


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_stay_sixteen(channels: int) -> None:
    data = np.frombuffer(png_bytes(RAMP[..., :channels], PhotoTags(16)), np.uint8)
    stored = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    assert stored.dtype == np.uint16 and len(np.unique(stored)) > 10_000
    eight = cv2.imdecode(np.frombuffer(png_bytes(RAMP[..., :channels]), np.uint8), cv2.IMREAD_UNCHANGED)
    assert eight.dtype == np.uint8


def test_bits_of_photos(tmp_path: Path) -> None:
    codes = (RAMP * 65535).astype(np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", codes, photometric="rgb", iccprofile=gamma_profile(2.2))
    cv2.imwrite(str(tmp_path / "a.png"), codes)
    cv2.imwrite(str(tmp_path / "b.png"), (codes >> 8).astype(np.uint8))
    tags = read_photo_tags(tmp_path / "a.tif")
    assert (tags.bits, tags.profile) == (16, gamma_profile(2.2)) and len(tags.curves) == 1
    assert read_photo_tags(tmp_path / "a.png").bits == 16
    assert read_photo_tags(tmp_path / "b.png").bits == 8


@pytest.mark.parametrize("damage", [b"", b"\xff\xd8\xff", b"II*\0\xff\xff\xff\xff", b"\x89PNG\r\n\x1a\n" + bytes(30)])
def test_damaged_files_say_nothing(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(damage)
    tags = read_photo_tags(tmp_path / "a.jpg")
    assert tags.profile is None and tags.exif is None and tags.bits == 8


def test_a_profile_without_curves_is_not_kept(tmp_path: Path) -> None:
    path = shot(tmp_path / "a.jpg", np.zeros((8, 8, 3), np.uint8), SRGB_PROFILE[:200])
    assert read_photo_tags(path).profile is None
    with Image.open(io.BytesIO(png_bytes(RAMP, read_photo_tags(path)))) as picture:
        assert "icc_profile" not in picture.info and picture.getexif()[MAKE] == "Maker"
