"""How wide the sensors of common cameras and phones are. Facts only: widths as the makers publish them.

Published widths differ by up to 1 % from page to page (active or recorded pixels); phones' are the pixel size
times the pixel count, binned pixels where the camera bins.
"""

from __future__ import annotations

from dataclasses import dataclass

UNCERTAINTY = 0.01  # of a width


@dataclass(frozen=True)
class Sensor:
    """The part of a sensor that makes the largest picture of a camera."""

    width_mm: float
    width_px: int
    height_px: int
    focal_length_mm: float | None = None  # which camera of a phone


# width in mm, width and height in px: models as EXIF spells them, in lower case
CAMERAS: dict[tuple[float, int, int], str] = {
    (22.5, 3504, 2336): "canon eos 20d, canon eos 30d",
    (22.2, 3888, 2592): "canon eos 40d, canon eos 400d digital, canon eos digital rebel xti, canon eos 1000d",
    (22.2, 4272, 2848): "canon eos 450d, canon eos digital rebel xsi, canon eos 1100d, canon eos rebel t3",
    (22.3, 4752, 3168): "canon eos 50d, canon eos 500d, canon eos rebel t1i",
    (22.3, 5184, 3456): (
        "canon eos 60d, canon eos 7d, canon eos 550d, canon eos 600d, canon eos 650d, canon eos 700d, canon eos "
        "100d, canon eos rebel t2i, canon eos rebel t3i, canon eos rebel t4i, canon eos rebel t5i, canon eos rebel "
        "sl1, canon eos m"
    ),
    (22.5, 5472, 3648): "canon eos 70d, canon eos 7d mark ii",
    (22.3, 6000, 4000): (
        "canon eos 80d, canon eos 77d, canon eos 200d, canon eos 250d, canon eos 750d, canon eos 760d, canon eos "
        "800d, canon eos 850d, canon eos rebel t6i, canon eos rebel t6s, canon eos rebel t7i, canon eos rebel t8i, "
        "canon eos m50, canon eos m5, canon eos m6, canon eos r10, canon eos r50"
    ),
    (22.3, 6960, 4640): "canon eos 90d, canon eos m6 mark ii, canon eos r7",
    (35.8, 4368, 2912): "canon eos 5d",
    (36.0, 5616, 3744): "canon eos 5d mark ii, canon eos-1ds mark iii",
    (36.0, 5760, 3840): "canon eos 5d mark iii",
    (36.0, 6720, 4480): "canon eos 5d mark iv, canon eos r",
    (36.0, 8688, 5792): "canon eos 5ds, canon eos 5ds r",
    (35.8, 5472, 3648): "canon eos 6d, canon eos r6",
    (35.9, 6240, 4160): "canon eos 6d mark ii, canon eos rp",
    (35.9, 6000, 4000): "canon eos r6 mark ii, canon eos r8, canon eos r3",
    (36.0, 8192, 5464): "canon eos r5, canon eos r5 mark ii",
    (23.7, 3008, 2000): "nikon d70, nikon d70s, nikon d50, nikon d40",
    (23.6, 3872, 2592): "nikon d200, nikon d80, nikon d60, nikon d40x",
    (23.6, 4288, 2848): "nikon d90, nikon d300, nikon d300s, nikon d5000",
    (36.0, 4256, 2832): "nikon d700, nikon d3, nikon d3s",
    (35.9, 7360, 4912): "nikon d800, nikon d800e, nikon d810, ilce-7r, pentax k-1, pentax k-1 mark ii",
    (35.9, 8256, 5504): "nikon d850, nikon z 7, nikon z 7_2, nikon z 8, nikon z 9",
    (35.9, 6016, 4016): "nikon d600, nikon d610, nikon d750, nikon z 5",
    (35.9, 6048, 4024): "nikon d780, nikon z 6, nikon z 6_2, nikon z f",
    (23.1, 4608, 3072): "nikon d3100",
    (23.2, 6016, 4000): "nikon d3200",
    (23.6, 4928, 3264): "nikon d7000, nikon d5100, pentax k-5, pentax k-5 ii, pentax k-5 ii s",
    (23.5, 6000, 4000): (
        "nikon d3300, nikon d3400, nikon d3500, nikon d5200, nikon d5300, nikon d5500, nikon d5600, nikon d7100, "
        "nikon d7200, ilce-6000, ilce-6100, ilce-6300, ilce-6400, ilce-6500, ilce-6600, ilce-5100, zv-e10, nex-7, "
        "slt-a77v, ilca-77m2, x-t2, x-t20, x-pro2, x-e3, x-h1, x100f, ricoh gr iii, ricoh gr iiix, pentax k-70, "
        "pentax kp"
    ),
    (23.5, 5568, 3712): "nikon d500, nikon d7500, nikon z 50, nikon z fc, nikon z 30",
    (23.5, 4912, 3264): "nex-5n, nex-5r, nex-6",
    (23.3, 6192, 4128): "ilce-6700",
    (35.8, 6000, 4000): "ilce-7, ilce-7m2",
    (35.6, 6000, 4000): "ilce-7m3, ilce-9, ilce-9m2, ilce-7c, dc-s1, dc-s5, dc-s5m2",
    (35.9, 7008, 4672): "ilce-7m4, ilce-7cm2",
    (35.9, 7952, 5304): "ilce-7rm2, ilce-7rm3, ilce-7rm3a, dsc-rx1rm2",
    (35.7, 9504, 6336): "ilce-7rm4, ilce-7rm4a, ilce-7rm5, ilce-7cr",
    (35.6, 4240, 2832): "ilce-7s, ilce-7sm2, ilce-7sm3",
    (13.2, 5472, 3648): (
        "dsc-rx100, dsc-rx100m2, dsc-rx100m3, dsc-rx100m4, dsc-rx100m5, dsc-rx100m6, dsc-rx100m7, dsc-rx10"
    ),
    (17.3, 4608, 3456): (
        "e-m1, e-m5, e-m5markii, e-m10, e-m10markii, e-m10 mark iii, e-pl7, e-pl8, e-pl9, e-p5, dmc-gh3, dmc-gh4, "
        "dmc-gx7"
    ),
    (17.3, 5184, 3888): (
        "e-m1markii, e-m1markiii, e-m1x, e-m5markiii, e-m10markiv, pen-f, om-1, om-1markii, om-5, dmc-gx8, dc-gh5, "
        "dc-gh5m2, dc-g9, dc-gx9"
    ),
    (23.6, 4896, 3264): "x-t1, x-t10, x-e2, x-e2s, x-e1, x-pro1, x100s, x100t",
    (23.5, 6240, 4160): "x-t3, x-t4, x-t30, x-t30 ii, x-pro3, x-e4, x-s10, x100v",
    (23.5, 7728, 5152): "x-t5, x-t50, x-h2, x100vi",
    (43.8, 8256, 6192): "gfx 50s, gfx 50r, gfx50s ii",
    (43.8, 11648, 8736): "gfx100, gfx100s, gfx100 ii",
    (23.5, 6016, 4000): "pentax k-3, pentax k-3 ii",
    (35.8, 8368, 5584): "leica q2",
}

