"""How good the fused picture is, beside enfuse: python research/scripts/sharp_pictures.py rendered OUT

`rendered`: scenes of the generator are traced through a lens and once through a pinhole: that is the picture sharp all
over. Each stack is seen at three levels of noise, as 16-bit sRGB. Beside ours: enfuse (where it is installed), the two
frames that the depth map names mixed (focalsweep 0.2.0), and the best single frame. OUT receives
sharp-pictures.json, and the stacks of the run, which the next run takes instead of tracing them anew.

`real STACKS OUT`: the detail of each picture of real stacks, the mix by the depth of the classical focus measure among
them, and the pictures themselves.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
import torch
import typer
from skimage.metrics import structural_similarity
from torch import Tensor

from focalsweep.estimate import estimate_depth
from focalsweep.optics.light import linear_to_srgb, srgb_to_linear
from focalsweep.optics.thin_lens import blur_slope_px
from focalsweep.photos.reading import load_stack
from focalsweep.results.figures import srgb_8_bit
from focalsweep.results.writing import json_bytes, write_files
from focalsweep.sweep.volume import plane_position
from focalsweep.types import Camera, FocalStack
from focalsweep_research.environment import describe
from focalsweep_research.synthesis.generator import _stack as stack_of
from focalsweep_research.synthesis.generator import atlas_of, draw_scenes, trace
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from focalsweep_research.synthesis.tracer import disk_samples

NOISE = (0.001, 0.006, 0.02)  # standard deviation, in linear light, of a pixel at 0.4
BLOCK_PX, EDGE_PX = 32, 8
EDGE_BLUR_PX = 2.0  # a step in depth that makes this much blur is an edge
BLOCK_DB = 0.5
DETAIL_BLOCK_PX, BRIGHTNESSES, FLATTEST = 8, 12, 0.05
ENFUSE = ("--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1", "--hard-mask")


@dataclass(frozen=True, eq=False)
class Scene:
    """A stack as an ideal camera sees it, and what is true."""

    stack: FocalStack
    sharp: Tensor  # 3 H W, linear light
    depth: Tensor  # H W


def render_scene(config: GeneratorConfig, number: int) -> Scene:
    """The stack and, with all rays through the middle of the lens, its sharp picture."""
    device, atlas = torch.device("cpu"), atlas_of(config)
    with torch.no_grad():
        traced = trace(config, atlas, draw_scenes(config, atlas.count, number, 1), number, device)
        points = disk_samples(32)
        points[:, :2] = 0
        alone = replace(config, frames=(1, 1))
        pinhole = trace(alone, atlas, draw_scenes(alone, atlas.count, number, 1), number, device, [points])
    gain = float((0.4 / traced.images.mean().clamp_min(0.05)).clamp(0.3, 2.5))
    stack = stack_of(traced.draws, (gain * traced.images).clamp(0, 1))
    magnification = stack.as_batch().magnification[0]  # type: ignore[index]
    one = FocalStack(stack.images[0], stack.focus_distances[0], _one(stack.camera), magnification)
    return Scene(one, (gain * pinhole.images[0, 0]).clamp(0, 1), traced.depth[0])


def _one(camera: Any) -> Camera:
    return Camera(*(float(value) for value in (camera.focal_length, camera.f_number, camera.pixel_pitch)))


def kept_scene(path: Path, config: GeneratorConfig, number: int) -> Scene:
    """From the file, or rendered and kept in it."""
    if not path.exists():
        scene = render_scene(config, number)
        camera = scene.stack.camera
        assert isinstance(camera, Camera)
        lens = np.array([float(value) for value in (camera.focal_length, camera.f_number, camera.pixel_pitch)])
        np.savez(
            path, images=scene.stack.images.half(), sharp=scene.sharp.half(), depth=scene.depth, lens=lens,
            focus=scene.stack.focus_distances, magnification=scene.stack.magnification,
        )  # fmt: skip
    with np.load(path) as saved:
        held = {name: torch.from_numpy(saved[name]) for name in saved.files}
    stack = FocalStack(held["images"].float(), held["focus"], Camera(*held["lens"].tolist()), held["magnification"])
    return Scene(stack, held["sharp"].float(), held["depth"])


def photographed(images: Tensor, noise: float, seed: int) -> Tensor:  # F 3 H W
    """With noise that grows with the light, as 16-bit sRGB has it."""
    generator = torch.Generator().manual_seed(seed)
    noisy = images + noise * torch.sqrt(0.3 + 1.75 * images) * torch.randn(images.shape, generator=generator)
    return srgb_to_linear((linear_to_srgb(noisy.clamp(0, 1)) * 65535).round() / 65535)


def enfuse(frames: Tensor) -> Tensor:  # F 3 H W, linear light -> 3 H W
    """What the program makes of the frames as 16-bit TIFF."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, frame in enumerate(frames):
            codes = (linear_to_srgb(frame) * 65535).round().numpy().astype(np.uint16).transpose(1, 2, 0)
            paths.append(str(Path(folder) / f"{number:02d}.tif"))
            cv2.imwrite(paths[-1], np.ascontiguousarray(codes[..., ::-1]))
        fused = Path(folder) / "fused.tif"
        command = ["enfuse", *ENFUSE, "-o", str(fused), *paths]
        subprocess.run(command, check=True, capture_output=True)
        fused_codes: Any = cv2.imread(str(fused), cv2.IMREAD_UNCHANGED)
    values = fused_codes[..., 2::-1].astype(np.float32) / 65535
    return srgb_to_linear(torch.from_numpy(values.transpose(2, 0, 1).copy()))


