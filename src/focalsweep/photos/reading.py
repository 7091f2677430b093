"""Photos -> `FocalStack`: which files, their settings, their alignment, their pixels in linear light."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from focalsweep.errors import InputError, InputTypeError, Sentence, SettingName, joined
from focalsweep.optics.thin_lens import lens_distance
from focalsweep.photos.alignment import MODES
from focalsweep.photos.alignment_file import check_place, read_alignment
from focalsweep.photos.copies import refuse_copies
from focalsweep.photos.frames import read_stack
from focalsweep.photos.metadata import FrameSettings, read_settings
from focalsweep.photos.microscopy import Hyperstack, read_hyperstack
from focalsweep.photos.odd_files import odd_kind
from focalsweep.photos.photo_stack import Photos, located_errors
from focalsweep.photos.pictures import TIFF_EXTENSIONS
from focalsweep.photos.settings import (
    ARGUMENTS,
    SETTING_NOUNS,
    StackSettings,
    overrides_from_toml,
    stack_settings,
)
from focalsweep.photos.sources import Frame, find_frames, odd_files, read_frames
from focalsweep.photos.stack_file import CAMERA_KEYS, NAME, ORDERS, StackFile, read_stack_file
from focalsweep.photos.stage_settings import STAGE_SETTINGS, StageSettings, stage_settings
from focalsweep.types import Camera, FocalStack, RelativeLens

PhotoFiles = str | Path | Sequence[str | Path]
"""A folder of photos, one file with all frames, or files."""
# Relative depth: the nearest focus is at 1 unit, the farthest at 2, whatever they are in metres.
RELATIVE_FOCUS = (1.0, 2.0)
LEAST_F_NUMBER, LEAST_PIXEL_PITCH = 0.3, 1e-7
RELATIVE_BLUR_PX = 12.0  # between these two, where nothing is known of the lens


def load_stack(
    photos: PhotoFiles,
    *,
    align: str = "auto",
    relative: bool = False,
    alignment: str | Path | None = None,
    save_alignment: str | Path | None = None,
    **overrides: Any,
) -> FocalStack:
    """A focal stack from a folder of photos, a list of files, a TIFF of many pages, or a video.

    Settings come from a stack.toml beside the photos where there is one, from their metadata otherwise; keywords
    override both. What the user should know (values that disagree, frames left out) comes as warnings.

    Args:
        photos: a folder, or files.
        align: "auto" registers the frames unless stack.toml says `aligned = true`; "none" takes them as they are.
        relative: depth without a unit where the focus distances are unknown; files in order, near to far.
        alignment: a file that another call has saved, of photos of the same sweep (another channel, another light):
            nothing is registered, and results lie on each other pixel by pixel.
        save_alignment: the file to save this alignment to.
        **overrides: `focal_length`, `f_number`, `pixel_pitch` (metres), `focus_reference` ("lens" or "sensor"),
            `focus_distances` (metres; one for each photo in order, or {file name: metres}), `order`, `aligned`.
    """
    settings: dict[str, Any] = {"align": align, "relative": relative}
    settings |= {"alignment": alignment, "save_alignment": save_alignment, **overrides}
    frames = open_photos(photos, **settings).register()
    for note in frames.photos.notes:
        warnings.warn(note, stacklevel=2)
    return read_stack(frames)


def open_photos(
    photos: PhotoFiles,
    *,
    align: str = "auto",
    relative: bool = False,
    video_frames: int = 12,
    alignment: str | Path | None = None,
    save_alignment: str | Path | None = None,
    **overrides: Any,
) -> Photos:
    """The photos with their settings, in order of focus; no pixel is read yet."""
    if align not in MODES:
        raise InputError(
            "{align} must be {rule}, but is {value!r}", field="align", rule=" or ".join(MODES), value=align
        )
    known = [*CAMERA_KEYS, "focus_distances", *STAGE_SETTINGS, "channel", "time"]
    unknown = sorted(set(overrides) - set(known))
    if unknown:
        raise InputTypeError(
            "photos have no setting {value!r}: it is one of {rule}",
            field=unknown[0], rule=joined(map(SettingName, known), last=", "), value=unknown[0],
        )  # fmt: skip
    frames, folder, stack_file = _find(photos, video_frames)
    frames, file = _one_channel(frames, overrides.pop("channel", None), overrides.pop("time", None))
    refuse_copies(frames)
    of_stage = {name: overrides.pop(name) for name in STAGE_SETTINGS if name in overrides}
    stage = None if relative else stage_settings([frame.name for frame in frames], stack_file, file, of_stage)
    settings = _settings(frames, stack_file, overrides)
    magnification = [stack_file.magnifications.get(frame.name, 1.0) for frame in frames]
    opened = None
    if stage is not None:
        opened = _on_stage(frames, settings, magnification, stage)
    elif relative or _order_alone(settings):
        opened = _relative(frames, settings, magnification)
    if opened is None:
        opened = _metric(frames, settings, magnification, folder)
    if stage is not None and align == "auto" and not stage.stage.rail:
        align = "shift"
    odd = odd_files(Path(photos)) if isinstance(photos, str | Path) and Path(photos).is_dir() else []
    opened = replace(opened, align="none" if settings.aligned else align, notes=[*settings.notes, *opened.notes, *odd])
    return _with_alignment_files(opened, alignment, save_alignment)


def _with_alignment_files(photos: Photos, alignment: str | Path | None, save: str | Path | None) -> Photos:
    """What is given and wanted of the alignment, checked before any photo is read."""
    if save is not None:
        check_place(Path(save))
        photos = replace(photos, save_alignment=Path(save))
    if alignment is None:
        return photos
    if photos.align == "none":
        raise InputError(
            "{alignment} says how the photos lie, but they are said to be registered already",
            field="alignment", value=alignment, remedy="leave out {alignment}, or {align} and {aligned}",
        )  # fmt: skip
    saved = read_alignment(Path(alignment))
    saved.places(photos.names)
    return replace(photos, alignment=saved)


def find_settings(photos: PhotoFiles, **overrides: Any) -> tuple[StackSettings, Path]:
    """What is known of the photos, in the order given, and their folder."""
    frames, folder, stack_file = _find(photos, 12)
    return _settings(frames, stack_file, overrides), folder


def _settings(frames: list[Frame], stack_file: StackFile, overrides: dict[str, Any]) -> StackSettings:
    """Metadata, under the stack.toml, under the user's word."""
    given = overrides_from_toml(stack_file.camera, _frames_of(stack_file, frames))
    order, distances = overrides.get("order"), overrides.pop("focus_distances", None)
    if order is not None and order not in ORDERS:
        raise InputError(
            "{order} must be {rule}, but is {value!r}", field="order", rule=" or ".join(ORDERS), value=order
        )
    if "focus_reference" in overrides:
        given.pop("reference_source", None)
    given |= overrides
    if distances is not None:
        given["focus_distances"] = given["focus_distances"] | _by_name(distances, frames)
    return stack_settings(_metadata(frames), given)