# and the focal length in mm of the camera that is meant
PHONES: dict[tuple[float, int, int, float], str] = {
    (9.79, 4080, 3072, 6.81): "pixel 6, pixel 6 pro, pixel 7, pixel 7 pro",
    (9.79, 4080, 3072, 6.9): "pixel 8, pixel 8 pro, pixel 9, pixel 9 pro",
    (5.64, 4032, 3024, 4.38): "pixel 3, pixel 3 xl, pixel 3a, pixel 4, pixel 4 xl, pixel 4a, pixel 5",
    (4.92, 4032, 3024, 4.15): "iphone 6s, iphone se",
    (4.92, 4032, 3024, 3.99): "iphone 7, iphone 8, iphone x, iphone se (2nd generation), iphone se (3rd generation)",
    (
        5.64,
        4032,
        3024,
        4.25,
    ): "iphone xs, iphone xr, iphone 11, iphone 11 pro, iphone 12, iphone 12 pro, iphone 12 mini",
    (6.85, 4032, 3024, 5.1): "iphone 12 pro max, iphone 13, iphone 13 mini",
    (7.66, 4032, 3024, 5.7): "iphone 13 pro, iphone 13 pro max, iphone 14, iphone 14 plus",
    (9.84, 4032, 3024, 6.82): "iphone 14 pro, iphone 14 pro max, iphone 15 pro, iphone 15 pro max, iphone 16 pro",
    (5.64, 4032, 3024, 4.3): "sm-g960f, sm-g960u, sm-g965f, sm-g965u, sm-g973f, sm-g973u, sm-g975f, sm-g975u",
    (7.2, 4000, 3000, 5.4): "sm-g980f, sm-g981b, sm-g991b, sm-g991u, sm-g996b, sm-g996u",
    (8.0, 4000, 3000, 5.4): "sm-s901b, sm-s901u, sm-s906b, sm-s911b, sm-s911u, sm-s916b",
}


def find_sensor(model: str | None, focal_length_mm: float | None) -> Sensor | None:
    """The sensor of a camera by its EXIF model; for a phone the focal length says which of its cameras it was."""
    name = (model or "").lower().strip()
    if not name:
        return None
    for (width_mm, width_px, height_px), models in CAMERAS.items():
        if name in models.split(", "):
            return Sensor(width_mm, width_px, height_px)
    for (width_mm, width_px, height_px, lens_mm), models in PHONES.items():
        if name in models.split(", ") and focal_length_mm and abs(focal_length_mm / lens_mm - 1) < 0.04:
            return Sensor(width_mm, width_px, height_px, lens_mm)
    return None
