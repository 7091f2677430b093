"""Commands on photos: `depth`, `inspect`, `batch`, `demo`."""

from __future__ import annotations

import csv
import io
import time
import warnings
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
    Job,
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
from focalsweep.failures import FAILURES, sentence

if TYPE_CHECKING:
    from focalsweep.photos.reading import Photos

DEMO_STACK = Path(__file__).resolve().parent.parent / "demo_stack"
COLUMNS = ("stack", "status", "frames", "width", "height", "near_m", "median_m", "far_m", "seconds", "message")


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
    job = read_job(method, device, near, far, refine, memory, export, sheet, quiet)
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
        written, summary = _estimate(opened, output, job)
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


def batch(
    folder: Annotated[Path, typer.Argument(help="A folder whose folders are stacks.")],
    output: Output = Path("out"),
    method: Method = "sweep",
    device: Device = "auto",
    relative: Relative = False,
    memory: Memory = None,
    export: Export = "",
    sheet: Sheet = False,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out stacks that have a result already.")] = False,
    quiet: Quiet = False,
) -> None:
    """Every stack of a folder of folders; results.csv has a line for each. One bad stack does not stop the rest.

    Exit status 1 where any of them failed.

    Example: focalsweep batch scans/ -o results/ --resume
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: give one whose folders hold the photos of a stack each")
    folders = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    stacks = sorted(path for path in folders if path.resolve() != output.resolve())
    if not stacks:
        raise ValueError(f"{folder} has no folders: put the photos of each stack into one, or use focalsweep depth")
    job = read_job(method, device, None, None, True, memory, export, sheet, quiet)
    check_output(output)
    earlier = _read_csv(output / "results.csv") if resume else {}
    rows: list[dict[str, Any]] = []
    failed = 0
    for number, stack in enumerate(stacks):
        target = output / stack.name
        if resume and (target / "run.json").is_file():
            rows.append(earlier.get(stack.name, {}) | {"stack": stack.name, "status": "kept"})
            continue
        start = time.perf_counter()
        try:
            _, summary = _estimate(_open([stack], "auto", relative, 12), target, job)
            summary.pop("files")
            row = {"stack": stack.name, "status": "done", **summary}
        except FAILURES as error:
            failed += 1
            row = {"stack": stack.name, "status": "failed", "message": sentence(error)}
            if not quiet:
                say_note(f"{stack.name}: {sentence(error)}")
        rows.append(row | {"seconds": round(time.perf_counter() - start, 2)})
        _write_csv(rows, output / "results.csv")
        if not quiet:
            say(f"{number + 1} of {len(stacks)}: {stack.name} {row['status']}")
    _write_csv(rows, output / "results.csv")
    print(output / "results.csv")
    if failed:
        raise typer.Exit(1)


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


def _estimate(photos: Photos, output: Path, job: Job) -> tuple[list[Path], dict[str, Any]]:
    """Work on a stack, write its results, and say what came out."""
    import numpy as np

    from focalsweep.from_photos import depth_from_photos
    from focalsweep.results.contact_sheet import contact_sheet
    from focalsweep.results.writing import write_files

    start = time.perf_counter()
    with stages(job.quiet) as stage:
        result, stack = depth_from_photos(
            photos, job.method, planes=job.planes, refine=job.refine, memory=job.memory, device=job.device, stage=stage
        )
        stage("writing", 0.0)
        png = contact_sheet(stack, result) if job.sheet else b""
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            written = result.save(output, job.exports, lambda share: stage("writing", share))
    notes = result.record["warnings"]
    if not job.quiet:
        for note in notes:
            say_note(note)
    for warning in raised if not job.quiet else ():
        say_note(str(warning.message))
    if png:
        written += write_files({output / "sheet.png": lambda file: file.write(png)})
    known = result.depth[np.isfinite(result.depth)]
    levels = np.quantile(known, [0.005, 0.5, 0.995]).tolist() if known.size else (None, None, None)
    near, median, far = levels
    height, width = result.depth.shape
    summary = {
        "files": [str(path) for path in written], "frames": stack.frame_count, "width": width, "height": height,
        "near_m": near, "median_m": median, "far_m": far, "relative": photos.relative, "warnings": notes,
        "seconds": round(time.perf_counter() - start, 2),
    }  # fmt: skip
    return written, summary


def _write_registered(photos: Photos, output: Path, quiet: bool) -> list[Path]:
    """The registered frames as 16-bit TIFF in linear light's sRGB encoding, with a stack.toml that says so."""
    from focalsweep.photos.registered import registered_files
    from focalsweep.results.writing import write_files

    with stages(quiet) as stage:
        return write_files(registered_files(photos, output, stage))


def _read_csv(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of an earlier run by stack."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["stack"]: row for row in csv.DictReader(file) if row.get("stack")}


def _write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    from focalsweep.results.writing import write_files

    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_files({path: lambda file: file.write(text.getvalue().encode())})


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
