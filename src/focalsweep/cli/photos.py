"""Commands on the photos of one stack: `depth`, `inspect`, `demo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from focalsweep.cli.console import print_table, say, say_note, stages
from focalsweep.cli.options import (
    Align,
    Device,
    Distances,
    Export,
    Far,
    FNumber,
    FocalLength,
    Json,
    Memory,
    Method,
    Near,
    Output,
    PhotosArgument,
    PixelPitch,
    Quiet,
    Reference,
    Refine,
    Relative,
    Sheet,
    VideoFrames,
    check_output,
    read_job,
    read_overrides,
)

if TYPE_CHECKING:
    from focalsweep.photos.reading import Photos

DEMO_STACK = Path(__file__).resolve().parent.parent / "demo_stack"


def depth(
    photos: PhotosArgument,
    output: Output = Path("out"),
    method: Method = "sweep",
    device: Device = "auto",
    align: Align = "auto",
    relative: Relative = False,
    focal_length_mm: FocalLength = None,
    f_number: FNumber = None,
    pixel_pitch_um: PixelPitch = None,
    focus_distances: Distances = None,
    focus_reference: Reference = None,
    near: Near = None,
    far: Far = None,
    refine: Refine = True,
    memory: Memory = None,
    export: Export = "",
    sheet: Sheet = False,
    frames: VideoFrames = 12,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Depth in metres, its error bar and the picture sharp all over, from photos of one scene.

    Settings come from the photos' metadata, from a stack.toml beside them, or from the options here, which win.
    Writes depth.npz (depth, std, confidence, camera), depth_mm.png (16 bit), depth.png (for people),
    all_in_focus.png and run.json.

    Examples: focalsweep depth shots/ -o out/

    focalsweep depth a.jpg b.jpg c.jpg --focus-distances 0.35,0.5,0.9 --export ply,glb
    """
    if align not in ("auto", "none", "only"):
        raise ValueError(f"--align must be auto, none or only, but is {align!r}")
    job = read_job(method, device, near, far, refine, memory, export, sheet)
    check_output(output)
    opened = _open(
        photos, "auto" if align == "only" else align, relative, frames, focal_length_mm=focal_length_mm,
        f_number=f_number, pixel_pitch_um=pixel_pitch_um, focus_distances=focus_distances,
        focus_reference=focus_reference,
    )  # fmt: skip
    if align == "only":
        written = _write_registered(opened, output, quiet)
        summary: dict[str, Any] = {"files": [str(path) for path in written]}
    else:
        from focalsweep.batch.one_stack import estimate_to_files

        with stages(quiet) as stage:
            written, summary = estimate_to_files(opened, output, job, stage)
        summary = {"files": [str(path) for path in written], **summary}
        for note in summary["warnings"] if not quiet else ():
            say_note(note)
    if json:
        from focalsweep.results.writing import json_bytes

        print(json_bytes(summary).decode(), end="")
        return
    for path in written:
        print(path)
    if summary.get("median_m") is not None and not quiet:
        unit = "" if opened.relative else " m"
        span = f"{summary['near_m']:.3g} to {summary['far_m']:.3g}{unit}"
        say(f"depth from {span}, median {summary['median_m']:.3g}{unit}; look at {output / 'depth.png'}")


