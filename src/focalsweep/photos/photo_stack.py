"""The photos of a stack with their settings, before and after they are registered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from focalsweep.errors import SettingError, located
from focalsweep.photos.alignment import Alignment, measure_alignment
from focalsweep.photos.alignment_file import SavedAlignment, save_alignment
from focalsweep.photos.frames import Matters, Small, reduced
from focalsweep.photos.lazy import Copies, LazyPictures
from focalsweep.photos.overlap import exposure
from focalsweep.photos.photo_tags import read_photo_tags
from focalsweep.photos.pictures import Picture
from focalsweep.photos.settings import CAMERA_FIELDS, StackSettings
from focalsweep.photos.sources import Frame, read_frames
from focalsweep.photos.stage_settings import StageSettings
from focalsweep.photos.values import setting_to_json
from focalsweep.progress import Progress
from focalsweep.sweep.selection import frames_for_depth
from focalsweep.sweep.working_size import working_scale
from focalsweep.types import Camera, DepthGrid, FocalStack, Lens, StackRecord
from focalsweep.validation import as_setting

Array = NDArray[np.float32]
BEYOND_LENS = 1.02  # focal lengths: no lens is focused nearer, whatever a range says
REDUCED_BYTES, WHOLE_BYTES = 6, 12  # of a pixel of a small copy, and of one at full size
COPY_SCALE = 1.15  # of the working size that is expected before the range of depths is known
ALMOST = 0.7  # of a copy's size: a smaller picture of it is made smaller first, then registered


@dataclass(frozen=True, eq=False)
class Photos:
    """The photos of a stack in order of focus, near to far, with their settings; no pixel is read yet.

    Args:
        frames: the files.
        settings: with sources and intervals; the order of its files is that of the frames.
        focus_distances: metres from the lens; of a `RelativeLens` an order only.
        camera: of the full-size pictures.
        magnification: of each frame, as a stack.toml gives it; alignment's comes on top.
        align: one of alignment.MODES.
        notes: what the user should know, a sentence each.
        stage: where the lens stayed and the stage moved.
        alignment: measured on other photos of the same sweep; `align` is not asked then.
        save_alignment: the file that the alignment is written to.
    """

    frames: list[Frame]
    settings: StackSettings
    focus_distances: list[float]
    camera: Lens
    magnification: list[float]
    align: str = "auto"
    notes: list[str] = field(default_factory=list)
    stage: StageSettings | None = None
    alignment: SavedAlignment | None = None
    save_alignment: Path | None = None

    @property
    def names(self) -> list[str]:
        return [frame.name for frame in self.frames]

    @property
    def folder(self) -> Path:
        return self.frames[0].path.parent

    def without_pixels(
        self, principal_point: tuple[float, float] | None = None, record: StackRecord | None = None
    ) -> FocalStack:
        """The stack that they make; errors name the files."""
        with located_errors(self):
            return FocalStack(
                images=torch.zeros(len(self.frames), 1, 1, 1),
                focus_distances=torch.tensor(self.focus_distances, dtype=torch.float64),
                camera=self.camera,
                magnification=torch.tensor(self.magnification, dtype=torch.float64),
                principal_point=principal_point,
                record=record or StackRecord(),
            )

    def register(self, progress: Progress | None = None, copy_bytes: int = 0) -> RegisteredPhotos:
        """How the frames lie on each other; those that could not be registered are left out with a note.

        Every photo is decoded once for it. Up to `copy_bytes` of small copies of the frames that depth is found with
        are kept on the way, so that they are not decoded again (`RegisteredPhotos.small`).
        """
        known = self.without_pixels(record=StackRecord(focus_ranges=_focus_ranges(self)))
        chosen = frames_for_depth(known) if copy_bytes else []
        copies = Copies(chosen, lambda size: self._copy_scale(size, len(chosen), copy_bytes))
        pictures = LazyPictures(self.frames, progress, copies)
        alignment = self._align(pictures)
        if self.save_alignment:
            save_alignment(self.save_alignment, self.names, alignment, pictures.size)
        white = pictures.white()
        if copy_bytes:
            pictures.read_all()
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
        return RegisteredPhotos(photos, _renumbered(alignment), pictures.size, white, copies.renumbered(kept))

    def _align(self, pictures: LazyPictures) -> Alignment:
        if self.alignment is None:
            return measure_alignment(pictures, mode=self.align, names=self.names, size=pictures.size)
        self.alignment.check_size(pictures.size)
        return self.alignment.of(self.names, [exposure(pictures[i]) for i in range(len(pictures))])

    def _copy_scale(self, size: tuple[int, int], count: int, most_bytes: int) -> float:
        """Of the small copies: enough for the working size, as far as it can be told before the range is known."""
        stack = self.without_pixels()
        wanted = min(1.0, COPY_SCALE * working_scale(stack, DepthGrid.around(stack), size))
        bytes_a_pixel = REDUCED_BYTES if wanted < 1 else WHOLE_BYTES
        return min(wanted, math.sqrt(most_bytes / (count * bytes_a_pixel * size[0] * size[1])))


@dataclass(frozen=True, eq=False)
class RegisteredPhotos:
    """Photos whose place on each other is known; their pixels are read whenever they are asked for.

    Args:
        photos: those that could be registered.
        alignment: how they lie on the reference frame.
        photo_size: H, W of the files.
        white: the value that becomes 1: the largest of the stack where files of floats pass 1.
        copies: small ones of some of them, not registered yet.
    """

    photos: Photos
    alignment: Alignment
    photo_size: tuple[int, int]
    white: float
    copies: Copies

    @property
    def size(self) -> tuple[int, int]:
        """H, W of the part that all frames share."""
        rows, columns = self.alignment.area
        return rows.stop - rows.start, columns.stop - columns.start

    @property
    def settings(self) -> FocalStack:
        """The stack that they make, with everything but its pixels."""
        rows, columns = self.alignment.area
        height, width = self.photo_size
        return self.photos.without_pixels((width / 2 - columns.start, height / 2 - rows.start), self._record())

    def pictures(self, progress: Progress | None = None, matters: Matters | None = None) -> Iterator[Array]:
        """The registered frames, H W C in linear light, one at a time; as they are only where they matter.

        What resampling or matching the exposure lifts above white is white, as it is in the reference frame.
        """
        count = len(self.photos.frames)

        def registered(index: int, picture: Picture) -> Array:
            part = None if matters is None else matters(index)
            pixels = self._limited(self.alignment.apply(index, picture.pixels, part))
            if progress:
                progress("reading", (index + 1) / count)
            return pixels

        return map(registered, range(count), read_frames(self.photos.frames))

    def small(self, scale: float, chosen: Sequence[int], progress: Progress | None = None) -> Iterator[Small]:
        """The chosen frames, the first among them, registered: from the copies where they are large enough."""
        copied = self.copies.scale >= scale and all(index in self.copies.pixels for index in chosen)
        at = min(1.0, COPY_SCALE * scale)
        if copied and at > ALMOST * self.copies.scale:
            at = self.copies.scale
        for index in chosen if copied else []:  # other reads look for themselves
            self.photos.frames[index].check_unchanged()
        read = iter(()) if copied else read_frames([self.photos.frames[index] for index in chosen])

        def registered(number: int, index: int) -> Small:
            if copied:
                pixels = reduced(self.copies.pixels[index].astype(np.float32), at / self.copies.scale)
            else:
                pixels = reduced(next(read).pixels, at)
            aligned = self.alignment
            pixels = aligned.apply_small(index, pixels, at) if at < 1 else aligned.apply(index, pixels)
            if progress:
                progress("reading", (number + 1) / len(chosen))
            return Small(self._limited(pixels), at)

        return map(registered, range(len(chosen)), chosen)  # a generator would keep the last picture

    def _limited(self, pixels: Array) -> Array:
        if self.white != 1:
            np.divide(pixels, np.float32(self.white), out=pixels)
        return np.minimum(pixels, np.float32(1), out=pixels)

    def _record(self) -> StackRecord:
        photos, alignment = self.photos, self.alignment
        known = photos.settings
        settings = {name: setting_to_json(getattr(known, name)) for name in ("focal_length", "f_number", "pixel_pitch")}
        reference: dict[str, Any] = {
            "focus_reference": {"value": known.focus_reference, "source": known.reference_source}
        }
        if known.order is not None:
            reference["order"] = {"value": known.order}
        if photos.stage is not None:
            reference, settings = {"stage": photos.stage.to_json()}, {}
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
            photo=read_photo_tags(photos.frames[alignment.reference].path),
            made_with=known.made_with,
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


@contextmanager
def located_errors(photos: Photos) -> Iterator[None]:
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
