"""Lens profiles on traced and on real stacks: python research/scripts/lens_profiles.py DATA OUT.json [SCENES [REAL]]

DATA holds textures/ and real_stacks/. Traced: a lens whose focus in the corners is off by a quarter of what is there.
Its profile is made from a tilted textured plane, and used on another one and SCENES (3) of solids; each is traced with
a flat field as well, which says what an error would be without any curvature. Real (1: yes): the carpet of a phone's
stack, with profiles made from the same photos and from the other half of them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalsweep.calibrate import Calibration, calibrate_lens
from focalsweep.estimate import estimate_depth
from focalsweep.optics.profile import LensProfile
from focalsweep.results.result import DepthResult
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.types import Camera, FocalStack
from focalsweep_research.datasets.marked import read_marks
from focalsweep_research.environment import describe
from focalsweep_research.synthesis.cameras import lens_samples
from focalsweep_research.synthesis.generator import atlas_of
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.scenes import SHEET, View, empty_scene, random_scene, stack_scenes
from focalsweep_research.synthesis.textures import Atlas
from focalsweep_research.synthesis.tracer import Lenses, depth, render

HEIGHT, WIDTH = 360, 480
CAMERA = Camera(50e-3, 2.8, 36e-3 / WIDTH)
FOCUS = (1.5, 1.15, 0.83, 0.55, 0.33)  # 1/m, of the frames
FAR, NEAR = 0.4, 1.35  # 1/m, of what is in sight
SHARE = 0.25  # of the inverse depth, that corners seem nearer by
CORNER, MIDDLE = 0.85, 0.6  # of the way to the corners: beyond, and within
NOISE_STD = 0.003
TILTS = ((0.1, 0.25), (-0.2, 0.08))  # 1/m: of the plane that the profile is made from, of one that it is used on
CARPET = ("pixel6pro_room", "carpet to the corners")
Array = NDArray[np.float64]


def traced(scene: dict[str, Array], atlas: Atlas, curvature: float, seed: int) -> tuple[FocalStack, Tensor]:
    """A stack through a lens that sees corners nearer by `curvature` (1/m), and its true depth H W."""
    config = GeneratorConfig(odd_aperture=0.0, rays=64)
    scenes, size = stack_scenes([scene]), (HEIGHT, WIDTH)
    focal, pitch = float(CAMERA.focal_length), float(CAMERA.pixel_pitch)
    focal_px = torch.tensor([focal / pitch])
    lens = Lenses(
        focal_px,
        torch.tensor([focal / float(CAMERA.f_number)]),
        torch.tensor([FOCUS]),
        curvature=torch.tensor([-curvature]),  # the corners are focused farther
    )
    with torch.no_grad():
        images = render(scenes, lens, atlas, lens_samples(np.random.default_rng(5), config), size)[0]
        true = depth(scenes, focal_px, size)[0]
    noise = NOISE_STD * torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    distances = 1 / torch.tensor(FOCUS, dtype=torch.float64)
    return FocalStack((images + noise).clamp(0, 1), distances, CAMERA, 1 - focal / distances), true


def plane(tilt: tuple[float, float], inverse: float, texture: int) -> dict[str, Array]:
    """A textured plane: `inverse` (1/m) on the axis, by `tilt` more at the right border, and at the lower one."""
    focal_px = float(CAMERA.focal_length) / float(CAMERA.pixel_pitch)
    normal = np.array([tilt[0] / (WIDTH / 2 / focal_px), tilt[1] / (HEIGHT / 2 / focal_px), inverse])
    scene = empty_scene(1)
    third = normal / np.linalg.norm(normal)
    first = np.cross([0.0, 1.0, 0.0], third)
    first /= np.linalg.norm(first)
    scene["kind"][0], scene["texture"][0], scene["tint"][0] = SHEET, texture, 0.8
    scene["centre"][0], scene["axes"][0] = normal / (normal @ normal), [first, np.cross(third, first), third]
    scene["light"][:4] = [0.0, 0.0, 0.0, 1.0]  # light comes from everywhere
    scene["mapping"][0, 0] = 0.8 * focal_px * inverse  # about a texel a pixel
    return scene


def corner_errors(result_depth: Array, true: Tensor) -> dict[str, float]:
    """Median relative error of depth, with its sign and without, in the corners and in the middle."""
    rows, columns = np.mgrid[0 : true.shape[0], 0 : true.shape[1]] + 0.5
    radius = np.hypot(rows - true.shape[0] / 2, columns - true.shape[1] / 2) / (np.hypot(*true.shape) / 2)
    error = result_depth / true.numpy() - 1
    named = {"corner": radius > CORNER, "middle": radius < MIDDLE, "all": radius >= 0}
    figures = {}
    for name, part in named.items():
        part = part & np.isfinite(error)
        figures[f"{name}_error"] = float(np.median(np.abs(error[part])))
        figures[f"{name}_bias"] = float(np.median(error[part]))
    return figures


def on_traced(data: Path, count: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of every scene by lens, and what the profiles say: of lenses that see corners nearer, and farther."""
    atlas = atlas_of(GeneratorConfig(texture_folder=str(data / "textures"), held_out=True))
    middle = (NEAR + FAR) / 2
    view = View(NEAR, FAR, float(CAMERA.focal_length) / float(CAMERA.pixel_pitch), HEIGHT, WIDTH)
    scenes = {f"scene {seed + 1}": random_scene(np.random.default_rng([77, seed]), view, atlas.count, 12, seed % 2 == 1)
              for seed in range(count)}  # fmt: skip
    another = {"another plane": plane(TILTS[1], 0.8 * middle, 11)}
    corner = float(CAMERA.pixel_pitch) * float(np.hypot(HEIGHT, WIDTH)) / 2
    rows, profiles = [], {}
    for bend, shown in (("nearer", another | scenes), ("farther", another)):
        curvature = SHARE * middle * (1 if bend == "nearer" else -1)
        profile = calibrate_lens([traced(plane(TILTS[0], middle, 3), atlas, curvature, 1)[0]]).profile
        bent = profile.curvature
        assert bent is not None
        table = zip(bent.radii, bent.dioptres, bent.std, strict=True)
        profiles[bend] = {
            "blur": profile.blur.value,
            "blur_std": profile.blur.std,
            "curvature": [
                {"radius_share": r / corner, "found": s, "std": e, "true": curvature * (r / corner) ** 2}
                for r, s, e in table
            ],
        }
        for number, (name, scene) in enumerate(shown.items()):
            curved, true = traced(scene, atlas, curvature, 100 + number)
            stacks: list[tuple[str, FocalStack, LensProfile | str]] = [("curved", curved, "off")]
            stacks.append(("curved, with the profile", curved, profile))
            if bend == "nearer":
                stacks.append(("flat", traced(scene, atlas, 0.0, 100 + number)[0], "off"))
            for lens, stack, used in stacks:
                result = estimate_depth(stack, lens=used)
                figures = corner_errors(result.depth.astype(np.float64), true)
                rows.append({"data": "traced", "corners_seem": bend, "scene": name, "lens": lens, **figures})
                print(rows[-1], flush=True)
    return rows, profiles


