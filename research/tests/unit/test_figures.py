"""Comparisons of depth maps: every map has the colours of one scale, nothing covers anything, no truth no error."""

import io
import math
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

from focalsweep.results.contact_sheet import Sheet
from focalsweep.results.figures import NOTHING
from focalsweep_research.drawing.comparison import Scene, comparison
from tests.errors import assert_one_sentence, message_of
from tests.unit.results.test_contact_sheet import assert_clear

HEIGHT, WIDTH = 24, 36


@pytest.fixture
def sheets(monkeypatch: pytest.MonkeyPatch) -> list[Sheet]:
    """The sheets that were drawn."""
    drawn: list[Sheet] = []
    png = Sheet.png
    monkeypatch.setattr(Sheet, "png", lambda self, height: (drawn.append(self), png(self, height))[1])
    return drawn


def scene(frames: int = 1, truth: bool = True, **depths: Any) -> Scene:
    ramp = np.tile(np.linspace(1, 3, WIDTH, dtype=np.float32), (HEIGHT, 1))
    maps = {name: (ramp * factor).astype(np.float32) for name, factor in depths.items()}
    pictures = {f"frame {k}": np.full((HEIGHT, WIDTH, 3), 0.214, np.float32) for k in range(frames)}
    return Scene(pictures, maps, ramp if truth else None)


def middle_of(png: bytes, sheet: Sheet, number: int) -> tuple[int, ...]:
    """The colour in the middle of one of the pictures, as they were laid."""
    left, top, right, bottom = (value * sheet.scale for value in sheet.picture_boxes[number])
    with Image.open(io.BytesIO(png)) as picture:
        return tuple(picture.getpixel((round((left + right) / 2), round((top + bottom) / 2))))


def colour(name: str, share: float) -> tuple[int, ...]:
    return tuple((np.array(matplotlib.colormaps[name](share))[:3] * 255).round().astype(int).tolist())


def test_one_scale_for_all(sheets: list[Sheet]) -> None:
    """Errors of 0, 5 % and 10 % and more on a scale to 10 %; a depth that is right has the truth's colour."""
    png = comparison([scene(exact=1.0, near=0.95, far=2.0)], largest_error=0.1)
    frame, truth, exact, near, far, error_0, error_5, error_100, *bars = range(10)
    (sheet,) = sheets
    assert len(sheet.picture_boxes) == 10 and len(bars) == 2
    colours = [middle_of(png, sheet, number) for number in range(8)]
    assert colours[frame] == (127, 127, 127) or colours[frame] == (128, 128, 128)
    assert colours[exact] == colours[truth] != colours[near] != colours[far]
    assert colours[error_0] == colour("inferno", 0.0)
    assert np.allclose(colours[error_5], colour("inferno", 0.5), atol=3)
    assert colours[error_100] == colour("inferno", 1.0)


def test_scenes_share_the_scale(sheets: list[Sheet]) -> None:
    """The same errors look the same beside a scene that is much worse."""
    png = comparison([scene(ours=1.01), scene(ours=3.0)])
    good, bad = middle_of(png, sheets[0], 3), middle_of(png, sheets[0], 7)
    assert bad == colour("inferno", 1.0)
    assert np.allclose(good, colour("inferno", 0.01), atol=3)


@pytest.mark.parametrize("width_px", [900, 1600])
@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("truth", [False, True])
def test_nothing_overlaps(width_px: int, frames: int, truth: bool, sheets: list[Sheet]) -> None:
    methods = {"argmin": 1.01, "sweep": 1.02, "a network that was trained on the synthetic benchmark only": 0.9}
    png = comparison([scene(frames, truth, **methods)] * 2, title="Two scenes", width_px=width_px)
    assert_clear(sheets[0])
    maps = frames + 3 + (4 if truth else 0)
    assert len(sheets[0].picture_boxes) == 2 * maps + (2 if truth else 1)
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.format == "PNG" and picture.width == width_px


def test_one_method_that_is_far_off_does_not_take_the_colours(sheets: list[Sheet]) -> None:
    """Without truth the scale is that of most: what is far beyond it has the colour of its end."""
    png = comparison([scene(truth=False, a=1.0, b=1.0, wild=0.001)])
    alone = comparison([scene(truth=False, a=1.0, b=1.0)])
    assert middle_of(png, sheets[0], 1) == middle_of(alone, sheets[1], 1)
    assert np.allclose(middle_of(png, sheets[0], 3), colour("turbo_r", 0.0), atol=3)


@pytest.mark.parametrize("width_px", [900, 1600])
def test_many_methods_widen_the_sheet(width_px: int, sheets: list[Sheet]) -> None:
    methods = {f"AiFDepthNet-{number}": 1.0 + 0.01 * number for number in range(14)}
    png = comparison([scene(**methods)], width_px=width_px)
    assert_clear(sheets[0])
    with Image.open(io.BytesIO(png)) as picture:
        assert 1.2 * width_px < picture.width < 2 * width_px


def test_where_nothing_is_known_is_gray(sheets: list[Sheet]) -> None:
    whole = scene(ours=1.1)
    assert whole.truth is not None
    truth = whole.truth.copy()
    truth[5:20, 5:30] = math.nan
    png = comparison([Scene(whole.frames, whole.depths, truth)])
    assert middle_of(png, sheets[0], 1) == middle_of(png, sheets[0], 3) == NOTHING
    assert middle_of(png, sheets[0], 2) != NOTHING


def test_the_mean_error_is_that_of_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []
    text = Sheet.text
    monkeypatch.setattr(
        Sheet, "text", lambda self, at, line, *rest: (words.append(line), text(self, at, line, *rest))[1]
    )
    whole = scene(ours=1.1)
    assert whole.truth is not None
    whole.truth[:5] = 0
    comparison([whole])
    assert "AbsRel 0.1000" in words and "20 % and more" in words and "10 %" in words
    whole.truth[:] = math.nan
    comparison([whole])
    assert "no truth" in words


def test_refusals() -> None:
    good = scene(ours=1.0)
    sizes = {"ours": np.ones((3, 4), np.float32)}
    assert_one_sentence(message_of(lambda: Scene(good.frames, sizes), ValueError), "(24, 36)", "(3, 4)")
    assert_one_sentence(message_of(lambda: Scene(good.frames, {}), ValueError), "frames and depths")
    message = message_of(lambda: comparison([good, scene(theirs=1.0)]), ValueError)
    assert_one_sentence(message, "agree", "2 kinds")
    assert_one_sentence(message_of(lambda: comparison([]), ValueError), "0 kinds")
