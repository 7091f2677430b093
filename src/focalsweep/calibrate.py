"""A lens profile from photos of something flat: the road to depth, and what is not flat about a plane.

calibration = calibrate_lens(["wall/"])
calibration.save("lens.toml")
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from focalsweep.errors import InputError, InputFileExistsError, Sentence
from focalsweep.estimate import estimate, predict
from focalsweep.optics.profile import Curvature, LensProfile, Measured, corrected_settings, raised
from focalsweep.photos.frames import Frames, FramesInMemory, read_stack
from focalsweep.photos.lens_profiles import NAMES, OFF, SAME_F_NUMBER, SAME_FOCAL_LENGTH, profile_toml
from focalsweep.photos.reading import PhotoFiles, open_photos
from focalsweep.progress import Progress, part_of, silent
from focalsweep.results.lens_figure import FlatView, lens_figure
from focalsweep.results.writing import write_files
from focalsweep.sweep.colour import grey_for_sweep
from focalsweep.sweep.flat_field import FlatField, Seen, fit_flat_field
from focalsweep.sweep.misfit import Misfit
from focalsweep.sweep.working_size import working_scale
from focalsweep.types import Camera, DepthGrid, FocalStack
from focalsweep.validation import as_setting
from focalsweep.version import __version__

SIDE_PX = 640  # of the longer side, worked at: a plane needs no detail
BLOCKS = 12  # across the longer side, of which one at a time is left out for the error bar
BEYOND = 0.4  # of the range in sight: planes beyond it, for what corners may seem at
CONFIDENCE = 0.5
LEAST_SEEN = 0.1  # of the flat part: with less, textured and confident, nothing is fitted
LEAST_FLAT, LEAST_FLAT_MARKED = 0.35, 0.7  # of what is seen: with less on a plane, nothing is flat
LEAST_REACH = 0.75  # of the way to the corners: a note where less of it is seen
ODD_BLUR, MOST_BLUR = 1.25, 2.0  # times that of the settings, or below one of that: a note; and an error
WORST_FIT = 0.02  # of the range of focus: how far from their plane those may lie

Flat = PhotoFiles | FocalStack
Point = tuple[float, float]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Calibration:
    """A profile, and what it was made of.

    Args:
        profile: of the lens.
        notes: what the user should know, a sentence each.
        views: of each stack: departure from its plane before and after, for the picture.
    """

    profile: LensProfile
    notes: tuple[Sentence, ...]
    views: tuple[FlatView, ...]

    def save(self, path: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write the profile, and beside it a picture of the fit (PNG); returns both paths."""
        path = Path(path)
        if path.exists() and not overwrite:
            raise InputFileExistsError(
                "{path} exists and was left alone",
                field="overwrite", path=path, remedy="give another file, or overwrite it with {overwrite=True}",
            )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        contents = {
            path: profile_toml(self.profile).encode(),
            path.with_suffix(".png"): lens_figure(self.profile, self.views),
        }
        return write_files({file: partial(_write, content) for file, content in contents.items()})


def _write(content: bytes, file: Any) -> None:
    file.write(content)


@dataclass(frozen=True, eq=False)
class _Flat:
    """A stack as it is calibrated from."""

    name: str
    stack: FocalStack  # small, not a batch
    planes: DepthGrid  # in sight, and beyond
    blur: Measured
    region: Mask | None  # H W


