"""The tracer against Mitsuba 3's thin lens: the same scene, camera and focus in both, occlusion edges included."""

import math

import numpy as np
import pytest
import torch

from focalsweep_research.synthesis.scenes import BOX, ELLIPSOID, SHEET, SUN, WAVES, Scenes
from focalsweep_research.synthesis.textures import Atlas, make_atlas
from focalsweep_research.synthesis.tracer import Lenses, disk_samples, render

mitsuba = pytest.importorskip("mitsuba", reason="Mitsuba comes with pip install 'focalsweep-research'")

SIZE = 64
FOCAL_PX = 90.0
APERTURE = 0.15
FOCUS = (0.6, 1.1)
WALL = 1.3  # metres
BALL, BALL_RADIUS, BALL_COLOUR = (-0.12, 0.05, 0.7), 0.1, (0.8, 0.3, 0.1)
CUBE, CUBE_HALF, CUBE_COLOUR = (0.14, -0.06, 0.95), (0.07, 0.1, 0.08), (0.1, 0.4, 0.7)
TEXELS_A_METRE = 40.0  # coarse against the pixels: both renderers interpolate the same texels


def ours(atlas: Atlas, rays: int) -> np.ndarray:
    """H W 3 for every focus distance; nothing is shaded."""
    flat = [torch.tensor(colour) for colour in (BALL_COLOUR, CUBE_COLOUR)]
    scenes = Scenes(
        kind=torch.tensor([[SHEET, ELLIPSOID, BOX]], dtype=torch.int32),
        centre=torch.tensor([[(0.0, 0.0, WALL), BALL, CUBE]]),
        axes=torch.eye(3).expand(1, 3, 3, 3).contiguous(),
        half=torch.tensor([[(1.0, 1.0, 1.0), (BALL_RADIUS,) * 3, CUBE_HALF]]),
        waves=torch.zeros(1, 3, WAVES, 4),
        texture=torch.zeros((1, 3), dtype=torch.int32),
        mapping=torch.tensor([TEXELS_A_METRE, 128.0, 128.0]).expand(1, 3, 3).contiguous(),
        tint=torch.stack([torch.ones(3), *(colour / atlas.means[0] for colour in flat)])[None],
        contrast=torch.tensor([[1.0, 0.0, 0.0]]),
        gloss=torch.tensor([0.0, 1.0]).expand(1, 3, 2).contiguous(),
        light=torch.tensor([[0.0, 0.0, -SUN, 1.0, *[0.0] * 6]]),
    )
    lenses = Lenses(torch.tensor([FOCAL_PX]), torch.tensor([APERTURE]), 1 / torch.tensor([FOCUS]))
    return render(scenes, lenses, atlas, disk_samples(rays), (SIZE, SIZE))[0].movedim(1, -1).numpy()


def theirs(texture: np.ndarray, focus: float, samples: int) -> np.ndarray:
    """Everything glows with its colour; a path of length one sees nothing else."""
    mitsuba.set_variant("scalar_rgb")
    transform = mitsuba.ScalarTransform4f

    def glowing(colour: tuple[float, ...]) -> dict[str, object]:
        return {"type": "area", "radiance": {"type": "rgb", "value": list(colour)}}

    side = texture.shape[0] / TEXELS_A_METRE
    # A rectangle spans -1..1 and looks along +z; turned about x it looks at the camera, and its last row is on top.
    wall = transform().translate([0, 0, WALL]).rotate([1, 0, 0], 180).scale([side / 2, side / 2, 1])
    bitmap = {
        "type": "bitmap",
        "bitmap": mitsuba.Bitmap(np.ascontiguousarray(texture[::-1].astype(np.float32))),
        "raw": True,
        "filter_type": "bilinear",
        "wrap_mode": "mirror",
    }
    scene = mitsuba.load_dict(
        {
            "type": "scene",
            "integrator": {"type": "path", "max_depth": 1},
            "sensor": {
                "type": "thinlens",
                # Mitsuba's camera looks along +z with x to the left: looking up along -y gives x right, y down.
                "to_world": transform().look_at(origin=[0, 0, 0], target=[0, 0, 1], up=[0, -1, 0]),
                "fov": 2 * math.degrees(math.atan(SIZE / 2 / FOCAL_PX)),
                "aperture_radius": APERTURE / 2,
                "focus_distance": focus,
                "near_clip": 0.01,
                "film": {"type": "hdrfilm", "width": SIZE, "height": SIZE, "rfilter": {"type": "box"}},
                "sampler": {"type": "multijitter", "sample_count": samples},
            },
            "wall": {"type": "rectangle", "to_world": wall, "emitter": {"type": "area", "radiance": bitmap}},
            "ball": {"type": "sphere", "center": list(BALL), "radius": BALL_RADIUS, "emitter": glowing(BALL_COLOUR)},
            "cube": {
                "type": "cube",
                "to_world": transform().translate(list(CUBE)).scale(list(CUBE_HALF)),
                "emitter": glowing(CUBE_COLOUR),
            },
        }
    )
    return np.asarray(mitsuba.render(scene))[..., :3]


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((a - b) ** 2)))


def test_blur_and_edges_agree_with_mitsuba() -> None:
    atlas = make_atlas(1, seed=3)
    words = atlas.words[: 256 * 256].reshape(256, 256)
    texture = np.stack([((words >> shift) & 255).numpy() / 255 for shift in (0, 8, 16)], -1) ** 2
    mine = ours(atlas, rays=400)
    for i, focus in enumerate(FOCUS):
        reference = theirs(texture, focus, samples=256)
        quality = psnr(mine[i], reference)
        print(f"focused at {focus} m: {quality:.1f} dB")
        assert quality > 45
    swapped = psnr(mine[0], theirs(texture, FOCUS[1], samples=64))
    assert swapped < 30, "the check cannot fail"