def _find(photos: PhotoFiles, video_frames: int) -> tuple[list[Frame], Path, StackFile]:
    """The frames, their folder, and its stack.toml; frames that it lists are the stack of a folder."""
    if isinstance(photos, str | Path) and Path(photos).is_dir():
        folder = Path(photos)
        stack_file = read_stack_file(folder)
        names = [frame["file"] for frame in stack_file.frames]
        if len(names) == 1:
            raise ValueError(f"{folder / NAME} lists one photo: a focal stack needs at least 2")
        lost = [name for name in names if not (folder / name).is_file()]
        if names and not lost:
            return [Frame(folder / name) for name in names], folder, stack_file
        frames = find_frames(folder, video_frames=video_frames)
        for name in lost:
            if odd_kind(folder / name):
                raise ValueError(f"{folder / name} is {odd_kind(folder / name)}, no photo: leave it out of {NAME}")
        if lost:  # unless they are pages or frames of the folder's one file
            pages = {frame.name for frame in frames if frame.page is not None}
            lost = [name for name in lost if name not in pages]
            if lost:
                raise FileNotFoundError(f"{folder / lost[0]} does not exist: check the file names in {folder / NAME}")
            frames = [frame for frame in frames if frame.name in names]
        return frames, folder, stack_file
    frames = find_frames(photos, video_frames=video_frames)
    folders = {frame.path.parent for frame in frames}
    if len(folders) > 1:
        raise ValueError(f"photos lie in {len(folders)} folders: put the photos of a stack into one")
    folder = folders.pop()
    return frames, folder, read_stack_file(folder)