def calibrate_lens(
    stacks: Sequence[Flat],
    *,
    region: Sequence[Point] | None = None,
    distances: Sequence[float] | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Calibration:
    """The profile of a lens from one or more stacks of something flat and textured, tilted as it may be.

    Field curvature and effective aperture come from the stacks alone. How told focus distances are off needs a
    measured length: from blur alone, a lens with all distances and the aperture scaled looks the same.

    Args:
        stacks: photos of each, as `load_stack` takes them, or a `FocalStack`; of one lens.
        region: corners (columns and rows of the photos) of what is flat; without it that is found.
        distances: metres from the lens to the flat thing on the optical axis, one for each stack. One gives the offset
            of the focus distances, several their scale as well.
        progress: told how far it is.
        **settings: of the photos, as `load_stack` takes them.
    """
    progress = progress or silent
    if distances is not None and (len(distances) != len(stacks) or min(distances) <= 0):
        raise InputError(
            "{distances} must be {rule}, but are {value}",
            field="distances", rule=f"metres above 0, one for each of the {len(stacks)} stacks", value=list(distances),
        )  # fmt: skip
    flats, count = [], len(stacks)
    for number, photos in enumerate(stacks):
        flats.append(_read(photos, region, settings, part_of(progress, 0.7 * number / count, 0.7 / count)))
    for other in flats[1:]:
        _refuse_other_lens(flats[0], other)
    blur = _mean([flat.blur for flat in flats])
    focal_length, f_number = (_camera_value(flats[0].stack, name) for name in ("focal_length", "f_number"))
    draft = LensProfile(focal_length, f_number, blur=blur)
    seen, maps = [], []
    for number, flat in enumerate(flats):
        told = part_of(progress, 0.7 + 0.25 * number / count, 0.25 / count)
        one, where = _look(flat, corrected_settings(flat.stack, draft), told)
        seen.append(one)
        maps.append(where)
    found = fit_flat_field(seen)
    notes = [note for flat, one, number in zip(flats, seen, range(count), strict=True)
             for note in _check_flat(flat, one, found, number)]  # fmt: skip
    scale, offset = _focus(found, distances)
    bent = found.curvature
    curvature = Curvature(
        bent.radii,
        tuple(scale.value * value for value in bent.dioptres),
        tuple(scale.value * value for value in bent.std),
    )
    named = flats[0].stack.record.made_with
    profile = replace(
        draft,
        make=named.get("make", ""),
        model=named.get("model", ""),
        lens=named.get("lens", ""),
        curvature=curvature,
        blur=Measured(blur.value / scale.value, blur.std / scale.value),
        focus_scale=scale,
        focus_offset=offset,
        made={
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "of": [f"{flat.name}: {flat.stack.frame_count} frames" for flat in flats],
            "by": f"focalsweep {__version__}",
        },
    )
    if not (named.get("make") and named.get("model")):
        notes.append(Sentence("the photos do not name their camera: give the profile by name, with {lens}"))
    if max(blur.value, 1 / blur.value) > ODD_BLUR:
        check = "the photos have {blur} times the blur of their settings: check {f_number}, {pixel_pitch} and "
        notes.append(Sentence(check + "{focus_distances}", blur=f"{blur.value:.2f}"))
    views = tuple(
        FlatView(flat.name, flat.stack.size, where, one.radius, found.departure(number, one), one.inverse_depth)
        for number, (flat, one, where) in enumerate(zip(flats, seen, maps, strict=True))
    )
    return Calibration(profile, tuple(notes), views)


def _read(photos: Flat, region: Sequence[Point] | None, settings: dict[str, Any], progress: Progress) -> _Flat:
    """A stack at a small size, what its frames say of their blur, and the planes to look at."""
    frames: Frames
    if isinstance(photos, FocalStack):
        frames, name, corner = FramesInMemory(photos), "the stack", (0, 0)
    else:
        opened = open_photos(photos, **settings)
        frames, name = opened.register(part_of(progress, 0.0, 0.6)), opened.folder.name
        corner = (frames.alignment.area[1].start, frames.alignment.area[0].start)
    if not isinstance(frames.settings.camera, Camera):
        raise InputError(
            "{name}: a lens is calibrated in metres, but the focus distances of these photos are not known",
            field="focus_distances", value=None, name=name, remedy="give {focus_distances}",
        )  # fmt: skip
    stack = read_stack(frames, min(1.0, SIDE_PX / max(frames.size)), progress=part_of(progress, 0.6, 0.1))
    first = estimate(stack, "argmin", lens=OFF, calibrate="off", progress=part_of(progress, 0.7, 0.3))
    fit = first.result.fit
    if fit is None or fit.fits is None or fit.blur is None or fit.blur_error is None:
        raise _too_little(name, 0.0)
    is_aperture = fit.causes[:1] and fit.causes[0].name == "f_number" and max(fit.blur, 1 / fit.blur) < MOST_BLUR
    if fit.fits is False and not is_aperture:  # the effective aperture is what is looked for
        raise InputError(fit.sentence.within(f"{name}: "), field="photos", value=fit.explained)
    stack = replace(stack, focus_distances=_refined(stack, first.result.record))
    ends = first.result.planes.inverse_depths[[0, -1]]
    reach = BEYOND * float(ends[0] - ends[1])
    planes = DepthGrid.uniform_in_inverse_depth(1 / (ends[0] + reach), 1 / (ends[1] - reach).clamp_min(0))
    small = working_scale(stack, planes, stack.size)
    stack = stack.resized(small) if small < 1 else stack
    mask = None
    if region is not None:
        mask = _inside((np.asarray(region, float) - corner) * stack.size[1] / frames.size[1], stack.size)
        if not mask.any():
            raise InputError(
                "{region} lies outside of the photos of {width} x {height} px",
                field="region", value=list(region), width=frames.size[1], height=frames.size[0],
                remedy="give columns and rows of their pixels",
            )  # fmt: skip
    return _Flat(name, stack, planes, Measured(fit.blur, fit.blur * fit.blur_error), mask)


def _refined(stack: FocalStack, record: dict[str, Any]) -> torch.Tensor:
    """The focus distances as they were found inside the ranges of coarse metadata, or as they are."""
    moved = record["measured"].get("refined")
    if not moved:
        return stack.focus_distances
    return torch.tensor([frame["to"] for frame in moved], dtype=torch.float64)


def _look(flat: _Flat, stack: FocalStack, progress: Progress) -> tuple[Seen, Mask]:
    """What is textured and confident of a stack, the flat part's pixels alone where it is marked."""
    height, width = stack.size
    focus = 1 / stack.focus_distances
    span = float(focus.max() - focus.min())
    lift = BEYOND * span  # corners may seem beyond infinity
    planes = DepthGrid(flat.planes.inverse_depths + lift)
    near, far = planes.depths[0], 1 / (planes.inverse_depths[-1] - lift).clamp_min(0.01 * span)
    planes = DepthGrid.uniform_in_inverse_depth(near, far)
    prediction = predict(raised(stack, lift), "sweep", planes, progress=progress)
    inverse = (1 / prediction.depth[0].double() - lift).numpy()
    with torch.no_grad():
        textured = Misfit(grey_for_sweep(stack.as_batch())).informative.numpy()
    part = np.ones((height, width), bool) if flat.region is None else flat.region
    usable = part & textured & (prediction.confidence[0].numpy() > CONFIDENCE)
    share = float(usable.sum() / part.sum())
    if share < LEAST_SEEN:
        raise _too_little(flat.name, share)
    rows, columns = np.nonzero(usable)
    point = stack.principal_point or (width / 2, height / 2)
    pitch = _camera_value(stack, "pixel_pitch")
    right, down = (pitch * (at.astype(np.float64) + 0.5 - axis) for at, axis in ((columns, point[0]), (rows, point[1])))
    size_px = max(height, width) / BLOCKS
    block = (rows // size_px).astype(np.int64) * BLOCKS + (columns // size_px).astype(np.int64)
    seen = Seen(right, down, inverse[usable], block, span, flat.region is not None)
    return seen, usable


def _too_little(name: str, share: float) -> InputError:
    return InputError(
        "{name}: too little texture to calibrate a lens with: {value:.0%} of the flat part shows some",
        field="photos", rule=f"at least {LEAST_SEEN:.0%}", value=share, name=name,
        remedy="photograph a printed page, a carpet or a brick wall, in light",
    )  # fmt: skip


def _check_flat(flat: _Flat, seen: Seen, found: FlatField, number: int) -> list[Sentence]:
    """Raises where the stack shows nothing flat; a note where what is flat does not reach the corners."""
    share, least = found.flat[number], LEAST_FLAT_MARKED if seen.marked else LEAST_FLAT
    if share < least or found.spread[number] > WORST_FIT * seen.focus_range:
        raise InputError(
            "{name}: {what} is not flat: {value:.0%} of what is seen lies on one plane",
            field="region" if seen.marked else "photos", rule=f"at least {least:.0%}", value=share, name=flat.name,
            what="the marked part" if seen.marked else "the scene",
            remedy="mark another part with {region}" if seen.marked else "photograph a wall or a poster, or mark the "
            "flat part with {region}",
        )  # fmt: skip
    height, width = flat.stack.size
    corner = _camera_value(flat.stack, "pixel_pitch") * np.hypot(width / 2, height / 2)
    reach = found.curvature.radii[-1]
    if reach > LEAST_REACH * corner:
        return []
    return [
        Sentence(
            "{name}: what is flat ends {share:.0%} of the way to the corners: beyond, the curvature is taken to stay",
            name=flat.name, share=reach / corner,
        )
    ]  # fmt: skip


def _refuse_other_lens(first: _Flat, other: _Flat) -> None:
    a, b = first.stack.record.made_with, other.stack.record.made_with
    differing = next((name for name in NAMES if a.get(name) and b.get(name) and a[name] != b[name]), "")
    for name, most in (("focal_length", SAME_FOCAL_LENGTH), ("f_number", SAME_F_NUMBER)):
        if abs(_camera_value(first.stack, name) / _camera_value(other.stack, name) - 1) > most:
            differing = differing or name.replace("_", " ").replace("f number", "f-number")
    if differing:
        raise InputError(
            "{first} and {other} were not taken with one lens at one aperture: their {what} differs",
            field="photos", value=differing, first=first.name, other=other.name, what=differing,
            remedy="calibrate them one by one",
        )  # fmt: skip


def _mean(values: Sequence[Measured]) -> Measured:
    """Weighted by their error bars, whose own disagreement widens it."""
    weights = np.array([1 / max(one.std, 1e-4) ** 2 for one in values])
    each = np.array([one.value for one in values])
    mean = float((weights * each).sum() / weights.sum())
    beyond = max(1.0, float((weights * (each - mean) ** 2).sum() / max(len(values) - 1, 1)))
    return Measured(mean, float(np.sqrt(beyond / weights.sum())))


def _focus(found: FlatField, distances: Sequence[float] | None) -> tuple[Measured, Measured]:
    """Scale and offset of told inverse focus distances, from where the flat things really were."""
    if distances is None:
        return Measured(1.0), Measured(0.0)
    true, seen = 1 / np.asarray(distances, float), np.array([one.value for one in found.on_axis])
    std = np.array([max(one.std, 1e-6) for one in found.on_axis])
    if len(true) == 1 or np.ptp(seen) < 3 * np.hypot(*std[:2]):  # too near to each other to tell a scale
        weights = 1 / std**2
        return Measured(1.0), Measured(float((weights * (true - seen)).sum() / weights.sum()), weights.sum() ** -0.5)
    basis = np.stack([seen, np.ones_like(seen)], 1) / std[:, None]
    covariance = np.linalg.inv(basis.T @ basis)
    scale, offset = covariance @ basis.T @ (true / std)
    errors = abs(scale) * np.sqrt(np.diag(covariance))
    return Measured(float(scale), float(errors[0])), Measured(float(offset), float(errors[1]))


def _camera_value(stack: FocalStack, name: str) -> float:
    return float(as_setting(name, getattr(stack.metric_camera, name)).flatten()[0])


def _inside(corners: npt.NDArray[np.float64], size: tuple[int, int]) -> Mask:
    import cv2

    mask = np.zeros(size, np.uint8)
    cv2.fillPoly(mask, [np.rint(corners - 0.5).astype(np.int32)], (1,))
    return mask.astype(bool)
