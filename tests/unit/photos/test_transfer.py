"""Tone curves against their published formulas, and profiles against LittleCMS."""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms

from focalsweep.photos.transfer import (
    ADOBE_RGB_GAMMA,
    REC709,
    SRGB,
    Transfer,
    coded_transfer,
    exif_transfer,
    gamma_transfer,
    icc_transfer,
)
from tests.unit.photos.files import curv, icc_profile, para

CODES = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
X = np.arange(256) / 255
SRGB_TRUTH = np.where(X <= 0.04045, X / 12.92, ((X + 0.055) / 1.055) ** 2.4)
REC709_FORWARD = (0.0, 0.018, 0.18, 0.5, 1.0), (0.0, 0.081, 0.40900773, 0.70551508, 1.0)  # light, code


def curve_of(transfer: Transfer | None) -> np.ndarray:
    assert transfer is not None
    return transfer.to_linear(CODES, 255).ravel()


def test_srgb_by_its_formula() -> None:
    np.testing.assert_allclose(curve_of(SRGB), SRGB_TRUTH, rtol=1e-6)


def test_rec709_undoes_the_cameras_curve() -> None:
    light, code = (np.array(values) for values in REC709_FORWARD)
    np.testing.assert_allclose(REC709.curves[0](code), light, atol=2e-4)  # the standard rounds its knee
    np.testing.assert_allclose(1.099 * REC709.curves[0](X[40:]) ** 0.45 - 0.099, X[40:], atol=1e-12)


def test_adobe_rgb_is_a_power_of_563_over_256() -> None:
    np.testing.assert_allclose(curve_of(gamma_transfer(ADOBE_RGB_GAMMA)), X ** (563 / 256), rtol=1e-6)
    assert gamma_transfer(ADOBE_RGB_GAMMA).name == "Adobe RGB"
    assert gamma_transfer(1.0).name == "linear"


def test_every_16_bit_code_keeps_its_own_value() -> None:
    codes = np.arange(65536, dtype=np.uint16).reshape(256, 256, 1)
    linear = gamma_transfer(1.0).to_linear(codes, 65535)
    assert linear.dtype == np.float32
    np.testing.assert_array_equal(np.rint(linear.astype(np.float64) * 65535), codes)
    assert (np.diff(SRGB.to_linear(codes, 65535).ravel()) > 0).all()


TABLE = np.rint(65535 * (1 - np.cos(np.linspace(0, np.pi, 33))) / 2).astype(int)
PROFILES = {
    "curv of none": (curv(), X, "linear"),
    "curv gamma": (curv(563), X ** (563 / 256), "Adobe RGB"),
    "curv gamma 1.8": (curv(round(1.8 * 256)), X ** (round(1.8 * 256) / 256), "gamma 1.801"),
    "curv table": (curv(*TABLE), np.interp(X, np.linspace(0, 1, 33), TABLE / 65535), "tone curve"),
    "para 0": (para(0, 2.2), X**2.2, "gamma 2.2"),
    "para 0 of one": (para(0, 1.0), X, "linear"),
    "para 1": (para(1, 2.0, 1.25, -0.25), np.where(X >= 0.2, (1.25 * X - 0.25) ** 2, 0), "tone curve"),
    "para 2": (para(2, 2.0, 0.75, -0.25, 0.25), np.where(X >= 1 / 3, (0.75 * X - 0.25) ** 2, 0) + 0.25, "tone curve"),
    "para 3": (para(3, 2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045), SRGB_TRUTH, "sRGB"),
    "para 4": (
        para(4, 2.0, 0.5, 0.25, 0.5, 0.5, 0.25, 0.125),
        np.where(X >= 0.5, (0.5 * X + 0.25) ** 2 + 0.25, 0.5 * X + 0.125),
        "tone curve",
    ),
}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("channels", [1, 3])
def test_profiles_by_the_formulas_of_the_standard(name: str, channels: int) -> None:
    curve, truth, label = PROFILES[name]
    transfer = icc_transfer(icc_profile(*[curve] * channels))
    np.testing.assert_allclose(curve_of(transfer), truth, atol=2e-4)
    assert transfer is not None
    assert transfer.name == f"{label} (ICC profile)"


