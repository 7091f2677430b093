"""Cuts of an axis and of a picture."""

import pytest

from focalsweep.sweep.tiles import Tile, cut_axis, cut_picture


@pytest.mark.parametrize("length", [16, 500, 768, 770, 1023, 1999, 4000])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_cuts_cover_an_axis_in_step_with_the_network(length: int, count: int) -> None:
    cuts = cut_axis(length, count, halo_px=64, stride=16)
    assert [pixel for core, _ in cuts for pixel in range(core.start, core.stop)] == list(range(length))
    for core, area in cuts:
        assert area.start % 16 == 0
        assert area.start == max(0, core.start - 64)
        assert area.stop == min(length, core.stop + 64)
        assert core.stop - core.start <= length / count + 16


def test_a_core_knows_its_place_in_its_area() -> None:
    tiles = cut_picture(cut_axis(100, 2, 8), cut_axis(60, 3, 8))
    assert len(tiles) == 6
    assert tiles[4] == Tile((slice(50, 100), slice(20, 40)), (slice(42, 100), slice(12, 48)))
    assert tiles[4].core_in_area == (slice(8, 58), slice(8, 28)) and tiles[4].area_size == (58, 36)
