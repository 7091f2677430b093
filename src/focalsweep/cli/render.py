"""`focalsweep render`: the benchmark of the paper's Table 1, or one like it for another camera, as files.

OUT/stacks.toml                       camera, focus distances, magnifications, how it was rendered
OUT/index.csv                         which objects, textures and sky are in which stack
OUT/contact_sheet.png                 the first stacks
OUT/train/000000_00All.tif ...        frames, 8-bit sRGB, in the order of the focus distances
OUT/train/000000Dpt.exr               depth in metres: R, G, B in half precision, clipped; Z in full, not clipped
OUT/test/...                          objects, textures and skies that training has not seen
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from focalsweep.cli.console import read_numbers, read_positive, say_note, stages
from focalsweep.cli.options import Quiet, check_output

if TYPE_CHECKING:
    from focalsweep.synthesis.benchmark_objects import Library
    from focalsweep.synthesis.mitsuba import RenderConfig, RenderedStack

SETTINGS, INDEX, SHEET = "stacks.toml", "index.csv", "contact_sheet.png"
FRAME, DEPTH = "{:06d}_{:02d}All.tif", "{:06d}Dpt.exr"
ON_SHEET = {"train": 8, "test": 4}

Stack = tuple[str, int]  # split and number


def render(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the benchmark; complete stacks stay.")],
    train: Annotated[int, typer.Option(min=0, help="Stacks for training.")] = 400,
    test: Annotated[int, typer.Option(min=0, help="Stacks for testing, of objects and textures of their own.")] = 100,
    meshes: Annotated[
        Path | None, typer.Option(help="Folder of NAME.npz (vertices, uv, faces) with NAME.jpg; else made up.")
    ] = None,
    textures: Annotated[
        Path | None, typer.Option(help="Folder of pictures with an index.csv of boxes; join those made up.")
    ] = None,
    skies: Annotated[Path | None, typer.Option(help="Folder of environment maps, NAME.hdr; else an even sky.")] = None,
    focal_length_mm: Annotated[float, typer.Option(help="Focal length in millimetres.")] = 2.9,
    f_number: Annotated[float, typer.Option(help="f-number, 2.8 for f/2.8.")] = 1.0,
    pixel_pitch_um: Annotated[
        float | None, typer.Option(help="Micrometres a pixel; by default a sensor 3.1 mm wide.")
    ] = None,
    focus_distances: Annotated[str, typer.Option(help="Metres, one for each frame.")] = "0.1,0.15,0.3,0.7,1.5",
    size: Annotated[str, typer.Option(help="Pixels: 256, or 384x256 (width first).")] = "256",
    near: Annotated[float, typer.Option(help="Nearest depth of a scene, metres.")] = 0.1,
    far: Annotated[float, typer.Option(help="Farthest depth of a scene, metres; depth is clipped there.")] = 3.0,
    samples: Annotated[int, typer.Option(help="Rays a pixel; the noise goes with 1/sqrt.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Other scenes for another seed.")] = 0,
    start: Annotated[int, typer.Option(min=0, help="First stack of this machine, train before test.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="How many stacks this machine renders.")] = None,
    variant: Annotated[
        str, typer.Option(help="Of Mitsuba: cuda_ad_rgb, llvm_ad_rgb, scalar_rgb; auto takes a GPU or scalar_rgb.")
    ] = "auto",
    quiet: Quiet = False,
) -> None:
    """Render focal stacks with depth: objects in textured rooms through a thin lens, in DefocusNet's file format.

    A run that was stopped goes on where it was; machines share the work by --start and --count.

    Example: focalsweep render -o benchmark --train 400 --test 100 --samples 256
    """
    from focalsweep.synthesis.benchmark_objects import SPLITS, make_library
    from focalsweep.synthesis.mitsuba import RenderConfig, Renderer
    from focalsweep.types import Camera

    rows, columns = read_picture_size(size)
    focal_length = (read_positive(focal_length_mm, "--focal-length-mm") or 0) * 1e-3
    pitch = (read_positive(pixel_pitch_um, "--pixel-pitch-um") or 3100 / columns) * 1e-6
    config = RenderConfig(
        Camera(focal_length, read_positive(f_number, "--f-number") or 0, pitch),
        tuple(read_numbers(focus_distances, "--focus-distances") or ()),
        (rows, columns),
        samples,
        seed,
        near,
        far,
    )
    every: list[Stack] = [("train", i) for i in range(train)] + [("test", i) for i in range(test)]
    mine = every[start : None if count is None else start + count]
    if not mine:
        raise ValueError(f"--start {start} leaves nothing to render: there are {len(every)} stacks")
    check_output(output)
    libraries = {split: make_library(split, meshes, textures, skies) for split in SPLITS}
    renderer = Renderer(config, libraries, variant)
    write_settings(output, config, libraries)
    if not quiet:
        say_note(f"rendering with Mitsuba's {renderer.variant}")
    with stages(quiet) as show:
        show("drawing scenes", 0.0)
        write_index(output, config, libraries, every)
        missing = [stack for stack in mine if not is_complete(output, stack, len(config.focus_distances))]
        frames = len(missing) * len(config.focus_distances)
        done = 0

        def step(name: str) -> None:
            nonlocal done
            done += 1
            show(name, done / frames)

        for split, number in missing:
            stack = renderer.render(split, number, partial(step, f"{split} {number:06d}"))
            write_stack(output, (split, number), stack, config.far)
    write_sheet(output, config, every)
    if not quiet:
        say_note(f"{len(missing)} stacks rendered, {len(mine) - len(missing)} were there")
    print(output)


def read_picture_size(text: str) -> tuple[int, int]:
    """Rows and columns of "256" or "384x256", width first."""
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip().lower())
    if not match:
        raise ValueError(f"--size must be pixels such as 256 or 384x256, but is {text!r}")
    return int(match[2] or match[1]), int(match[1])


def write_settings(output: Path, config: RenderConfig, libraries: dict[str, Library]) -> None:
    """stacks.toml; raises where the folder holds a benchmark made otherwise."""
    from focalsweep.results.writing import write_files

    text = "\n".join(_settings_lines(config, libraries)) + "\n"
    path = output / SETTINGS
    if path.is_file():
        try:
            there = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise ValueError(f"{path} is no valid TOML: remove it, or give another folder") from None
        for name, old, new in _differences(there, tomllib.loads(text)):
            raise ValueError(
                f"{output} holds a benchmark with {name} {old}, not {new}: give another folder or the same settings"
            )
    write_files({path: lambda file: file.write(text.encode())})


def _settings_lines(config: RenderConfig, libraries: dict[str, Library]) -> Iterator[str]:
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
    )
    for split, library in libraries.items():
        digest = hashlib.sha256("\n".join((*library.objects, *library.textures, *library.skies)).encode()).hexdigest()
        yield from ("", f"[library.{split}]")
        yield from (f"{kind} = {len(getattr(library, kind))}" for kind in ("objects", "textures", "skies"))
        yield f'names_sha256 = "{digest}"'


def _differences(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The settings that differ: name, as it was, as it is."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*new, *old]):
            yield from _differences(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    elif old != new:
        yield name, old, new


def write_index(output: Path, config: RenderConfig, libraries: dict[str, Library], stacks: list[Stack]) -> None:
    """index.csv of all stacks, those of other machines included: a scene is drawn long before it is rendered."""
    from focalsweep.results.writing import write_files
    from focalsweep.synthesis.mitsuba import scene_of

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["split", "stack", "scene", "objects", "textures", "sky"])
    for split, number in stacks:
        scene = scene_of(config, libraries[split], number)
        objects = " ".join(sorted({thing.name for thing in scene.things}))
        table.writerow([split, f"{number:06d}", scene.kind, objects, " ".join(scene.textures), scene.sky])
    write_files({output / INDEX: lambda file: file.write(text.getvalue().encode())})


def stack_paths(output: Path, stack: Stack, frames: int) -> tuple[list[Path], Path]:
    split, number = stack
    folder = output / split
    return [folder / FRAME.format(number, i) for i in range(frames)], folder / DEPTH.format(number)


def is_complete(output: Path, stack: Stack, frames: int) -> bool:
    pictures, depth = stack_paths(output, stack, frames)
    return all(path.is_file() and path.stat().st_size > 0 for path in (*pictures, depth))


def write_stack(output: Path, stack: Stack, rendered: RenderedStack, far: float) -> None:
    """All files of a stack, or none."""
    from focalsweep.results.figures import srgb_8_bit
    from focalsweep.results.writing import Writer, write_files

    pictures, depth = stack_paths(output, stack, len(rendered.frames))
    writers: dict[Path, Writer] = {}
    for path, frame in zip(pictures, rendered.frames, strict=True):
        writers[path] = partial(_write_tiff, srgb_8_bit(frame))
    write_files({**writers, depth: partial(_write_depth, rendered.depth, far)})


def _write_tiff(pixels: Any, file: IO[bytes]) -> None:
    import tifffile

    buffer = io.BytesIO()
    tifffile.imwrite(buffer, pixels, photometric="rgb", metadata=None)
    file.write(buffer.getvalue())


def _write_depth(depth: Any, far: float, file: IO[bytes]) -> None:
    """The original's three equal channels in half precision, and ours in full."""
    try:
        import OpenEXR  # type: ignore[import-not-found]
    except ImportError:
        raise ModuleNotFoundError("depth files need the package OpenEXR: pip install 'focalsweep[exports]'") from None
    clipped = np.minimum(depth, far).astype(np.float16)
    channels = {"RGB": np.ascontiguousarray(np.stack([clipped] * 3, -1)), "Z": np.ascontiguousarray(depth)}
    buffer = io.BytesIO()
    OpenEXR.File({"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}, channels).write(buffer)
    file.write(buffer.getvalue())


def read_depth(path: Path) -> Any:
    """H W, metres, not clipped."""
    import OpenEXR

    return OpenEXR.File(str(path)).channels()["Z"].pixels


def write_sheet(output: Path, config: RenderConfig, stacks: list[Stack]) -> None:
    """The first complete stacks of either split: their frames, and depth from near, warm, to far, cold."""
    import matplotlib

    from focalsweep.results.contact_sheet import DESIGN_WIDTH_PX, GAP, INK, MARGIN, TEXT_SIZE, Sheet
    from focalsweep.results.figures import metres
    from focalsweep.results.writing import write_files

    frames = len(config.focus_distances)
    shown = [
        stack
        for split, most in ON_SHEET.items()
        for stack in [one for one in stacks if one[0] == split and is_complete(output, one, frames)][:most]
    ]
    sheet = Sheet(DESIGN_WIDTH_PX)
    width = (DESIGN_WIDTH_PX - 2 * MARGIN - frames * GAP) / (frames + 1)
    height = width * config.size[0] / config.size[1]
    words = [*(metres(distance) for distance in config.focus_distances)]
    words.append(f"depth, {metres(config.near)} to {metres(config.far)}")
    lefts = [MARGIN + i * (width + GAP) for i in range(frames + 1)]
    y: float = MARGIN
    for x, word in zip(lefts, words, strict=True):
        below = sheet.text((x + width / 2, y), word, TEXT_SIZE, INK, "ma")
    y = below + 6
    for stack in shown:
        pictures, depth = stack_paths(output, stack, frames)
        share = np.log(read_depth(depth) / config.near) / np.log(config.far / config.near)
        coloured = matplotlib.colormaps["turbo_r"](np.clip(share, 0, 1))[..., :3]
        panels = [*(_read_tiff(path) for path in pictures), np.rint(255 * coloured).astype(np.uint8)]
        for x, pixels in zip(lefts, panels, strict=True):
            sheet.picture(pixels, (x, y, x + width, y + height))
        y = sheet.text((MARGIN, y + height + 4), f"{stack[0]} {stack[1]:06d}", TEXT_SIZE, INK) + GAP
    data = sheet.png(y + MARGIN)
    write_files({output / SHEET: lambda file: file.write(data)})


def _read_tiff(path: Path) -> Any:
    import tifffile

    return tifffile.imread(path)
