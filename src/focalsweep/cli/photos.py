"""Commands on the photos of one stack: `depth`, `inspect`, `demo`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from focalsweep.cli.console import print_table, say, say_note, stages
from focalsweep.cli.options import (
    Align,
    Aperture,
    Calibrate,
    Channel,
    Device,
    Distances,
    Export,
    Far,
    FNumber,
    FocalLength,
    Json,
    Known,
    LensProfile,
    Memory,
    Method,
    Near,
    Objective,
    Order,
    Output,
    PhotosArgument,
    PixelPitch,
    PixelSize,
    Quiet,
    Rail,
    Reference,
    Refine,
    Relative,
    SaveAlignment,
    Sheet,
    StageUp,
    Step,
    Strict,
    Surface,
    Time,
    UseAlignment,
    VideoFrames,
    check_output,
    read_job,
    read_overrides,
    read_stage,
)
from focalsweep.cli.words import FLAGS, FLAGS_OF_OTHERS, WORDS
from focalsweep.errors import InputError
from focalsweep.errors import say as say_with
from focalsweep.photos.demo import DEMO_STACK, demo_depth

if TYPE_CHECKING:
    from focalsweep.results.result import DepthResult
    from focalsweep.to_files import Job


def depth(
    photos: PhotosArgument,
    output: Output = Path("out"),
    method: Method = "sweep",
    device: Device = "auto",
    align: Align = "auto",
    use_alignment: UseAlignment = None,
    save_alignment: SaveAlignment = None,
    relative: Relative = False,
    order: Order = None,
    focal_length_mm: FocalLength = None,
    f_number: FNumber = None,
    pixel_pitch_um: PixelPitch = None,
    focus_distances: Distances = None,
    focus_reference: Reference = None,
    step_um: Step = None,
    pixel_size_um: PixelSize = None,
    numerical_aperture: Aperture = None,
    objective: Objective = None,
    stage_up: StageUp = None,
    rail: Rail = False,
    channel: Channel = None,
    time: Time = None,
    near: Near = None,
    far: Far = None,
    refine: Refine = True,
    calibrate: Calibrate = "auto",
    known_distance: Known = None,
    strict: Strict = False,
    lens: LensProfile = "auto",
    memory: Memory = None,
    export: Export = "",
    surface: Surface = "closed",
    sheet: Sheet = True,
    frames: VideoFrames = 12,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Depth in metres, its error bar and the picture sharp all over, from photos of one scene.

    Settings come from the photos' metadata, from a stack.toml beside them, or from the options here, which win.
    Writes depth.npz (depth, std, confidence, camera), depth_mm.png (16 bit), depth.png (for people),
    all_in_focus.png, sheet.png (all at a glance) and run.json.

    Examples: focalsweep depth shots/ -o out/

    focalsweep depth a.jpg b.jpg c.jpg --focus-distances 0.35,0.5,0.9 --export ply,glb
    """
    if align not in ("auto", "shift", "none", "only"):
        raise InputError(
            "{align} must be {rule}, but is {value!r}", field="align", rule="auto, shift, none or only", value=align
        )
    trust: dict[str, Any] = {"strict": strict, "calibrate": calibrate, "known_distance": known_distance, "lens": lens}
    job = read_job(method, device, near, far, refine, memory, export, sheet, surface=surface, **trust)
    check_output(output)
    given = read_overrides(focal_length_mm, f_number, pixel_pitch_um, focus_distances, focus_reference, order)
    given |= read_stage(
        step_um, pixel_size_um, numerical_aperture, objective, stage_up, rail, channel, time, pixel_pitch_um
    )
    given |= {"alignment": use_alignment, "save_alignment": save_alignment}
    settings = {"align": "auto" if align == "only" else align, "relative": relative, "video_frames": frames, **given}
    written, summary = (
        _align_only(photos, output, settings, quiet)
        if align == "only"
        else _estimate(photos, output, replace(job, settings=settings), quiet)
    )
    if json:
        from focalsweep.results.writing import json_bytes

        print(json_bytes(summary).decode(), end="")
        return
    for path in written:
        print(path)


