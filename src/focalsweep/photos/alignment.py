"""The frames of a focal stack laid onto one of them: breathing, hand motion and exposure drift taken out.

Neighbours in focus order look most alike, so each frame is registered to the one before it and the transforms are
chained. What a frame was magnified by goes into the blur model (`FocalStack.magnification`): its blur grew with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from focalsweep.errors import InputError, joined
from focalsweep.photos.overlap import LEAST_AREA_PX, OTHERWISE, common_area, corner_motion, exposure, gain
from focalsweep.photos.registration import (
    Array,
    Pyramid,
    Transform,
    build_pyramid,
    local_scale,
    normal_coordinates,
    reduced_for_registration,
    register,
    registration_scale,
)

MODES = ("auto", "shift", "none")
STILL_PX = 0.15  # at the finest level: less motion is left alone, resampling would blur for nothing
STILL_GAIN = 0.003  # exposure closer than this is left alone
NOTED_GAIN = 0.02  # exposure drift beyond this gets a note
PARALLAX_SHARE = 0.002  # of the longer side: what is left over after alignment, beyond this, gets a note
SMALL_AREA = 0.7  # share of the picture: less than this in common gets a note
TILE_PX = 96  # of a frame that is resampled by parts
CHAINS_TRIED = 3  # a frame tries the ends of this many chains


@dataclass(frozen=True, eq=False)
class Alignment:
    """How the frames of a stack lie on its reference frame. Arrays have one entry for each kept frame (F).

    Args:
        kept: the frames that could be registered, by their place in the stack given.
        reference: the one that all are laid onto, likewise.
        transforms: F 3 3, pixels (column, row, 1) of the reference -> pixels of the frame, up to a factor.
        magnification: F, what each frame is magnified by; for `FocalStack`.
        gains: F, how much brighter each frame is than the reference; `apply` divides by it.
        area: rows and columns of the reference that every kept frame covers.
        motion_px: F, how far the frame's corners lie from the reference's, at most.
        residual_px: F, what no transform could mend between a frame and the one before it (parallax, moving
            things): the 90th percentile of the shifts that parts of the picture still ask for.
        notes: what the user should know, a sentence each.
    """

    kept: tuple[int, ...]
    reference: int
    transforms: Transform
    magnification: NDArray[np.float64]
    gains: NDArray[np.float64]
    area: tuple[slice, slice]
    motion_px: NDArray[np.float64]
    residual_px: NDArray[np.float64]
    notes: tuple[str, ...] = field(default=())

    def apply(self, index: int, frame: Array, matters: NDArray[np.bool_] | None = None) -> Array:
        """The frame at place `index` of the stack given, H W C in linear light, registered and cut to the area.

        A frame that did not move is only cut; one that did is resampled once, in linear light, 0 or more: by Lanczos,
        or, where it does not matter (h w, over the area), by a cubic that takes a fifth of the time.
        """
        if index not in self.kept:
            raise ValueError(f"frame {index} was dropped from the alignment: it has no place in it")
        place = self.kept.index(index)
        rows, columns = self.area
        if np.array_equal(self.transforms[place], np.eye(3)):
            cut = np.ascontiguousarray(frame[rows, columns])
            return cut if self.gains[place] == 1 else cut / np.float32(self.gains[place])
        corner = np.array([[1.0, 0, columns.start], [0, 1, rows.start], [0, 0, 1]])
        size = (columns.stop - columns.start, rows.stop - rows.start)
        transform = self.transforms[place] @ corner
        if matters is None or matters.all():
            warped = _resampled(frame, transform, size)
        else:
            warped = _resampled(frame, transform, size, exactly=False)
            for rows, columns in _tiles_of(matters, warped.shape):
                to_tile = np.array([[1.0, 0, columns.start], [0, 1, rows.start], [0, 0, 1]])
                tile = (columns.stop - columns.start, rows.stop - rows.start)
                warped[rows, columns] = _resampled(frame, transform @ to_tile, tile)
        if self.gains[place] != 1:
            np.divide(warped, np.float32(self.gains[place]), out=warped)
        return warped

    def apply_small(self, index: int, frame: Array, scale: float) -> Array:
        """A picture of that frame made small by exactly `scale`, registered and cut to the area.

        It is resampled whether it moved or not: the area's corner lies between the pixels of a small picture.
        """
        place = self.kept.index(index)
        rows, columns = self.area
        size = max(1, int((columns.stop - columns.start) * scale)), max(1, int((rows.stop - rows.start) * scale))
        middle = 0.5 / scale - 0.5  # of a small picture's first pixel, in pixels of the photo
        to_photo = np.array([[1 / scale, 0, middle], [0, 1 / scale, middle], [0, 0, 1]])
        to_photo[:2, 2] += [columns.start, rows.start]
        to_small = np.array([[scale, 0, 0.5 * scale - 0.5], [0, scale, 0.5 * scale - 0.5], [0, 0, 1]])
        warped = _resampled(frame, to_small @ self.transforms[place] @ to_photo, size)
        if self.gains[place] != 1:
            np.divide(warped, np.float32(self.gains[place]), out=warped)
        return warped


def _resampled(frame: Array, transform: Transform, size: tuple[int, int], *, exactly: bool = True) -> Array:
    """Width x height pixels of a frame, 0 or more; `transform` leads from them to its own."""
    import cv2

    flags = (cv2.INTER_LANCZOS4 if exactly else cv2.INTER_CUBIC) | cv2.WARP_INVERSE_MAP
    warped = cv2.warpPerspective(frame, transform, size, flags=flags, borderMode=cv2.BORDER_REFLECT_101)
    np.maximum(warped, 0, out=warped)
    return np.asarray(warped, np.float32).reshape(size[1], size[0], -1)


def _tiles_of(matters: NDArray[np.bool_], shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Parts of a picture of this H W ... in which something matters; the map of that may have another size."""
    (height, width), (rows, columns) = shape[:2], matters.shape
    for top in range(0, height, TILE_PX):
        bottom = min(height, top + TILE_PX)
        band = np.any(matters[top * rows // height : -(-bottom * rows // height)], axis=0)
        for left in range(0, width, TILE_PX):
            right = min(width, left + TILE_PX)
            if np.any(band[left * columns // width : -(-right * columns // width)]):
                yield slice(top, bottom), slice(left, right)


def align(
    frames: Sequence[Array],  # F of H W C
    *,
    mode: str = "auto",
    names: Sequence[str] | None = None,
    reference: int | None = None,
) -> tuple[list[Array], Alignment]:
    """The kept frames registered onto one of them and cut to what they share; see `measure_alignment`."""
    alignment = measure_alignment(frames, mode=mode, names=names, reference=reference)
    return [alignment.apply(index, frames[index]) for index in alignment.kept], alignment


def measure_alignment(
    frames: Sequence[Array],  # F of H W C
    *,
    mode: str = "auto",
    names: Sequence[str] | None = None,
    reference: int | None = None,
    size: tuple[int, int] | None = None,
) -> Alignment:
    """How the frames lie on each other; no frame is changed.

    Frames that cannot be registered are left out with a note while at least 3 remain (2 of a stack of 2).

    Args:
        frames: in focus order, linear light, float32, of one size. Each is taken once and let go, so a sequence
            that reads its photos when asked keeps one in memory.
        mode: "auto"; "shift" where frames can only lie beside each other; or "none": they are registered already,
            nothing is measured.
        names: what the notes call the frames; by default "frame 0" and so on.
        reference: the frame to lay the others onto; by default the middle one of those kept.
        size: H W of the photos, where the frames are smaller than they are (`reduced_for_registration`).
    """
    if mode not in MODES:
        raise InputError("{mode} must be {rule}, but is {value!r}", field="mode", rule=" or ".join(MODES), value=mode)
    if len(frames) < 2:
        raise ValueError(f"alignment needs at least 2 frames, but has {len(frames)}: add photos focused elsewhere")
    names = list(names) if names is not None else [f"frame {i}" for i in range(len(frames))]
    if len(names) != len(frames):
        raise ValueError(f"names must be one for each of the {len(frames)} frames, but are {len(names)}")
    if reference is not None and not 0 <= reference < len(frames):
        raise ValueError(f"reference must be a frame from 0 to {len(frames) - 1}, but is {reference}")
    if mode == "none":
        return _unmoved(len(frames), size or frames[0].shape[:2], reference)
    size, links, exposures = _measure(frames, names, size, mode == "shift")
    kept, notes = _choose(links, names)
    reference, note = _choose_reference(kept, reference, names)
    notes += note
    normal = normal_coordinates(size)
    to_reference = np.linalg.inv(links[reference].pose)
    transforms = np.stack([np.linalg.inv(normal) @ links[i].pose @ to_reference @ normal for i in kept])
    transforms /= transforms[:, 2:, 2:]
    still = _motion_px(transforms, size) < STILL_PX / registration_scale(size)
    transforms[still] = np.eye(3)
    area = common_area(transforms[~still], size)
    residual = np.array([links[i].residual_px for i in kept])
    return complete_alignment(kept, reference, transforms, residual, area, exposures, names, size, notes)


def complete_alignment(
    kept: Sequence[int],
    reference: int,
    transforms: Transform,  # of the kept frames
    residual_px: NDArray[np.float64],  # of the kept frames
    area: tuple[slice, slice],
    exposures: Sequence[Array],  # of all frames, see `overlap.exposure`
    names: Sequence[str],
    size: tuple[int, int],
    notes: Sequence[str] = (),
) -> Alignment:
    """What follows from the frames' transforms and exposures: magnification, gains, motion, notes."""
    gains = np.array([gain(exposures[reference], exposures[i], t, size) for i, t in zip(kept, transforms, strict=True)])
    gains = np.where(np.abs(gains - 1) < STILL_GAIN, 1.0, gains)
    gains[list(kept).index(reference)] = 1.0
    centre = ((size[1] - 1) / 2, (size[0] - 1) / 2)
    return Alignment(
        kept=tuple(kept),
        reference=reference,
        transforms=transforms,
        magnification=np.array([1 / local_scale(transform, centre) for transform in transforms]),
        gains=gains,
        area=area,
        motion_px=_motion_px(transforms, size),
        residual_px=residual_px,
        notes=(*notes, *_notes_on(kept, names, gains, residual_px, area, size)),
    )


def _motion_px(transforms: Transform, size: tuple[int, int]) -> NDArray[np.float64]:
    return np.array([corner_motion(transform, size) for transform in transforms])


@dataclass(frozen=True, eq=False)
class _Link:
    """A frame in its chain: how it lies on the first frame of the chain, and what the last step left over."""

    chain: int
    pose: Transform
    residual_px: float


def _measure(
    frames: Sequence[Array], names: Sequence[str], size: tuple[int, int] | None, shift_only: bool
) -> tuple[tuple[int, int], list[_Link], list[Array]]:
    """Each frame attached to the end of a chain that it registers with, or the start of a new one."""
    links: list[_Link] = []
    exposures: list[Array] = []
    tails: list[tuple[int, Pyramid]] = []  # the last frame of every chain, and its pyramid
    shape: tuple[int, ...] = ()
    for index in range(len(frames)):
        frame = frames[index]
        shape = shape or frame.shape
        _check(frame, shape, names[index], names[0])
        size = size or (shape[0], shape[1])
        frame = reduced_for_registration(frame, size)
        pyramid = build_pyramid(frame, size)
        exposures.append(exposure(frame))
        del frame
        lengths = [sum(link.chain == chain for link in links) for chain in range(len(tails))]
        likely = sorted(range(len(tails)), key=lambda chain: (lengths[chain], tails[chain][0]), reverse=True)
        for chain in likely[:CHAINS_TRIED]:
            last, other = tails[chain]
            found = register(other, pyramid, shift_only=shift_only)
            if found.plausible:
                links.append(_Link(chain, found.transform @ links[last].pose, found.residual_px))
                tails[chain] = (index, pyramid)
                break
        else:
            links.append(_Link(len(tails), np.eye(3), 0.0))
            tails.append((index, pyramid))
    assert size is not None  # there are frames
    return size, links, exposures


def _check(frame: Array, shape: tuple[int, ...], name: str, first: str) -> None:
    if frame.ndim != 3 or frame.dtype != np.float32:
        raise ValueError(f"{name} must be float32 with the axes H W C, but is {frame.dtype} of shape {frame.shape}")
    if frame.shape != shape:
        raise ValueError(f"{name} has the shape {frame.shape}, but {first} has {shape}: photos must have one size")
    if min(frame.shape[:2]) < LEAST_AREA_PX:
        raise ValueError(
            f"{name} has {frame.shape[0]} x {frame.shape[1]} px, too small to be registered: give larger pictures"
        )
    if not math.isfinite(float(frame.sum(dtype=np.float64))):
        raise ValueError(f"{name} has NaN or infinite pixels: read the photo again")


def _choose(links: list[_Link], names: Sequence[str]) -> tuple[list[int], list[str]]:
    """The frames of the longest chain, and a note on those that are not in it."""
    chains = [link.chain for link in links]
    longest = max(set(chains), key=lambda chain: (chains.count(chain), -chain))
    kept = [i for i, chain in enumerate(chains) if chain == longest]
    dropped = [names[i] for i, chain in enumerate(chains) if chain != longest]
    if len(kept) < min(3, len(links)):
        raise InputError(
            "only {value} of {frames} frames show the same view ({dropped} cannot be registered)",
            field="align", value=len(kept), frames=len(links), dropped=joined(dropped), remedy=OTHERWISE,
        )  # fmt: skip
    notes = [f"{name} cannot be registered with its neighbours in focus: left out" for name in dropped]
    return kept, notes


def _choose_reference(kept: list[int], reference: int | None, names: Sequence[str]) -> tuple[int, list[str]]:
    middle = kept[len(kept) // 2]
    if reference is None or reference in kept:
        return middle if reference is None else reference, []
    return middle, [f"{names[reference]} was left out, so the frames are laid onto {names[middle]}"]


def _notes_on(
    kept: Sequence[int],
    names: Sequence[str],
    gains: NDArray[np.float64],
    residual: NDArray[np.float64],
    area: tuple[slice, slice],
    size: tuple[int, int],
) -> list[str]:
    """What the user should know about the alignment, a sentence each."""
    notes = []
    drift = gains.max() / gains.min() - 1
    if drift > NOTED_GAIN:
        notes.append(f"exposure drifts by {100 * drift:.0f} % between the frames: matched to the reference frame")
    worst = int(residual.argmax())
    if residual[worst] > max(1.0, PARALLAX_SHARE * max(size)):
        notes.append(
            f"parts of {names[kept[worst]]} stay off by {residual[worst]:.1f} px after alignment: "
            "the camera changed its place or things moved, and depth is less sure there (use a tripod)"
        )
    share = (area[0].stop - area[0].start) * (area[1].stop - area[1].start) / (size[0] * size[1])
    if share < SMALL_AREA:
        notes.append(f"the frames share only {100 * share:.0f} % of the picture: the rest is cut off")
    return notes


def _unmoved(count: int, size: tuple[int, ...], reference: int | None) -> Alignment:
    height, width = size
    return Alignment(
        kept=tuple(range(count)),
        reference=count // 2 if reference is None else reference,
        transforms=np.tile(np.eye(3), (count, 1, 1)),
        magnification=np.ones(count),
        gains=np.ones(count),
        area=(slice(0, height), slice(0, width)),
        motion_px=np.zeros(count),
        residual_px=np.zeros(count),
    )
