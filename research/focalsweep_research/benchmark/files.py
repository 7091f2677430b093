"""The files of a rendered benchmark; every one appears whole or not at all.

OUT/stacks.toml                       camera, focus distances, magnifications, how it was rendered
OUT/index.csv                         which objects, textures and sky are in which stack
OUT/contact_sheet.png                 the first stacks
OUT/train/000000_00All.tif ...        frames, 8-bit sRGB, in the order of the focus distances
OUT/train/000000Dpt.exr               depth in metres: R, G, B in half precision, clipped; Z in full, not clipped
OUT/test/...                          objects, textures and skies that training has not seen
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import matplotlib
import numpy as np
import tifffile

from focalsweep.results.contact_sheet import DESIGN_WIDTH_PX, GAP, INK, MARGIN, TEXT_SIZE, Sheet
from focalsweep.results.figures import metres, srgb_8_bit
from focalsweep.results.writing import Writer, write_files
from focalsweep_research.benchmark.objects import Library
from focalsweep_research.benchmark.renderer import RenderConfig, RenderedStack, scene_of
from focalsweep_research.benchmark.scenes import VERSION
from focalsweep_research.benchmark.settings_file import keep_settings, library_lines
from focalsweep_research.benchmark.workers import Stack
from focalsweep_research.datasets.defocusnet import SETTINGS

INDEX, SHEET = "index.csv", "contact_sheet.png"
FRAME, DEPTH = "{:06d}_{:02d}All.tif", "{:06d}Dpt.exr"
ON_SHEET = {"train": 8, "test": 4}


class BenchmarkFiles:
    """A folder that fills with stacks, perhaps from several machines."""

    def __init__(self, folder: Path, config: RenderConfig) -> None:
        _load_openexr()  # before hours of work
        self.folder = folder
        self.config = config

    def paths(self, stack: Stack) -> tuple[list[Path], Path]:
        """Frames, and depth."""
        split, number = stack
        folder, frames = self.folder / split, range(len(self.config.focus_distances))
        return [folder / FRAME.format(number, i) for i in frames], folder / DEPTH.format(number)

    def has(self, stack: Stack) -> bool:
        """All its files are there: each was whole when it appeared."""
        frames, depth = self.paths(stack)
        return all(path.is_file() and path.stat().st_size > 0 for path in (*frames, depth))

    def write_settings(self, libraries: Mapping[str, Library]) -> None:
        """stacks.toml; raises where the folder holds a benchmark made otherwise."""
        text = "\n".join(_settings_lines(self.config, libraries)) + "\n"
        keep_settings(self.folder / SETTINGS, text)

    def write_index(self, libraries: Mapping[str, Library], stacks: list[Stack]) -> None:
        """index.csv of all stacks asked for, those of other machines included, and of any that are there beyond them.

        A scene is drawn long before it is rendered.
        """
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["split", "stack", "scene", "objects", "textures", "sky"])
        for split, library in libraries.items():
            numbers = {number for one, number in stacks if one == split}
            numbers |= {int(path.name[:6]) for path in self.folder.glob(f"{split}/[0-9]*Dpt.exr")}
            for number in sorted(numbers):
                scene = scene_of(self.config, library, number)
                objects = " ".join(sorted({thing.name for thing in scene.things}))
                table.writerow([split, f"{number:06d}", scene.kind, objects, " ".join(scene.textures), scene.sky])
        write_files({self.folder / INDEX: lambda file: file.write(text.getvalue().encode())})

    def write_stack(self, stack: Stack, rendered: RenderedStack) -> None:
        """All files of a stack, or none."""
        pictures, depth = self.paths(stack)
        writers: dict[Path, Writer] = {}
        for path, frame in zip(pictures, rendered.frames, strict=True):
            writers[path] = partial(_write_tiff, srgb_8_bit(frame))
        write_files({**writers, depth: partial(_write_depth, rendered.depth, self.config.far)})

    def write_sheet(self) -> None:
        """contact_sheet.png: the first stacks' frames, and depth from near, warm, to far, cold, in equal ratios."""
        shown = [(split, i) for split, most in ON_SHEET.items() for i in range(most) if self.has((split, i))]
        config = self.config
        words = [metres(distance) for distance in config.focus_distances]
        words.append(f"depth, {metres(config.near)} to {metres(config.far)}")
        sheet = Sheet(DESIGN_WIDTH_PX)
        width = (DESIGN_WIDTH_PX - 2 * MARGIN - (len(words) - 1) * GAP) / len(words)
        height = width * config.size[0] / config.size[1]
        lefts = [MARGIN + i * (width + GAP) for i in range(len(words))]
        y: float = MARGIN
        for x, word in zip(lefts, words, strict=True):
            below = sheet.text((x + width / 2, MARGIN), word, TEXT_SIZE, INK, "ma")
        y = below + 6
        for stack in shown:
            pictures, path = self.paths(stack)
            share = np.log(read_depth(path) / config.near) / np.log(config.far / config.near)
            coloured = matplotlib.colormaps["turbo_r"](np.clip(share, 0, 1))[..., :3]
            panels = [*(tifffile.imread(path) for path in pictures), np.rint(255 * coloured).astype(np.uint8)]
            for x, pixels in zip(lefts, panels, strict=True):
                sheet.picture(pixels, (x, y, x + width, y + height))
            y = sheet.text((MARGIN, y + height + 4), f"{stack[0]} {stack[1]:06d}", TEXT_SIZE, INK) + GAP
        data = sheet.png(y + MARGIN)
        write_files({self.folder / SHEET: lambda file: file.write(data)})