def _estimate(photos: Sequence[Path], output: Path, job: Job, quiet: bool) -> tuple[list[Path], dict[str, Any]]:
    import numpy as np

    from focalsweep.to_files import estimate_to_files

    with stages(quiet) as progress:
        done = estimate_to_files(_source(photos), output, job, progress)
    known = done.result.depth[np.isfinite(done.result.depth)]
    if not quiet:
        for note in done.summary["warnings"]:
            say_note(note)
        if done.result.fit and done.result.fit.fits is not False:
            say(say_with(done.result.fit.sentence, WORDS))
        if known.size:
            near, median, far = np.quantile(known, [0.005, 0.5, 0.995]).tolist()
            say(f"{_spread(done.result, near, median, far)}; look at {output / 'depth.png'}")
    summary = done.summary | {"warnings": [say_with(note, WORDS) for note in done.summary["warnings"]]}
    return done.files, {"files": [str(path) for path in done.files], **summary}


def _spread(result: DepthResult, near: float, median: float, far: float) -> str:
    if result.quantity == "height":
        return f"height from {near * 1e6:.4g} to {far * 1e6:.4g} µm, median {median * 1e6:.4g} µm"
    unit = " m" if result.unit else ", without a unit"
    return f"depth from {near:.3g} to {far:.3g}, median {median:.3g}{unit}"


def _align_only(
    photos: Sequence[Path], output: Path, settings: dict[str, Any], quiet: bool
) -> tuple[list[Path], dict[str, Any]]:
    """The registered frames as 16-bit TIFF, with a stack.toml that says so."""
    from focalsweep.photos.reading import open_photos
    from focalsweep.photos.registered import registered_files
    from focalsweep.results.folder import REGISTERED, write_set
    from focalsweep.results.writing import json_bytes

    with stages(quiet) as progress:
        writers = registered_files(open_photos(_source(photos), **settings), output, progress)
        files = write_set(output, writers, lambda listed: json_bytes({"files": listed}), REGISTERED)
    return files, {"files": [str(path) for path in files]}


def inspect(
    photos: PhotosArgument,
    write: Annotated[
        bool, typer.Option("--write", help="Write what was found to stack.toml beside the photos.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(FLAGS_OF_OTHERS["inspect"]["overwrite"], help="With --write: replace a stack.toml that is there."),
    ] = False,
    focal_length_mm: FocalLength = None,
    f_number: FNumber = None,
    pixel_pitch_um: PixelPitch = None,
    focus_distances: Distances = None,
    focus_reference: Reference = None,
    order: Order = None,
    json: Json = False,
) -> None:
    """What the photos' metadata says, where it comes from, how far to trust it, and what is missing.

    Example: focalsweep inspect shots/ --write
    """
    from focalsweep.photos.reading import find_settings
    from focalsweep.photos.settings import ARGUMENTS, SETTING_NOUNS, write_stack_toml
    from focalsweep.results.writing import json_bytes

    overrides = read_overrides(focal_length_mm, f_number, pixel_pitch_um, focus_distances, focus_reference, order)
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
            missing = ", ".join(f"{SETTING_NOUNS[name]} ({FLAGS[ARGUMENTS[name]]})" for name in settings.unknown)
            say_note(f"still unknown: {missing}: give it here or in stack.toml")
    if write and not json:
        print(path)


def demo(output: Output = Path("out/demo"), method: Method = "sweep", device: Device = "auto") -> None:
    """Depth of a small ray-traced stack that ships in the package, and how far off the result is.

    Example: focalsweep demo -o out/demo
    """
    import numpy as np

    depth([DEMO_STACK], output, method, device)
    with np.load(output / "depth.npz") as saved:
        estimate = saved["depth"]
    truth = demo_depth()
    relative = np.abs(estimate - truth) / truth
    print(f"against the true depth: median error {np.median(relative):.2%}, mean {relative.mean():.2%}")


def _source(photos: Sequence[Path]) -> Any:
    return photos[0] if len(photos) == 1 else list(photos)


def _settings_record(settings: Any) -> dict[str, Any]:
    from focalsweep.photos.values import setting_to_json

    return {
        **{name: setting_to_json(getattr(settings, name)) for name in ("focal_length", "f_number", "pixel_pitch")},
        "focus_reference": {"value": settings.focus_reference, "source": settings.reference_source},
        "frames": [
            {"file": file, "focus_distance": setting_to_json(value)}
            for file, value in zip(settings.files, settings.focus_distances, strict=True)
        ],
        "notes": [say_with(note, WORDS) for note in settings.notes],
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