def by_depth_alone(stack: FocalStack, depth: Tensor) -> Tensor:  # 3 H W
    """The two frames before and behind the depth of each pixel, mostly the nearer in focus: focalsweep 0.2.0."""
    focus, order = (1 / stack.focus_distances).sort(descending=True)
    position = plane_position((1 / depth)[None].double(), focus[None].double()).float()[0]
    share = (1 - (position - torch.arange(len(focus))[:, None, None]).abs()).clamp_min(0)
    weight = share.square() / (share.square() + (1 - share).square())
    return (weight[:, None] * stack.images[order]).sum(0)


def psnr(picture: Tensor, truth: Tensor, pixels: Tensor | None = None) -> float:
    """Of sRGB values."""
    error = (linear_to_srgb(picture.clamp(0, 1)) - linear_to_srgb(truth)).square().mean(0)
    return float(-10 * torch.log10((error if pixels is None else error[pixels]).mean().clamp_min(1e-8)))


def block_errors(picture: Tensor, truth: Tensor) -> Tensor:
    """Mean squared error of each block."""
    error = (linear_to_srgb(picture.clamp(0, 1)) - linear_to_srgb(truth)).square().mean(0)
    return torch.nn.functional.avg_pool2d(error[None, None], BLOCK_PX)[0, 0].clamp_min(1e-8)


def ssim(picture: Tensor, truth: Tensor) -> float:
    ours, theirs = (linear_to_srgb(p.clamp(0, 1)).movedim(0, -1).numpy() for p in (picture, truth))
    return float(structural_similarity(ours, theirs, channel_axis=-1, data_range=1.0))  # type: ignore[no-untyped-call]


def edges_of(scene: Scene) -> Tensor:  # H W
    """Pixels within EDGE_PX of a step in depth."""
    slope = float(blur_slope_px(scene.stack.focus_distances, scene.stack.camera, scene.stack.magnification).mean())
    blur = slope / scene.depth[None, None]
    step = torch.nn.functional.max_pool2d(blur, 3, 1, 1) + torch.nn.functional.max_pool2d(-blur, 3, 1, 1)
    wide = torch.nn.functional.max_pool2d((step > EDGE_BLUR_PX).float(), 2 * EDGE_PX + 1, 1, EDGE_PX)
    return wide[0, 0] > 0


def pictures_of(stack: FocalStack, with_enfuse: bool, with_measure: bool = False) -> dict[str, Tensor]:
    """3 H W in linear light, of each way."""
    ours = estimate_depth(stack)
    found = {
        "focalsweep": torch.from_numpy(ours.all_in_focus).movedim(-1, 0),
        "depth alone (0.2.0)": by_depth_alone(stack, torch.from_numpy(ours.depth)),
    }
    if with_measure:
        measured = estimate_depth(stack, method="focus_measure")
        found["focus_measure (0.2.0)"] = by_depth_alone(stack, torch.from_numpy(measured.depth))
    return found | ({"enfuse": enfuse(stack.images)} if with_enfuse else {})


