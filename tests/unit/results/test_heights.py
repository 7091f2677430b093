"""Height files as others read them; profiles and roughness in closed form."""

import io
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from focalsweep.lenses import StageLens
from focalsweep.results.heights import height_png_bytes, height_tiff_bytes, profile, roughness, round_step
from focalsweep.results.result import DepthResult
from focalsweep.types import DepthGrid
from tests.errors import assert_one_sentence, message_of


def made(heights: Any, **changes: Any) -> DepthResult:
    heights = np.asarray(heights, np.float32)
    fields: dict[str, Any] = {
        "depth": heights, "std": np.full_like(heights, 1e-7), "confidence": np.ones_like(heights),
        "all_in_focus": np.zeros((*heights.shape, 3), np.float32), "camera": StageLens(90.0, 1e-4, pixel_size=0.5e-6),
        "planes": DepthGrid.uniform_in_inverse_depth(0.9, 1.1, 4),
    }  # fmt: skip
    return DepthResult(**fields | changes)


def slope(rows: int = 20, columns: int = 30) -> Any:
    return np.arange(columns) * 1e-6 + np.zeros((rows, 1))


def test_imagej_opens_the_heights_in_micrometres() -> None:
    with tifffile.TiffFile(io.BytesIO(height_tiff_bytes(made(slope())))) as file:
        assert file.is_imagej and file.imagej_metadata is not None
        assert file.imagej_metadata["unit"] in ("um", "µm", "\\u00B5m", "micron")
        across = file.pages.first.tags["XResolution"].value
        assert across[1] / across[0] == pytest.approx(0.5)  # um a pixel
        np.testing.assert_allclose(file.asarray(), slope() * 1e6, atol=1e-4)


def test_the_png_says_what_its_steps_are() -> None:
    heights = slope()
    heights[3, 4] = np.nan
    data, scale = height_png_bytes(made(heights))
    with Image.open(io.BytesIO(data)) as picture:
        steps = np.asarray(picture).astype(np.float64)
        assert "nanometres per step" in picture.text["height_scale"]
    assert steps.max() > 256 and steps[3, 4] == scale["no_height"] == 0
    back = scale["metres_at_1"] + (steps - 1) * scale["metres_per_step"]
    known = np.isfinite(heights)
    np.testing.assert_allclose(back[known], heights[known], atol=0.51 * scale["metres_per_step"] + 1e-11)


def test_steps_are_round() -> None:
    found = [round_step(least) for least in (1e-9, 1.1e-9, 3e-9, 7e-8, 0.0)]
    assert found == pytest.approx([1e-9, 2e-9, 5e-9, 1e-7, 1e-10])


def test_a_profile_of_a_slope() -> None:
    along = profile(made(slope()), (2.0, 3.0), (26.0, 10.0))
    assert along[-1, 0] == pytest.approx(25.0)
    np.testing.assert_allclose(along[:, 1], (2 + along[:, 0] * 24 / 25) * 1e-6, atol=2e-8)
    message = message_of(lambda: profile(made(slope()), (0, 0), (30, 3)), ValueError)
    assert_one_sentence(message, "30,3", "30 x 20")


def test_roughness_of_a_sine_is_the_textbooks() -> None:
    """Ra = 2 A / pi, Rq = A / sqrt 2, Rz = 2 A, whatever the slope beneath."""
    amplitude = 0.8e-6
    wave = amplitude * np.sin(2 * np.pi * (np.arange(400) + 0.5) / 20)
    tilted = wave + np.arange(400) * 1e-8 + np.arange(40)[:, None] * 3e-8
    found = roughness(tilted)
    for name in ("sa", "ra"):
        assert getattr(found, name) == pytest.approx(2 * amplitude / np.pi, rel=0.02), name
    for name in ("sq", "rq"):
        assert getattr(found, name) == pytest.approx(amplitude / np.sqrt(2), rel=0.02), name
    assert found.sz == pytest.approx(2 * amplitude, rel=0.06)
    assert roughness(slope(), tilted=False).sa > 1e-6 > 1e-9 > roughness(slope()).sa


def test_gaps_have_no_roughness() -> None:
    heights = slope()
    heights[0, 0] = np.nan
    assert_one_sentence(message_of(lambda: roughness(heights), ValueError), "roughness", "gaps")