def from_plane(result: DepthResult, polygon: Array, photo_size: tuple[int, int]) -> dict[str, float]:
    """How far the carpet's corners lie from the plane of its middle, as a share of depth; right and left apart."""
    import cv2

    area = result.record["area"]
    corners = polygon - [area["columns"][0], area["rows"][0]]
    mask = np.zeros(result.depth.shape, np.uint8)
    cv2.fillPoly(mask, [np.rint(corners - 0.5).astype(np.int32)], (1,))
    rows, columns = np.nonzero(mask[::4, ::4])
    inverse = 1 / result.depth[::4, ::4][rows, columns].astype(float)
    column, row = result.principal_point or (result.depth.shape[1] / 2, result.depth.shape[0] / 2)
    right, down = 4 * columns + 0.5 - column, 4 * rows + 0.5 - row
    radius = np.hypot(right, down) / (np.hypot(*photo_size) / 2)
    basis = np.stack([np.ones_like(right), right / 1e3, down / 1e3], 1)
    inner, weight = radius < 0.7, np.ones_like(right)
    solution = np.zeros(3)
    for _ in range(20):  # the plane of least absolute departure
        root = np.sqrt(weight[inner])[:, None]
        solution = np.linalg.lstsq(root * basis[inner], root[:, 0] * inverse[inner], rcond=None)[0]
        weight = 1 / np.maximum(np.abs(inverse - basis @ solution), 1e-3)
    share = (basis @ solution) / inverse - 1  # of depth
    sides = {"left": right < 0, "right": right >= 0}
    outer = radius > CORNER
    figures = {f"corner_{side}": float(np.median(share[outer & part])) for side, part in sides.items()}
    figures["corner"] = max(figures.values(), key=abs)
    std = result.std[::4, ::4][rows, columns] * inverse
    figures["of_std"] = float(np.median(np.abs(share[outer]) / std[outer]))
    figures["inner"] = float(np.median(np.abs(share[inner])))
    return figures


def on_real(data: Path) -> list[dict[str, Any]]:
    """The carpet, by the photos that are looked at and the photos that the profile was made from."""
    folder = data / "real_stacks" / CARPET[0]
    region = next(one for one in read_marks()[0][CARPET[0]] if one.name == CARPET[1])
    polygon = np.asarray(region.polygons[0])
    names = sorted(path.name for path in folder.glob("*.jpg"))
    halves = {"all": names, "1, 3, 5": names[::2], "2, 4": names[1::2]}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        parts = {part: _part(folder, Path(scratch) / str(number), chosen)
                 for number, (part, chosen) in enumerate(halves.items())}  # fmt: skip
        made: dict[str, Calibration] = {part: calibrate_lens([path]) for part, path in parts.items()}
        for part, of in (("all", None), ("all", "all"), ("2, 4", None), ("2, 4", "1, 3, 5"),
                         ("1, 3, 5", None), ("1, 3, 5", "2, 4")):  # fmt: skip
            profile: LensProfile | str = made[of].profile if of else "off"
            result = estimate_depth(parts[part], lens=profile)
            figures = from_plane(result, polygon, (3072, 4080))
            rows.append({"data": "carpet", "photos": part, "profile_of": of, **figures})
            print(rows[-1], flush=True)
    return rows


def _part(folder: Path, to: Path, names: list[str]) -> Path:
    """Some of the photos with what stack.toml says of them."""
    to.mkdir()
    for name in names:
        shutil.copy(folder / name, to / name)
    head, *tables = (folder / "stack.toml").read_text().split("[[frame]]")
    kept = [table for table in tables if any(f'"{name}"' in table for name in names)]
    (to / "stack.toml").write_text("[[frame]]".join([head, *kept]))
    return to


def main() -> None:
    data, output = Path(sys.argv[1]), Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    real = len(sys.argv) < 5 or sys.argv[4] != "0"
    start = time.process_time()
    rows, profiles = on_traced(data, count)
    rows += on_real(data) if real else []
    record = {
        "what": "lens profiles",
        "settings": {"share": SHARE, "size": [WIDTH, HEIGHT], "focus": FOCUS, "scenes": count},
        "profiles": profiles,
        "rows": rows,
        "cpu_seconds": time.process_time() - start,
        "environment": describe(torch.device("cpu"), 77),
    }
    write_files({output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