def inspect(
    photos: PhotosArgument,
    write: Annotated[
        bool, typer.Option("--write", help="Write what was found to stack.toml beside the photos.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --write: replace a stack.toml that is there.")] = False,
    focal_length_mm: FocalLength = None,
    f_number: FNumber = None,
    pixel_pitch_um: PixelPitch = None,
    focus_distances: Distances = None,
    focus_reference: Reference = None,
    json: Json = False,
) -> None:
    """What the photos' metadata says, where it comes from, how far to trust it, and what is missing.

    Example: focalsweep inspect shots/ --write
    """
    from focalsweep.photos.reading import find_settings
    from focalsweep.photos.settings import FLAGS, WORDS, write_stack_toml
    from focalsweep.results.writing import json_bytes

    overrides = read_overrides(focal_length_mm, f_number, pixel_pitch_um, focus_distances, focus_reference)
    settings, folder = find_settings(_source(photos), **overrides)
    path = folder / "stack.toml"
    if write:
        write_stack_toml(path, settings, overwrite=force)
    if json:
        written = {"written": str(path)} if write else {}
        print(json_bytes(_settings_record(settings) | written).decode(), end="")
    else:
        print_table(_settings_table(settings))
        for note in settings.notes:
            say_note(note)
        if settings.unknown:
            missing = ", ".join(f"{WORDS[name]} ({FLAGS[name]})" for name in settings.unknown)
            say_note(f"still unknown: {missing}: give it here or in stack.toml")
    if write and not json:
        print(path)


def demo(output: Output = Path("out/demo"), method: Method = "sweep", device: Device = "auto") -> None:
    """Depth of a small ray-traced stack that ships in the package, and how far off the result is.

    Example: focalsweep demo -o out/demo
    """
    import cv2
    import numpy as np

    depth([DEMO_STACK], output, method, device)
    with np.load(output / "depth.npz") as saved:
        estimate = saved["depth"]
    steps = cv2.imread(str(DEMO_STACK / "depth_tenth_mm.png"), cv2.IMREAD_UNCHANGED)
    truth = np.asarray(steps, dtype=np.float64) * 1e-4
    relative = np.abs(estimate - truth) / truth
    print(f"against the true depth: median error {np.median(relative):.2%}, mean {relative.mean():.2%}")


def _source(photos: Sequence[Path]) -> Any:
    return photos[0] if len(photos) == 1 else list(photos)


def _open(photos: Sequence[Path], align: str, relative: bool, video_frames: int, **flags: Any) -> Photos:
    from focalsweep.photos.reading import open_photos

    given = read_overrides(**flags) if flags else {}
    return open_photos(_source(photos), align=align, relative=relative, video_frames=video_frames, **given)


def _write_registered(photos: Photos, output: Path, quiet: bool) -> list[Path]:
    """The registered frames as 16-bit TIFF in linear light's sRGB encoding, with a stack.toml that says so."""
    from focalsweep.photos.registered import registered_files
    from focalsweep.results.writing import write_files

    with stages(quiet) as stage:
        return write_files(registered_files(photos, output, stage))


def _settings_record(settings: Any) -> dict[str, Any]:
    from focalsweep.from_photos import told

    return {
        **{name: told(getattr(settings, name)) for name in ("focal_length", "f_number", "pixel_pitch")},
        "focus_reference": {"value": settings.focus_reference, "source": settings.reference_source},
        "frames": [
            {"file": file, "focus_distance": told(value)}
            for file, value in zip(settings.files, settings.focus_distances, strict=True)
        ],
        "notes": list(settings.notes),
        "unknown": list(settings.unknown),
    }


def _settings_table(settings: Any) -> Table:
    table = Table("setting", "value", "between", "source")

    def row(name: str, value: Any, factor: float, unit: str) -> None:
        if value is None:
            table.add_row(Text(name), "unknown", "", "")
            return
        low, middle, high = (f"{part * factor:.4g}" for part in (value.low, value.value, value.high))
        between = "" if low == high else f"{low} to {high}"
        table.add_row(Text(name), f"{middle} {unit}", between, Text(value.source))

    row("focal length", settings.focal_length, 1e3, "mm")
    row("f-number", settings.f_number, 1.0, "")
    row("pixel pitch", settings.pixel_pitch, 1e6, "um")
    table.add_row("distances from the", settings.focus_reference, "", settings.reference_source)
    for file, value in zip(settings.files, settings.focus_distances, strict=True):
        row(file, value, 1.0, "m")
    return table
