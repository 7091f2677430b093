"""The files of rendered rooms; every stack appears whole or not at all.

OUT/rooms.toml                     how all was rendered
OUT/contact_sheet.png              some of the stacks
OUT/phone_00/frame_0.png ...       8-bit sRGB; or frame_0.jpg, with the flaws of photographs
OUT/phone_00/stack.toml            camera, focus distances, magnifications: as `focalsweep depth` reads them
OUT/phone_00/depth_log.png         16 bit, along the optical axis: 5 cm times exp(code / 10000), so to 5e-5 of it
OUT/phone_00/texture.png           8 bit, thousandths of linear light: its deviation in 9 x 9 px, without noise
OUT/phone_00/room.json             camera, flaws, what is in the room
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from focalsweep.results.figures import srgb_8_bit
from focalsweep.results.writing import Writer, write_files
from focalsweep_research.benchmark.objects import Library
from focalsweep_research.benchmark.settings_file import keep_settings, library_lines
from focalsweep_research.benchmark.workers import Stack
from focalsweep_research.datasets.folder import LOG_PNG, LOG_START, LOG_STEP, read_depth
from focalsweep_research.datasets.rooms import ABOUT, TEXTURE, TEXTURE_STEP
from focalsweep_research.rooms.cameras import blur_px_per_dioptre
from focalsweep_research.rooms.flaws import Flaws, draw_flaws, photographed
from focalsweep_research.rooms.renderer import PlannedStack, RenderedRoom, RoomsConfig, all_stacks
from focalsweep_research.rooms.scenes import VERSION

SETTINGS, SHEET = "rooms.toml", "contact_sheet.png"
ON_SHEET = 12
SHEET_PX = (256, 192)


class RoomFiles:
    """A folder that fills with stacks."""

    def __init__(self, folder: Path, config: RoomsConfig, library: Library) -> None:
        self.folder, self.config, self.library = folder, config, library

    def path(self, stack: Stack) -> Path:
        return self.folder / f"{stack[0]}_{stack[1]:02d}"

    def has(self, stack: Stack) -> bool:
        """All its files appear together, this one among them."""
        return (self.path(stack) / ABOUT).is_file()

    def write_settings(self) -> None:
        """rooms.toml; raises where the folder holds rooms made otherwise."""
        lines = [
            "# Focal stacks of rooms, rendered by focalsweep render rooms: for measuring, never for training.",
            "[render]",
            f"samples = {self.config.samples}  # rays a pixel",
            f"seed = {self.config.seed}",
            f"reduction = {self.config.reduction}  # pictures are so many times smaller a side",
            f"rooms = {VERSION}  # of the program's layout",
            "",
            "[library]",
            *library_lines(self.library),
        ]
        keep_settings(self.folder / SETTINGS, "\n".join(lines) + "\n")

    def write_stack(self, stack: Stack, rendered: RenderedRoom) -> None:
        """All files of a stack, or none."""
        planned, folder = rendered.planned, self.path(stack)
        flaws, pictures = None, []
        if planned.flawed:
            rng = np.random.default_rng([self.config.seed, planned.number, *stack[0].encode()])
            flaws = draw_flaws(rng)
            pictures = photographed(rendered.frames, flaws, rng)
        else:
            pictures = [_png(srgb_8_bit(frame)) for frame in rendered.frames]
        ending = "jpg" if planned.flawed else "png"
        names = [f"frame_{i}.{ending}" for i in range(len(pictures))]
        texture = np.clip(np.rint(rendered.texture / TEXTURE_STEP), 0, 255).astype(np.uint8)
        writers: dict[Path, Writer] = {
            folder / name: partial(_write, data) for name, data in zip(names, pictures, strict=True)
        }
        depth = np.rint(np.log(rendered.depth / LOG_START) / LOG_STEP).clip(1, 65535).astype(np.uint16)
        writers[folder / LOG_PNG] = partial(_write, _png(depth))
        writers[folder / TEXTURE] = partial(_write, _png(texture))
        writers[folder / "stack.toml"] = partial(_write, stack_toml(planned, names).encode())
        writers[folder / ABOUT] = partial(_write, json.dumps(about(rendered, flaws), indent=1).encode())
        write_files(writers)

    def write_sheet(self) -> None:
        """contact_sheet.png: three frames, depth and texture of some stacks."""
        rows = [_row(self.path(stack)) for stack in all_stacks() if self.has(stack)][:ON_SHEET]
        if rows:
            data = _png(np.concatenate(rows))
            write_files({self.folder / SHEET: partial(_write, data)})


def stack_toml(planned: PlannedStack, names: list[str]) -> str:
    """Frames lie on each other but for their flaws; the renderer's field of view is constant, hence magnifications."""
    config = planned.config
    lines = [
        "[camera]",
        f"focal_length = {config.camera.focal_length!r}",
        f"f_number = {config.camera.f_number!r}",
        f"pixel_pitch = {config.camera.pixel_pitch!r}",
        'focus_reference = "lens"',
        "aligned = true",
    ]
    for name, distance, by in zip(names, config.focus_distances, config.magnifications, strict=True):
        lines += ["", "[[frame]]", f'file = "{name}"', f"focus_distance = {distance!r}"]
        lines.append(f"magnification = {by!r}  # constant field of view: (d_f - f) / d_f")
    return "\n".join(lines) + "\n"


def about(rendered: RenderedRoom, flaws: Flaws | None) -> dict[str, Any]:
    planned = rendered.planned
    near, far = float(rendered.depth.min()), float(rendered.depth.max())
    shown = {solid.surface.name for solid in planned.room.solids if solid.surface.name}
    return {
        "camera": planned.camera.name,
        "flaws": asdict(flaws) if flaws else None,
        "room": planned.room.kind,
        "scale": planned.room.scale,
        "near": near,
        "far": far,
        "blur_px": blur_px_per_dioptre(planned.config) * (1 / near - 1 / far),
        "solids": len(planned.room.solids),
        "surfaces": sorted(shown),
        "sky": planned.room.sky,
    }


def _row(folder: Path) -> Any:
    """Three frames, depth from near, warm, to far, cold, and texture."""
    import cv2

    paths = sorted(folder.glob("frame_*"))
    pictures = [np.asarray(cv2.imread(str(paths[i])))[..., ::-1] for i in (0, len(paths) // 2, -1)]
    depth = read_depth(folder)
    assert depth is not None
    inverse = 1 / depth.numpy()
    codes = np.rint(255 * (inverse - inverse.min()) / max(np.ptp(inverse), 1e-9)).astype(np.uint8)
    pictures.append(cv2.applyColorMap(codes, cv2.COLORMAP_TURBO)[..., ::-1])
    texture = np.asarray(cv2.imread(str(folder / TEXTURE), cv2.IMREAD_GRAYSCALE))
    pictures.append(np.repeat(np.minimum(texture, 63)[..., None] * np.uint8(4), 3, 2))
    return np.concatenate([cv2.resize(picture, SHEET_PX, interpolation=cv2.INTER_AREA) for picture in pictures], 1)


def _png(codes: Any) -> bytes:
    """Grey, or RGB."""
    import cv2

    pixels = np.ascontiguousarray(codes[..., ::-1] if codes.ndim == 3 else codes)
    options = [cv2.IMWRITE_PNG_COMPRESSION, 9, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_FILTERED]
    return bytes(cv2.imencode(".png", pixels, options)[1])


def _write(data: bytes, file: IO[bytes]) -> None:
    file.write(data)
