"""The second lot of procedural textures: valid, tileable, and not all alike."""

import numpy as np
import pytest

from focalsweep_research.synthesis.more_textures import procedural_more
from focalsweep_research.synthesis.textures import SIZE, Array

COUNT = 40


@pytest.fixture(scope="module")
def textures() -> list[Array]:
    return [procedural_more(np.random.default_rng([3, i])) for i in range(COUNT)]


def test_the_same_seed_gives_the_same_texture(textures: list[Array]) -> None:
    assert np.array_equal(procedural_more(np.random.default_rng([3, 5])), textures[5])
    assert not np.array_equal(textures[5], textures[6])


def test_they_are_light_between_nothing_and_white(textures: list[Array]) -> None:
    for texture in textures:
        assert texture.shape == (SIZE, SIZE, 3)
        assert np.isfinite(texture).all()
        assert texture.min() > 0 and texture.max() <= 1
        assert texture.std(axis=(0, 1)).max() > 0.005


def test_they_tile(textures: list[Array]) -> None:
    """Where a texture meets itself it jumps no more than within (letters end at the edge of the page)."""
    assert np.mean([_seam(texture) < 3 * _typical_jump(texture) for texture in textures]) > 0.9


def test_a_seam_is_found() -> None:
    ramp = np.broadcast_to(np.linspace(0, 1, SIZE)[:, None, None], (SIZE, SIZE, 3))
    assert _seam(ramp) > 3 * _typical_jump(ramp)


def _seam(texture: Array) -> float:
    return float(max(np.abs(texture[0] - texture[-1]).mean(), np.abs(texture[:, 0] - texture[:, -1]).mean()))


def _typical_jump(texture: Array) -> float:
    """Between the neighbours that differ most of all: joints, stripes."""
    return float(max(np.abs(np.diff(texture, axis=a)).mean(axis=(1 - a, 2)).max() for a in (0, 1)))
