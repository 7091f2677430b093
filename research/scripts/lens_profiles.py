"""Lens profiles, rendered and real: python research/scripts/lens_profiles.py DATA OUT.json PART [TRACED LAYERED]

DATA holds nyu/, textures/ and real_stacks/. PART is `rendered` or `real`; OUT.json keeps what it has of the other.
Rendered: a lens whose focus in the corners is off by a quarter of what is there. Its profile is made from a tilted
textured plane, and used on another one and TRACED (1) scenes of solids, ray by ray, and on LAYERED (8) rooms and boxes
in layers. Each is rendered with a flat field as well, which says what an error would be without any curvature. Real:
the carpet of a phone's stack, with profiles made from the same photos and from others of them.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalsweep.calibrate import calibrate_lens
from focalsweep.estimate import estimate_depth
from focalsweep.optics.light import srgb_to_linear
from focalsweep.optics.profile import LensProfile
from focalsweep.photos.frames import read_stack
from focalsweep.photos.reading import open_photos
from focalsweep.results.layered import render_layered
from focalsweep.results.result import DepthResult
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.types import Camera, FocalStack
from focalsweep_research.datasets.marked import read_marks, registered_mask
from focalsweep_research.environment import describe
from focalsweep_research.synthesis.cameras import lens_samples
from focalsweep_research.synthesis.generator import atlas_of
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.scenes import SHEET, View, empty_scene, random_scene, stack_scenes
from focalsweep_research.synthesis.textures import Atlas
from focalsweep_research.synthesis.tracer import Lenses, depth, render
from scripts.quick_stacks import boxes_picture, room_picture

HEIGHT, WIDTH = 360, 480
CAMERA = Camera(50e-3, 2.8, 36e-3 / WIDTH)
FOCUS = (1.5, 1.15, 0.83, 0.55, 0.33)  # 1/m, of the frames
FAR, NEAR = 0.4, 1.35  # 1/m, of what is in sight
SHARE = 0.25  # of the inverse depth, that corners seem nearer by
CORNER, MIDDLE = 0.85, 0.6  # of the way to the corners: beyond, and within
NOISE_STD = 0.003
TILTS = ((0.1, 0.25), (-0.2, 0.08))  # 1/m: of the plane that the profile is made from, of one that it is used on
SLICES = 60  # of the layered renderer
READ_AT = 0.2  # of the size of the photos: what departs from a plane needs no detail
PAIRS = (("all", None), ("all", "all"), ("1, 3, 5", None), ("1, 3, 5", "1, 2, 4"), ("1, 3, 5", "2, 4"))
"""Photos that are looked at, and those that the profile was made from."""
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


def layered(picture: NDArray[np.float32], true: Tensor, curvature: float, seed: int) -> FocalStack:
    """The same lens before a picture (sRGB, H W 3) of known depth H W, in layers: each where it seems to be."""
    height, width = true.shape
    camera = Camera(CAMERA.focal_length, CAMERA.f_number, 36e-3 / width)
    rows, columns = torch.meshgrid(*(torch.arange(n) + 0.5 for n in true.shape), indexing="ij")
    square = ((rows - height / 2) ** 2 + (columns - width / 2) ** 2) / ((height / 2) ** 2 + (width / 2) ** 2)
    seeming = 1 / (1 / true + curvature * square).clamp_min(1e-2)
    distances = 1 / torch.tensor(FOCUS, dtype=torch.float64)
    magnification = 1 - float(camera.focal_length) / distances
    images = render_layered(
        srgb_to_linear(torch.from_numpy(picture).movedim(-1, 0)), seeming, camera, distances,
        slice_thickness=float(seeming.max() - seeming.min()) / SLICES, dilation_px=2, magnification=magnification,
    )  # fmt: skip
    noise = NOISE_STD * torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    return FocalStack((images + noise).clamp(0, 1), distances, camera, magnification)


def on_rendered(data: Path, traced_scenes: int, layered_scenes: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows of every scene by lens, and what the profiles say: of lenses that see corners nearer, and farther."""
    atlas = atlas_of(GeneratorConfig(texture_folder=str(data / "textures"), held_out=True))
    middle = (NEAR + FAR) / 2
    view = View(NEAR, FAR, float(CAMERA.focal_length) / float(CAMERA.pixel_pitch), HEIGHT, WIDTH)
    scenes = {f"solids {seed + 1}": random_scene(np.random.default_rng([77, seed]), view, atlas.count, 6, seed % 2 == 1)
              for seed in range(traced_scenes)}  # fmt: skip
    another = {"another plane": plane(TILTS[1], 0.8 * middle, 11)}
    corner = float(CAMERA.pixel_pitch) * float(np.hypot(HEIGHT, WIDTH)) / 2
    rows, profiles = [], {}

    def add(renderer: str, bend: str, name: str, lens: str, stack: FocalStack, true: Tensor, used: Any) -> None:
        figures = corner_errors(estimate_depth(stack, lens=used).depth.astype(np.float64), true)
        rows.append({"data": renderer, "corners_seem": bend, "scene": name, "lens": lens, **figures})
        print(rows[-1], flush=True)

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
        for number in range(layered_scenes if bend == "nearer" else 0):
            rng = np.random.default_rng([78, number])
            is_room = number % 2 == 0
            picture, depths = room_picture(data / "nyu", rng) if is_room else boxes_picture(data / "textures", rng)
            depths = depths * float(np.quantile(1 / depths, 0.98)) / NEAR  # as near as the nearest focus
            true = torch.from_numpy(depths)
            name = f"{'room' if is_room else 'boxes'} {number // 2 + 1}"
            # The corner of these lies at another radius on the sensor: the lens is the same.
            share = (float(np.hypot(*true.shape)) / true.shape[1]) ** 2 / (float(np.hypot(HEIGHT, WIDTH)) / WIDTH) ** 2
            curved = layered(picture, true, curvature * share, number)
            add("layered", bend, name, "curved", curved, true, "off")
            add("layered", bend, name, "curved, with the profile", curved, true, profile)
            add("layered", bend, name, "flat", layered(picture, true, 0.0, number), true, "off")
        for number, (name, scene) in enumerate(shown.items()):
            curved, true = traced(scene, atlas, curvature, 100 + number)
            add("traced", bend, name, "curved", curved, true, "off")
            add("traced", bend, name, "curved, with the profile", curved, true, profile)
            if bend == "nearer":
                add("traced", bend, name, "flat", traced(scene, atlas, 0.0, 100 + number)[0], true, "off")
    return rows, profiles