def test_each_channel_has_its_own_curve() -> None:
    transfer = icc_transfer(icc_profile(curv(256), curv(512), curv(768)))
    assert transfer is not None
    light = transfer.to_linear(np.repeat(CODES, 3, axis=-1), 255).reshape(-1, 3)
    np.testing.assert_allclose(light, np.stack([X, X**2, X**3], axis=-1), atol=1e-6)


def test_little_cms_own_srgb_profile() -> None:
    """A real profile of another writer, and what its writer makes of it: gray to L*, and L* to light."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    transfer = icc_transfer(profile.tobytes())
    assert transfer is not None
    assert transfer.name == "sRGB (ICC profile)"
    np.testing.assert_allclose(curve_of(transfer), SRGB_TRUTH, atol=2e-4)
    lab = ImageCms.createProfile("LAB")
    to_lab = ImageCms.buildTransform(profile, lab, "RGB", "LAB", renderingIntent=ImageCms.Intent.RELATIVE_COLORIMETRIC)
    gray = Image.fromarray(np.repeat(CODES, 3, axis=-1))
    converted = ImageCms.applyTransform(gray, to_lab)
    assert converted is not None
    lightness = np.asarray(converted.split()[0]).ravel() / 2.55
    luminance = np.where(lightness > 8, ((lightness + 16) / 116) ** 3, lightness / 903.3)
    np.testing.assert_allclose(curve_of(transfer), luminance, atol=0.006)  # Lab of 8 bit


@pytest.mark.parametrize(
    "profile",
    [
        b"",
        b"x" * 131,
        b"\xff" * 4000,
        icc_profile(b"XYZ \0\0\0\0"),
        icc_profile(para(9, 1.0)),
        icc_profile(curv(*range(100)))[:200],
        icc_profile(para(1, 2.0, 0.0, 0.0)),
    ],
    ids=["empty", "short", "noise", "other tag", "unknown para", "cut", "no slope"],
)
def test_damaged_profiles_say_nothing(profile: bytes) -> None:
    assert icc_transfer(profile) is None


def test_profile_cut_at_every_length_never_raises() -> None:
    stream = io.BytesIO(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()).getvalue()
    for length in range(0, len(stream), 7):
        icc_transfer(stream[:length])


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        ((1, None, None), "sRGB (EXIF)"),
        ((65535, "R03", None), "Adobe RGB (EXIF)"),
        ((65535, "R03\0", 2.2), "Adobe RGB (EXIF)"),
        ((2, None, None), "Adobe RGB (EXIF)"),
        ((1, "R98", 2.2), "sRGB (EXIF)"),
        ((65535, None, 2.2), "gamma 2.2 (EXIF)"),
        ((65535, "R98", None), None),
        ((None, None, None), None),
        ((None, None, 0.0), None),
        ((None, None, float("nan")), None),
        ((None, None, "x"), None),
    ],
)
def test_exif_tags(tags: tuple[object, object, object], name: str | None) -> None:
    transfer = exif_transfer(*tags)
    assert (transfer and transfer.name) == name


def test_codes_of_h273() -> None:
    names = {code: transfer and transfer.name for code in range(16) for transfer in [coded_transfer(code)]}
    assert {code: name for code, name in names.items() if name} == {
        **{1: "BT.709", 6: "BT.709", 14: "BT.709", 15: "BT.709"},
        **{4: "gamma 2.2", 5: "gamma 2.8", 8: "linear", 13: "sRGB"},
    }
    for code in (16, 18):
        with pytest.raises(ValueError, match="HDR"):
            coded_transfer(code)
