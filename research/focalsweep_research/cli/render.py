"""`focalsweep render`: the benchmark of the paper's Table 1, or one like it for another camera."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from focalsweep.cli.console import console, read_numbers, read_positive, say, say_note, stages
from focalsweep.cli.options import Quiet, check_output

if TYPE_CHECKING:
    from focalsweep_research.benchmark.files import Stack


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
    workers: Annotated[
        int,
        typer.Option(min=1, help="Processes that render; a GPU takes many: 16 were 8 times as fast as 1."),
    ] = 1,
    variant: Annotated[
        str, typer.Option(help="Of Mitsuba: cuda_ad_rgb, llvm_ad_rgb, scalar_rgb; auto takes a GPU or scalar_rgb.")
    ] = "auto",
    quiet: Quiet = False,
) -> None:
    """Render focal stacks with depth: objects in textured rooms through a thin lens, in DefocusNet's file format.

    A run that was stopped goes on where it was; machines share the work by --start and --count.

    Example: focalsweep render -o benchmark --train 400 --test 100 --samples 256
    """
    from focalsweep.types import Camera
    from focalsweep_research.benchmark.files import ON_SHEET, SHEET, BenchmarkFiles
    from focalsweep_research.benchmark.objects import SPLITS, make_library
    from focalsweep_research.benchmark.renderer import RenderConfig, Renderer
    from focalsweep_research.benchmark.workers import StackRenderer, stack_name

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
    every = [("train", i) for i in range(train)] + [("test", i) for i in range(test)]
    mine = every[start : None if count is None else start + count]
    if not mine:
        raise ValueError(f"--start {start} leaves nothing to render: there are {len(every)} stacks")
    check_output(output)
    libraries = {split: make_library(split, meshes, textures, skies) for split in SPLITS}
    files = BenchmarkFiles(output, config)
    renderer = Renderer(config, libraries, variant)
    files.write_settings(libraries)
    if not quiet:
        say_note(f"rendering with Mitsuba's {renderer.variant}")
    stack_renderer = StackRenderer(files, renderer)
    with stages(quiet) as show:
        show("drawing scenes", 0.0)
        files.write_index(libraries, every)
        missing = [stack for stack in mine if not files.has(stack)]
        # The sheet is drawn when the last of the stacks on it is there, for either split: something to look at soon.
        ends = dict(stack for stack in missing if stack[1] < ON_SHEET[stack[0]]).items()
        frames, done = len(missing) * len(config.focus_distances), 0

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
            if stack in ends:
                files.write_sheet()
            if not (quiet or console.is_terminal):  # a log has no bar
                say(f"{stack_name(stack)}, {i} of {len(missing)}, {seconds:.1f} s")
    if ends or not (output / SHEET).is_file():  # workers may have finished a stack of the sheet after its last one
        files.write_sheet()
    if not quiet:
        say_note(f"{len(missing)} stacks rendered, {len(mine) - len(missing)} were there")
    print(output)


def read_picture_size(text: str) -> tuple[int, int]:
    """Rows and columns of "256" or "384x256", width first."""
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip().lower())
    if not match:
        raise ValueError(f"--size must be pixels such as 256 or 384x256, but is {text!r}")
    return int(match[2] or match[1]), int(match[1])
