"""Photos -> `FocalStack`: which files, their settings, their alignment, their pixels in linear light."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from focalsweep.errors import InputError, InputTypeError, Sentence, SettingError, SettingName, joined, located
from focalsweep.optics.thin_lens import lens_distance
from focalsweep.photos.alignment import MODES, Alignment, measure_alignment
from focalsweep.photos.frames import read_stack
from focalsweep.photos.lazy import LazyPictures
from focalsweep.photos.metadata import FrameSettings, read_settings
from focalsweep.photos.odd_files import odd_kind
from focalsweep.photos.pictures import Picture
from focalsweep.photos.settings import (
    ARGUMENTS,
    CAMERA_FIELDS,
    SETTING_NOUNS,
    StackSettings,
    overrides_from_toml,
    stack_settings,
)
from focalsweep.photos.sources import Frame, find_frames, odd_files, read_frames
from focalsweep.photos.stack_file import CAMERA_KEYS, NAME, ORDERS, StackFile, read_stack_file
from focalsweep.photos.values import setting_to_json
from focalsweep.progress import Progress
from focalsweep.types import Camera, FocalStack, Lens, RelativeLens, StackRecord
from focalsweep.validation import as_setting

Array = NDArray[np.float32]
PhotoFiles = str | Path | Sequence[str | Path]
"""A folder of photos, one file with all frames, or files."""
# Relative depth: the nearest focus is at 1 unit, the farthest at 2, whatever they are in metres.
RELATIVE_FOCUS = (1.0, 2.0)
LEAST_F_NUMBER, LEAST_PIXEL_PITCH = 0.3, 1e-7
RELATIVE_BLUR_PX = 12.0  # between these two, where nothing is known of the lens
BEYOND_LENS = 1.02  # focal lengths: no lens is focused nearer, whatever a range says


@dataclass(frozen=True, eq=False)
class Photos:
    """The photos of a stack in order of focus, near to far, with their settings; no pixel is read yet.

    Args:
        frames: the files.
        settings: with sources and intervals; the order of its files is that of the frames.
        focus_distances: metres from the lens; of a `RelativeLens` an order only.
        camera: of the full-size pictures.
        magnification: of each frame, as a stack.toml gives it; alignment's comes on top.
        align: "auto", or "none".
        notes: what the user should know, a sentence each.
    """

    frames: list[Frame]
    settings: StackSettings
    focus_distances: list[float]
    camera: Lens
    magnification: list[float]
    align: str = "auto"
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [frame.name for frame in self.frames]

    @property
    def folder(self) -> Path:
        return self.frames[0].path.parent

    def register(self, progress: Progress | None = None) -> RegisteredPhotos:
        """How the frames lie on each other; those that could not be registered are left out with a note."""
        pictures = LazyPictures(self.frames, progress)
        alignment = measure_alignment(pictures, mode=self.align, names=self.names)
        kept = alignment.kept
        settings = replace(
            self.settings,
            files=tuple(self.settings.files[i] for i in kept),
            focus_distances=tuple(self.settings.focus_distances[i] for i in kept),
        )
        magnification = zip(kept, alignment.magnification, strict=True)
        photos = replace(
            self,
            frames=[self.frames[i] for i in kept],
            settings=settings,
            focus_distances=[self.focus_distances[i] for i in kept],
            magnification=[self.magnification[i] * float(by) for i, by in magnification],
            notes=[*self.notes, *alignment.notes],
        )
        return RegisteredPhotos(photos, _renumbered(alignment), pictures.size, pictures.white())


@dataclass(frozen=True, eq=False)
class RegisteredPhotos:
    """Photos whose place on each other is known; their pixels are read whenever they are asked for.

    Args:
        photos: those that could be registered.
        alignment: how they lie on the reference frame.
        photo_size: H, W of the files.
        white: the value that becomes 1: the largest of the stack where files of floats pass 1.
    """

    photos: Photos
    alignment: Alignment
    photo_size: tuple[int, int]
    white: float

    @property
    def size(self) -> tuple[int, int]:
        """H, W of the part that all frames share."""
        rows, columns = self.alignment.area
        return rows.stop - rows.start, columns.stop - columns.start

    @property
    def settings(self) -> FocalStack:
        """The stack that they make, with everything but its pixels."""
        photos, (rows, columns) = self.photos, self.alignment.area
        height, width = self.photo_size
        with _located_errors(photos):
            return FocalStack(
                images=torch.zeros(len(photos.frames), 1, 1, 1),
                focus_distances=torch.tensor(photos.focus_distances, dtype=torch.float64),
                camera=photos.camera,
                magnification=torch.tensor(photos.magnification, dtype=torch.float64),
                principal_point=(width / 2 - columns.start, height / 2 - rows.start),
                record=self._record(),
            )

    def pictures(self, progress: Progress | None = None) -> Iterator[Array]:
        """The registered frames, H W C in linear light, one at a time.

        What resampling or matching the exposure lifts above white is white, as it is in the reference frame.
        """
        count = len(self.photos.frames)

        def register(index: int, picture: Picture) -> Array:
            pixels = self.alignment.apply(index, picture.pixels)
            if self.white != 1:
                np.divide(pixels, np.float32(self.white), out=pixels)
            if progress:
                progress("reading", (index + 1) / count)
            return np.minimum(pixels, np.float32(1), out=pixels)

        return map(register, range(count), read_frames(self.photos.frames))

    def _record(self) -> StackRecord:
        photos, alignment = self.photos, self.alignment
        known = photos.settings
        settings = {name: setting_to_json(getattr(known, name)) for name in ("focal_length", "f_number", "pixel_pitch")}
        reference = {"focus_reference": {"value": known.focus_reference, "source": known.reference_source}}
        frames = tuple(
            {
                "file": frame.name,
                "focus_distance": setting_to_json(value),
                "motion_px": float(motion),
                "exposure": float(gain),
            }
            for frame, value, motion, gain in zip(
                photos.frames, known.focus_distances, alignment.motion_px, alignment.gains, strict=True
            )
        )
        return StackRecord(
            settings=settings | reference,
            frames=frames,
            focus_ranges=_focus_ranges(photos),
            area=alignment.area,
            warnings=tuple(photos.notes),
            made_of=str(photos.folder),
        )


def _focus_ranges(photos: Photos) -> tuple[tuple[float, float], ...]:
    """Metres from the lens that each frame's distance may have; equal ends where the metadata is exact.

    Distances from the sensor and from the lens differ by nearly the same length across a narrow range.
    """
    if not isinstance(photos.camera, Camera):
        return ()
    least = BEYOND_LENS * as_setting("focal_length", photos.camera.focal_length).item()
    ranges = []
    for value, distance in zip(photos.settings.focus_distances, photos.focus_distances, strict=True):
        if value is None or not value.only_range or value.value <= 0:
            ranges.append((distance, distance))
            continue
        offset = distance - value.value if value.value < float("inf") else 0.0
        ranges.append((min(distance, max(value.low + offset, least)), value.high + offset))
    return tuple(ranges)


def load_stack(photos: PhotoFiles, *, align: str = "auto", relative: bool = False, **overrides: Any) -> FocalStack:
    """A focal stack from a folder of photos, a list of files, a TIFF of many pages, or a video.

    Settings come from a stack.toml beside the photos where there is one, from their metadata otherwise; keywords
    override both. What the user should know (values that disagree, frames left out) comes as warnings.

    Args:
        photos: a folder, or files.
        align: "auto" registers the frames unless stack.toml says `aligned = true`; "none" takes them as they are.
        relative: depth without a unit where the focus distances are unknown; files in order, near to far.
        **overrides: `focal_length`, `f_number`, `pixel_pitch` (metres), `focus_reference` ("lens" or "sensor"),
            `focus_distances` (metres; one for each photo in order, or {file name: metres}), `order`, `aligned`.
    """
    frames = open_photos(photos, align=align, relative=relative, **overrides).register()
    for note in frames.photos.notes:
        warnings.warn(note, stacklevel=2)
    return read_stack(frames)


def open_photos(
    photos: PhotoFiles, *, align: str = "auto", relative: bool = False, video_frames: int = 12, **overrides: Any
) -> Photos:
    """The photos with their settings, in order of focus; no pixel is read yet."""
    if align not in MODES:
        raise InputError(
            "{align} must be {rule}, but is {value!r}", field="align", rule=" or ".join(MODES), value=align
        )
    known = [*CAMERA_KEYS, "focus_distances"]
    unknown = sorted(set(overrides) - set(known))
    if unknown:
        raise InputTypeError(
            "photos have no setting {value!r}: it is one of {rule}",
            field=unknown[0], rule=joined(map(SettingName, known), last=", "), value=unknown[0],
        )  # fmt: skip
    frames, folder, stack_file = _find(photos, video_frames)
    settings = _settings(frames, stack_file, overrides)
    magnification = [stack_file.magnifications.get(frame.name, 1.0) for frame in frames]
    opened = _relative(frames, settings, magnification) if relative or _order_alone(settings) else None
    if opened is None:
        opened = _metric(frames, settings, magnification, folder)
    odd = odd_files(Path(photos)) if isinstance(photos, str | Path) and Path(photos).is_dir() else []
    return replace(opened, align="none" if settings.aligned else align, notes=[*settings.notes, *opened.notes, *odd])


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
    with _located_errors(photos):
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
        words = f"{NAME}, far to near"
    else:
        words = f"{NAME}, near to far" if settings.order else "the files, near to far (set order in stack.toml)"
    count = len(frames)
    near, far = 1 / RELATIVE_FOCUS[0], 1 / RELATIVE_FOCUS[1]
    focus = [1 / (near + (far - near) * i / (count - 1)) for i in range(count)]
    settings = replace(
        settings,
        files=tuple(settings.files[i] for i in order),
        focus_distances=tuple(settings.focus_distances[i] for i in order),
    )
    note = f"depth is relative, without a unit: the order of the frames is that of {words}"
    return Photos(
        frames=[frames[i] for i in order],
        settings=settings,
        focus_distances=focus,
        camera=RelativeLens(RELATIVE_BLUR_PX / (near - far)),  # `estimate` measures how fast the blur really grows
        magnification=[magnification[i] for i in order],
        notes=[note],
    )


@contextmanager
def _located_errors(photos: Photos) -> Iterator[None]:
    """Errors get the folder, and who says so; those about a frame by its number the names of the files."""
    try:
        yield
    except (ValueError, TypeError) as error:
        hint = f" (frames in order of focus: {', '.join(photos.names)})" if "frame " in str(error) else ""
        field = error.field if isinstance(error, SettingError) else ""
        known = getattr(photos.settings, field) if field in CAMERA_FIELDS else None
        source = f" ({known.source})" if known and known.source != "given" else ""
        raise located(error, f"{photos.folder}{source}: ", hint) from None


def _renumbered(alignment: Alignment) -> Alignment:
    """The alignment of a stack that has the kept frames only."""
    reference = alignment.kept.index(alignment.reference)
    return replace(alignment, kept=tuple(range(len(alignment.kept))), reference=reference)