def _settings_lines(config: RenderConfig, libraries: Mapping[str, Library]) -> Iterator[str]:
    yield from (
        "# Focal stacks rendered by focalsweep render; lengths in metres. Frames of a stack register (aligned).",
        "",
        "[camera]",
        f"focal_length = {config.camera.focal_length!r}",
        f"f_number = {config.camera.f_number!r}",
        f"pixel_pitch = {config.camera.pixel_pitch!r}",
        'focus_reference = "lens"',
        "aligned = true",
    )
    for i, (distance, scale) in enumerate(zip(config.focus_distances, config.magnifications, strict=True)):
        yield from ("", "[[frame]]", f'file = "%06d_{i:02d}All.tif"', f"focus_distance = {distance!r}")
        yield f"magnification = {scale!r}  # constant field of view: (d_f - f) / d_f"
    yield from (
        "",
        "[depth]  # along the optical axis; R, G, B are clipped at far, Z is not (inf: nothing there)",
        'file = "%06dDpt.exr"',
        f"near = {config.near!r}",
        f"far = {config.far!r}",
        "",
        "[render]",
        f"size = [{config.size[0]}, {config.size[1]}]  # rows, columns",
        f"samples = {config.samples}  # rays a pixel",
        f"seed = {config.seed}",
        f"scenes = {VERSION}  # of the program's layout",
    )
    for split, library in libraries.items():
        yield from ("", f"[library.{split}]", *library_lines(library))


def _write_tiff(pixels: Any, file: IO[bytes]) -> None:
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, pixels, photometric="rgb", metadata=None)
    file.write(buffer.getvalue())


def _load_openexr() -> Any:
    try:
        import OpenEXR  # type: ignore[import-not-found]
    except ImportError:
        raise ModuleNotFoundError("depth files need the package OpenEXR: pip install 'focalsweep-research'") from None
    return OpenEXR


def _write_depth(depth: Any, far: float, file: IO[bytes]) -> None:
    """The original's three equal channels in half precision, and ours in full."""
    exr = _load_openexr()
    clipped = np.minimum(depth, far).astype(np.float16)
    channels = {"RGB": np.ascontiguousarray(np.stack([clipped] * 3, -1)), "Z": np.ascontiguousarray(depth)}
    buffer = io.BytesIO()
    exr.File({"compression": exr.ZIP_COMPRESSION, "type": exr.scanlineimage}, channels).write(buffer)
    file.write(buffer.getvalue())


def read_depth(path: Path) -> Any:
    """H W, metres, not clipped."""
    return _load_openexr().File(str(path)).channels()["Z"].pixels