def from_plane(result: DepthResult, region: NDArray[np.bool_], corner_px: float) -> dict[str, float]:
    """How far the carpet's corners lie from the plane of its middle, as a share of depth; right and left apart."""
    rows, columns = np.nonzero(region)
    inverse = 1 / result.depth[rows, columns].astype(float)
    column, row = result.principal_point or (result.depth.shape[1] / 2, result.depth.shape[0] / 2)
    right, down = columns + 0.5 - column, rows + 0.5 - row
    radius = np.hypot(right, down) / corner_px
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
    std = result.std[rows, columns] * inverse
    figures["of_std"] = float(np.median(np.abs(share[outer]) / std[outer]))
    figures["inner"] = float(np.median(np.abs(share[inner])))
    return figures


def on_real(data: Path) -> list[dict[str, Any]]:
    """The carpet, by the photos that are looked at and the photos that the profile was made from."""
    folder = data / "real_stacks" / CARPET[0]
    region = next(one for one in read_marks()[0][CARPET[0]] if one.name == CARPET[1])
    names = sorted(path.name for path in folder.glob("*.jpg"))
    halves = {"all": names, "1, 3, 5": names[::2], "1, 2, 4": [names[i] for i in (0, 1, 3)], "2, 4": names[1::2]}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        parts = {part: _part(folder, Path(scratch) / str(number), chosen)
                 for number, (part, chosen) in enumerate(halves.items())}  # fmt: skip
        made = {of: calibrate_lens([parts[of]]) for of in dict.fromkeys(of for _, of in PAIRS if of)}
        for part, of in PAIRS:
            profile: LensProfile | str = made[of].profile if of else "off"
            frames = open_photos(parts[part]).register()
            stack = read_stack(frames, READ_AT)
            mask = registered_mask(replace(region, photo=frames.photos.names[0]), frames, stack.size)
            result = estimate_depth(stack, lens=profile)
            figures = from_plane(result, mask.numpy(), READ_AT * float(np.hypot(*frames.photo_size)) / 2)
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
    data, output, part = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    known = json.loads(output.read_text()) if output.exists() else {"rows": []}
    start = time.process_time()
    if part == "real":
        rows = on_real(data)
        more: dict[str, Any] = {"read_at": READ_AT}
    else:
        rows, profiles = on_rendered(data, *(int(text) for text in (sys.argv[4:6] or ("1", "8"))))
        more = {"profiles": profiles, "share": SHARE, "size": [WIDTH, HEIGHT], "focus": FOCUS}
    measured = {row["data"] for row in rows}
    more |= {"cpu_seconds": time.process_time() - start, "environment": describe(torch.device("cpu"), 77)}
    kept = [row for row in known["rows"] if row["data"] not in measured]
    record = {**known, "what": "lens profiles", part: more, "rows": [*kept, *rows]}
    write_files({output: lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    main()
