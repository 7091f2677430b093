"""`focalsweep render`: the benchmark of the paper's Table 1, or one like it for another camera; or furnished rooms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalsweep.cli.console import console, read_numbers, read_positive, say, say_note, stages
from focalsweep.cli.options import Quiet, check_output

if TYPE_CHECKING:
    from focalsweep_research.benchmark.workers import Stack, StackFiles, StackMaker

SAMPLES = 64  # of the benchmark
OF_BENCHMARK = (
    "train",
    "test",
    "focal_length_mm",
    "f_number",
    "pixel_pitch_um",
    "focus_distances",
    "size",
    "near",
    "far",
)
OF_ROOMS = ("reduction",)


def render(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the benchmark; complete stacks stay.")],
    what: Annotated[
        str,
        typer.Argument(
            help="benchmark: objects before textured walls, one camera; rooms: furnished rooms, three cameras."
        ),
    ] = "benchmark",
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
    samples: Annotated[
        int | None, typer.Option(help="Rays a pixel, 64 by default, 100 for rooms; the noise goes with 1/sqrt.")
    ] = None,
    reduction: Annotated[int, typer.Option(min=1, help="Of rooms: so many times fewer pixels a side.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Other scenes for another seed.")] = 0,
    start: Annotated[int, typer.Option(min=0, help="First stack of this machine, train before test.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="How many stacks this machine renders.")] = None,
    workers: Annotated[
        int,
        typer.Option(min=1, help="Processes that render; a GPU takes many: 16 were 8 times as fast as 1."),
    ] = 1,
    variant: Annotated[
        str, typer.Option(help="Of Mitsuba: cuda_ad_rgb, llvm_ad_rgb, scalar_rgb; auto takes a GPU or scalar_rgb.")
    ] = "auto",
    quiet: Quiet = False,
) -> None:
    """Render focal stacks with depth through a thin lens: the benchmark (in DefocusNet's file format), or rooms.

    A run that was stopped goes on where it was; machines share the work by --start and --count.

    Example: focalsweep render -o benchmark --train 400 --test 100 --samples 256

    Example: focalsweep render rooms -o rooms --meshes MESHES --textures TEXTURES --skies HDR --workers 14
    """
    if what not in ("benchmark", "rooms"):
        raise ValueError(f"there is no {what!r} to render: it is benchmark or rooms")
    for name in OF_BENCHMARK if what == "rooms" else OF_ROOMS:
        if context.get_parameter_source(name).name == "COMMANDLINE":  # type: ignore[union-attr]
            other = "benchmark" if what == "rooms" else "rooms"
            raise ValueError(f"--{name.replace('_', '-')} is a setting of render {other}, not of render {what}")
    if what == "rooms":
        _render_rooms(output, meshes, textures, skies, samples, reduction, seed, start, count, workers, variant, quiet)
        return
    from focalsweep.types import Camera
    from focalsweep_research.benchmark.files import ON_SHEET, SHEET, BenchmarkFiles
    from focalsweep_research.benchmark.objects import SPLITS, make_library
    from focalsweep_research.benchmark.renderer import RenderConfig, Renderer

    rows, columns = read_picture_size(size)
    focal_length = (read_positive(focal_length_mm, "--focal-length-mm") or 0) * 1e-3
    pitch = (read_positive(pixel_pitch_um, "--pixel-pitch-um") or 3100 / columns) * 1e-6
    config = RenderConfig(
        Camera(focal_length, read_positive(f_number, "--f-number") or 0, pitch),
        tuple(read_numbers(focus_distances, "--focus-distances") or ()),
        (rows, columns),
        SAMPLES if samples is None else samples,
        seed,
        near,
        far,
    )
    every = [("train", i) for i in range(train)] + [("test", i) for i in range(test)]
    mine = _share(every, start, count)
    check_output(output)
    libraries = {split: make_library(split, meshes, textures, skies) for split in SPLITS}
    files = BenchmarkFiles(output, config)
    renderer = Renderer(config, libraries, variant)
    files.write_settings(libraries)
    if not quiet:
        say_note(f"rendering with Mitsuba's {renderer.variant}")
    files.write_index(libraries, every)
    missing = [stack for stack in mine if not files.has(stack)]
    # The sheet is drawn when the last of the stacks on it is there, for either split: something to look at soon.
    ends = dict(stack for stack in missing if stack[1] < ON_SHEET[stack[0]]).items()
    for stack in _rendered(files, renderer, missing, workers, quiet):
        if stack in ends:
            files.write_sheet()
    if ends or not (output / SHEET).is_file():  # workers may have finished a stack of the sheet after its last one
        files.write_sheet()
    if not quiet:
        say_note(f"{len(missing)} stacks rendered, {len(mine) - len(missing)} were there")
    print(output)


def _render_rooms(
    output: Path,
    meshes: Path | None,
    textures: Path | None,
    skies: Path | None,
    samples: int | None,
    reduction: int,
    seed: int,
    start: int,
    count: int | None,
    workers: int,
    variant: str,
    quiet: bool,
) -> None:
    """Held-out objects and textures in furnished rooms, seen by three cameras."""
    from focalsweep_research.benchmark.objects import make_library
    from focalsweep_research.rooms.files import SHEET, RoomFiles
    from focalsweep_research.rooms.renderer import SAMPLES, RoomRenderer, RoomsConfig, all_stacks

    config = RoomsConfig(SAMPLES if samples is None else samples, seed, reduction)
    mine = _share(all_stacks(), start, count)
    check_output(output)
    library = make_library("test", meshes, textures, skies)
    files = RoomFiles(output, config, library)
    renderer = RoomRenderer(config, library, variant)
    files.write_settings()
    if not quiet:
        say_note(f"rendering with Mitsuba's {renderer.variant}")
    missing = [stack for stack in mine if not files.has(stack)]
    for _ in _rendered(files, renderer, missing, workers, quiet):
        pass
    if missing or not (output / SHEET).is_file():
        files.write_sheet()
    if not quiet:
        say_note(f"{len(missing)} stacks rendered, {len(mine) - len(missing)} were there")
    print(output)


def _share(every: list[Stack], start: int, count: int | None) -> list[Stack]:
    """Those of this machine."""
    mine = every[start : None if count is None else start + count]
    if not mine:
        raise ValueError(f"--start {start} leaves nothing to render: there are {len(every)} stacks")
    return mine


def _rendered(
    files: StackFiles, renderer: StackMaker, missing: list[Stack], workers: int, quiet: bool
) -> Iterator[Stack]:
    """Each stack when it is written, with a bar, or lines where that is no terminal."""
    from focalsweep_research.benchmark.workers import StackRenderer, stack_name

    stack_renderer = StackRenderer(files, renderer)
    frames, done = sum(map(renderer.frame_count, missing)), 0
    with stages(quiet) as show:

        def step(stack: Stack, count: int = 1) -> None:
            nonlocal done
            done += count
            show(stack_name(stack), done / frames)

        finished = (
            stack_renderer.side_by_side(missing, workers, step)
            if workers > 1
            else stack_renderer.in_turn(missing, step)
        )
        for i, (stack, seconds) in enumerate(finished, start=1):
            yield stack
            if not (quiet or console.is_terminal):  # a log has no bar
                say(f"{stack_name(stack)}, {i} of {len(missing)}, {seconds:.1f} s")


def read_picture_size(text: str) -> tuple[int, int]:
    """Rows and columns of "256" or "384x256", width first."""
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip().lower())
    if not match:
        raise ValueError(f"--size must be pixels such as 256 or 384x256, but is {text!r}")
    return int(match[2] or match[1]), int(match[1])