def rate(
    scene: Scene, noise: float, seed: int, ways: Callable[[FocalStack], dict[str, Tensor]]
) -> list[dict[str, Any]]:
    """A row for each way."""
    stack = replace(scene.stack, images=photographed(scene.stack.images, noise, seed))
    edges = edges_of(scene)
    best_block = torch.stack([block_errors(frame, scene.sharp) for frame in stack.images]).amin(0)
    single = max(stack.images, key=lambda frame: psnr(frame, scene.sharp))
    rows = []
    for name, picture in {**ways(stack), "best single frame": single}.items():
        lost = 10 * torch.log10(block_errors(picture, scene.sharp) / best_block)
        rows.append({
            "way": name, "noise": noise, "psnr": psnr(picture, scene.sharp), "ssim": ssim(picture, scene.sharp),
            "psnr_at_edges": psnr(picture, scene.sharp, edges) if bool(edges.any()) else None,
            "blocks_kept": float((lost <= BLOCK_DB).float().mean()),
        })  # fmt: skip
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means of each way, and how it stands against enfuse."""
    table = []
    stacks = {(row["stack"], row["noise"]) for row in rows}
    for way in dict.fromkeys(row["way"] for row in rows):
        for noise in (*NOISE, None):
            mine = {(r["stack"], r["noise"]): r for r in rows if r["way"] == way and noise in (None, r["noise"])}
            line: dict[str, Any] = {"way": way, "noise": noise}
            for key in ("psnr", "ssim", "psnr_at_edges", "blocks_kept"):
                line[key] = float(np.mean([row[key] for row in mine.values() if row[key] is not None]))
            rival = {(r["stack"], r["noise"]): r for r in rows if r["way"] == "enfuse"}
            if rival:
                gains = [mine[at]["psnr"] - rival[at]["psnr"] for at in stacks if at in mine]
                line |= {
                    "over_enfuse_db": float(np.mean(gains)),
                    "ahead_of_enfuse": float(np.mean(np.array(gains) > 0)),
                }
                line["ahead_at_edges"] = float(np.mean([
                    mine[at]["psnr_at_edges"] > rival[at]["psnr_at_edges"]
                    for at in stacks if at in mine and mine[at]["psnr_at_edges"] is not None
                ]))  # fmt: skip
            table.append(line)
    return table


app = typer.Typer()


@app.command()
def rendered(
    output: Path,
    stacks: Annotated[int, typer.Option(help="How many.")] = 60,
    size: Annotated[int, typer.Option(help="Of the pictures, px.")] = 192,
    textures: Annotated[str, typer.Option(help="A folder of textures; every fifth is held out, and used.")] = "",
) -> None:
    torch.set_num_threads(1)
    output.mkdir(parents=True, exist_ok=True)
    config = GeneratorConfig(
        size=size, frames=(4, 9), rays=64, worlds=0.5, blur_px=(5.0, 20.0), partial_focus=0.0, odd_aperture=0.0,
        held_out=True, texture_folder=textures, seed=24,
    )  # fmt: skip
    with_enfuse = shutil.which("enfuse") is not None
    rows: list[dict[str, Any]] = []
    start = time.process_time()
    for number in range(stacks):
        scene = kept_scene(output / f"stack-{number:03d}-{size}.npz", config, number)
        for noise in NOISE:
            rated = rate(scene, noise, number, lambda stack: pictures_of(stack, with_enfuse))
            rows += [{"stack": number, **row} for row in rated]
        print(f"stack {number}: " + ", ".join(f"{row['way']} {row['psnr']:.2f}" for row in rows[-4:]), flush=True)
        _keep(output, rows, number + 1, size, start)
    table = summary(rows)
    for line in table:
        print(
            ", ".join(f"{key} {value:.3f}" if isinstance(value, float) else f"{value}" for key, value in line.items())
        )


def _keep(output: Path, rows: list[dict[str, Any]], stacks: int, size: int, start: float) -> None:
    """After every stack: a run that is cut off has what it measured."""
    record = {
        "benchmark": "sharp pictures", **describe(torch.device("cpu"), 0), "stacks": stacks, "size": size,
        "seconds": time.process_time() - start, "summary": summary(rows), "rows": rows,
    }  # fmt: skip
    write_files({output / "sharp-pictures.json": lambda file: file.write(json_bytes(record))})


def detail(picture: Tensor) -> float:  # 3 H W, linear light
    """Energy of the Laplacian in 8-bit grey values, without noise.

    Noise is that of the flattest blocks, told for each brightness on its own: it is not alike in bright and dark.
    """
    grey = 255 * linear_to_srgb(picture.clamp(0, 1)).mean(0, keepdim=True)[None]
    kernel = torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]])
    energy = torch.nn.functional.avg_pool2d(torch.nn.functional.conv2d(grey, kernel).square(), DETAIL_BLOCK_PX)
    bright = torch.nn.functional.avg_pool2d(grey[..., 1:-1, 1:-1], DETAIL_BLOCK_PX).flatten()
    parts = energy.flatten()[bright.argsort()].tensor_split(BRIGHTNESSES)
    return float(torch.cat([(part - part.quantile(FLATTEST)).clamp_min(0) for part in parts]).mean())


@app.command()
def real(
    folder: Path,
    output: Path,
    names: Annotated[str, typer.Option(help="Stacks, commas between; all by default.")] = "",
) -> None:
    torch.set_num_threads(1)
    output.mkdir(parents=True, exist_ok=True)
    rows = []
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        if names and path.name not in names.split(","):
            continue
        try:
            stack = load_stack(path)
        except ValueError:
            stack = load_stack(path, relative=True)
        pictures = pictures_of(stack, shutil.which("enfuse") is not None, with_measure=True)
        row = {"stack": path.name, **{name: detail(picture) for name, picture in pictures.items()}}
        rows.append(row)
        print(", ".join(f"{key} {value:.1f}" if isinstance(value, float) else str(value) for key, value in row.items()))
        for name, picture in pictures.items():
            pixels = srgb_8_bit(picture.movedim(0, -1).contiguous().numpy())
            file = output / f"{path.name}-{name.split()[0].replace('.', '')}.png"
            cv2.imwrite(str(file), np.ascontiguousarray(pixels[..., ::-1]))
    record = {"benchmark": "detail of real stacks", **describe(torch.device("cpu"), 0), "rows": rows}
    write_files({output / "sharp-pictures-real.json": lambda file: file.write(json_bytes(record))})


if __name__ == "__main__":
    app()
