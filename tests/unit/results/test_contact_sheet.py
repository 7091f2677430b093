"""The contact sheet: what stands on it, where, and that nothing covers anything else."""

import io
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep import Camera, FocalStack, RelativeLens
from focalsweep.results import contact_sheet as module
from focalsweep.results.contact_sheet import MARGIN, Sheet, contact_sheet
from focalsweep.results.figures import NOTHING, depth_ticks, inverse_depth_range
from tests.errors import assert_one_sentence, message_of
from tests.unit.results.scenes import scene, tilted

RECORD = {"method": "argmin"}


def frames(count: int, height: int = 30, width: int = 50, **changes: Any) -> FocalStack:
    images = torch.rand((count, 3, height, width), generator=torch.Generator().manual_seed(0))
    fields = {"focus_distances": np.geomspace(0.3, 30, count), "camera": Camera(0.05, 2.8, 5e-4), **changes}
    return FocalStack(images, **fields)


def result(height: int = 30, width: int = 50, **changes: Any) -> Any:
    return scene(tilted(height, width, (0.48, 0.6, 0.64), 1.5), **{"record": RECORD, **changes})


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sheet]]:
    """Every line of text that is put on a sheet."""
    lines: list[tuple[str, Sheet]] = []
    text = Sheet.text

    def note(self: Sheet, at: Any, words: str, *rest: Any) -> float:
        lines.append((words, self))
        return text(self, at, words, *rest)

    monkeypatch.setattr(Sheet, "text", note)
    return lines


def overlap(a: module.Box, b: module.Box) -> bool:
    return a[0] < b[2] - 0.5 and b[0] < a[2] - 0.5 and a[1] < b[3] - 0.5 and b[1] < a[3] - 0.5


def assert_clear(sheet: Sheet) -> None:
    """No text or picture touches another, and the margins are free."""
    boxes = sheet.text_boxes + sheet.picture_boxes
    for box in boxes:
        assert box[0] >= MARGIN - 0.5, box
        assert box[2] <= sheet.width_px / sheet.scale - MARGIN + 0.5, box
        assert box[1] >= MARGIN
    for a, b in itertools.combinations(boxes, 2):
        assert not overlap(a, b), (a, b)


def test_clearance_can_fail() -> None:
    sheet = Sheet(1600)
    sheet.text((100, 100), "one", 20, module.INK)
    assert_clear(sheet)
    sheet.text((110, 105), "two", 20, module.INK)
    with pytest.raises(AssertionError):
        assert_clear(sheet)
    sheet = Sheet(1600)
    sheet.text((10, 100), "in the margin", 20, module.INK)
    with pytest.raises(AssertionError):
        assert_clear(sheet)


@pytest.mark.parametrize("count", [2, 3, 7, 10, 11, 23, 50])
@pytest.mark.parametrize("size", [(30, 50), (50, 30), (6, 90), (90, 6)])
def test_nothing_overlaps(count: int, size: tuple[int, int], written: list[tuple[str, Sheet]]) -> None:
    contact_sheet(frames(count, *size), result(*size), width_px=1000)
    assert_clear(written[0][1])
    assert len(written[0][1].picture_boxes) == count + 5  # three maps and two scales


@pytest.mark.parametrize("width_px", [800, 1600, 2400])
def test_it_is_a_png_of_that_width_with_free_margins(width_px: int) -> None:
    data = contact_sheet(frames(5), result(), width_px=width_px)
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.format == "PNG"
        assert picture.width == width_px
        pixels = np.asarray(picture)
    edge = MARGIN * width_px // 1600 - 2
    for strip in (pixels[:edge], pixels[-edge:], pixels[:, :edge], pixels[:, -edge:]):
        assert (strip == 255).all()
    assert len(np.unique(pixels.astype(int) @ [65536, 256, 1])) > 500


def test_frames_stand_in_order_of_focus(written: list[tuple[str, Sheet]]) -> None:
    contact_sheet(frames(4, focus_distances=[2.0, math.inf, 0.4, 1.25]), result())
    labels = [words for words, _ in written]
    assert labels[2:6] == ["0.4 m", "1.25 m", "2 m", "infinity"]
    assert labels[:2] == ["Focal stack of 4 frames", "50 × 30 px   ·   50 mm f/2.8   ·   method argmin, 8 planes"]


def test_a_frame_is_shown_in_its_own_colours(written: list[tuple[str, Sheet]]) -> None:
    stack = frames(4)
    stack.images[:] = 0.2140  # sRGB 127.5
    stack.images[2, 0] = 1.0
    data = contact_sheet(stack, result())
    left, top, right, bottom = written[0][1].picture_boxes[2]
    with Image.open(io.BytesIO(data)) as picture:
        red, green, blue = picture.getpixel((round((left + right) / 2), round((top + bottom) / 2)))
    assert red == 255
    assert green in (127, 128)
    assert blue in (127, 128)


