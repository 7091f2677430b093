"""Our JPEG against Pillow's encoder and decoder."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from focalsweep_research.synthesis.jpeg import jpeg


def picture() -> np.ndarray:
    """A smooth, textured colour picture of an odd size, 8 bit."""
    rng = np.random.default_rng(0)
    coarse = torch.from_numpy(rng.random((1, 3, 12, 14), dtype=np.float32))
    fine = torch.from_numpy(rng.random((1, 1, 60, 70), dtype=np.float32))
    up = [torch.nn.functional.interpolate(part, size=(99, 117), mode="bicubic") for part in (coarse, fine)]
    return ((0.75 * up[0] + 0.25 * up[1]).clamp(0, 1) * 255).round().byte()[0].movedim(0, -1).numpy()


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((a.astype(float) - b.astype(float)) ** 2)))


@pytest.mark.parametrize("quality", [30, 70, 92])
def test_it_does_what_pillow_does(quality: int) -> None:
    original = picture()
    buffer = io.BytesIO()
    Image.fromarray(original).save(buffer, "jpeg", quality=quality, subsampling=2)
    theirs = np.asarray(Image.open(buffer))
    ours = jpeg(torch.from_numpy(original).movedim(-1, 0)[None] / 255, torch.tensor([float(quality)]))[0]
    ours = (ours.movedim(0, -1) * 255).round().numpy()
    # What is left is how decoders interpolate chroma; the loss itself is several times as large.
    assert psnr(ours, theirs) > 42
    assert psnr(ours, theirs) > psnr(theirs, original) + 4


def test_pictures_of_a_batch_have_their_own_quality() -> None:
    pictures = torch.from_numpy(picture()).movedim(-1, 0)[None].expand(2, -1, -1, -1) / 255
    worse, better = jpeg(pictures, torch.tensor([20.0, 95.0]))
    assert (worse - pictures[0]).square().mean() > 4 * (better - pictures[0]).square().mean()
    torch.testing.assert_close(jpeg(pictures[:1], torch.tensor([95.0]))[0], better)
