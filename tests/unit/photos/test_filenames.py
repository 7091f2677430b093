"""Distances in file names, and the many numbers that are none."""

import math

import pytest

from focalsweep.photos.filenames import distances_in_names


def metres(*names: str) -> list[float] | None:
    found = distances_in_names(names)
    return None if found is None else [round(value.value, 9) for value in found]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("image_1_0.35.jpg", "image_2_0.50.jpg", "image_3_2.21.jpg"), [0.35, 0.5, 2.21]),
        (("a_350mm.png", "b_1200mm.png"), [0.35, 1.2]),
        (("a-35cm.png", "b-120cm.png"), [0.35, 1.2]),
        (("0.35m.dng", "12m.dng"), [0.35, 12.0]),
        (("x 0.35 m.dng", "x 2 m.dng"), [0.35, 2.0]),
        (("d2.5D.jpg", "d0.5D.jpg"), [0.4, 2.0]),
        (("f_2.5dpt.jpg", "f_0.0dpt.jpg"), [0.4, math.inf]),
        (("f_4_dioptres.jpg", "f_2_diopters.jpg"), [0.25, 0.5]),
        (("s_0.50.jpg", "s_inf.jpg"), [0.5, math.inf]),
        (("50mm_f2.8_0.4m.jpg", "50mm_f2.8_0.8m.jpg"), [0.4, 0.8]),  # the lens is the same in all
        (("0.50m_2.00dpt.jpg", "1.00m_1.00dpt.jpg"), [0.5, 1.0]),
        (("b_0.8.jpg", "a_0.4.jpg"), [0.8, 0.4]),
    ],
)
def test_distances(names: tuple[str, ...], expected: list[float]) -> None:
    assert metres(*names) == expected


@pytest.mark.parametrize(
    "names",
    [
        ("IMG_0001.jpg", "IMG_0002.jpg"),
        ("frame1.jpg", "frame11.jpg"),
        ("45__refocus_00.jpg", "45__refocus_01.jpg"),
        ("2024-08-30 11.22.02.jpg", "2024-08-30 11.22.05.jpg"),
        ("2024.08.30_1.jpg", "2024.08.31_2.jpg"),
        ("shot 11.22.jpg", "shot 11.23.jpg"),
        ("a_50mm_1.jpg", "a_50mm_2.jpg"),
        ("5D_001.jpg", "5D_002.jpg"),
        ("a_0.5.jpg", "a_0.5 (2).jpg"),
        ("a_0.5.jpg", "b.jpg"),
        ("a_0.5m.jpg", "a_500mm.jpg"),
        ("0.5_0.9.jpg", "0.6_0.7.jpg"),
        ("v1.2.3.jpg", "v1.2.4.jpg"),
        ("a_0.001m.jpg", "a_0.002m.jpg"),
        ("a_9999m.jpg", "a_8888m.jpg"),
        ("infant.jpg", "inform.jpg"),
        ("inf_1.jpg", "inf_2.jpg"),
        ("only_0.5.jpg",),
        (),
    ],
)
def test_no_distances(names: tuple[str, ...]) -> None:
    assert metres(*names) is None


def test_last_digit_is_the_uncertainty() -> None:
    found = distances_in_names(["a_0.50.jpg", "a_1.3.jpg"])
    assert found is not None
    assert [(round(v.low, 9), round(v.high, 9)) for v in found] == [(0.495, 0.505), (1.25, 1.35)]
    assert {v.source for v in found} == {"file name"}
    found = distances_in_names(["a_4.0dpt.jpg", "a_0.0dpt.jpg"])
    assert found is not None
    assert (found[0].low, found[0].high) == pytest.approx((1 / 4.05, 1 / 3.95))
    assert (found[1].low, found[1].high) == (20.0, math.inf)
    assert found[0].source == "file name, dioptres"