def _frames_of(stack_file: StackFile, frames: list[Frame]) -> list[dict[str, Any]]:
    names = {frame.name for frame in frames}
    return [table for table in stack_file.frames if table["file"] in names]


def _by_name(distances: Any, frames: list[Frame]) -> dict[str, Any]:
    if isinstance(distances, Mapping):
        return dict(distances)
    values = list(distances)
    if len(values) != len(frames):
        raise InputError(
            "{focus_distances} has {count} values, but there are {photos} photos ({first} to {last})",
            field="focus_distances", rule=f"{len(frames)} values", value=values, count=len(values), photos=len(frames),
            first=frames[0].name, last=frames[-1].name, remedy="give one for each, in that order",
        )  # fmt: skip
    return {frame.name: value for frame, value in zip(frames, values, strict=True)}


def _metadata(frames: list[Frame]) -> list[FrameSettings]:
    """Of each photo; pages of one file share its settings, without a distance of their own."""
    paths = list(dict.fromkeys(frame.path for frame in frames))
    found = dict(zip(paths, read_settings(paths), strict=True))
    if len(paths) == len(frames):
        return [found[frame.path] for frame in frames]
    return [replace(found[frame.path], file=frame.name, focus_distance=None) for frame in frames]


def _order_alone(settings: StackSettings) -> bool:
    return settings.order is not None and all(value is None for value in settings.focus_distances)


def _metric(frames: list[Frame], settings: StackSettings, magnification: list[float], folder: Path) -> Photos:
    missing = settings.unknown
    if missing:
        unknown = [f for f, value in zip(frames, settings.focus_distances, strict=True) if value is None]
        next(read_frames((unknown or frames)[:1]))  # a file that is no picture has no metadata either: say that
        raise _missing_settings(missing, settings, folder)
    focal_length, f_number, pixel_pitch = settings.focal_length, settings.f_number, settings.pixel_pitch
    assert focal_length and f_number and pixel_pitch  # or they were missing
    distances = [value.value for value in settings.focus_distances if value is not None]
    order = sorted(range(len(frames)), key=distances.__getitem__)
    focus = torch.tensor([distances[i] for i in order], dtype=torch.float64)
    settings = replace(
        settings,
        files=tuple(settings.files[i] for i in order),
        focus_distances=tuple(settings.focus_distances[i] for i in order),
    )
    photos = Photos(
        frames=[frames[i] for i in order],
        settings=settings,
        focus_distances=focus.tolist(),
        camera=Camera(0.05, 2.8, 6e-6),
        magnification=[magnification[i] for i in order],
    )
    with located_errors(photos):
        camera = Camera(focal_length.value, f_number.value, pixel_pitch.value)
        _check_plausible(f_number.value, pixel_pitch.value)
        if settings.focus_reference == "sensor":
            focus = lens_distance(focus, focal_length.value)
        # The stack's own checks, before anything is read: on pictures of one pixel.
        FocalStack(torch.zeros(len(focus), 1, 2, 2), focus, camera)
    return replace(photos, focus_distances=focus.tolist(), camera=camera)


def _check_plausible(f_number: float, pixel_pitch: float) -> None:
    """No real lens or sensor has less; the blur would be larger than any picture."""
    if f_number < LEAST_F_NUMBER:
        raise InputError(
            "{f_number} is {value:g}, below any lens",
            field="f_number", rule=f"at least {LEAST_F_NUMBER:g}", value=f_number, remedy="give it as 2.8 for f/2.8",
        )  # fmt: skip
    if pixel_pitch < LEAST_PIXEL_PITCH:
        raise InputError(
            "{pixel_pitch} is {value:g} m, below any sensor",
            field="pixel_pitch", rule=f"at least {LEAST_PIXEL_PITCH:g} m", value=pixel_pitch,
            remedy="check its unit, a pixel has a few micrometres (in stack.toml: metres)",
        )  # fmt: skip


