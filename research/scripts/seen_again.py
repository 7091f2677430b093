"""Whether meshes and refocused pictures show what the photos show.

`python research/scripts/seen_again.py meshes OUT RESULTS...`: the closed mesh.glb of each folder that focalsweep depth
wrote, read by trimesh and drawn from the photo's own place, beside the sharp picture: PSNR, holes.

`... refocused OUT STACKS RESULTS`: folders of photos and folders of their results by the same names: the sharp picture
refocused as five frames of each stack were taken, beside those frames.

`... rendered OUT KEPT`: the same with the stacks that sharp_pictures.py kept, all frames.
"""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
import trimesh
import typer

import focalsweep as fs
from focalsweep.results.figures import srgb_8_bit
from focalsweep.results.geometry import space_of
from focalsweep.results.mesh_files import glb_bytes
from focalsweep.results.writing import json_bytes, write_files
from focalsweep_research.environment import describe
from focalsweep_research.synthesis.generator_config import GeneratorConfig
from scripts.sharp_pictures import NOISE, kept_scene, photographed, psnr

REFOCUSED_PX = 1000
BORDER_PX = 10
PIXELS_AT_ONCE = 4e6
Floats = npt.NDArray[np.float64]


def drawn(corners: Floats, nearness: Floats, texture: Floats, size: tuple[int, int], perspective: bool) -> Floats:
    """Texture coordinates H W 2 of the nearest triangle at each pixel's middle, NaN where there is none.

    corners M 3 2 in pixels, nearness M 3 (inverse depth with perspective), texture M 3 2. A plain z-buffer.
    """
    height, width = size
    nearest, shown = np.full(height * width, -np.inf), np.full((height * width, 2), np.nan)
    first = np.maximum(np.ceil(corners.min(1) - 0.5).astype(int), 0)
    last = np.minimum(np.floor(corners.max(1) - 0.5).astype(int), [width - 1, height - 1])
    wide = (last - first + 1).max(1)
    inside = np.nonzero((last >= first).all(1))[0]
    for power in range(int(wide.max()).bit_length() + 1):
        side = 2**power
        alike = inside[(wide[inside] <= side) & (wide[inside] > side // 2)]
        step = max(1, int(PIXELS_AT_ONCE // side**2))
        for start in range(0, len(alike), step):
            some = alike[start : start + step]
            x = np.broadcast_to(first[some, 0, None, None] + np.arange(side), (len(some), side, side))
            y = np.broadcast_to(first[some, 1, None, None] + np.arange(side)[:, None], x.shape)
            weights = _barycentric(corners[some], x + 0.5, y + 0.5)
            here = (weights >= -1e-6).all(-1) & (x < width) & (y < height)
            weights, which, pixel = weights[here], some[np.nonzero(here)[0]], (y * width + x)[here]
            near = (weights * nearness[which]).sum(-1)
            if perspective:
                weights = weights * nearness[which] / near[:, None]
            place = (weights[..., None] * texture[which]).sum(1)
            order = np.argsort(near, kind="stable")
            pixel, near, place = pixel[order], near[order], place[order]
            found, index = np.unique(pixel[::-1], return_index=True)
            index = len(pixel) - 1 - index
            before = near[index] > nearest[found]
            nearest[found[before]], shown[found[before]] = near[index][before], place[index][before]
    return shown.reshape(height, width, 2)


def _barycentric(corners: Floats, x: Floats, y: Floats) -> Floats:
    a, b, c = (corners[:, i, :, None, None] for i in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        second = ((x - a[:, 0]) * (c[:, 1] - a[:, 1]) - (y - a[:, 1]) * (c[:, 0] - a[:, 0])) / area
        third = ((b[:, 0] - a[:, 0]) * (y - a[:, 1]) - (b[:, 1] - a[:, 1]) * (x - a[:, 0])) / area
    return np.nan_to_num(np.stack([1 - second - third, second, third], -1), nan=-1.0)


def mesh_row(result: fs.DepthResult) -> dict[str, Any]:
    start = time.process_time()
    data = glb_bytes(result)
    seconds = time.process_time() - start
    space, size = space_of(result), result.depth.shape
    parts = list(trimesh.load(io.BytesIO(data), file_type="glb", process=False).geometry.values())  # type: ignore[attr-defined]
    picture: Any = np.asarray(parts[0].visual.material.baseColorTexture.convert("RGB"))
    corners = np.concatenate([part.vertices[part.faces] for part in parts])
    texture = np.concatenate([part.visual.uv[part.faces] for part in parts])
    depth = -corners[..., 2] if space.perspective else np.ones(corners.shape[:2])
    x = space.middle[0] + corners[..., 0] / depth / space.pixel
    y = space.middle[1] - corners[..., 1] / depth / space.pixel
    nearness = 1 / depth if space.perspective else corners[..., 2]
    shown = drawn(np.stack([x, y], -1), nearness, texture, (size[0], size[1]), space.perspective)
    holes = np.isnan(shown[..., 0])
    across = (np.nan_to_num(shown[..., 0]) * picture.shape[1] - 0.5).astype(np.float32)
    down = ((1 - np.nan_to_num(shown[..., 1])) * picture.shape[0] - 0.5).astype(np.float32)
    seen = cv2.remap(picture, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    sharp = np.repeat(srgb_8_bit(result.all_in_focus), 3 // result.all_in_focus.shape[-1], -1)
    seen[holes] = 0
    error = float(((seen.astype(np.float32) - sharp) ** 2).mean())
    faces = {"faces": len(corners), "bytes": len(data), "seconds": seconds}
    return {"psnr": 10 * float(np.log10(255**2 / error)), "holes": float(holes.mean()), **faces}


app = typer.Typer()


def _write(output: Path, name: str, rows: list[dict[str, Any]]) -> None:
    record = {"benchmark": name, **describe(torch.device("cpu"), 0), "rows": rows}
    write_files({output / f"{name}.json": lambda file: file.write(json_bytes(record))})


@app.command()
def meshes(output: Path, results: list[Path]) -> None:
    rows = []
    for folder in results:
        rows.append({"stack": folder.name, **mesh_row(fs.load_result(folder))})
        print(rows[-1], flush=True)
    _write(output, "meshes-seen", rows)


@app.command()
def refocused(output: Path, stacks: Path, results: list[Path]) -> None:
    rows = []
    for folder in results:
        result = fs.load_result(folder)
        try:
            stack = fs.load_stack(stacks / folder.name)
        except ValueError:
            stack = fs.load_stack(stacks / folder.name, relative=True)
        count = stack.frame_count
        values = []
        for number in sorted({0, count // 4, count // 2, 3 * count // 4, count - 1}):
            picture = result.refocus(float(stack.focus_distances[number]), size_px=REFOCUSED_PX)
            ours = torch.from_numpy(picture).movedim(-1, 0)
            frame = torch.nn.functional.interpolate(stack.images[number][None], size=ours.shape[-2:], mode="area")[0]
            inside = np.s_[:, BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX]
            values.append(psnr(ours[inside], frame[inside]))
        rows.append({"stack": folder.name, "frames": count, "psnr": float(np.mean(values)), "least": min(values)})
        print(rows[-1], flush=True)
    _write(output, "refocused-real", rows)


@app.command()
def rendered(output: Path, kept: Path, stacks: int = 20) -> None:
    rows: list[dict[str, Any]] = []
    for path in sorted(kept.glob("stack-*.npz"))[:stacks]:
        scene = kept_scene(path, GeneratorConfig(), 0)
        stack = replace(scene.stack, images=photographed(scene.stack.images, NOISE[0], len(rows)))
        result = fs.estimate_depth(stack)
        pictures = [result.refocus(at) for at in stack.focus_distances.tolist()]
        pairs = zip(pictures, scene.stack.images, strict=True)
        values = [psnr(torch.from_numpy(ours).movedim(-1, 0), frame) for ours, frame in pairs]
        rows.append({"stack": path.stem, "frames": len(values), "psnr": float(np.mean(values)), "least": min(values)})
        print(rows[-1], flush=True)
    _write(output, "refocused-rendered", rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    app()