def test_relative_depth_has_no_metres(written: list[tuple[str, Sheet]]) -> None:
    lens = RelativeLens(40.0)
    contact_sheet(frames(3, camera=lens), result(camera=lens))
    labels = [words for words, _ in written]
    assert "Depth (relative, no unit)" in labels
    assert {"near", "far", "frame 1"} <= set(labels)
    assert not any(words.endswith(" m") for words in labels)


def test_pixels_without_depth_are_gray(written: list[tuple[str, Sheet]]) -> None:
    unknown = result()
    unknown.depth[:] = np.nan
    data = contact_sheet(frames(3), unknown)
    left, top, right, bottom = written[0][1].picture_boxes[4]
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.getpixel((round((left + right) / 2), round((top + bottom) / 2))) == NOTHING


def test_near_is_warm_and_far_is_cold(written: list[tuple[str, Sheet]]) -> None:
    inverse = np.linspace(2, 0, 50) * np.ones((30, 1))  # 0.5 m to infinity
    data = contact_sheet(frames(3), scene(inverse))
    left, top, right, bottom = written[0][1].picture_boxes[4]
    with Image.open(io.BytesIO(data)) as picture:
        near, far = (picture.getpixel((round(x), round((top + bottom) / 2))) for x in (left + 60, right - 60))
    assert near[0] > near[2]
    assert far[2] > far[0]
    assert "infinity" in [words for words, _ in written]


def test_ticks_stand_where_their_depth_is() -> None:
    ticks = dict((label, share) for share, label in depth_ticks(near=2.0, far=0.5))
    assert ticks["1 m"] == pytest.approx(2 / 3)
    assert ticks["0.5 m"] == pytest.approx(0)
    assert ticks["2 m"] == pytest.approx(1)
    assert depth_ticks(2.0, 0.0)[0] == (1.0, "infinity")


@pytest.mark.parametrize(
    ("near", "far", "labels"),
    [
        (0.512, 0.518, ["51.2 cm", "51.4 cm", "51.6 cm", "51.8 cm"]),
        (0.1000, 0.1002, ["10 cm", "10.005 cm", "10.01 cm", "10.015 cm", "10.02 cm"]),
        (100e-6, 140e-6, ["100 µm", "110 µm", "120 µm", "130 µm", "140 µm"]),
        (2.5e-3, 5e-3, ["3 mm", "4 mm", "5 mm"]),
        (0.37, 0.71, ["40 cm", "50 cm", "60 cm", "70 cm"]),
        (1.2, 5.0, ["2 m", "3 m", "5 m"]),
    ],
)
def test_ticks_are_round_in_the_unit_of_the_scene(near: float, far: float, labels: list[str]) -> None:
    found = [label for _, label in depth_ticks(1 / near, 1 / far)]
    assert set(labels) <= set(found)
    assert len({label.split()[1] for label in found}) == 1
    shares = [share for share, _ in sorted(depth_ticks(1 / near, 1 / far))]
    assert shares[0] < 0.4 and shares[-1] > 0.6


def test_unsure_pixels_are_hatched_and_the_caption_says_so(written: list[tuple[str, Sheet]]) -> None:
    contact_sheet(frames(3), result())
    assert "Depth" in [words for words, _ in written]
    contact_sheet(frames(3), result(confidence=np.full((30, 50), 0.2, np.float32)))
    assert "Depth, hatched where unsure" in [words for words, _ in written]


@pytest.mark.parametrize("value", [1.3, math.inf, math.nan])
def test_range_of_one_value(value: float) -> None:
    near, far = inverse_depth_range(np.full((3, 4), value, np.float32))
    assert near > far >= 0
    assert contact_sheet(frames(2), result(depth=np.full((30, 50), value, np.float32)))[:4] == b"\x89PNG"


def test_gray_frames_and_other_channel_counts() -> None:
    images = torch.rand((3, 1, 30, 50))
    stack = FocalStack(images, [0.4, 1.0, 2.0], Camera(0.05, 2.8, torch.tensor([1e-4, 1e-4, 1e-4])))
    contact_sheet(stack, result(all_in_focus=np.full((30, 50, 4), 0.3, np.float32)))


def test_batches_and_tiny_sheets_are_refused() -> None:
    batch = FocalStack(torch.rand((2, 3, 3, 8, 8)), [0.4, 1.0, 2.0], Camera(0.05, 2.8, 5e-4))
    assert_one_sentence(message_of(lambda: contact_sheet(batch, result()), ValueError), "one stack", "batch")
    assert_one_sentence(message_of(lambda: contact_sheet(frames(2), result(), width_px=500), ValueError), "800", "500")


def test_an_aperture_that_was_calibrated_stands_beside_the_told_one(written: list[tuple[str, Sheet]]) -> None:
    told = {**RECORD, "settings": {"f_number": {"value": 2.8, "source": "EXIF"}}}
    contact_sheet(frames(3), result(camera=Camera(0.05, 2.2, 5e-4), record=told))
    assert any("50 mm f/2.8, blurs like f/2.2" in words for words, _ in written)