def _missing_settings(missing: tuple[str, ...], settings: StackSettings, folder: Path) -> InputError:
    arguments = [ARGUMENTS[name] for name in missing]
    what, relative = str(joined(SETTING_NOUNS[name] for name in missing)), Sentence("")
    if "focus_distance" in missing:
        without = [f for f, v in zip(settings.files, settings.focus_distances, strict=True) if v is None]
        if len(without) < len(settings.files):
            what += f" (of {without[0]}{' and others' if len(without) > 1 else ''})"
        relative = Sentence(", or {relative=True} for depth without a unit")
    remedy = Sentence(
        "give {settings}, or add it to {stack.toml}{relative}",
        settings=joined(map(SettingName, arguments), last=", "), relative=relative,
    )  # fmt: skip
    return InputError(
        "{folder}: {what} unknown, the metadata does not say",
        field=arguments[0], rule="known", remedy=remedy, folder=folder, what=what,
    )  # fmt: skip


def _relative(frames: list[Frame], settings: StackSettings, magnification: list[float]) -> Photos:
    """Depth without a unit: only the order of the frames counts."""
    order = list(range(len(frames)))
    known = [value.value if value else None for value in settings.focus_distances]
    if all(value is not None for value in known):
        order.sort(key=lambda i: known[i] or 0.0)
        words = "their focus distances"
    elif settings.order == "far-to-near":
        order.reverse()
        words = "the files, far to near"
    elif settings.order == "auto":
        words = "the files"
    else:
        words = "the files, near to far" if settings.order else Sentence("the files, near to far (else give {order})")
    count = len(frames)
    near, far = 1 / RELATIVE_FOCUS[0], 1 / RELATIVE_FOCUS[1]
    focus = [1 / (near + (far - near) * i / (count - 1)) for i in range(count)]
    settings = replace(
        settings,
        files=tuple(settings.files[i] for i in order),
        focus_distances=tuple(settings.focus_distances[i] for i in order),
    )
    note = Sentence("depth is relative, without a unit: the order of the frames is that of {words}", words=words)
    return Photos(
        frames=[frames[i] for i in order],
        settings=settings,
        focus_distances=focus,
        camera=RelativeLens(RELATIVE_BLUR_PX / (near - far)),  # `estimate` measures how fast the blur really grows
        magnification=[magnification[i] for i in order],
        notes=[note],
    )


def _one_channel(frames: list[Frame], channel: int | None, time: int | None) -> tuple[list[Frame], Hyperstack | None]:
    """Of a microscope's file the pages of one channel at one time, and what the file says."""
    paths = {frame.path for frame in frames}
    file = (
        read_hyperstack(frames[0].path)
        if len(paths) == 1 and frames[0].path.suffix.lower() in TIFF_EXTENSIONS
        else None
    )
    if file is None:
        for name, value in (("channel", channel), ("time", time)):
            if value is not None:
                raise InputError(
                    "{name} is given, but the photos are no microscope's file of several",
                    name=SettingName(name), field=name, value=value, remedy="leave it out",
                )  # fmt: skip
        return frames, None
    chosen = set(file.pages(channel, time))
    return [frame for frame in frames if frame.page in chosen], file


def _on_stage(frames: list[Frame], settings: StackSettings, magnification: list[float], stage: StageSettings) -> Photos:
    """Heights: the plane in focus of each frame, the highest first, as the nearest is of a lens that focuses."""
    distances, lens = stage.stage.lens(len(frames))
    order = distances.argsort(stable=True).tolist()
    notes: list[str] = []
    if lens.measure_blur:
        notes.append(Sentence("how fast the blur grows is measured on the frames: {numerical_aperture} is not known"))
    return Photos(
        frames=[frames[i] for i in order],
        settings=replace(
            settings,
            files=tuple(settings.files[i] for i in order),
            focus_distances=tuple(settings.focus_distances[i] for i in order),
        ),
        focus_distances=distances[order].tolist(),
        camera=lens,
        magnification=[magnification[i] for i in order],
        notes=notes,
        stage=stage,
    )
