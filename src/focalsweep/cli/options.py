"""The options of the commands on photos, and what makes sense of them before any work begins."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from focalsweep.cli.console import find_device, read_numbers, read_positive, read_size
from focalsweep.cli.words import FLAGS
from focalsweep.errors import InputError
from focalsweep.methods.registry import all_methods, describe_methods

if TYPE_CHECKING:
    from focalsweep.to_files import Job
    from focalsweep.types import DepthGrid

PhotosArgument = Annotated[
    list[Path], typer.Argument(help="A folder of photos, files, a TIFF of many pages, or a video of a focus sweep.")
]
Output = Annotated[Path, typer.Option(FLAGS["output"], "-o", help="Folder for the results; made if it is not there.")]


def _one_of(*values: str) -> Callable[[], list[str]]:
    """What a shell completes the option's value with."""
    return lambda: list(values)


Method = Annotated[
    str,
    typer.Option(
        FLAGS["method"],
        help=f"{describe_methods()}. Settings stand behind the name: argmin:planes=80.",
        autocompletion=lambda: list(all_methods()),
    ),
]
Device = Annotated[
    str,
    typer.Option(
        FLAGS["device"],
        help="cpu, cuda, or auto: the GPU where there is one.",
        autocompletion=_one_of("auto", "cpu", "cuda"),
    ),
]
Cache = Annotated[
    Path | None, typer.Option(help="Folder that keeps what is rendered from a dataset's pictures, for further runs.")
]
Align = Annotated[
    str,
    typer.Option(
        FLAGS["align"],
        help="auto: register the frames; shift: by shifts alone; none: they lie on each other already; only: write "
        "them registered, no depth.",
        autocompletion=_one_of("auto", "shift", "none", "only"),
    ),
]
UseAlignment = Annotated[
    Path | None,
    typer.Option(
        FLAGS["alignment"], help="Take the alignment of this file: of the same sweep in another channel or light."
    ),
]
SaveAlignment = Annotated[
    Path | None, typer.Option(FLAGS["save_alignment"], help="Write the alignment to this file, for --use-alignment.")
]
Relative = Annotated[
    bool, typer.Option(FLAGS["relative"], help="Depth without a unit, where focus distances are unknown.")
]
FocalLength = Annotated[
    float | None,
    typer.Option(FLAGS["focal_length"], help="Focal length in millimetres (not the 35 mm equivalent)."),
]
FNumber = Annotated[float | None, typer.Option(FLAGS["f_number"], help="f-number, 2.8 for f/2.8.")]
PixelPitch = Annotated[
    float | None, typer.Option(FLAGS["pixel_pitch"], help="Micrometres a pixel: sensor width / picture width in px.")
]
Distances = Annotated[
    str | None, typer.Option(FLAGS["focus_distances"], help="Metres, one for each photo in order: 0.35,0.5,0.9")
]
Reference = Annotated[
    str | None,
    typer.Option(
        FLAGS["focus_reference"],
        help="What focus distances count from: lens or sensor.",
        autocompletion=_one_of("lens", "sensor"),
    ),
]
Step = Annotated[
    float | None,
    typer.Option(FLAGS["step"], help="A stage or rail moved so many micrometres a frame: heights, with one lens."),
]
PixelSize = Annotated[
    float | None, typer.Option(FLAGS["pixel_size"], help="Micrometres of the specimen that a pixel shows.")
]
Aperture = Annotated[
    float | None,
    typer.Option(FLAGS["numerical_aperture"], help="Of the objective, in air; measured on the frames if not known."),
]
Objective = Annotated[
    str | None,
    typer.Option(FLAGS["objective"], help="Magnification and aperture: 20x/0.45. With --pixel-pitch-um: pixel size."),
]
StageUp = Annotated[
    bool | None,
    typer.Option(
        f"{FLAGS['direction']}/--stage-down", help="Whether the plane in focus rises or sinks from frame to frame."
    ),
]
Rail = Annotated[
    bool, typer.Option(FLAGS["rail"], help="The whole camera moves (macro rail): things grow as it nears them.")
]
Channel = Annotated[int | None, typer.Option(FLAGS["channel"], min=0, help="Of a microscope's file, from 0.")]
Time = Annotated[int | None, typer.Option(FLAGS["time"], min=0, help="Of a microscope's file, from 0.")]
Near = Annotated[float | None, typer.Option(FLAGS["near"], help="Nearest depth to look at, metres.")]
Far = Annotated[float | None, typer.Option(FLAGS["far"], help="Farthest depth to look at, metres; inf is allowed.")]
Refine = Annotated[
    bool,
    typer.Option(
        f"{FLAGS['refine']}/--no-refine", help="Find focus distances inside the ranges that coarse metadata gives."
    ),
]
Calibrate = Annotated[
    str,
    typer.Option(
        FLAGS["calibrate"],
        help="auto: the amount of blur as the photos have it; blur: focus distances are right; focus: the camera is, "
        "and all distances are scaled; off: settings are taken at their word.",
        autocompletion=_one_of("auto", "blur", "focus", "off"),
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        FLAGS["order"],
        help="Of photos without focus distances: near-to-far, far-to-near, or auto, found on the photos.",
        autocompletion=_one_of("near-to-far", "far-to-near", "auto"),
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        FLAGS["known_distance"], help="A measured distance that sets the scale: 0.50@X,Y, metres at that pixel."
    ),
]
Strict = Annotated[
    bool, typer.Option(FLAGS["strict"], help="Settings that do not explain the photos are an error, exit status 2.")
]
LensProfile = Annotated[
    str,
    typer.Option(
        FLAGS["lens"],
        help="A lens profile (focalsweep calibrate makes it), or a folder of them; auto: of your configuration folder "
        "the one of the photos' lens; off: none.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        FLAGS["memory"],
        help="Most memory to take, such as 2GB: the whole process's, on a GPU the GPU's. Slower if tight.",
    ),
]
Export = Annotated[
    str,
    typer.Option(
        FLAGS["exports"], help="More files, commas between: jpg, tif, exr, ply (points), glb, obj, mesh, stl, normals."
    ),
]
Surface = Annotated[
    str,
    typer.Option(
        FLAGS["surface"],
        help="Of meshes: closed, with what nobody has seen bridged, or cut there.",
        autocompletion=_one_of("closed", "cut"),
    ),
]
Sheet = Annotated[
    bool,
    typer.Option(f"{FLAGS['sheet']}/--no-sheet", help="sheet.png: frames, sharp picture, depth, confidence in one."),
]
VideoFrames = Annotated[int, typer.Option(FLAGS["video_frames"], min=2, help="How many frames of a video are taken.")]
Json = Annotated[bool, typer.Option("--json", help="Print a summary as JSON instead of the paths.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]


def check_output(output: Path) -> None:
    """Results can be written there; nothing is made yet."""
    there = next(path for path in (output, *output.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{FLAGS['output']} {output}: {there} is a file, give a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"{FLAGS['output']} {output} cannot be written in {there}: give another folder")


def read_job(
    method: str,
    device: str,
    near: float | None,
    far: float | None,
    refine: bool,
    memory: str | None,
    export: str,
    sheet: bool,
    relative: bool = False,
    strict: bool = False,
    lens: str = "auto",
    surface: str = "closed",
    calibrate: str = "auto",
    known_distance: str | None = None,
) -> Job:
    """The options of a run, or the first that makes no sense."""
    from focalsweep.methods.registry import choose_method
    from focalsweep.results.exports import EXPORTS
    from focalsweep.results.surface import KINDS
    from focalsweep.sweep.known_distance import read_known_distance
    from focalsweep.sweep.self_calibration import check_mode
    from focalsweep.to_files import Job

    choose_method(method).method.check()
    exports = [name.strip() for name in export.split(",") if name.strip()]
    for name in exports:
        if name not in EXPORTS:
            raise InputError(
                "{exports} must be of {rule}, commas between, but has {value!r}",
                field="exports", rule=", ".join(EXPORTS), value=name,
            )  # fmt: skip
    if surface not in KINDS:
        raise InputError(
            "{surface} must be {rule}, but is {value!r}", field="surface", rule=" or ".join(KINDS), value=surface
        )
    settings = {"relative": True} if relative else {}
    return Job(
        method, find_device(device), _planes(near, far), refine, check_mode(calibrate), strict, lens,
        read_size(memory), read_known_distance(known_distance), exports, sheet, settings, surface,
    )  # fmt: skip


def _planes(near: float | None, far: float | None) -> DepthGrid | None:
    from focalsweep.types import DepthGrid

    if near is None and far is None:
        return None
    if near is None or far is None:
        raise InputError("{near} and {far} go together", field="near", remedy="give both, in metres")
    if not 0 < near < far:
        raise InputError(
            "{near} must be above 0 and below {far}, but they are {nearest:g} and {farthest:g} m",
            field="near", value=(near, far), nearest=near, farthest=far,
        )  # fmt: skip
    return DepthGrid.uniform_in_inverse_depth(near, far)


def read_stage(
    step_um: float | None,
    pixel_size_um: float | None,
    numerical_aperture: float | None,
    objective: str | None,
    stage_up: bool | None,
    rail: bool,
    channel: int | None,
    time: int | None,
    pixel_pitch_um: float | None,
) -> dict[str, Any]:
    """What is said of a stage, as `load_stack` takes it."""
    given: dict[str, Any] = {
        "step": _metres(step_um, 1e-6),
        "pixel_size": _metres(read_positive(pixel_size_um, "pixel_size"), 1e-6),
        "numerical_aperture": read_positive(numerical_aperture, "numerical_aperture"),
        "direction": None if stage_up is None else "up" if stage_up else "down",
        "rail": rail or None,
        "channel": channel,
        "time": time,
    }
    if objective is not None:
        found = re.fullmatch(r"\s*([\d.]+)\s*[xX]\s*/\s*([\d.]+)\s*", objective)
        if found is None:
            raise InputError(
                "{objective} must be {rule}, but is {value!r}",
                field="objective", rule="magnification and aperture, 20x/0.45", value=objective,
            )  # fmt: skip
        given["numerical_aperture"] = given["numerical_aperture"] or float(found[2])
        if given["pixel_size"] is None and pixel_pitch_um is not None:
            given["pixel_size"] = pixel_pitch_um * 1e-6 / float(found[1])
    return {name: value for name, value in given.items() if value is not None}


def read_overrides(
    focal_length_mm: float | None,
    f_number: float | None,
    pixel_pitch_um: float | None,
    focus_distances: str | None,
    focus_reference: str | None,
    order: str | None = None,
) -> dict[str, Any]:
    given = {
        "focal_length": _metres(read_positive(focal_length_mm, "focal_length"), 1e-3),
        "f_number": read_positive(f_number, "f_number"),
        "pixel_pitch": _metres(read_positive(pixel_pitch_um, "pixel_pitch"), 1e-6),
        "focus_distances": read_numbers(focus_distances, "focus_distances"),
        "focus_reference": focus_reference,
        "order": order,
    }
    return {name: value for name, value in given.items() if value is not None}


def _metres(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit
