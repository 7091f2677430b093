"""The layered renderer against closed forms and against loops over slices with SciPy's convolution and dilation."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage, signal

from focalsweep import Camera, Disk, Gaussian, coc_px
from focalsweep.results import layered
from focalsweep.results.layered import render_layered
from tests.rendering import random_texture

CAMERA = Camera(15e-3, 2.8, 5.6e-6)
FOCUS = (2.0, 4.0, 8.0)


def slow_twin(image: np.ndarray, depth: np.ndarray, focus: float, psf: Disk | Gaussian, dilation_px: int) -> np.ndarray:
    """One frame, C H W, slice by slice in space; the picture goes on mirrored."""
    margin = 40
    image = np.pad(image, [(0, 0), (margin, margin), (margin, margin)], mode="symmetric")
    depth = np.pad(depth, margin, mode="symmetric")
    y, x = np.mgrid[-dilation_px : dilation_px + 1, -dilation_px : dilation_px + 1]
    disk = x * x + y * y <= dilation_px**2
    thickness = 10 / 255
    total, unseen = np.zeros_like(image), np.ones_like(depth)
    for step in range(math.ceil((depth.max() - depth.min()) / thickness) + 1):
        centre = depth.min() + step * thickness
        mask = np.abs(depth - centre) <= thickness / 2
        if not mask.any():
            continue
        mask = ndimage.binary_dilation(mask, disk).astype(float)
        kernel = psf.kernel(coc_px(torch.tensor(centre, dtype=torch.float64), focus, CAMERA)).numpy()
        for channel, values in enumerate(image):
            total[channel] += signal.convolve2d(mask * values, kernel, mode="same") * unseen
        unseen *= 1 - signal.convolve2d(mask, kernel, mode="same")
    inside = slice(margin, -margin)
    return (total / (1 - unseen))[:, inside, inside]


def sloping_scene() -> tuple[torch.Tensor, torch.Tensor]:
    """A floor that runs off, a ball before it and a step at the right border."""
    height, width = 36, 48
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    depth = 2.4 - 0.02 * y
    depth[(y - 14) ** 2 + (x - 20) ** 2 < 81] = 1.13
    depth[:, 44:] = 1.6
    return random_texture(height, width, seed=3), depth.float()


@pytest.mark.parametrize("dilation_px", [0, 4])
@pytest.mark.parametrize("psf", [Disk(), Gaussian(0.3)])
def test_as_slice_by_slice_in_space(psf: Disk | Gaussian, dilation_px: int) -> None:
    image, depth = sloping_scene()
    frames = render_layered(image, depth, CAMERA, FOCUS, psf=psf, dilation_px=dilation_px)
    for frame, focus in zip(frames, FOCUS, strict=True):
        twin = slow_twin(image.double().numpy(), depth.double().numpy(), focus, psf, dilation_px)
        assert np.abs(frame.numpy() - twin).max() < 2e-5


def test_a_batch_is_each_picture_alone() -> None:
    image, depth = sloping_scene()
    images, depths = torch.stack([image, image.flip(-1), image]), torch.stack([depth, depth.flip(-1), depth + 0.3])
    options = {"psf": Gaussian(0.3), "slice_thickness": 0.1, "dilation_px": 2, "largest_kernel_px": 9}
    together = render_layered(images, depths, CAMERA, FOCUS, **options, magnification=0.9)
    for frames, one, its_depth in zip(together, images, depths, strict=True):
        alone = render_layered(one, its_depth, CAMERA, FOCUS, **options, magnification=0.9)
        assert torch.equal(frames, alone)
    assert not torch.equal(together[0], together[2])
    with pytest.raises(ValueError, match="depth must have the axes B=3 H W"):
        render_layered(images, depth, CAMERA, FOCUS)


def test_a_single_plane_is_a_convolution() -> None:
    image = random_texture(60, 70, seed=1)
    frames = render_layered(image, torch.full((60, 70), 1.0), CAMERA, FOCUS)
    for frame, focus in zip(frames, FOCUS, strict=True):
        kernel = Disk().kernel(coc_px(torch.tensor(1.0), focus, CAMERA)).numpy()
        expected = np.stack([signal.convolve2d(channel, kernel, boundary="symm", mode="same") for channel in image])
        assert np.abs(frame.numpy() - expected).max() < 1e-5


def test_in_focus_nothing_changes() -> None:
    image = random_texture(30, 40)
    assert torch.allclose(render_layered(image, torch.full((30, 40), 2.0), CAMERA, [2.0])[0], image, atol=1e-6)


def test_light_is_kept_to_the_borders() -> None:
    """No dark borders, no dark cracks: a white scene stays white."""
    _, depth = sloping_scene()
    for dilation_px in (0, 4):
        frames = render_layered(torch.ones(1, *depth.shape), depth, CAMERA, FOCUS, dilation_px=dilation_px)
        assert torch.allclose(frames, torch.ones_like(frames), atol=1e-4)


def test_what_is_sharp_in_front_hides_what_is_behind() -> None:
    image = random_texture(40, 40)
    depth = torch.full((40, 40), 6.0)
    depth[10:30, 10:30] = 1.0
    image[:, 10:30, 10:30] = 0
    near_sharp, far_sharp = render_layered(image, depth, CAMERA, [1.0, 6.0], dilation_px=0)
    assert torch.allclose(near_sharp[:, 10:30, 10:30], image[:, 10:30, 10:30], atol=1e-5)
    # Out of focus the near one reaches over its edge: 3 px before it, it takes what its PSF has beyond 3 px.
    taken = Disk().kernel(coc_px(torch.tensor(1.0), 6.0, CAMERA)).sum(0).flip(0)
    taken = taken[: len(taken) // 2 - 2].sum()
    assert 0.1 < taken < 0.4
    assert torch.allclose(far_sharp[:, 17:23, 7], (1 - taken) * image[:, 17:23, 7], atol=1e-5)
    widened = render_layered(image, depth, CAMERA, [1.0, 6.0], dilation_px=4)[0]
    assert torch.allclose(widened[:, 12:28, 6:10], image[:, 12:28, 6:10], atol=1e-5), "as if it were 4 px wider"


def test_any_number_of_slices_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    image, depth = sloping_scene()
    one = render_layered(image, depth, CAMERA, FOCUS)
    assert torch.equal(one, render_layered(image, depth, CAMERA, FOCUS)), "deterministic"
    monkeypatch.setattr(layered, "_slices_at_once", lambda image, frames: 5)
    assert torch.allclose(one, render_layered(image, depth, CAMERA, FOCUS), atol=2e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_same_on_a_gpu() -> None:
    image, depth = sloping_scene()
    on_gpu = render_layered(image.cuda(), depth.cuda(), CAMERA, FOCUS)
    assert torch.allclose(on_gpu.cpu(), render_layered(image, depth, CAMERA, FOCUS), atol=2e-5)
    assert torch.equal(on_gpu, render_layered(image.cuda(), depth.cuda(), CAMERA, FOCUS))


def test_scale_invariance() -> None:
    image, depth = sloping_scene()
    one = render_layered(image, depth, CAMERA, FOCUS)
    scaled = render_layered(
        image, 0.25 * depth, CAMERA.scaled(0.25), [0.25 * d for d in FOCUS], slice_thickness=0.25 * 10 / 255
    )
    assert torch.allclose(one, scaled, atol=1e-5)


def test_kernels_cut_as_carvalho_does() -> None:
    image = torch.zeros(1, 61, 61)
    image[0, 30, 30] = 1
    depth = torch.full((61, 61), 0.75)
    whole, cut = (
        render_layered(image, depth, CAMERA, [8.0], psf=Gaussian(0.3), largest_kernel_px=largest)[0, 0]
        for largest in (None, 21)
    )
    assert whole[30, 45] > 1e-5 and cut[30, 45].abs() < 1e-6 and cut[30, 40] > 1e-4
    assert cut.sum().item() == pytest.approx(1, abs=1e-4)


def test_magnification() -> None:
    image, depth = sloping_scene()
    wider = Camera(15e-3, 2.8 / 1.3, 5.6e-6)
    magnified = render_layered(image, depth, CAMERA, FOCUS, magnification=1.3)
    assert torch.allclose(magnified, render_layered(image, depth, wider, FOCUS), atol=1e-5)


def test_bad_input() -> None:
    image, depth = sloping_scene()
    with pytest.raises(ValueError, match="depth must have the axes H=36 W=48"):
        render_layered(image, depth[:-1], CAMERA, FOCUS)
    with pytest.raises(ValueError, match="depth must be positive and finite"):
        render_layered(image, depth.masked_fill(depth > 2, torch.nan), CAMERA, FOCUS)
    with pytest.raises(ValueError, match="slice_thickness must be positive"):
        render_layered(image, depth, CAMERA, FOCUS, slice_thickness=0)
    with pytest.raises(ValueError, match="px is wider than the picture"):
        render_layered(image, depth / 100, CAMERA, FOCUS)
    with pytest.raises(TypeError, match="psf must have kernels"):
        render_layered(image, depth, CAMERA, FOCUS, psf=lambda coc, fy, fx: coc)
    with pytest.raises(ValueError, match="no PSF is called"):
        render_layered(image, depth, CAMERA, FOCUS, psf="box")
